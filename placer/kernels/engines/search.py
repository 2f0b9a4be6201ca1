"""What every engine works with: the problem, the clock, the best mapping so far, target times.

And the last steps for any floorplan: joint sizing, places, alignment, judgement.
"""

from __future__ import annotations

import heapq
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np

from placer.base import LongArray
from placer.kernels.engines.floorplan import Floorplan, align, is_legal
from placer.kernels.engines.shelves import NEW_ROW, STACKED, Shelves, floorplan_of, place_shelves
from placer.kernels.engines.strips import arrange
from placer.kernels.model import (
    DEFAULT_OUT_RULES,
    IllegalLayoutError,
    KernelLayout,
    Mapping,
    OutRules,
    Placed,
    judge,
    table_of,
)
from placer.kernels.sizing import Frames, JointSizing, Problem, Shapes, Sized
from placer.kernels.truth import MappingCost, simulated_throughput

STEPS_PER_LOOK = 2_000  # of annealing, between looks at the clock
FIRST_LOOSENESS = (1.5, 4.0, 16.0)  # time / bound, where engines look for a first layout
ROUNDS = 8  # forests per choice of labels
HOPEFUL = 0.97  # mappings that a cost likes this much, relative to the best one, are simulated

T = TypeVar("T")


class Schedule(NamedTuple):
    """How long to anneal, and from which to which temperature, in the unit of what is annealed."""

    steps: int
    hot: float
    cold: float


@dataclass(slots=True)
class Search:
    """Engines offer mappings; the best one counts.

    The sequence of offers depends on the seed alone, the time limit only cuts it off: more time
    never makes a result worse. What an engine was at work on when the time ended is dropped.
    With a cost, mappings that it likes are simulated, and the fastest counts.
    """

    problem: Problem
    time_limit: float  # seconds from now on
    seed: int = 0
    rules: OutRules = field(default_factory=lambda: DEFAULT_OUT_RULES)
    on_better: Callable[[Mapping], None] | None = None
    best: Mapping | None = None
    cost: MappingCost | None = None  # chooses in place of the score; None: the score chooses
    must_find: bool = True  # without a mapping, go on after the end of the time
    is_interrupted: Callable[[], bool] = lambda: False  # the search ends, mapping or not
    clock: Callable[[], float] = time.perf_counter
    _end: float = field(init=False)
    _sizings: dict[int, JointSizing] = field(init=False, default_factory=dict)  # by ticks

    def __post_init__(self) -> None:
        self._end = self.clock() + self.time_limit

    def is_over(self) -> bool:
        """Tell whether the time is up, and there is a mapping if there must be."""
        may_end = self.best is not None or not self.must_find or self.is_interrupted()
        return may_end and self.is_late()

    def is_late(self) -> bool:
        """Tell whether the time is up, by the clock or by the user."""
        return self.clock() > self._end or self.is_interrupted()

    def offer(self, plan: Floorplan, sized: Sized) -> None:
        """Judge sized kernels in the places of a floorplan, keep them if they are the best."""
        places = plan.x.tolist(), plan.y.tolist()
        placed = zip(sized.executions, *places, sized.is_rotated, strict=True)
        try:
            self.take(self.judged(tuple(Placed(*parts) for parts in placed)))
        except IllegalLayoutError as error:  # a fault of the engine; others may still be found
            warnings.warn(f"dropped: {error}", stacklevel=2)

    def judged(self, layout: KernelLayout) -> Mapping:
        """Return a layout with its score. Raises IllegalLayoutError."""
        return Mapping(layout, judge(self.problem.graph, layout, self.rules))

    def take(self, mapping: Mapping) -> None:
        """Keep a judged mapping of this problem if it is the best."""
        if self.cost is not None and mapping.throughput is None:
            table = table_of(mapping.layout)
            liked = float(self.cost.score(self.problem, table[None]).throughput[0])
            if self.best is not None and liked < HOPEFUL * (self.best.predicted or 0.0):
                return
            throughput = simulated_throughput(self.problem, table, self.cost, liked)
            mapping = replace(mapping, throughput=throughput, predicted=liked)
        if self.best is None or _is_better(mapping, self.best):
            self.best = mapping
            if self.on_better is not None:
                self.on_better(mapping)

    def sizing(self, ticks: int) -> JointSizing:
        """Return the sizing of all kernels at a target time."""
        if ticks not in self._sizings:
            if len(self._sizings) > 3:
                self._sizings.clear()  # labels of many times would fill the memory
            self._sizings[ticks] = JointSizing(self.problem, ticks, self.is_over, self.rules)
        return self._sizings[ticks]

    def part(self, seconds: float, is_turned: bool) -> Search:
        """Return a search of its own for some of the time, on the wafer or on the wafer turned.

        What it finds is offered to this search, too.
        """
        problem = self.problem
        if is_turned:
            wafer = problem.graph.wafer
            problem = Problem(problem.graph.resized(wafer.height, wafer.width), problem.slowest)

        def on_better(mapping: Mapping) -> None:
            if is_turned:
                mapping = self.judged(turned_layout(mapping.layout))
            self.take(mapping)

        own = replace(self, problem=problem, time_limit=seconds, on_better=on_better, best=None)
        own.must_find = self.must_find and self.best is None
        return own


