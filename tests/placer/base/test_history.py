"""Published figures: read, written, held against those of today."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from placer.base import InputError, Published, read_figures, write_figures
from placer.base.config import run_command
from placer.history import main

RANK = Published("rank", 0.9, 0.01, "higher", "make judge", "a1b2c3d", "2026-11-18")
ERROR = replace(RANK, name="error", value=0.05, better="lower")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        run_command(main, "history", arguments)
    return int(end.value.code or 0)


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    write_figures(path, [RANK, ERROR])
    assert read_figures(path) == [ERROR, RANK]
    assert json.loads(path.read_text())["schema"] == 1


@pytest.mark.parametrize(("rank", "error", "code"), [(0.9, 0.05, 0), (0.895, 0.0, 0), (0.88, 0.05, 1), (1.0, 0.07, 1)])
def test_a_figure_may_not_fall_out_of_its_tolerance(tmp_path: Path, rank: float, error: float, code: int) -> None:
    history, measured = tmp_path / "history.json", tmp_path / "figures.json"
    write_figures(history, [RANK, ERROR])
    write_figures(measured, [replace(RANK, value=rank), replace(ERROR, value=error)])
    assert run(f"history={history}", f"measured=[{measured}]") == code


def test_the_history_changes_on_purpose_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history, measured = tmp_path / "history.json", tmp_path / "figures.json"
    write_figures(measured, [replace(RANK, value=0.5)])
    arguments = (f"history={history}", f"measured=[{measured}]")
    assert run(*arguments) == 2 and "no figure of" in capsys.readouterr().err
    write_figures(history, [RANK, ERROR])
    before = history.read_bytes()
    assert run(*arguments) == 1 and history.read_bytes() == before
    assert run(*arguments, "update=true") == 0
    assert read_figures(history) == [ERROR, replace(RANK, value=0.5)]
    assert run(*arguments) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": "high"}, "value is 'high', needed a number"),
        ({"tolerance": -1}, "tolerance=-1"),
        ({"better": "more"}, "better='more'"),
        ({"colour": "red"}, "unexpected keyword argument 'colour'"),
    ],
)
def test_what_is_no_figure_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"schema": 1, "figures": [asdict(RANK) | change]}))
    with pytest.raises(InputError, match=message):
        read_figures(path)
    path.write_text(json.dumps({"schema": 2, "figures": []}))
    with pytest.raises(InputError, match="schema is 2, needed 1"):
        read_figures(path)
    path.write_text(json.dumps({"schema": 1, "figures": [asdict(RANK)] * 2}))
    with pytest.raises(InputError, match="'rank' stands there twice"):
        read_figures(path)
