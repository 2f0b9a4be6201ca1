"""The page of a placement in Chromium: what is there, what pointing and keys do, and that nothing leaves it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from tests.placer.show.html.browsing import (
    ON_PAGES,
    assert_quiet,
    data_of,
    dimmed,
    facts,
    find,
    find_all,
    open_page,
    saved,
    select,
    transforms,
    unit,
    view_box,
)
from tests.placer.show.html.pages import small_page

pytestmark = ON_PAGES


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


def of_stage(data: Any, stage: int) -> set[int]:
    return {number for number, one in enumerate(data["units"]) if one["stage"] == stage}


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
