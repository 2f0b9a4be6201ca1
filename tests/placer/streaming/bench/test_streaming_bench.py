"""The benchmark: cells by hand, and the command itself, which goes on after a cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placer.base.config import run_command
from placer.streaming.bench import jobs, tables
from placer.streaming.bench.__main__ import main
from placer.streaming.bench.jobs import Job
from placer.streaming.bench.tables import Measured
from tests import ROOT

INPUTS = ROOT / "data/inputs/streaming"


def measured(kind: str, settings: dict[str, Any], result: dict[str, Any]) -> Measured:
    return Job(kind, "g", 10, settings), result


SHOT = {
    "bound": 9, "single": 12, "best": 11, "ranked": 10, "list": 13, "single_seconds": 0.1,
    "best_seconds": 0.2, "ranked_seconds": 0.2, "list_tries": 5,
}  # fmt: skip
EXAMPLE = [
    measured("map", {"mapper": "sa"}, {"cycles": 11, "bound": 9, "seconds": 2.0}),
    measured("map", {"mapper": "sa"}, {"cycles": 12, "bound": 9, "seconds": 2.0}),
    measured("map", {"mapper": "exact"}, {"cycles": 10, "bound": 10, "seconds": 0.5}),
    measured("map", {"mapper": "slots"}, {"reason": "no mapping in time"}),
    measured("zero_shot", {"seed": 0}, SHOT),
    measured("front", {"ii": 1}, {"reason": "too few slots"}),
    measured("front", {"ii": 2}, {"cycles": 7, "bound": 7, "seconds": 0.1}),
    measured("game_speed", {}, {"steps_per_second": 100_000}),
    measured("training_speed", {}, {"threads_1": 5_000, "threads_2": 8_000}),
]


def test_tables_by_hand() -> None:
    table = tables.mapper_table(EXAMPLE)
    assert table.header == ("graph", "nodes", "bound", "sa", "exact", "slots", "rl, 64 samples")
    assert table.rows == [("g", 10, 10, "11-12 (2.0)", "10* (0.50)", "-", "11 (0.20)")]
    short = tables.summary_table(table)
    assert short.header == ["graph", "nodes", "bound", "sa", "exact", "rl, 64 samples"]
    assert short.rows == [["g", 10, 10, "11-12 (2.0)", "10* (0.50)", "11 (0.20)"]]
    shots = tables.zero_shot_table(EXAMPLE).rows
    assert shots == [("g", 10, 10, "12 (0.10)", "11 (0.20)", "10 (0.20)", "13 (0.20)")]
    lines = tables.zero_shot_lines(EXAMPLE)
    assert lines[1] == "best of 64: 10.0% above the best known on average, at most 10.0%"
    assert lines[-1] == "list scheduling was better on: none"
    front = tables.front_table(EXAMPLE)
    assert (front.header, front.rows) == (("program", "ii 1", "ii 2"), [("g", "-", "7*")])
    assert tables.speed_table(EXAMPLE).rows == [(10, "100,000", "5,000", "8,000")]


def test_speed_of_the_game_is_measured() -> None:
    assert jobs.game_speed(6, games=8)["steps_per_second"] > 0


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "streaming_bench", arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code, *capsys.readouterr()


@pytest.mark.slow
def test_command_measures_publishes_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        f"graphs=[{INPUTS / 'distance.json'}]", f"fronts=[{INPUTS / 'multiply_add.json'}]",
        "~seconds", "+seconds={list: 0.01, exact: 10.0}", "seeds=2", "speed=false",
        f"output={tmp_path / 'out'}", f"publish={tmp_path / 'docs'}",
    ]  # fmt: skip
    code, out, err = run(capsys, *given)
    assert (code, err) == (0, "")
    assert "13* (" in out
    names = {path.name for path in (tmp_path / "docs").iterdir()}
    assert names == {"bench.md", "mappers.csv", "zero_shot.csv", "fronts.csv", "speed.csv"}
    first = (tmp_path / "docs/mappers.csv").read_text()
    assert "distance,6,13," in first
    run(capsys, *given)
    assert (tmp_path / "docs/mappers.csv").read_text() == first


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("graphs=[nowhere.json]", "cannot read nowhere.json"),
        ("+seconds.magic=1.0", "unknown mapper 'magic'"),
        ("seeds=0", "seeds=0"),
    ],
)
def test_wrong_settings_are_one_line(override: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, override)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
