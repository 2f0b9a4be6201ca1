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

T = TypeVar("T")
Evaluate = Callable[[int], tuple[float, T] | None]


def scan(problem: Problem, evaluate: Evaluate[T]) -> Iterator[tuple[float, int, T]]:
    """Yields (score, ticks, what was found) for all times looked at.

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

    last = len(times) - 1
    yield from look(last)
    if last > 0:
        yield from look(0)
    heap = [(bound(0, last), 0, last)] if last > 1 else []
    while heap:
        value, low, high = heapq.heappop(heap)
        if value >= best:
            return
        middle = (low + high) // 2
        yield from look(middle)
        for a, b in ((low, middle), (middle, high)):
            if b - a > 1:
                heapq.heappush(heap, (bound(a, b), a, b))
