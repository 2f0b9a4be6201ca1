"""All engines behind one interface: a search goes in, its best mapping comes out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from math import isqrt
from typing import Literal

import numpy as np

from placer.base import InputError
from placer.kernels.engines.auto import run_auto, run_strips
from placer.kernels.engines.rows import run_rows
from placer.kernels.engines.search import Search
from placer.kernels.engines.slicing import run_slicing
from placer.kernels.engines.strips import arrange, best_rows
from placer.kernels.engines.tbs import run_tbs
from placer.kernels.model import MAX_SIDE, KernelGraph, Mapping, depth_first_order, generate
from placer.kernels.sizing import NEVER, Problem, ShapeTables, shapes_at, total_area
from placer.kernels.truth import SimulatorCost, simulate_mapping

EngineName = Literal["auto", "rows", "strips", "slicing", "tbs"]

ENGINES: dict[EngineName, Callable[[Search], None]] = {
    "auto": run_auto,
    "rows": run_rows,
    "strips": run_strips,
    "slicing": run_slicing,
    "tbs": run_tbs,
}


def map_kernels(search: Search, engine: EngineName) -> Mapping:
    """Return the best mapping that an engine finds. Raises InputError when it finds none.

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
    """Name the largest kernel, and the smallest square grid on which all of them have rows."""
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
    """Return the least side, from `least` on, of a square wafer on which rows hold all kernels."""
    high = least
    while not _has_rows(graph, high):
        if high == MAX_SIDE:
            return None
        least, high = high + 1, min(2 * high, MAX_SIDE)
    return least + bisect_left(range(least, high), True, key=lambda side: _has_rows(graph, side))


def _has_rows(graph: KernelGraph, side: int) -> bool:
    """Tell whether the kernels, however slow, have rows on a square wafer in depth-first order."""
    tables = ShapeTables(graph.resized(side, side))
    if len(tables.times) == 0:
        return False
    shapes = shapes_at(tables, int(tables.times[-1]))
    order = np.array(depth_first_order(len(graph.kernels), graph.edges))
    fits = shapes.areas.max() < NEVER
    return bool(fits) and best_rows(shapes, arrange(shapes.edges, order)) is not None


@cache
def warm_up() -> None:
    """Compile every engine once, so that no timed run waits for it: seconds with a full cache."""
    for preset in ("tiny", "tiny_convs"):
        problem = Problem(generate(preset))
        for engine in (*ENGINES, "auto"):  # the first run of auto spends its time on compiling
            mapping = map_kernels(Search(problem, time_limit=0.5), engine)
        simulate_mapping(problem, mapping.layout)
        map_kernels(Search(problem, time_limit=0.5, cost=SimulatorCost()), "auto")
