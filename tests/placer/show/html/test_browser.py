"""Pages in Chromium: what is there, what pointing and keys do, and that nothing leaves the page."""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from costmodel.evaluation.comparison import write_comparison
from placer.base.config import run_command
from placer.show.html import report_page
from placer.simulate import main as simulate_main
from tests import ROOT
from tests.costmodel.evaluation.comparison.test_compare import cases, finished
from tests.placer.show.html.pages import (
    hostile_page,
    kernels_page,
    large_page,
    searched_page,
    small_page,
    stencil_page,
    streaming_page,
    two_placements_page,
)

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.actions.action_builder import ActionBuilder  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.select import Select  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

log = logging.getLogger(__name__)
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--force-prefers-reduced-motion", "--window-size=1400,1400",
)  # fmt: skip

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None, reason="needs chromium and chromedriver (Debian: chromium, chromium-driver)"
    ),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def small_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "small.html"
    path.write_text(small_page().to_html(), encoding="utf-8")
    return path


@pytest.fixture
def page(browser: Any, small_file: Path) -> Iterator[Any]:
    """The small page, just opened; it must not complain nor fetch anything until the end."""
    open_page(browser, small_file)
    yield browser
    assert_quiet(browser)


def open_page(browser: Any, path: Path) -> None:
    """Returns after the load event; the pointer is in the margin, where nothing is."""
    pointer = ActionBuilder(browser)
    pointer.pointer_action.move_to_location(1, 1)
    pointer.perform()
    browser.get_log("browser")  # of the page before
    browser.get(path.as_uri())


def assert_quiet(browser: Any) -> None:
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource')") == []


def find(page: Any, selector: str) -> Any:
    return page.find_element(By.CSS_SELECTOR, selector)


def find_all(page: Any, selector: str) -> list[Any]:
    return list(page.find_elements(By.CSS_SELECTOR, selector))


def data_of(page: Any) -> Any:
    return json.loads(find(page, ".fabric script").get_attribute("textContent"))


def facts(page: Any) -> str:
    return str(find(page, ".facts").text)


def unit(page: Any, number: int) -> Any:
    return page.find_element(By.CSS_SELECTOR, f"[data-unit='{number}']")


def dimmed(page: Any) -> set[int]:
    return set(page.execute_script("return [...document.querySelectorAll('.unit.dim')].map(u => +u.dataset.unit)"))


def select(page: Any, name: str, value: str) -> None:
    Select(find(page, f"select.{name}")).select_by_visible_text(value or "all")


def of_stage(data: Any, stage: int) -> set[int]:
    return {number for number, one in enumerate(data["units"]) if one["stage"] == stage}


def transforms(page: Any) -> list[str]:
    script = "return [...document.querySelectorAll('.unit')].map(u => u.style.transform)"
    return list(page.execute_script(script))


def test_everything_is_there(page: Any) -> None:
    data = data_of(page)
    assert len(page.find_elements(By.CSS_SELECTOR, ".unit")) == len(data["units"])
    assert len(page.find_elements(By.CSS_SELECTOR, ".link")) == data["numMesh"]
    headings = [element.text for element in page.find_elements(By.TAG_NAME, "h2")]
    assert headings == ["Fabric", "Where the time goes", "Units and flows", "How it was made"]
    stages = Select(find(page, ".stage")).options
    assert len(stages) == 1 + max(u["stage"] for u in data["units"]) + 1


def test_pointing_at_a_unit_tells_about_it_and_a_click_keeps_it(page: Any) -> None:
    data = data_of(page)
    ActionChains(page).move_to_element(unit(page, 0)).perform()
    assert data["units"][0]["name"] in facts(page)
    assert page.find_elements(By.CSS_SELECTOR, ".link.on")
    heading = page.find_element(By.TAG_NAME, "h1")
    ActionChains(page).move_to_element(heading).perform()
    assert "Nothing chosen" in facts(page)
    ActionChains(page).click(unit(page, 0)).move_to_element(heading).perform()
    assert data["units"][0]["name"] in facts(page)


