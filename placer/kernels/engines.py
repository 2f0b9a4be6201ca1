"""All engines behind one interface: a search goes in, its best mapping comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isqrt
from typing import Literal

import numpy as np

from placer.errors import InputError
from placer.kernels.auto import run_auto, run_strips
from placer.kernels.bound import total_area
from placer.kernels.flow import flow_along
from placer.kernels.graph import MAX_SIDE, KernelGraph, depth_first_order
from placer.kernels.mapping import Mapping
from placer.kernels.problem import Problem, Shapes
from placer.kernels.rows import run_rows
from placer.kernels.search import Search
from placer.kernels.shapes import NEVER, ShapeTables
from placer.kernels.slicing import run_slicing
from placer.kernels.strips import best_rows
from placer.kernels.tbs import run_tbs

EngineName = Literal["auto", "rows", "strips", "slicing", "tbs"]

ENGINES: dict[EngineName, Callable[[Search], None]] = {
    "auto": run_auto,
    "rows": run_rows,
    "strips": run_strips,
    "slicing": run_slicing,
    "tbs": run_tbs,
}


def map_kernels(search: Search, engine: EngineName) -> Mapping:
    """The best mapping that an engine finds. Raises InputError when it finds none.

    An interrupted search gives the best so far, or raises KeyboardInterrupt when there is none.
    Engines lay rows along x. On a wafer that is not square, half of the time goes to rows along y.
    """
    problem, wafer = search.problem, search.problem.graph.wafer
    if total_area(problem.tables, int(problem.times[-1])) > wafer.width * wafer.height:
        raise InputError(_why_nothing_fits(problem, engine))
    if wafer.width == wafer.height:
        ENGINES[engine](search)
    else:
        for is_turned in (False, True):
            ENGINES[engine](search.part(search.time_limit / 2, is_turned))
    if search.best is None:
        if search.is_interrupted():
            raise KeyboardInterrupt
        raise InputError(_why_nothing_fits(problem, engine))
    return search.best


def _why_nothing_fits(problem: Problem, engine: EngineName) -> str:
    """The largest kernel, and the smallest square grid on which all of them have rows."""
    graph = problem.graph
    wafer, areas = graph.wafer, problem.shapes_at(int(problem.times[-1])).areas
    largest = graph.kernels[int(np.argmax(areas))]
    side = smallest_square(graph, isqrt(int(areas.sum()) - 1) + 1)
    advice = "" if engine == "auto" else ", or engine=auto"
    grid = f"up to {MAX_SIDE} x {MAX_SIDE} none was found" if side is None else f"{side} x {side}"
    return (
        f"engine {engine} found no layout of all {problem.num} kernels on {wafer.width} x "
        f"{wafer.height} tiles, though each fits alone; they need {areas.sum():,} of "
        f"{wafer.width * wafer.height:,} tiles at least, the largest is {largest.name} with "
        f"{areas.max():,}; the smallest square grid on which rows of them fit: {grid}; use a "
        f"larger grid or more wafers{advice}"
    )


def smallest_square(graph: KernelGraph, least: int) -> int | None:
    """Side of the smallest square wafer, from `least` on, on which rows hold all kernels."""
    high = least
    while not _has_rows(graph, high):
        if high == MAX_SIDE:
            return None
        least, high = high + 1, min(2 * high, MAX_SIDE)
    while least < high:
        middle = (least + high) // 2
        if _has_rows(graph, middle):
            high = middle
        else:
            least = middle + 1
    return high


def _has_rows(graph: KernelGraph, side: int) -> bool:
    """Whether the kernels, however slow, have rows on a square wafer in depth-first order."""
    wafer = replace(graph.wafer, width=side, height=side)
    tables = ShapeTables(replace(graph, wafer=wafer))
    times = tables.times
    if len(times) == 0:
        return False
    shapes = Shapes(tables, int(times[-1]))
    if shapes.areas.max() >= NEVER:
        return False
    order = np.array(depth_first_order(len(graph.kernels), graph.edges))
    edges = np.array(graph.edges, np.int64).reshape(-1, 2)
    return best_rows(shapes, flow_along(edges, order)) is not None
