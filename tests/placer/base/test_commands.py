"""`python -m placer` and `python -m costmodel` list all commands; every setting has its page."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from placer.base import overview
from placer.base.config import CONF_DIR
from placer.base.console import list_commands
from placer.config_reference import PAGE, reference
from tests import ROOT


def runnable(package: str) -> set[str]:
    """Modules that do something when run, but for the package itself."""
    names = set()
    for path in (ROOT / package).rglob("*.py"):
        if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            names.add(name.removesuffix(".__main__"))
    return names - {package}


@pytest.mark.parametrize("package", ["placer", "costmodel"])
def test_every_command_is_listed(package: str) -> None:
    commands = list_commands(package)
    assert commands.keys() == runnable(package)
    assert all(20 < len(line) < 120 for line in commands.values())
    page = overview(package)
    for name, line in commands.items():
        assert re.search(rf"python -m {re.escape(name)} +{re.escape(line)}\n", page)


@pytest.mark.slow
def test_the_package_prints_its_commands() -> None:
    done = subprocess.run([sys.executable, "-m", "costmodel"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == overview("costmodel") + "\n"


def test_the_page_of_settings_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run python -m placer.config_reference"


def test_the_page_has_every_setting_with_a_meaning() -> None:
    page = reference()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert all(row[2].strip(" |") for row in rows)
    for path in CONF_DIR.rglob("*.yaml"):
        assert f"## {path.relative_to(CONF_DIR).with_suffix('').as_posix()}\n" in page
        for key in re.findall(r"^(\w+):", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert key == "defaults" or f"\n| `{key}" in page, key
