"""The benchmark runs and prints its tables; the numbers depend on the machine."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from placer import bench
from placer.fabric import load_fabric
from placer.graph.workloads import FAMILIES, WorkloadConfig
from placer.simulation import Outcome, Status, simulate_stack

pytestmark = pytest.mark.slow


def printed(measure: str) -> str:
    """What a benchmark of the small fabric prints."""
    console = Console(file=StringIO(), width=120)
    getattr(bench, measure)(load_fabric("small"), console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def cells(text: str) -> dict[str, list[str]]:
    """Rows of a table by their first cell."""
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) > 1}


def test_the_simulator_is_measured_for_every_family() -> None:
    text = printed("bench_simulator")
    assert "simulator on small, one core" in text
    rows = cells(text)
    assert list(rows) == [*FAMILIES, "all"]
    for family in FAMILIES:
        units, flows, *rates = rows[family]
        assert int(units) > 0
        assert int(flows) > 0
        assert all(float(rate) > 0 for rate in rates)


def test_lowering_is_measured_for_every_family() -> None:
    text = printed("bench_lowering")
    assert "lowering on small, median of" in text
    rows = cells(text)
    assert list(rows) == list(FAMILIES)
    assert all(float(cell) > 0 for row in rows.values() for cell in row)


def test_lowering_is_measured_for_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    networks = [WorkloadConfig("gpt2", layers=layers, sequence=64) for layers in (1, 2)]
    monkeypatch.setattr(bench, "NETWORKS", networks)
    lines = [line for line in printed("bench_networks").splitlines() if "gpt2 forward" in line]
    found = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    assert [row[1] for row in found] == ["1", "2"]
    assert int(found[0][2]) < int(found[1][2])
    assert all(float(cell) > 0 for row in found for cell in row[4:])


def test_sections_of_large_networks_are_measured() -> None:
    console = Console(file=StringIO(), width=180)
    bench.bench_sections(load_fabric("large"), console, ["bert_large"])
    assert isinstance(console.file, StringIO)
    rows = cells(console.file.getvalue())
    assert len(rows) > 1
    assert all(float(rate) > 0 for row in rows.values() for rate in row[:-1])
    assert all(row[-1].endswith("%") for row in rows.values())


def test_the_size_of_the_fabric_changes_no_cycle() -> None:
    console = Console(file=StringIO(), width=120)
    bench.bench_fabric_size(load_fabric("small"), console, sides=(8, 16))
    assert isinstance(console.file, StringIO)
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in console.file.getvalue().splitlines()]
    corner = [row for row in rows if "corner" in "".join(row)]
    assert [row[0] for row in corner] == ["8 x 8", "16 x 16"]
    assert corner[0][2:4] == corner[1][2:4]  # flows, hops per cycle


def test_routing_is_measured_for_every_method() -> None:
    rows = cells(printed("bench_routing"))
    assert list(rows) == ["xy", "yx", "mixed", "negotiated"]
    assert all(float(row[0]) > 0 for row in rows.values())


def test_the_annealer_is_measured_beside_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "ANNEALED_MOVES", 2e4)
    monkeypatch.setattr(bench, "ANNEALED_SECTIONS", ((8, "gpt2_xl", 6, 1561),))
    section, *_, rate, before = cells(printed("bench_annealer_size"))["8 x 8"]
    assert (section, before) == ("gpt2_xl 6", "1561")
    assert int(rate) > 0


def test_the_engines_are_compared() -> None:
    assert "times the plain one (ffn-" in printed("bench_engines")


def test_the_first_label_is_a_steady_period(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[Outcome] = []

    def remember(*arguments: Any) -> Outcome:
        outcomes.append(simulate_stack(*arguments))
        return outcomes[-1]

    monkeypatch.setattr("placer.bench.simulate_stack", remember)
    bench.first_label()
    (outcome,) = outcomes
    assert outcome.status[0] == Status.STEADY
    assert outcome.cycles_per_sample[0] > 0
