"""Searches for better rows at a fixed target time: over orders of kernels, and by annealing.

Orders are judged by their best rows. Annealing is compiled: moves change the order of kernels,
where rows and slots begin, heights, and the way rows and stacks run. Tiles beyond the wafer cost a
fee; the wire length is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import LongArray, RngState, below, rng_state, uniform
from placer.kernels.engines.floorplan import Floorplan, wire_length
from placer.kernels.engines.search import STEPS_PER_LOOK, Schedule
from placer.kernels.engines.shelves import (
    BESIDE,
    NEW_ROW,
    STACKED,
    Shelves,
    copy_arrays,
    empty_plan,
    floorplan_of,
    lay_out,
    row_end,
    row_start,
    shelves_of,
    slot_end,
    slot_width,
)
from placer.kernels.engines.strips import arrange, best_rows
from placer.kernels.sizing import Shapes

FEE = 8.0  # wire tiles per tile beyond the wafer
TRIES = 24  # orders that one climb looks at


class Ordered(NamedTuple):
    """An order with its rows: first what is too high, then the wire length, are to be small."""

    beyond: int  # tiles above the wafer
    wire_length: float
    shelves: Shelves


def judge_order(shapes: Shapes, order: LongArray, extra: int = 0) -> Ordered | None:
    """Return the best rows of an order at a target time; up to `extra` tiles above the wafer."""
    arranged = arrange(shapes.edges, order)
    rows, beyond = best_rows(shapes, arranged), 0
    if rows is None and extra > 0:
        rows = best_rows(shapes, arranged, extra=extra)
        beyond = 0 if rows is None else int(rows.heights.sum()) - shapes.height
    if rows is None:
        return None
    shelves = shelves_of(rows)
    length = wire_length(floorplan_of(shapes, shelves), shapes.edges)
    return Ordered(max(beyond, 0), length, shelves)


def change_order(order: LongArray, generator: np.random.Generator) -> LongArray:
    """Make one random change: a stretch moves, is turned round, or two kernels change places."""
    num = len(order)
    changed = order.copy()
    kind = generator.integers(4)
    first = int(generator.integers(num))
    if kind == 0:
        other = int(np.clip(first + generator.integers(-4, 5), 0, num - 1))
        changed[[first, other]] = changed[[other, first]]
    elif kind == 1:
        end = min(num, first + int(generator.integers(2, 7)))
        changed[first:end] = changed[first:end][::-1]
    else:
        size = int(generator.integers(1, 4))
        reach = 4 if kind == 2 else num
        stretch = changed[first : first + size]
        rest = np.delete(changed, np.arange(first, first + len(stretch)))
        target = int(np.clip(first + generator.integers(-reach, reach + 1), 0, len(rest)))
        changed = np.insert(rest, target, stretch)
    return changed


def improve_order(
    shapes: Shapes, start: LongArray, generator: np.random.Generator, is_over: Callable[[], bool], extra: int = 0
) -> Ordered | None:
    """Climb over orders, sideways steps included; None if it is cut off."""
    best = judge_order(shapes, start, extra)
    for _ in range(TRIES):
        if is_over():
            return None
        order = change_order(start if best is None else best.shelves.order, generator)
        found = judge_order(shapes, order, best.beyond if best and best.beyond else extra)
        if found is not None and (best is None or found[:2] <= best[:2]):
            best = found
    return best


def anneal_shelves(
    shapes: Shapes, start: Shelves, schedule: Schedule, seed: int, is_over: Callable[[], bool]
) -> Shelves | None:
    """Return the best legal state on the way from `start`, None if there is none or it is cut off.

    The steps of the schedule are rounded up to a multiple of `STEPS_PER_LOOK`.
    """
    state, kept, best = (Shelves(*np.array(start)) for _ in range(3))
    plan, rng = empty_plan(len(start.order)), rng_state(seed)
    lowest, (steps, hot, cold) = np.inf, schedule
    cooling = (cold / hot) ** (STEPS_PER_LOOK / steps)
    for _ in range(0, steps, STEPS_PER_LOOK):
        if is_over():
            return None
        lowest = _anneal(state, kept, best, shapes, plan, STEPS_PER_LOOK, hot, hot * cooling, rng, lowest)
        hot *= cooling
    return best if np.isfinite(lowest) else None


@njit(cache=True)
def _row_width(s: Shelves, shapes: Shapes, first: int, height: int) -> int:
    """Return the tiles that a row needs along x at a height; stops once it is too wide."""
    total, p, after = 0, first, row_end(s, first)
    while p < after and total <= shapes.width:
        end = slot_end(s, p)
        total += slot_width(shapes, s.order, p, end, height)
        p = end
    return total


@njit(cache=True)
def _refit(s: Shelves, shapes: Shapes, p: int) -> None:
    """Make the row of a kernel as low as it can be without being too wide."""
    first = row_start(s, p)
    low, high = 1, shapes.height
    while low < high:
        middle = (low + high) // 2
        if _row_width(s, shapes, first, middle) <= shapes.width:
            high = middle
        else:
            low = middle + 1
    s.height[first] = low


@njit(cache=True)
def _fill_up(s: Shelves, shapes: Shapes, rng: RngState) -> None:
    """Give the height that no row uses to one of them."""
    spare = shapes.height
    for p in range(len(s.order)):
        if s.begin[p] == NEW_ROW:
            spare -= s.height[p]
    if spare > 0:
        s.height[row_start(s, below(rng, len(s.order)))] += spare


@njit(cache=True)
def _move(s: Shelves, shapes: Shapes, rng: RngState) -> None:
    """Make one random change; rows that it touches are mostly fitted to their kernels again."""
    num = len(s.order)
    p, q = below(rng, num), below(rng, num)
    if below(rng, 2):
        q = min(max(p + below(rng, 9) - 4, 0), num - 1)
    change(s, p, q, shapes.height, rng)
    if below(rng, 4) > 0:
        _refit(s, shapes, p)
        if row_start(s, q) != row_start(s, p):
            _refit(s, shapes, q)
        if below(rng, 4) > 0:
            _fill_up(s, shapes, rng)


@njit(cache=True)
def change(s: Shelves, p: int, q: int, most_height: int, rng: RngState) -> None:
    """Make one random change around the places p and q of the order."""
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
        s.side[row_start(s, p)] = below(rng, 3)
    else:
        first = row_start(s, p)
        s.way[first] = 1 - s.way[first]


@njit(cache=True)
def _shift_row(s: Shelves, p: int, rng: RngState) -> None:
    first = row_start(s, p)
    if first == 0:
        first = row_end(s, p) % len(s.order)  # of the next row, 0 after the last
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
    first = row_start(s, p)
    if s.begin[p] == NEW_ROW:
        before = row_start(s, p - 1)
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
    """Make a row grow or shrink, often at the cost of another one."""
    first = row_start(s, p)
    reach = 4 if below(rng, 2) else 40
    step = below(rng, 2 * reach + 1) - reach
    s.height[first] = min(max(s.height[first] + step, 2), most_height)
    if below(rng, 3) > 0:
        other = row_start(s, below(rng, len(s.order)))
        if other != first:
            s.height[other] = min(max(s.height[other] - step, 2), most_height)


@njit(cache=True)
def _anneal(
    s: Shelves, kept: Shelves, best: Shelves, shapes: Shapes, plan: Floorplan, steps: int,
    hot: float, cold: float, rng: RngState, lowest: float,
) -> float:  # fmt: skip
    """`best` becomes the best legal state below `lowest`; returns its wire length or `lowest`."""
    current, temperature = np.inf, hot
    cooling = (cold / hot) ** (1.0 / max(steps, 1))
    for step in range(steps + 1):
        if step > 0:  # first the state as it is
            temperature *= cooling
            _move(s, shapes, rng)
        beyond = lay_out(s, shapes, plan)
        length = wire_length(plan, shapes.edges)
        value = length + FEE * beyond
        if value <= current or uniform(rng) < np.exp((current - value) / temperature):
            current = value
            copy_arrays(s, kept)
            if beyond == 0 and length < lowest:
                lowest = length
                copy_arrays(s, best)
        else:
            copy_arrays(kept, s)
    return lowest
