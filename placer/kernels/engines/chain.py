"""A graph on several wafers in a row, also of unequal size: tensors flow from one to the next.

1. Cut an order of kernels into stretches, one for each wafer, so that the slowest wafer is fast.
   Each wafer takes the longest stretch that its rows hold at a target time; the smallest such time
   comes by binary search. Then cuts move between neighbours while that lowers the times of their
   wafers (balancing). Only times count, wires do not. The better of two orders is taken.
2. Lower the times of the wafers that hold the chain up, with the engine and wires ignored.
3. Map every wafer with the engine and the graph's weights, no slower than the slowest has to be;
   or by a cost that predicts throughput.

After the chain of accelerators in the paper on strips and stacks; wires between wafers are not
counted.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from placer.base import InputError, LongArray
from placer.kernels.engines.mapper import EngineName, map_kernels
from placer.kernels.engines.search import Search, finish_rectangles
from placer.kernels.engines.shelves import floorplan_of, shelves_of
from placer.kernels.engines.strips import Rows, arrange, best_rows
from placer.kernels.model import (
    DEFAULT_OUT_RULES,
    KernelGraph,
    OutRules,
    Part,
    Wafer,
    breadth_first_order,
    depth_first_order,
    subgraph,
)
from placer.kernels.sizing import NEVER, Problem, ShapeTables, shapes_at
from placer.kernels.truth import MappingCost

Size = tuple[int, int]  # width and height of a wafer
REACH = 2  # kernels that a cut moves by at once

_NO_EDGES = np.empty((0, 2), np.int64)


class Stretch(NamedTuple):
    """What one wafer holds, with rows that prove the time; rows along y if it is turned."""

    wafer: int
    kernels: LongArray  # in order
    ticks: int
    is_turned: bool
    rows: Rows


class Stretches:
    """Smallest times of the stretches of one order on wafers of given sizes."""

    def __init__(self, graph: KernelGraph, sizes: Sequence[Size], order: LongArray) -> None:
        self._sizes, self._order = sizes, order
        self._tables: dict[Size, list[ShapeTables]] = {}  # as it is and, if it matters, turned
        for size in set(sizes):
            both = [size] if size[0] == size[1] else [size, size[::-1]]
            self._tables[size] = [ShapeTables(graph.resized(*each)) for each in both]
        self._require_fit()
        times = [tables[0].times for tables in self._tables.values()]
        self.times = np.unique(np.concatenate(times))
        self._shapes = lru_cache(maxsize=64)(
            lambda size, is_turned, ticks: shapes_at(self._tables[size][is_turned], ticks)
        )
        self._known: dict[tuple[Size, int, int], int] = {}

    def cut(self, is_over: Callable[[], bool]) -> list[Stretch]:
        """Return the best cuts. Raises InputError if the wafers do not hold the graph."""
        place = bisect_left(self.times[:-1], True, key=lambda time: self._greedy(time) is not None)
        cuts = self._greedy(self.times[place])
        if cuts is None:
            sizes = ", ".join(f"{width} x {height}" for width, height in self._sizes)
            raise InputError(
                f"{len(self._order)} kernels do not fit on a chain of wafers of {sizes} tiles, "
                "however slow; use more or larger wafers"
            )
        self._balance(cuts, is_over)
        pairs = enumerate(pairwise(cuts))
        return [self._stretch(wafer, *ends) for wafer, ends in pairs if ends[0] < ends[1]]

    def _require_fit(self) -> None:
        """Raise InputError for a kernel that fits none of the wafers."""
        fits = np.zeros(len(self._order), np.bool_)
        for tables in self._tables.values():
            times = tables[0].times
            if len(times):
                fits |= shapes_at(tables[0], int(times[-1])).areas < NEVER
        if not fits.all():
            largest = max(self._sizes, key=lambda size: (min(size), max(size)))
            self._tables[largest][0].require_fit()

    def _rows(self, wafer: int, first: int, end: int, ticks: int) -> tuple[Rows, bool] | None:
        """Return rows of a stretch on a wafer, and whether they are along y; None if none fit."""
        size, stretch = self._sizes[wafer], self._order[first:end]
        arranged = arrange(_NO_EDGES, stretch)
        for is_turned in (False, True)[: len(self._tables[size])]:
            shapes = self._shapes(size, is_turned, ticks)
            areas = shapes.areas[stretch]
            if areas.max() < NEVER and areas.sum() <= size[0] * size[1]:
                rows = best_rows(shapes, arranged)
                if rows is not None:
                    return rows, is_turned
        return None

    def _greedy(self, ticks: int) -> list[int] | None:
        """Return the cuts of longest stretches, None if kernels are left over."""
        cuts, num = [0], len(self._order)
        for wafer in range(len(self._sizes)):
            first = cuts[-1]
            ends = range(first + 1, num + 1)
            fits = partial(self._rows, wafer, first, ticks=ticks)
            cuts.append(first + bisect_left(ends, True, key=lambda end: fits(end) is None))
        return cuts if cuts[-1] == num else None

    def _smallest(self, wafer: int, first: int, end: int) -> int:
        """Return the smallest time of a stretch on a wafer, NEVER if it holds it at none."""
        if first == end:
            return 0
        key = (self._sizes[wafer], first, end)
        if key not in self._known:
            fits = partial(self._rows, wafer, first, end)
            low = bisect_left(self.times, True, key=lambda time: fits(time) is not None)
            self._known[key] = int(self.times[low] if low < len(self.times) else NEVER)
        return self._known[key]

    def _balance(self, cuts: list[int], is_over: Callable[[], bool]) -> None:
        """Move single cuts while the larger time of the two wafers beside it falls."""
        is_better = True
        while is_better:
            is_better = False
            for i in range(1, len(cuts) - 1):
                best = self._times(i, cuts[i - 1], cuts[i], cuts[i + 1])
                low, high = max(cuts[i - 1], cuts[i] - REACH), min(cuts[i + 1], cuts[i] + REACH)
                for cut in range(low, high + 1):
                    if is_over():
                        return
                    times = self._times(i, cuts[i - 1], cut, cuts[i + 1])
                    if times < best:
                        best, cuts[i], is_better = times, cut, True

    def _times(self, wafer: int, first: int, cut: int, end: int) -> tuple[int, int]:
        """Return the times of a wafer and the one before it, the larger first."""
        before, after = self._smallest(wafer - 1, first, cut), self._smallest(wafer, cut, end)
        return max(before, after), min(before, after)

    def _stretch(self, wafer: int, first: int, end: int) -> Stretch:
        ticks = self._smallest(wafer, first, end)
        found = self._rows(wafer, first, end, ticks)
        assert found is not None, "cuts are made where rows fit"
        rows, is_turned = found
        return Stretch(wafer, self._order[first:end], ticks, is_turned, rows)


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """How a chain is searched."""

    engine: EngineName
    time_limit: float  # seconds for all wafers together
    seed: int
    rules: OutRules = field(default_factory=lambda: DEFAULT_OUT_RULES)
    on_note: Callable[[str], None] = lambda text: None  # what the search is doing
    cost: MappingCost | None = None  # chooses the mappings of step 3 in place of the score
    is_interrupted: Callable[[], bool] = lambda: False  # all steps come to their end


def map_wafers(graph: KernelGraph, sizes: Sequence[Size], options: ChainOptions) -> list[Part]:
    """Map a graph to one wafer or to a chain; returns what each wafer that is used holds.

    Raises InputError if the graph does not fit.
    """
    end = time.perf_counter() + options.time_limit

    def left() -> float:
        return 0.0 if options.is_interrupted() else max(0.0, end - time.perf_counter())

    if len(sizes) == 1:
        problem = Problem(graph.resized(*sizes[0]))
        search = _weighted(problem, left(), options, "")
        mapping = map_kernels(search, options.engine)
        return [Part(0, problem.graph, mapping, problem.least_time)]
    stretches = _cut(graph, sizes, lambda: left() <= options.time_limit / 2)
    options.on_note(f"cut for {_slowest(graph, stretches):,.10g}")
    searches = [_search(graph, sizes, stretch, options) for stretch in stretches]
    bounds = [search.problem.least_time for search in searches]
    hopeful = [s for s in searches if _time(s) > max(bounds)]  # others never are the slowest
    seconds = left() / 2 / max(len(hopeful), 1)
    for search in hopeful:
        faster = replace(search, time_limit=seconds, on_better=search.take, is_interrupted=options.is_interrupted)
        map_kernels(faster, options.engine)
        options.on_note(f"slowest wafer {max(map(_time, searches)):,.10g}")
    slowest = Fraction(max(map(_time, searches)))
    parts = []
    for i, (stretch, search) in enumerate(zip(stretches, searches, strict=True)):
        seconds = left() / (len(searches) - i)
        own = replace(search.problem.graph, wafer=graph.wafer).resized(*sizes[stretch.wafer])
        # A cost may prefer a longer contest time that is shorter in truth.
        problem = Problem(own, slowest if options.cost is None else None)
        note = f"slowest wafer {float(slowest):,.10g}; this one: "
        weighted = _weighted(problem, seconds, options, note)
        assert search.best is not None
        weighted.take(weighted.judged(search.best.layout))
        mapping = map_kernels(weighted, options.engine)
        parts.append(Part(stretch.wafer, own, mapping, bounds[i]))
    return parts


def _cut(graph: KernelGraph, sizes: Sequence[Size], is_over: Callable[[], bool]) -> list[Stretch]:
    """Return the better of the cuts of two orders."""
    num = len(graph.kernels)
    found: list[list[Stretch]] = []
    orders = [find(num, graph.edges) for find in (depth_first_order, breadth_first_order)]
    for order in orders[: 1 if orders[0] == orders[1] else 2]:
        if not found or not is_over():
            found.append(Stretches(graph, sizes, np.array(order)).cut(is_over))
    return min(found, key=lambda stretches: _slowest(graph, stretches))


def _slowest(graph: KernelGraph, stretches: Sequence[Stretch]) -> float:
    return max(stretch.ticks for stretch in stretches) / graph.time_scale


def _search(graph: KernelGraph, sizes: Sequence[Size], stretch: Stretch, options: ChainOptions) -> Search:
    """Return a search for the smallest time of a wafer; its best mapping has the stretch's rows."""
    width, height = sizes[stretch.wafer]
    wafer = Wafer(width, height, graph.wafer.memory_limit, 1.0, wire_weight=0.0)
    own = subgraph(graph, stretch.kernels.tolist(), wafer)
    search = Search(Problem(own), 0.0, options.seed, options.rules)  # not to be interrupted
    part = search.part(0.0, stretch.is_turned)
    ticks = int(Fraction(stretch.ticks, graph.time_scale) * own.time_scale)
    rows = stretch.rows._replace(order=np.arange(len(stretch.kernels)))
    plan = floorplan_of(part.problem.shapes_at(ticks), shelves_of(rows))
    finish_rectangles(part, ticks, plan)
    return search


def _time(search: Search) -> float:
    assert search.best is not None, "searches of a chain begin with the rows of a stretch"
    return float(search.best.score.slowest)


def _weighted(problem: Problem, seconds: float, options: ChainOptions, note: str) -> Search:
    """Return a search by the graph's weights, or by the cost of the options."""
    return Search(
        problem, seconds, options.seed, options.rules,
        lambda mapping: options.on_note(note + mapping.describe()),
        cost=options.cost, is_interrupted=options.is_interrupted,
    )  # fmt: skip
