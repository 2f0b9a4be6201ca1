"""Simulated annealing of rows of slots at a fixed target time, compiled.

Moves change the order of kernels, where rows and slots begin, heights, and the way rows and stacks
run. Tiles beyond the wafer cost a fee; the wire length is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from placer.annealing.random import RngState, below, rng_state, uniform
from placer.kernels.problem import Problem, Shapes
from placer.kernels.shelves import (
    BESIDE,
    NEW_ROW,
    STACKED,
    Boxes,
    Shelves,
    Tables,
    cost_of,
    empty_arrays,
    slot_width,
    tables_of,
)

PART = 2_000  # steps between looks at the clock
FEE = 8.0  # wire tiles per tile beyond the wafer


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and from which to which temperature (tiles of wire) to anneal."""

    steps: int  # rounded up to a multiple of PART
    hot: float
    cold: float


@dataclass(frozen=True, slots=True)
class Annealed:
    """A legal state and its wire length."""

    shelves: Shelves
    wire_length: float


def anneal_shelves(
    problem: Problem,
    shapes: Shapes,
    start: Shelves,
    schedule: Schedule,
    seed: int,
    is_over: Callable[[], bool],
) -> Annealed | None:
    """The best legal state on the way from `start`; None if there is none or it is cut off."""
    num, tables = problem.num, tables_of(problem, shapes)
    state = Shelves(*(array.copy() for array in start))
    kept, best = Shelves(*empty_arrays(num)), Shelves(*empty_arrays(num))
    boxes, rng = Boxes(*empty_arrays(num)[:4]), rng_state(seed)
    lowest, hot = np.inf, schedule.hot
    cooling = (schedule.cold / hot) ** (PART / schedule.steps)
    for _ in range(0, schedule.steps, PART):
        if is_over():
            return None
        lowest = _anneal(state, kept, best, tables, boxes, PART, hot, hot * cooling, rng, lowest)
        hot *= cooling
    return Annealed(best, float(lowest)) if np.isfinite(lowest) else None


@njit(cache=True)
def copy_shelves(source: Shelves, target: Shelves) -> None:
    """All fields."""
    for p in range(len(source.order)):
        target.order[p] = source.order[p]
        target.begin[p] = source.begin[p]
        target.height[p] = source.height[p]
        target.side[p] = source.side[p]
        target.way[p] = source.way[p]
        target.up[p] = source.up[p]


@njit(cache=True)
def _row_start(s: Shelves, p: int) -> int:
    while s.begin[p] != NEW_ROW:
        p -= 1
    return p


@njit(cache=True)
def _next_row(s: Shelves, p: int) -> int:
    """First kernel of the next row, or of the first one after the last."""
    p += 1
    while p < len(s.order) and s.begin[p] != NEW_ROW:
        p += 1
    return p if p < len(s.order) else 0


@njit(cache=True)
def _row_width(s: Shelves, tables: Tables, first: int, height: int) -> int:
    """Tiles that a row needs along x at a height; stops once it is too wide."""
    total, p, num = 0, first, len(s.order)
    while p < num and (p == first or s.begin[p] != NEW_ROW) and total <= tables.width:
        end = p + 1
        while end < num and s.begin[end] == STACKED:
            end += 1
        total += slot_width(tables, s.order, p, end, height)
        p = end
    return total


@njit(cache=True)
def _refit(s: Shelves, tables: Tables, p: int) -> None:
    """The row of a kernel becomes as low as it can be without being too wide."""
    first = _row_start(s, p)
    low, high = 1, tables.height
    while low < high:
        middle = (low + high) // 2
        if _row_width(s, tables, first, middle) <= tables.width:
            high = middle
        else:
            low = middle + 1
    s.height[first] = low


@njit(cache=True)
def _fill_up(s: Shelves, tables: Tables, rng: RngState) -> None:
    """The height that no row uses goes to one of them."""
    spare = tables.height
    for p in range(len(s.order)):
        if s.begin[p] == NEW_ROW:
            spare -= s.height[p]
    if spare > 0:
        s.height[_row_start(s, below(rng, len(s.order)))] += spare


@njit(cache=True)
def _move(s: Shelves, tables: Tables, rng: RngState) -> None:
    """One random change; rows that it touches are mostly fitted to their kernels again."""
    num = len(s.order)
    p, q = below(rng, num), below(rng, num)
    if below(rng, 2):
        q = min(max(p + below(rng, 9) - 4, 0), num - 1)
    change(s, p, q, tables.height, rng)
    if below(rng, 4) > 0:
        _refit(s, tables, p)
        if _row_start(s, q) != _row_start(s, p):
            _refit(s, tables, q)
        if below(rng, 4) > 0:
            _fill_up(s, tables, rng)