def test_flows_can_be_chosen_by_keyboard(page: Any) -> None:
    data = data_of(page)
    unit(page, 0).send_keys(Keys.ENTER)
    button = find(page, ".facts button")
    flow = int(button.get_attribute("data-flow"))
    button.send_keys(Keys.ENTER)
    assert f"Flow {data['flows'][flow]['name']}" in facts(page)
    ends = {data["flows"][flow]["source"], *data["flows"][flow]["targets"]}
    assert dimmed(page) == set(range(len(data["units"]))) - ends


def test_pointing_at_a_link_tells_its_flows(page: Any) -> None:
    data = data_of(page)
    used = next(link for route in data["panels"][0][-1]["routes"] for link in route
                if link < data["numMesh"])  # fmt: skip
    ActionChains(page).move_to_element(page.find_element(By.CSS_SELECTOR, f"[data-link='{used}']")).perform()
    assert f"Link {data['linkNames'][used]}" in facts(page)
    number = sum(used in route for route in data["panels"][0][-1]["routes"])
    assert f"Flows ({number})" in facts(page)


def test_keys_walk_through_the_picture(page: Any) -> None:
    data = data_of(page)
    assert page.execute_script("return document.querySelectorAll('.unit[tabindex=\"0\"]').length") == 1
    find(page, ".controls .frame").send_keys(Keys.TAB)
    first = page.switch_to.active_element
    number = int(first.get_attribute("data-unit"))
    assert data["units"][number]["name"] in facts(page)
    assert data["units"][number]["name"] in first.get_attribute("aria-label")
    seen = {number}
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_LEFT, Keys.ARROW_UP):
        page.switch_to.active_element.send_keys(key)
        number = int(page.switch_to.active_element.get_attribute("data-unit"))
        assert data["units"][number]["name"] in facts(page)
        seen.add(number)
    assert len(seen) > 1
    page.switch_to.active_element.send_keys(Keys.ENTER)
    find(page, ".stage").send_keys("")  # focus elsewhere: it stays
    assert data["units"][number]["name"] in facts(page)
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert "Nothing chosen" in facts(page)


def test_the_stage_filter_leaves_one_stage(page: Any) -> None:
    data = data_of(page)
    select(page, "stage", "1")
    assert dimmed(page) == set(range(len(data["units"]))) - of_stage(data, 1)
    assert find_all(page, ".link.dim")
    select(page, "stage", "")
    assert dimmed(page) == set()


def test_the_stage_filter_works_while_a_unit_is_chosen(page: Any) -> None:
    data = data_of(page)
    everyone = set(range(len(data["units"])))
    ends = [{flow["source"], *flow["targets"]} for flow in data["flows"]]
    chosen = 0
    near = set().union(*(own for own in ends if chosen in own))
    unit(page, chosen).send_keys(Keys.ENTER)
    assert dimmed(page) == everyone - near
    stage = next(s for s in range(9) if near & of_stage(data, s) - {chosen})
    select(page, "stage", str(stage))
    assert dimmed(page) == everyone - (near & of_stage(data, stage)) - {chosen}
    inside = [own for own in ends if chosen in own and own & of_stage(data, stage)]
    assert f"Flows ({len(inside)}), stage {stage}" in facts(page)
    select(page, "stage", "")
    assert dimmed(page) == everyone - near


def test_the_replay_shows_figures_of_the_frame_or_none(page: Any) -> None:
    data = data_of(page)
    busy = f"busy\n{round(100 * data['panels'][0][-1]['measured']['time'][0][0])}%"
    unit(page, 0).send_keys(Keys.ENTER)
    assert busy in facts(page)
    assert "cycles per sample" in find(page, ".figures").text
    find(page, ".controls .frame").send_keys(Keys.ARROW_LEFT)
    assert "busy" not in facts(page)
    assert find(page, ".figures").text == "Not simulated: links show the load to expect."
    assert find_all(page, "svg .critical") == []
    select(page, "colour", "stall")
    assert "not simulated" in find(page, ".legend").text


