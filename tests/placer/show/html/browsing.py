"""What tests of pages do in Chromium: open one, find its parts, ask whether it is quiet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
ON_PAGES = [  # what each test of pages is marked with
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None, reason="needs chromium and chromedriver (Debian: chromium, chromium-driver)"
    ),
]


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


def transforms(page: Any) -> list[str]:
    script = "return [...document.querySelectorAll('.unit')].map(u => u.style.transform)"
    return list(page.execute_script(script))


def view_box(page: Any) -> list[float]:
    text = page.execute_script("return document.querySelector('.picture svg').getAttribute('viewBox')")
    return [float(part) for part in text.split()]


def saved(page: Any, folder: Path, kind: str) -> bytes:
    """Save the picture and return the file."""
    page.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
    find(page, f"[data-save='{kind}']").click()
    WebDriverWait(page, 30).until(lambda _: list(folder.glob(f"*.{kind}")))
    (file,) = folder.glob(f"*.{kind}")
    return file.read_bytes()


def page_height(page: Any, selector: str) -> float:
    return float(page.execute_script(f'return document.querySelector("{selector}").getBoundingClientRect().height'))