def _is_better(mapping: Mapping, other: Mapping) -> bool:
    """Compare by throughput if it is known, else by the score."""
    if mapping.throughput is not None and other.throughput is not None:
        return mapping.throughput > other.throughput
    return mapping.score.total < other.score.total - 1e-9


def turned_layout(layout: KernelLayout) -> KernelLayout:
    """Return the layout on the wafer with width and height exchanged."""
    return tuple(replace(placed, x=placed.y, y=placed.x, is_rotated=not placed.is_rotated) for placed in layout)


def frames_of(shapes: Shapes, shelves: Shelves) -> Frames:
    """Let kernels alone in their slot use the row's height; stacked ones keep their rectangle."""
    plan, order = floorplan_of(shapes, shelves), shelves.order
    row_of_place, heights = np.cumsum(shelves.begin == NEW_ROW) - 1, _row_heights(shapes, shelves)
    is_stacked = (shelves.begin == STACKED) | np.append(shelves.begin[1:] == STACKED, False)
    row, height, width = np.empty_like(order), np.empty_like(order), np.zeros_like(order)
    row[order], height[order] = row_of_place, heights[row_of_place]
    stacked = order[is_stacked]
    height[stacked], width[stacked] = plan.extent_y[stacked], plan.extent_x[stacked]
    begins_slot = shelves.begin != STACKED
    widest = np.zeros(begins_slot.sum(), np.int64)  # of the stacked kernels in each slot
    np.maximum.at(widest, np.cumsum(begins_slot)[is_stacked] - 1, width[stacked])
    fixed = np.bincount(row_of_place[begins_slot], widest, len(heights)).astype(np.float64)
    arranged = arrange(shapes.edges, order)
    return Frames(height, width, arranged.cover[arranged.place], row, fixed)


def _row_heights(shapes: Shapes, shelves: Shelves) -> LongArray:
    """Return the heights of the rows; what is left goes to the one with most kernels."""
    starts = np.flatnonzero(shelves.begin == NEW_ROW)
    heights = shelves.height[starts].copy()
    sizes = np.diff(np.append(starts, len(shelves.order)))
    heights[np.argmax(sizes)] += max(0, shapes.height - heights.sum())
    return heights


def size_shelves(search: Search, ticks: int, shelves: Shelves, rounds: int, seed: int) -> Sized | None:
    """Size all kernels of some rows jointly; None if they do not fit, or if the time is over."""
    frames = frames_of(search.problem.shapes_at(ticks), shelves)
    return search.sizing(ticks).choose_that_fit(frames, rounds, seed)