def test_the_whole_fabric_and_its_legend_fit_a_screen(page: Any) -> None:
    script = """const boxes = [...document.querySelectorAll('.legend, .ramp, .unit .body, .site')];
    return [innerWidth, innerHeight, Math.max(...boxes.map(b => b.getBoundingClientRect().right)),
            Math.max(...boxes.map(b => b.getBoundingClientRect().bottom)), scrollY]"""
    page.set_window_size(1400, 900)
    try:
        width, height, right, bottom, scrolled = page.execute_script(script)
    finally:
        page.set_window_size(1400, 1400)
    assert (width <= 1400, height <= 900, scrolled) == (True, True, 0)
    assert (right <= width, bottom <= height) == (True, True)


def test_labels_of_shared_sites_can_be_read(page: Any) -> None:
    script = """return [...document.querySelectorAll('.unit')].map(unit => {
      const [body, label] = ['.body', 'text'].map(name => unit.querySelector(name).getBoundingClientRect());
      return [label.height, label.left - body.left, body.right - label.right, label.y + label.height / 2 - body.top,
              body.bottom - label.y - label.height / 2] })"""
    sites = data_of(page)["panels"][0][-1]["sites"]
    assert max(map(sites.count, sites)) > 1
    for site, (height, *room) in zip(sites, page.execute_script(script), strict=True):
        assert height >= 8, "pixels"
        assert min(room) > 0, f"of {sites.count(site)} units at site {site}"
    labels = page.execute_script("return [...document.querySelectorAll('.unit text')].map(t => t.textContent)")
    assert labels == [one["label"] for one in data_of(page)["units"]]


def view_box(page: Any) -> list[float]:
    text = page.execute_script("return document.querySelector('.picture svg').getAttribute('viewBox')")
    return [float(part) for part in text.split()]


def test_zoom_and_pan(page: Any) -> None:
    whole = view_box(page)
    find(page, "[data-zoom='1.5']").click()
    near = view_box(page)
    assert near[2] == pytest.approx(whole[2] / 1.5, rel=0.01)
    switch = find_all(page, ".switch")[18]
    ActionChains(page).drag_and_drop_by_offset(switch, 60, 40).perform()
    moved = view_box(page)
    assert (moved[0] < near[0], moved[1] < near[1], moved[2]) == (True, True, near[2])
    assert "Nothing chosen" in facts(page), "a drag is no click"
    unit(page, 0).send_keys("+")
    assert view_box(page)[2] < moved[2]
    unit(page, 0).send_keys("0")
    assert view_box(page) == pytest.approx(whole)
    wheel = "arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -300, ctrlKey: arguments[1]}))"
    page.execute_script(wheel, find(page, ".picture svg"), False)
    assert view_box(page) == pytest.approx(whole), "without Ctrl the page scrolls"
    page.execute_script(wheel, find(page, ".picture svg"), True)
    assert view_box(page)[2] < whole[2]
    find(page, "[data-zoom='0']").click()
    assert view_box(page) == pytest.approx(whole)


def test_units_and_layers_are_found_by_name(page: Any) -> None:
    data = data_of(page)
    layer = data["units"][0]["facts"]["layer"]
    own = {number for number, one in enumerate(data["units"]) if layer in one["name"]}
    search = find(page, ".search")
    search.send_keys(layer.upper())
    assert dimmed(page) == set(range(len(data["units"]))) - own
    assert f"Units ({len(own)})" in facts(page)
    search.send_keys(Keys.ENTER)
    assert data["units"][min(own)]["name"] in facts(page)
    assert search.get_attribute("value") == ""
    search.send_keys("no such unit")
    assert "Units (0)" in facts(page)
    assert len(dimmed(page)) == len(data["units"])
    search.send_keys(Keys.ESCAPE)
    assert "Nothing chosen" in facts(page)
    assert dimmed(page) == set()


