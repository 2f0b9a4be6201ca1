"""Sweeps of fabrics: what they are made of, what is refused, and a small one from end to end."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from placer.base import InputError
from placer.base.config import compose_config, to_dataclass
from placer.explore import Exploration, ExploreConfig, explore, explored_page, exploring, points_of, write_explored
from placer.fabric import load_fabric

SMALL = load_fabric("small")
# A fabric with memory for next to nothing is one that the network does not fit.
SWEEP = "{fabric.columns: [4,6], fabric.memory.capacity_bytes: [64,262144]}"


def config_of(output: Path, *overrides: str) -> ExploreConfig:
    base = [
        "workload=gemm", "workload.rows=32", "workload.width=32", "workload.columns=32", "fabric.rows=4", "effort=0.02",
        f"sweep={SWEEP}", f"output={output}",
    ]  # fmt: skip
    return to_dataclass(ExploreConfig, compose_config("explore", [*base, *overrides]))


def test_a_sweep_is_all_combinations() -> None:
    points = points_of(SMALL, {"fabric.columns": [6, 8], "fabric.link.vectors_per_cycle": [1, 2], "fabric.rows": 8})
    assert len(points) == 4
    assert points[1].settings == {"columns": 6, "link.vectors_per_cycle": 2, "rows": 8}
    assert (points[1].fabric.columns, points[1].fabric.link.vectors_per_cycle) == (6, 2)
    assert points[2].fabric == SMALL
    assert points[1].name == "columns=6, link.vectors_per_cycle=2, rows=8"


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({}, "sweep is empty: name settings"),
        ({"columns": [4]}, "sweep: 'columns' is no setting of the fabric; write for example sweep="),
        ({"fabric.columns": []}, r"sweep: fabric.columns=\[\]; needed a list of numbers"),
        ({"fabric.columns": ["a"]}, "needed a list of numbers"),
        ({"fabric.link": [1]}, "sweep: the fabric has no setting fabric.link; see"),
        ({"fabric.lnk.hop_cycles": [1]}, "sweep: the fabric has no setting fabric.lnk.hop_cycles"),
        ({"fabric.link.hop": [1]}, "sweep: unknown key link.hop .value 1.; did you mean 'hop_cycles'"),
        ({"fabric.columns": [1]}, "sweep: fabric 'small': columns=1 is out of range; allowed 2 to 64"),
        ({"fabric.columns": list(range(2, 60)), "fabric.rows": list(range(2, 60))}, "3,364 combinations, allowed up"),
    ],
)
def test_wrong_sweeps_are_refused(sweep: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        points_of(SMALL, sweep)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("plan=some.json", "a plan is for one fabric"),
        ("fabric.clock_mhz=0", "has no clock or no area"),
        ("margin=0", "margin=0"),
    ],
)
def test_wrong_settings_are_refused(override: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, override)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[ExploreConfig, Exploration]:
    config = config_of(tmp_path_factory.mktemp("explore"))
    return config, explore(config)


@pytest.mark.slow
def test_the_front_is_simulated(found: tuple[ExploreConfig, Exploration]) -> None:
    _, exploration = found
    fit = [one for one in exploration.fabrics if one.expected is not None]
    assert [one.number for one in fit] == [1, 3]
    assert all("capacity" in one.reason or "memory" in one.reason for one in exploration.fabrics if one not in fit)
    assert exploration.front and all(one.simulated is not None for one in exploration.front)
    for one in exploration.front:
        assert one.expected is not None and one.simulated is not None
        assert 0.3 < one.simulated / one.expected < 1.5


@pytest.mark.slow
def test_what_is_finished_is_not_done_again(
    found: tuple[ExploreConfig, Exploration], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, exploration = found

    def refuse(job: object) -> None:
        raise AssertionError(f"{job} was done before")

    monkeypatch.setattr(exploring, "measure", refuse)
    monkeypatch.setattr(exploring, "expect", refuse)
    assert explore(config) == exploration


@pytest.mark.slow
def test_what_is_written(found: tuple[ExploreConfig, Exploration]) -> None:
    config, exploration = found
    write_explored(config, exploration, "python -m placer.explore")
    with (config.output / "explore.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 and rows[0]["reason"] and not rows[1]["reason"]
    assert float(rows[1]["area_mm2"]) == pytest.approx(exploration.fabrics[1].area, rel=1e-4)
    assert {one.number for one in exploration.front} == {int(r["number"]) for r in rows if r["is_on_front"] == "True"}
    text = (config.output / "explore.html").read_text(encoding="utf-8")
    assert "does not fit" in text and ">Throughput against area</h2>" in text
    assert {path.suffix for path in config.output.glob("explore.*")} == {".csv", ".html", ".png", ".svg"}
    assert explored_page(config, exploration, "").title.startswith("gemm")


@pytest.mark.slow
def test_a_network_that_fits_nowhere_is_said(tmp_path: Path) -> None:
    config = config_of(tmp_path, "sweep={fabric.memory.capacity_bytes: [64]}")
    with pytest.raises(InputError, match="fits none of the 2 fabrics; the last one"):
        explore(config)