def offer_shelves(search: Search, shelves: Shelves, sized: Sized | None) -> None:
    """Place sized kernels, if there are any, in their rows, align and judge them."""
    if sized is not None:
        width = search.problem.tables.width
        _offer(search, place_shelves(shelves, sized.extent_x, sized.extent_y, width), sized)


def finish_rectangles(search: Search, ticks: int, plan: Floorplan, room: LongArray | None = None) -> None:
    """Offer a floorplan at a target time with the fewest adapters that its widths allow.

    `room` [kernel]: tiles along y that a kernel may take, its rectangle being in the middle; if
    kernels then overlap, or without room, they keep to their rectangles.
    """
    zeros = np.zeros(search.problem.num, np.int64)
    for height in (plan.extent_y if room is None else room, plan.extent_y):
        frames = Frames(height, plan.extent_x, zeros.astype(np.float64), zeros, np.zeros(1))
        sized = search.sizing(ticks).choose(frames, np.zeros(1), ROUNDS, search.seed)
        if sized is None:
            return
        x = plan.x + (plan.extent_x - sized.extent_x) // 2
        y = plan.y + (plan.extent_y - sized.extent_y) // 2
        y = np.clip(y, 0, search.problem.tables.height - sized.extent_y)
        if _offer(search, Floorplan(x, y, sized.extent_x, sized.extent_y), sized):
            return


def _offer(search: Search, plan: Floorplan, sized: Sized) -> bool:
    """Align and judge a floorplan; returns whether it was legal."""
    width, height = search.problem.tables.width, search.problem.tables.height
    if not is_legal(plan, width, height):
        return False
    search.offer(align(plan, search.problem.edges, width, height), sized)
    return True


def scan(
    problem: Problem, evaluate: Callable[[int], tuple[float, T] | None], is_over: Callable[[], bool]
) -> Iterator[tuple[float, int, T]]:
    """Yield (score, ticks, what was found) for all times looked at, until it is over.

    `evaluate` gives the cost beyond the time itself (wires, adapters), falling with time, or None
    if nothing fits. Between two evaluated times, no time can score better than the earlier one's
    successor with the later one's cost: intervals that cannot beat the best are left out, the
    others are halved, the most promising first.
    """
    times, best = problem.times, np.inf
    costs: dict[int, float] = {}
    heap: list[tuple[float, int, int]] = []

    def time_cost(i: int) -> float:
        return problem.score(int(times[i]), 0)

    def look(i: int) -> Iterator[tuple[float, int, T]]:
        nonlocal best
        found = evaluate(int(times[i]))
        costs[i] = np.inf if found is None else found[0]
        if found is not None:
            score = time_cost(i) + found[0]
            best = min(best, score)
            yield score, int(times[i]), found[1]

    def halve_later(low: int, high: int) -> None:
        if high - low > 1:
            heapq.heappush(heap, (time_cost(low + 1) + costs[high], low, high))

    low = -1
    for high in starts(problem):
        if is_over():
            return
        yield from look(high)
        if costs[high] < np.inf:
            break
        low = high
    else:
        return
    if is_over():
        return
    last = max((i for i in range(high, len(times)) if time_cost(i) < best), default=high)
    if last > high:  # longer times cost more than the best score by themselves
        yield from look(last)
        halve_later(high, last)
    halve_later(low, high)
    while heap:
        value, low, high = heapq.heappop(heap)
        if value >= best or is_over():
            return
        middle = (low + high) // 2
        yield from look(middle)
        halve_later(low, middle)
        halve_later(middle, high)


def starts(problem: Problem) -> list[int]:
    """Return places of a few times, near the bound to the longest, to look for a first layout.

    Rows at long times take long to find and are seldom good.
    """
    last = len(problem.times) - 1
    places = np.searchsorted(problem.times, problem.bound * np.array(FIRST_LOOSENESS))
    return sorted({*np.minimum(places, last).tolist(), last})
