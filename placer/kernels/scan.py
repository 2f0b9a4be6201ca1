"""The best target time, with few evaluations: costs fall as the time grows, in steps.

Between two evaluated times, no time can score better than the earlier one's successor with the
later one's cost. Intervals that cannot beat the best are left out; the others are halved, the most
promising first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from placer.kernels.problem import Problem

FIRST_LOOSENESS = (1.5, 4.0, 16.0)  # time / bound

T = TypeVar("T")
Evaluate = Callable[[int], tuple[float, T] | None]


def scan(
    problem: Problem, evaluate: Evaluate[T], is_over: Callable[[], bool]
) -> Iterator[tuple[float, int, T]]:
    """Yields (score, ticks, what was found) for all times looked at, until it is over.

    `evaluate` gives the cost beyond the time itself (wires, adapters), falling with time, or None
    if nothing fits.
    """
    times = problem.times
    wafer = problem.graph.wafer
    costs: dict[int, float] = {}
    best = np.inf

    def time_cost(i: int) -> float:
        return wafer.time_weight * float(times[i]) / problem.graph.time_scale

    def look(i: int) -> Iterator[tuple[float, int, T]]:
        nonlocal best
        found = evaluate(int(times[i]))
        costs[i] = np.inf if found is None else found[0]
        if found is not None:
            score = time_cost(i) + found[0]
            best = min(best, score)
            yield score, int(times[i]), found[1]

    def bound(low: int, high: int) -> float:
        return time_cost(low + 1) + costs[high]

    low, high = -1, len(times)
    for place in starts(problem):
        if is_over():
            return
        yield from look(place)
        if costs[place] < np.inf:
            high = place
            break
        low = place
    if high == len(times):
        return
    if is_over():
        return
    intervals = [(low, high)]
    last = max((i for i in range(high, len(times)) if time_cost(i) < best), default=high)
    if last > high:  # longer times cost more than the best score by themselves
        yield from look(last)
        intervals.append((high, last))
    heap = [(bound(a, b), a, b) for a, b in intervals if b - a > 1]
    heapq.heapify(heap)
    while heap:
        value, low, high = heapq.heappop(heap)
        if value >= best or is_over():
            return
        middle = (low + high) // 2
        yield from look(middle)
        for a, b in ((low, middle), (middle, high)):
            if b - a > 1:
                heapq.heappush(heap, (bound(a, b), a, b))


def starts(problem: Problem) -> list[int]:
    """Places of a few times from near the bound to the longest: where to look for a first layout.

    Rows at long times take long to find and are seldom good.
    """
    last = len(problem.times) - 1
    places = np.searchsorted(problem.times, problem.bound * np.array(FIRST_LOOSENESS))
    return sorted({*np.minimum(places, last).tolist(), last})
