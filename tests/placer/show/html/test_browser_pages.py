"""Other pages in Chromium: large fabrics, two placements, comparisons, evaluations, whole networks."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from costmodel.evaluation.comparison import write_comparison
from placer.base.config import run_command
from placer.show.html import report_page
from placer.simulate import main as simulate_main
from tests import ROOT
from tests.costmodel.evaluation.comparison.test_compare import cases, finished
from tests.placer.show.html.browsing import (
    ON_PAGES,
    assert_quiet,
    data_of,
    facts,
    find,
    find_all,
    open_page,
    page_height,
    unit,
    view_box,
)
from tests.placer.show.html.pages import hostile_page, large_page, searched_page, two_placements_page

log = logging.getLogger(__name__)
pytestmark = ON_PAGES


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "large.html"
    path.write_text(large_page().to_html(), encoding="utf-8")
    return path


@pytest.mark.parametrize("make", [hostile_page, large_page, searched_page])
def test_other_pages_open(browser: Any, tmp_path: Path, large_file: Path, make: Any) -> None:
    path = large_file
    if make is not large_page:
        path = tmp_path / "page.html"
        path.write_text(make().to_html(), encoding="utf-8")
    open_page(browser, path)
    WebDriverWait(browser, 60).until(  # the driver may return before the event has ended
        lambda page: page.execute_script("return performance.timing.loadEventEnd") > 0
    )
    timing = "const [page] = performance.getEntriesByType('navigation'); return page.loadEventEnd"
    size, milliseconds = path.stat().st_size, browser.execute_script(timing)
    log.info("%s: %.2f MB, opened in %.0f ms", make.__name__, size / 1e6, milliseconds)
    assert size < 5e6
    assert browser.execute_script("return window.broken") is None
    unit(browser, 0).send_keys(Keys.ENTER)
    assert data_of(browser)["units"][0]["name"] in facts(browser)
    assert_quiet(browser)


def test_a_unit_of_a_large_fabric_is_found_and_shown_large(browser: Any, large_file: Path) -> None:
    open_page(browser, large_file)
    data = data_of(browser)
    whole, name = view_box(browser), data["units"][100]["name"]
    find(browser, ".search").send_keys(name, Keys.ENTER)
    assert f": {name}" in facts(browser)
    left, top, width, height = view_box(browser)
    assert width < 0.7 * whole[2]
    _, _, x, y = data["siteLines"][data["panels"][0][-1]["sites"][100]]
    assert (left < x < left + width, top < y < top + height) == (True, True)
    label = page_height(browser, "[data-unit='100'] text")
    assert label >= 8
    assert_quiet(browser)


def test_two_placements_beside_each_other(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "two.html"
    path.write_text(two_placements_page().to_html(), encoding="utf-8")
    open_page(browser, path)
    data = data_of(browser)
    left, right = data["panels"]
    assert left[-1]["sites"] != right[-1]["sites"]
    pictures = find_all(browser, ".panel svg")
    assert len(pictures) == 2
    assert pictures[0].rect["x"] + pictures[0].rect["width"] <= pictures[1].rect["x"]
    assert pictures[0].rect["y"] == pictures[1].rect["y"]
    assert [element.text for element in find_all(browser, ".frame-title")] == ["rules", "model"]
    find_all(browser, "[data-unit='0']")[1].send_keys(Keys.ENTER)
    assert f"{data['units'][0]['name']}, right" in facts(browser)
    assert len(find_all(browser, ".unit.on")) == 2, "in both"
    find(browser, "[data-zoom='1.5']").click()
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('.panel svg')].map(s => s.getAttribute('viewBox'))"
    )
    assert boxes[0] == boxes[1] != " ".join(map(str, data["view"]))
    assert_quiet(browser)


def test_a_comparison_opens(browser: Any, tmp_path: Path) -> None:
    done = [finished(cases()[0], name, 0, 0.6, 0.6) for name in ("rules", "model")]
    names = {"base": "rules", "limit": "truth", "twins": ("rules", "model"), "command": "python -m x"}
    write_comparison(pd.DataFrame(done), tmp_path, **names, config={})
    open_page(browser, tmp_path / "report.html")
    pictures = browser.find_elements(By.TAG_NAME, "img")
    assert [picture.get_property("complete") for picture in pictures] == [True] * 3
    assert all(picture.get_property("naturalWidth") > 0 for picture in pictures)
    tables = browser.find_elements(By.TAG_NAME, "tbody")
    assert [len(table.find_elements(By.TAG_NAME, "tr")) for table in tables] == [2, 2]
    assert_quiet(browser)


@pytest.fixture(scope="module")
def evaluation_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the evaluation that is published with the project."""
    path = tmp_path_factory.mktemp("page") / "evaluation.html"
    page = report_page(ROOT / "docs/results/evaluate/report.md", "Evaluation", "python -m x", {})
    path.write_text(page.to_html(), encoding="utf-8")
    return path


def test_an_evaluation_has_no_markdown_and_unbroken_names(browser: Any, evaluation_file: Path) -> None:
    open_page(browser, evaluation_file)
    text = find(browser, "main").text
    assert not re.search(r"\*\*|`|\]\(|^\s*[-|#] |(?<!\w)\*\w", text, re.MULTILINE)
    assert len(find_all(browser, "main ul.list li")) > 10
    script = """return [...document.querySelectorAll('tbody th, tbody td')].filter(cell => {
      const words = document.createRange(); words.selectNodeContents(cell);
      return new Set([...words.getClientRects()].map(r => Math.round(r.top))).size > 1 }).map(cell => cell.innerText)"""
    assert browser.execute_script(script) == [], "cells in more than one line"
    assert_quiet(browser)


def test_the_page_of_a_network_leads_to_all_its_sections(browser: Any, tmp_path: Path) -> None:
    sizes = ("workload=mha", "workload.rows=32", "workload.width=32", "workload.heads=2")
    with pytest.raises(SystemExit):
        run_command(simulate_main, "simulate", [*sizes, "fabric.columns=4", "fabric.rows=4", f"output={tmp_path}"])
    open_page(browser, tmp_path / "total.small.html")
    links = [link.get_attribute("href") for link in find_all(browser, "tbody a")]
    assert len(links) > 1
    assert find_all(browser, "img")[0].get_property("naturalWidth") > 0
    for link in links:
        browser.get(link)
        assert find_all(browser, ".fabric .unit")
    assert_quiet(browser)
