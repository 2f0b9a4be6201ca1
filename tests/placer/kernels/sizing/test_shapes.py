"""Shape tables, variants and the bound, against exhaustive enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import InputError
from placer.kernels.bench.tables import PUBLISHED
from placer.kernels.model import (
    Conv,
    Execution,
    Kernel,
    KernelGraph,
    Wafer,
    fully_connected,
    kernel_performance,
    load_kgraph,
    resnet,
)
from placer.kernels.model.graph import block_convs
from placer.kernels.sizing import FAR, NEVER, Problem, ShapeTables, find_variants, total_area
from tests.placer.kernels.cases import PUBLIC, needs_public_graphs


def one_kernel(convs: tuple[Conv, ...], wafer: Wafer) -> KernelGraph:
    kind = "conv" if len(convs) == 1 else "dblock"
    return KernelGraph("one", (Kernel(1, "k1", kind, convs),), (), wafer)  # type: ignore[arg-type]


def all_performances(graph: KernelGraph) -> list[tuple[int, int, int]]:
    """(height, width, ticks) of every legal execution, the slow way."""
    kernel, wafer = graph.kernels[0], graph.wafer
    top = kernel.convs[0]
    channels = [range(1, conv.channels_in + 1) for conv in kernel.convs]
    outs = [range(1, conv.channels_out + 1) for conv in kernel.convs]
    found = []
    for h, w in product(range(1, top.height + 1), range(1, top.width + 1)):
        for c in product(*channels):
            for k in product(*outs):
                performance = kernel_performance(kernel, Execution(h, w, c, k))
                if performance.memory <= wafer.memory_limit:
                    ticks = int(performance.time * graph.time_scale)
                    found.append((performance.height, performance.width, ticks))
    return found


CASES = [
    one_kernel((Conv(4, 3, 3, 2, 5, 6, 2),), Wafer(30, 30, 60)),
    one_kernel((Conv(2, 5, 1, 1, 3, 7, 1),), Wafer(25, 25, 9)),
    one_kernel(block_convs("dblock", 2, 2, 8), Wafer(30, 30, 30)),
]


@pytest.mark.parametrize("graph", CASES)
def test_the_table_holds_the_fastest_kernel_of_every_size(graph: KernelGraph) -> None:
    table = ShapeTables(graph).fastest[0]
    points = np.array(all_performances(graph))
    for height in range(1, graph.wafer.height + 1):
        for k in range(1, graph.wafer.width // 3 + 1):
            fitting = points[(points[:, 0] <= height) & (points[:, 1] <= 3 * k), 2]
            assert table[height, k] == (fitting.min() if len(fitting) else NEVER)


@pytest.mark.parametrize("graph", CASES)
def test_extents_are_the_least_upright_or_rotated(graph: KernelGraph) -> None:
    problem = Problem(graph)
    points = np.array(all_performances(graph))
    for ticks in problem.times[:: max(1, len(problem.times) // 4)].tolist():
        fast = points[points[:, 2] <= ticks]
        shapes = problem.shapes_at(ticks)
        for height in range(graph.wafer.height + 1):
            widths = np.append(fast[fast[:, 0] <= height, 1], fast[fast[:, 1] <= height, 0])
            least = widths[widths <= graph.wafer.width].min(initial=FAR)
            assert shapes.widths[0, height] == least


def slow_filter(points: np.ndarray) -> set[tuple[int, ...]]:
    """Quadratic reference."""
    rows = {tuple(row) for row in points.tolist()}
    return {a for a in rows if not any(b != a and all(x <= y for x, y in zip(b, a, strict=True)) for b in rows)}


@pytest.mark.parametrize("graph", CASES)
def test_variants_are_the_minima_of_all_executions(graph: KernelGraph) -> None:
    points = np.array(all_performances(graph))
    side = graph.wafer.width
    points = points[(points[:, 0] <= side) & (points[:, 1] <= side)]
    variants = find_variants(graph.kernels[0], graph)
    assert len(variants) == len(slow_filter(points))
    assert {tuple(row) for row in variants.tolist()} == slow_filter(points)


def test_the_bound_is_the_first_time_whose_areas_fit() -> None:
    problem = Problem(resnet((2, 1), 32, 8, wafer=Wafer(80, 70)))
    room = 80 * 70
    times = problem.tables.times
    before = times[times < problem.bound]
    assert total_area(problem.tables, problem.bound) <= room
    assert len(before)
    assert total_area(problem.tables, int(before[-1])) > room


@settings(max_examples=10)
@given(st.integers(40, 90), st.integers(40, 90))
def test_a_larger_wafer_never_raises_the_bound(width: int, height: int) -> None:
    graph = resnet((1, 1), 32, 8, wafer=Wafer(width, height))
    larger = resnet((1, 1), 32, 8, wafer=Wafer(width + 7, height + 7))
    assert Problem(larger).bound <= Problem(graph).bound


def test_a_grid_that_is_too_small_names_kernel_and_smallest_grid() -> None:
    graph = fully_connected((64, 64), Wafer(5, 5, 128))
    with pytest.raises(InputError, match=r"kernel k1 .* 5 x 5 .* smallest square grid .* (\d+) x"):
        Problem(graph)
    with pytest.raises(InputError, match="k1 exceeds the memory limit"):
        Problem(one_kernel((Conv(1, 1, 9, 9, 1, 1, 1),), Wafer(30, 30, 80)))


@needs_public_graphs
@pytest.mark.parametrize("letter", sorted(PUBLISHED))
def test_bounds_equal_the_published_column(letter: str) -> None:
    path = PUBLIC / f"{letter}.kgraph"
    if not path.is_file():
        pytest.skip("not public")
    problem = Problem(load_kgraph(path))
    assert problem.bound == PUBLISHED[letter].bound * problem.graph.time_scale


@pytest.mark.slow
def test_bound_of_the_unfolded_resnet_is_the_published_one_of_d() -> None:
    problem = Problem(resnet(as_convs=True))
    assert problem.bound == PUBLISHED["D"].bound * 4
