"""The benchmark prints its tables and draws its picture."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import pytest
from rich.console import Console

from costmodel import bench
from placer.fabric import load_fabric
from placer.graph.workloads import FAMILIES
from tests.placer.test_bench import cells


@pytest.mark.slow
def test_decisions_are_encoded_fast_for_every_family() -> None:
    console = Console(file=StringIO(), width=120)
    bench.bench_decisions(load_fabric("small"), console)
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert "decisions per second on small" in text
    rows = cells(text)
    assert list(rows) == list(FAMILIES)
    for units, flows, *rates in rows.values():
        assert int(units) > 0 and int(flows) > 0
        assert len(rates) == 3 and all(float(rate) > 0 for rate in rates)


@pytest.mark.slow
def test_scores_are_measured_for_every_family() -> None:
    console = Console(file=StringIO(), width=120)
    with ThreadPoolExecutor(2) as workers:
        bench.bench_scores(load_fabric("small"), console, workers)
    assert isinstance(console.file, StringIO)
    rows = cells(console.file.getvalue())
    assert list(rows) == list(FAMILIES)
    assert all(float(cell) > 0 for row in rows.values() for cell in row)


def test_times_are_drawn_against_sizes() -> None:
    (axes,) = bench.draw_sizes([(100, 50.0), (1000, 400.0)]).axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert len(axes.collections[0].get_offsets()) == 2
