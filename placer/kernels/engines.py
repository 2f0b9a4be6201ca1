"""All engines behind one interface: a search goes in, its best mapping comes out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from placer.errors import InputError
from placer.kernels.auto import run_auto, run_strips
from placer.kernels.check import judge
from placer.kernels.layout import Layout
from placer.kernels.mapping import Mapping
from placer.kernels.problem import Problem
from placer.kernels.rows import run_rows
from placer.kernels.search import Search
from placer.kernels.slicing import run_slicing
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

    Engines lay rows along x. On a wafer that is not square, half of the time goes to rows along y.
    """
    wafer = search.problem.graph.wafer
    best = search.best
    if wafer.width == wafer.height:
        ENGINES[engine](search)
        best = search.best
    else:
        for other in (search, _transposed(search)):
            half = replace(other, time_limit=search.time_limit / 2, begin=time.perf_counter())
            ENGINES[engine](half)
            found = half.best
            if found is not None and other is not search:
                found = _turn(search, found)
            if found is not None and (best is None or found.score.total < best.score.total):
                best = found
    if best is None:
        raise InputError(
            f"engine {engine} found no layout on {wafer.width} x {wafer.height} tiles; "
            "every kernel fits alone, but not all together: use a larger grid or more wafers"
        )
    return best


def _transposed(search: Search) -> Search:
    """The same search on the wafer with width and height exchanged."""
    graph = search.problem.graph
    wafer = replace(graph.wafer, width=graph.wafer.height, height=graph.wafer.width)
    return replace(search, problem=Problem(replace(graph, wafer=wafer)))


def _turn(search: Search, mapping: Mapping) -> Mapping:
    """A mapping of the transposed wafer on the wafer itself."""
    kernels = tuple(
        replace(placed, x=placed.y, y=placed.x, is_rotated=not placed.is_rotated)
        for placed in mapping.layout.kernels
    )
    layout = Layout(kernels)
    return Mapping(layout, judge(search.problem.graph, layout, search.rules))
