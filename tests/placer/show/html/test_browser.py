"""Pages in Chromium: what is there, what pointing and keys do, and that nothing leaves the page."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from costmodel.evaluation.comparison import write_comparison
from tests.costmodel.evaluation.comparison.test_compare import cases, finished
from tests.placer.show.html.pages import (
    hostile_page,
    kernels_page,
    large_page,
    searched_page,
    small_page,
    stencil_page,
    streaming_page,
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


def data_of(page: Any) -> Any:
    text = page.find_element(By.ID, "fabric-data").get_attribute("textContent")
    return json.loads(text)


def facts(page: Any) -> str:
    return str(page.find_element(By.ID, "facts").text)


def unit(page: Any, number: int) -> Any:
    return page.find_element(By.CSS_SELECTOR, f"[data-unit='{number}']")


def dimmed(page: Any) -> set[int]:
    units = page.find_elements(By.CSS_SELECTOR, ".unit.dim")
    return {int(element.get_attribute("data-unit")) for element in units}


def transforms(page: Any) -> list[str]:
    script = "return [...document.querySelectorAll('.unit')].map(u => u.style.transform)"
    return list(page.execute_script(script))


def test_everything_is_there(page: Any) -> None:
    data = data_of(page)
    assert len(page.find_elements(By.CSS_SELECTOR, ".unit")) == len(data["units"])
    assert len(page.find_elements(By.CSS_SELECTOR, ".link")) == data["numMesh"]
    headings = [element.text for element in page.find_elements(By.TAG_NAME, "h2")]
    assert headings == ["Fabric", "Where the time goes", "Units and flows", "How it was made"]
    stages = Select(page.find_element(By.ID, "stage")).options
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
    button = page.find_element(By.CSS_SELECTOR, "#facts button")
    flow = int(button.get_attribute("data-flow"))
    button.send_keys(Keys.ENTER)
    assert f"Flow {data['flows'][flow]['name']}" in facts(page)
    ends = {data["flows"][flow]["source"], *data["flows"][flow]["targets"]}
    assert dimmed(page) == set(range(len(data["units"]))) - ends


def test_pointing_at_a_link_tells_its_flows(page: Any) -> None:
    data = data_of(page)
    used = next(link for route in data["frames"][-1]["routes"] for link in route
                if link < data["numMesh"])  # fmt: skip
    ActionChains(page).move_to_element(page.find_element(By.CSS_SELECTOR, f"[data-link='{used}']")).perform()
    assert f"Link {data['linkNames'][used]}" in facts(page)
    number = sum(used in route for route in data["frames"][-1]["routes"])
    assert f"Flows ({number})" in facts(page)


def test_keys_walk_through_the_picture(page: Any) -> None:
    data = data_of(page)
    assert page.execute_script("return document.querySelectorAll('.unit[tabindex=\"0\"]').length") == 1
    page.find_element(By.ID, "frame").send_keys(Keys.TAB)
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
    page.find_element(By.ID, "stage").send_keys("")  # focus elsewhere: it stays
    assert data["units"][number]["name"] in facts(page)
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert "Nothing chosen" in facts(page)


def test_the_stage_filter_leaves_one_stage(page: Any) -> None:
    data = data_of(page)
    Select(page.find_element(By.ID, "stage")).select_by_value("1")
    assert dimmed(page) == {i for i, u in enumerate(data["units"]) if u["stage"] != 1}
    assert page.find_elements(By.CSS_SELECTOR, ".link.dim")
    Select(page.find_element(By.ID, "stage")).select_by_value("")
    assert dimmed(page) == set()


def test_the_slider_goes_through_the_placements(page: Any) -> None:
    slider, title = page.find_element(By.ID, "frame"), page.find_element(By.ID, "frame-title")
    seen = [(title.text, transforms(page))]
    for _ in range(2):
        slider.send_keys(Keys.ARROW_LEFT)
        seen.append((title.text, transforms(page)))
    assert [text for text, _ in seen] == ["placement 2", "placement 1", "placement 0"]
    assert len({tuple(places) for _, places in seen}) == 3
    assert slider.get_attribute("aria-valuetext") == "placement 0"
    assert "expected load" in page.find_element(By.ID, "ramp-title").text
    slider.send_keys(Keys.END)
    assert transforms(page) == seen[0][1]


def test_play_begins_at_the_start_and_can_be_paused(page: Any) -> None:
    play = page.find_element(By.ID, "play")
    play.click()
    assert (play.text, play.get_attribute("aria-pressed")) == ("Pause", "true")
    play.click()
    assert (play.text, play.get_attribute("aria-pressed")) == ("Play", "false")
    assert page.find_element(By.ID, "frame-title").text != "placement 2"


def test_no_motion_for_those_who_do_not_want_it(page: Any) -> None:
    assert unit(page, 0).value_of_css_property("transition-duration") == "0s"


@pytest.mark.parametrize("make", [hostile_page, large_page, searched_page])
def test_other_pages_open(browser: Any, tmp_path: Path, make: Any) -> None:
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


def test_a_comparison_opens(browser: Any, tmp_path: Path) -> None:
    done = [finished(cases()[0], name, 0, 0.6, 0.6) for name in ("rules", "model")]
    names = {"base": "rules", "limit": "truth", "command": "python -m x"}
    write_comparison(pd.DataFrame(done), tmp_path, **names, config={})
    open_page(browser, tmp_path / "report.html")
    pictures = browser.find_elements(By.TAG_NAME, "img")
    assert [picture.get_property("complete") for picture in pictures] == [True, True]
    assert all(picture.get_property("naturalWidth") > 0 for picture in pictures)
    tables = browser.find_elements(By.TAG_NAME, "tbody")
    assert [len(table.find_elements(By.TAG_NAME, "tr")) for table in tables] == [2, 2]
    assert_quiet(browser)


def box(page: Any, number: int) -> Any:
    return page.find_element(By.CSS_SELECTOR, f"[data-box='{number}']")


def box_facts(page: Any) -> str:
    return str(page.find_element(By.CSS_SELECTOR, ".boxes .facts").text)


@pytest.fixture(params=[kernels_page, streaming_page, stencil_page])
def mapping(browser: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page of a mapper, just opened; quiet until the end, too."""
    path = tmp_path / "page.html"
    path.write_text(request.param(tmp_path).to_html(), encoding="utf-8")
    open_page(browser, path)
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
