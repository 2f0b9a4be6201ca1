"""`python -m placer` and `python -m costmodel` list all commands; every setting has its page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from placer.base import StatusLine, counting_bar, notice_file_name, output_file, overview
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


def test_progress_is_told_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("placer.base.progress.PLAIN_SECONDS", 0.0)
    with counting_bar("things") as on_progress:
        on_progress(1, 4)
    with StatusLine("search", "nothing yet") as line:
        line.note("a result")
    assert capsys.readouterr().err == "things: 1 of 4 (0 s)\nsearch: a result (0 s)\n"


def test_an_output_that_names_a_file_is_taken_with_a_notice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "layout.txt", tmp_path / "run.2"
    assert [output_file(old, "a.txt"), output_file(new, "a.txt")] == [old, new / "a.txt"]
    for output in (old, new):
        notice_file_name(output)
    assert capsys.readouterr().err.count("notice: ") == 1


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
