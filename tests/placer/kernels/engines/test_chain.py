"""Chains of wafers: cuts, unequal and odd wafers, the time of the chain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placer.base import InputError
from placer.kernels.bench.tables import PUBLISHED_TIMES
from placer.kernels.engines import ChainOptions, EngineName, Search, map_kernels, map_wafers
from placer.kernels.engines.chain import Size, Stretches
from placer.kernels.engines.mapper import ENGINES
from placer.kernels.model import (
    DEFAULT_OUT_RULES,
    KernelGraph,
    Part,
    Wafer,
    depth_first_order,
    find_faults,
    fully_connected,
    generate,
    load_kgraph,
)
from placer.kernels.sizing import Problem
from tests.placer.kernels.cases import PUBLIC, needs_public_graphs, small_graphs

GRAPHS = small_graphs()


def chained(graph: KernelGraph, sizes: list[Size], seconds: float = 0.3, engine: EngineName = "auto") -> list[Part]:
    notes: list[str] = []
    options = ChainOptions(engine, seconds, 0, DEFAULT_OUT_RULES, notes.append)
    parts = map_wafers(graph, sizes, options)
    assert notes
    names = sorted(kernel.name for part in parts for kernel in part.graph.kernels)
    assert names == sorted(kernel.name for kernel in graph.kernels)
    for part in parts:
        assert (part.graph.wafer.width, part.graph.wafer.height) == sizes[part.wafer]
        assert find_faults(part.graph, part.mapping.layout) == []
    return parts


def slowest(parts: list[Part]) -> float:
    return max(float(part.mapping.score.slowest) for part in parts)


@pytest.mark.slow
def test_a_chain_is_faster_than_one_wafer() -> None:
    graph = GRAPHS["blocks"]
    one = map_kernels(Search(Problem(graph), 0.1), "strips").score.slowest
    assert slowest(chained(graph, [(90, 70), (60, 60)])) <= one
    assert slowest(chained(graph, [(90, 70)] * 3)) <= slowest(chained(graph, [(90, 70)] * 2))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_maps_chains(engine: EngineName) -> None:
    for name in ("convs", "unet"):
        wafer = GRAPHS[name].wafer
        parts = chained(GRAPHS[name], [(wafer.width, wafer.height)] * 2, 0.3, engine)
        assert all(part.mapping.score.slowest >= part.bound for part in parts)


def test_kernels_that_do_not_fit_one_wafer_go_to_another() -> None:
    graph = fully_connected((64, 64, 64, 512, 64), Wafer(60, 60, 400))
    small, large = (16, 16), (60, 60)
    with pytest.raises(InputError, match="does not fit the grid of 16 x 16"):
        Problem(replace(graph, wafer=replace(graph.wafer, width=16, height=16)))
    parts = chained(graph, [small, large, small])
    assert 1 in {part.wafer for part in parts}


def test_rows_along_y_hold_what_rows_along_x_do_not() -> None:
    graph = fully_connected((64, 64, 64), Wafer(200, 6, 150))
    for size in ((200, 6), (6, 200)):
        assert slowest(chained(graph, [size, size], 0.05)) > 0


@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0), (1.0, 0.001, 1000.0)])
def test_chains_with_odd_weights(weights: tuple[float, float, float]) -> None:
    graph = GRAPHS["blocks"]
    wafer = Wafer(90, 70, 24576, *weights)
    parts = chained(replace(graph, wafer=wafer), [(90, 70), (70, 90)], 0.1)
    assert all(part.mapping.score.slowest >= part.bound for part in parts)


def test_what_no_chain_holds_is_said() -> None:
    graph = fully_connected((64, 64, 64, 64, 64), Wafer(12, 12, 150))
    with pytest.raises(InputError, match="4 kernels do not fit on a chain of wafers of 12 x 12"):
        chained(graph, [(12, 12), (4, 4)])
    with pytest.raises(InputError, match="kernel k1 does not fit the grid of 5 x 5"):
        chained(graph, [(5, 5), (4, 4)])


def test_times_of_stretches_by_exhaustion() -> None:
    """Greedy cuts at a binary-searched time are as fast as the best of all cuts."""
    graph = GRAPHS["chain"]
    order = np.array(depth_first_order(len(graph.kernels), graph.edges))
    stretches = Stretches(graph, [(40, 50), (30, 30)], order)
    found = max(stretch.ticks for stretch in stretches.cut(lambda: False))
    num = len(order)
    times = [max(stretches._times(1, 0, cut, num)) for cut in range(num + 1)]
    assert found == min(times)


@needs_public_graphs
@pytest.mark.slow
@pytest.mark.parametrize("letter", ["A", "M"])
def test_four_wafers_are_no_slower_than_published(letter: str) -> None:
    graph = load_kgraph(PUBLIC / f"{letter}.kgraph")
    assert slowest(chained(graph, [(633, 633)] * 4, 1.0)) <= PUBLISHED_TIMES[letter].four_wafers


def test_presets_chain() -> None:
    assert len(chained(generate("tiny"), [(100, 100)] * 2, 0.1)) == 2
