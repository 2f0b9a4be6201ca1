"""Pages of the three mappers in Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.placer.show.html.browsing import ON_PAGES, assert_quiet, find, find_all, open_page, saved, view_box
from tests.placer.show.html.pages import kernels_page, stencil_page, streaming_page

pytestmark = ON_PAGES


def box(page: Any, number: int) -> Any:
    return page.find_element(By.CSS_SELECTOR, f"[data-box='{number}']")


def box_facts(page: Any) -> str:
    return str(page.find_element(By.CSS_SELECTOR, ".boxes .facts").text)


@pytest.fixture(scope="module", params=[kernels_page, streaming_page, stencil_page])
def mapping_file(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    path = tmp_path_factory.mktemp("page") / "mapping.html"
    path.write_text(request.param(path.parent).to_html(), encoding="utf-8")
    return path


@pytest.fixture
def mapping(browser: Any, mapping_file: Path) -> Iterator[Any]:
    """The page of a mapper, just opened; quiet until the end, too."""
    open_page(browser, mapping_file)
    yield browser
    assert browser.execute_script("return window.broken") is None
    assert_quiet(browser)


def test_pages_of_mappers_can_be_pointed_at(mapping: Any) -> None:
    text = mapping.find_element(By.CSS_SELECTOR, ".boxes script").get_attribute("textContent")
    data = json.loads(text)
    assert len(mapping.find_elements(By.CSS_SELECTOR, ".box")) == len(data["boxes"])
    assert len(mapping.find_elements(By.CSS_SELECTOR, "line.arrow")) == len(data["arrows"])
    assert "Nothing chosen" in box_facts(mapping)
    last = len(data["boxes"]) - 1
    mapping.execute_script("arguments[0].scrollIntoView({block: 'center'})", box(mapping, last))
    ActionChains(mapping).move_to_element(box(mapping, last)).perform()
    for words in (data["boxes"][last]["name"], *data["boxes"][last]["facts"].values()):
        assert words in box_facts(mapping)
    ActionChains(mapping).click().perform()
    mapping.find_element(By.TAG_NAME, "body").send_keys(Keys.HOME)
    assert data["boxes"][last]["name"] in box_facts(mapping)
    mapping.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    ActionChains(mapping).move_to_element(mapping.find_element(By.TAG_NAME, "h1")).perform()
    assert "Nothing chosen" in box_facts(mapping)


def test_mappings_can_be_zoomed_and_saved(mapping: Any, tmp_path: Path) -> None:
    whole = view_box(mapping)
    find(mapping, "[data-zoom='1.5']").click()
    assert view_box(mapping)[2] == pytest.approx(whole[2] / 1.5, rel=0.01)
    find(mapping, "[data-zoom='0']").click()
    picture = ElementTree.fromstring(saved(mapping, tmp_path, "svg").decode())
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}rect")) > len(find_all(mapping, ".box"))


def test_nothing_covers_a_box_or_its_label(mapping: Any) -> None:
    script = """const order = [...document.querySelectorAll('svg .tail, svg .box, svg .arrow, svg .label')]
      .map(node => node.classList[0]);
    return [order.lastIndexOf('tail') < order.indexOf('box'), order.lastIndexOf('arrow') < order.indexOf('label')]"""
    assert mapping.execute_script(script) == [True, True]
    covered = """return [...document.querySelectorAll('.box')].filter(box => {
      box.scrollIntoView({block: 'center'});
      const {x, y, width, height} = box.getBoundingClientRect();
      return !box.contains(document.elementFromPoint(x + width / 2, y + height / 2)) }).length"""
    assert mapping.execute_script(covered) == 0


def test_a_floorplan_has_a_scale_and_names(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(kernels_page(tmp_path).to_html(), encoding="utf-8")
    open_page(browser, path)
    ramp = find(browser, ".boxes .ramp")
    assert "Time of a kernel / the slowest 0%" in " ".join(ramp.text.split())
    assert "linear-gradient" in find(browser, ".ramp i").value_of_css_property("background-image")
    data = json.loads(find(browser, ".boxes script").get_attribute("textContent"))
    drawn = browser.execute_script("return [...document.querySelectorAll('.label')].map(l => l.textContent)")
    assert [one["label"] for one in data["boxes"]][1:] == drawn[1:], "all but the overlong one"
    assert_quiet(browser)


def test_keys_walk_through_pages_of_mappers(mapping: Any) -> None:
    assert len(mapping.find_elements(By.CSS_SELECTOR, ".box[tabindex='0']")) == 1
    mapping.execute_script("document.querySelector('.box').focus()")
    seen = set()
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_UP, Keys.ARROW_LEFT, Keys.ARROW_DOWN):
        active = mapping.switch_to.active_element
        active.send_keys(key)
        active = mapping.switch_to.active_element
        assert active.get_attribute("aria-label").split(",")[0] in box_facts(mapping)
        seen.add(active.get_attribute("data-box"))
    assert len(seen) > 1
    mapping.switch_to.active_element.send_keys(Keys.ENTER)
    ends = mapping.find_elements(By.CSS_SELECTOR, ".boxes .facts button")
    if ends:  # kernels and instructions are joined by arrows, parts of a fabric are not
        name = ends[0].text
        ends[0].send_keys(Keys.ENTER)
        assert box_facts(mapping).startswith(name)
        assert mapping.find_elements(By.CSS_SELECTOR, ".box.dim")