def test_units_are_coloured_by_op_layer_or_stall(page: Any) -> None:
    data = data_of(page)
    measured = data["panels"][0][-1]["measured"]["time"]
    keys = {
        "op": [one["colour"] for one in data["units"]],
        "layer": [one["facts"]["layer"] for one in data["units"]],
        "stall": [shares.index(max(shares)) for shares in measured],
    }
    script = "return [...document.querySelectorAll('.unit .body')].map(b => getComputedStyle(b).fill)"
    for name, groups in keys.items():
        select(page, "colour", name)
        fills = page.execute_script(script)
        assert len(set(zip(groups, fills, strict=True))) == len(set(groups)) == len(set(fills)), name
        counts = [int(number) for number in re.findall(r"\((\d+)\)", find(page, ".legend").text)]
        assert sum(counts) == len(groups)


def test_dark_and_light(page: Any) -> None:
    def grounds() -> set[str]:
        return {find(page, name).value_of_css_property("background-color") for name in ("body", "section", "select")}

    theme, light = find(page, "#theme"), grounds()
    assert theme.text == "Dark"
    theme.click()
    dark = grounds()
    assert (theme.text, light & dark) == ("Light", set())
    assert find(page, "h1").value_of_css_property("color") == "rgba(232, 234, 237, 1)"
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    page.refresh()
    assert grounds() == dark, "as the system says"
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    page.refresh()
    assert grounds() == light


def saved(page: Any, folder: Path, kind: str) -> bytes:
    """Save the picture and return the file."""
    page.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
    find(page, f"[data-save='{kind}']").click()
    WebDriverWait(page, 30).until(lambda _: list(folder.glob(f"*.{kind}")))
    (file,) = folder.glob(f"*.{kind}")
    return file.read_bytes()


def test_pictures_can_be_saved(page: Any, tmp_path: Path) -> None:
    data = data_of(page)
    text = saved(page, tmp_path, "svg").decode()
    picture = ElementTree.fromstring(text)
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {one["label"] for one in data["units"]} < set(texts)
    assert any("empty site" in (own or "") for own in texts), "its legend"
    assert "var(" not in text
    assert "light-dark" not in text
    png = saved(page, tmp_path, "png")
    image = imread(BytesIO(png), format="png")
    assert image.shape[1] > 1500
    body = to_rgb(data["units"][0]["colour"])
    assert (np.abs(image[:, :, :3] - body).max(axis=2) < 0.01).sum() > 500, "units have their colours"


def test_the_slider_goes_through_the_placements(page: Any) -> None:
    slider, title = find(page, ".controls .frame"), find(page, ".frame-title")
    seen = [(title.text, transforms(page))]
    for _ in range(2):
        slider.send_keys(Keys.ARROW_LEFT)
        seen.append((title.text, transforms(page)))
    assert [text for text, _ in seen] == ["placement 2", "placement 1", "placement 0"]
    assert len({tuple(places) for _, places in seen}) == 3
    assert slider.get_attribute("aria-valuetext") == "placement 0"
    assert "expected load" in find(page, ".ramp-title").text
    slider.send_keys(Keys.END)
    assert transforms(page) == seen[0][1]


def test_play_begins_at_the_start_and_can_be_paused(page: Any) -> None:
    play = find(page, ".play")
    play.click()
    assert (play.text, play.get_attribute("aria-pressed")) == ("Pause", "true")
    play.click()
    assert (play.text, play.get_attribute("aria-pressed")) == ("Play", "false")
    assert find(page, ".frame-title").text != "placement 2"


def test_no_motion_for_those_who_do_not_want_it(page: Any) -> None:
    assert unit(page, 0).value_of_css_property("transition-duration") == "0s"


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


def page_height(page: Any, selector: str) -> float:
    return float(page.execute_script(f'return document.querySelector("{selector}").getBoundingClientRect().height'))


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