@njit(cache=True)
def change(s: Shelves, p: int, q: int, most_height: int, rng: RngState) -> None:
    """One random change around the places p and q of the order."""
    num = len(s.order)
    kind = below(rng, 100)
    if kind < 22:  # a kernel goes elsewhere in the order
        kernel, step, at = s.order[p], 1 if q > p else -1, p
        while at != q:
            s.order[at] = s.order[at + step]
            at += step
        s.order[q] = kernel
    elif kind < 34:  # two kernels change places
        s.order[p], s.order[q] = s.order[q], s.order[p]
    elif kind < 40:  # a stretch is turned round
        low, high = p, min(num - 1, p + 1 + below(rng, 7))
        while low < high:
            s.order[low], s.order[high] = s.order[high], s.order[low]
            low, high = low + 1, high - 1
    elif kind < 52:  # a row begins one kernel earlier or later
        _shift_row(s, p, rng)
    elif kind < 62:  # a slot opens or closes
        if s.begin[p] != NEW_ROW:
            s.begin[p] = STACKED if s.begin[p] == BESIDE else BESIDE
    elif kind < 68:
        _split_or_join(s, p, most_height, rng)
    elif kind < 90:
        _change_heights(s, p, most_height, rng)
    elif kind < 94:
        s.up[p] = 1 - s.up[p]
    elif kind < 97:
        s.side[_row_start(s, p)] = below(rng, 3)
    else:
        first = _row_start(s, p)
        s.way[first] = 1 - s.way[first]


@njit(cache=True)
def _shift_row(s: Shelves, p: int, rng: RngState) -> None:
    first = _row_start(s, p)
    if first == 0:
        first = _next_row(s, p)
    target = first + (1 if below(rng, 2) else -1)
    if first == 0 or target <= 0 or target >= len(s.order) or s.begin[target] == NEW_ROW:
        return
    s.begin[target], s.height[target] = NEW_ROW, s.height[first]
    s.side[target], s.way[target] = s.side[first], s.way[first]
    s.begin[first] = BESIDE


@njit(cache=True)
def _split_or_join(s: Shelves, p: int, most_height: int, rng: RngState) -> None:
    if p == 0:
        return
    first = _row_start(s, p)
    if s.begin[p] == NEW_ROW:
        before = _row_start(s, p - 1)
        s.begin[p] = BESIDE
        if below(rng, 2):
            s.height[before] = min(most_height, s.height[before] + s.height[p])
        else:
            s.height[before] = max(s.height[before], s.height[p])
    elif s.height[first] >= 4:
        share = 1 + below(rng, s.height[first] - 1)
        s.begin[p], s.height[p] = NEW_ROW, s.height[first] - share
        s.height[first] = share
        s.way[p], s.side[p] = 1 - s.way[first], s.side[first]


@njit(cache=True)
def _change_heights(s: Shelves, p: int, most_height: int, rng: RngState) -> None:
    """A row grows or shrinks, often at the cost of another one."""
    first = _row_start(s, p)
    reach = 4 if below(rng, 2) else 40
    step = below(rng, 2 * reach + 1) - reach
    s.height[first] = min(max(s.height[first] + step, 2), most_height)
    if below(rng, 3) > 0:
        other = _row_start(s, below(rng, len(s.order)))
        if other != first:
            s.height[other] = min(max(s.height[other] - step, 2), most_height)


@njit(cache=True)
def _anneal(
    s: Shelves, kept: Shelves, best: Shelves, tables: Tables, boxes: Boxes, steps: int,
    hot: float, cold: float, rng: RngState, lowest: float,
) -> float:  # fmt: skip
    """`best` becomes the best legal state below `lowest`; returns its wire length or `lowest`."""
    length, beyond = cost_of(s, tables, boxes)
    current = length + FEE * beyond
    if beyond == 0 and length < lowest:
        lowest = length
        copy_shelves(s, best)
    copy_shelves(s, kept)
    cooling = (cold / hot) ** (1.0 / max(steps, 1))
    temperature = hot
    for _ in range(steps):
        temperature *= cooling
        _move(s, tables, rng)
        length, beyond = cost_of(s, tables, boxes)
        value = length + FEE * beyond
        if value <= current or uniform(rng) < np.exp((current - value) / temperature):
            current = value
            copy_shelves(s, kept)
            if beyond == 0 and length < lowest:
                lowest = length
                copy_shelves(s, best)
        else:
            copy_shelves(kept, s)
    return lowest
