"""Rows of slots: a search over order, row breaks, row heights, stacks and directions, compiled.

A row holds slots side by side; a slot holds one kernel, or several stacked on each other. Widths
follow from the height of the row, so a state is only the order of kernels, where slots and rows
begin, heights, and which way rows and stacks run. Simulated annealing at a fixed target time, with
a fee for tiles beyond the wafer; the wire length is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from placer.kernels.floorplan import Floorplan
from placer.kernels.problem import Problem, Shapes
from placer.kernels.shapes import LongArray
from placer.kernels.strips import Rows

STACKED, BESIDE, NEW_ROW = 0, 1, 2  # how a kernel begins, after the one before it
FEE = 8.0  # wire tiles per tile beyond the wafer


class Shelves(NamedTuple):
    """A state; `height`, `side` and `way` count at the first kernel of a row."""

    order: LongArray  # [num] kernels
    begin: LongArray  # STACKED, BESIDE or NEW_ROW
    height: LongArray  # of the row that begins here
    side: LongArray  # 0: flush left, 1: flush right, 2: centred
    way: LongArray  # of a row, 0: to the right, 1: to the left
    up: LongArray  # of a slot that begins here, 0: stacked upwards, 1: downwards


class _Tables(NamedTuple):
    widths: LongArray  # [kernel, height] -> least extent along x
    heights: LongArray  # [kernel, width] -> least extent along y
    edges: LongArray
    width: int
    height: int


class _Boxes(NamedTuple):
    x: LongArray
    y: LongArray
    extent_x: LongArray
    extent_y: LongArray


@dataclass(frozen=True, slots=True)
class Annealed:
    """The best legal state of a search, and its wire length; None if there was none."""

    shelves: Shelves | None
    wire_length: float


def shelves_of(rows: Rows) -> Shelves:
    """Rows to and fro, one kernel per slot."""
    num = len(rows.order)
    shelves = Shelves(rows.order.copy(), *(np.zeros(num, np.int64) for _ in range(5)))
    shelves.begin[:] = np.where(rows.is_stacked, STACKED, BESIDE)
    for r, first in enumerate(rows.starts[:-1]):
        shelves.begin[first] = NEW_ROW
        shelves.height[first] = rows.heights[r]
        shelves.way[first] = r % 2
        shelves.side[first] = 1
    return shelves


def rows_of(shelves: Shelves) -> Rows:
    """The rows of a state."""
    starts = np.flatnonzero(shelves.begin == NEW_ROW)
    heights = shelves.height[starts]
    is_stacked = shelves.begin == STACKED
    return Rows(
        shelves.order.copy(), np.append(starts, len(shelves.order)), heights, is_stacked, 0.0
    )


@njit(cache=True)
def _slot_width(tables: _Tables, order: LongArray, first: int, end: int, height: int) -> int:
    """Least width at which the kernels of a slot fit on each other, more than `width` if none."""
    if end == first + 1:
        return int(tables.widths[order[first], height])
    low, high = 1, tables.width + 1
    while low < high:
        middle = (low + high) // 2
        total = 0
        for p in range(first, end):
            total += tables.heights[order[p], middle] if middle <= tables.width else 0
        if total <= height:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True)
def _lay_slot(
    s: Shelves, tables: _Tables, boxes: _Boxes, first: int, end: int, width: int, left: int
) -> int:
    """Extents and places of a slot's kernels from floor 0; returns its height."""
    total = 0
    for q in range(first, end):
        kernel = s.order[end - 1 - (q - first)] if s.up[first] == 1 else s.order[q]
        tall = tables.heights[kernel, min(width, tables.width)]
        wide = tables.widths[kernel, min(tall, tables.height)]
        boxes.extent_x[kernel], boxes.extent_y[kernel] = wide, tall
        boxes.x[kernel] = left + (width - wide) // 2
        boxes.y[kernel] = total
        total += tall
    return total


@njit(cache=True)
def lay_out(s: Shelves, tables: _Tables, boxes: _Boxes) -> int:
    """Place everything; returns the tiles beyond the wafer (rows too wide, all too high)."""
    num = len(s.order)
    beyond, floor, p = 0, 0, 0
    while p < num:
        height = s.height[p]
        total, q = 0, p
        while q < num and (q == p or s.begin[q] != NEW_ROW):
            end = q + 1
            while end < num and s.begin[end] == STACKED:
                end += 1
            total += min(_slot_width(tables, s.order, q, end, height), 2 * tables.width)
            q = end
        beyond += max(0, total - tables.width)
        slack = max(0, tables.width - total)
        left = 0 if s.side[p] == 0 else (slack if s.side[p] == 1 else slack // 2)
        tallest, q = 0, p
        while q < num and (q == p or s.begin[q] != NEW_ROW):
            end = q + 1
            while end < num and s.begin[end] == STACKED:
                end += 1
            width = min(_slot_width(tables, s.order, q, end, height), 2 * tables.width)
            at = left if s.way[p] == 0 else left + total - width
            if s.way[p] == 0:
                left += width
            else:
                total -= width
            tallest = max(tallest, _lay_slot(s, tables, boxes, q, end, width, at))
            q = end
        _centre_row(s, boxes, p, q, floor, tallest)
        floor += tallest
        p = q
    return beyond + max(0, floor - tables.height)


@njit(cache=True)
def _centre_row(s: Shelves, boxes: _Boxes, first: int, end: int, floor: int, tallest: int) -> None:
    """Lift the slots of a row to its floor, centred."""
    p = first
    while p < end:
        q = p + 1
        total = boxes.extent_y[s.order[p]]
        while q < end and s.begin[q] == STACKED:
            total += boxes.extent_y[s.order[q]]
            q += 1
        lift = floor + (tallest - total) // 2
        for k in range(p, q):
            boxes.y[s.order[k]] += lift
        p = q


@njit(cache=True)
def _cost(s: Shelves, tables: _Tables, boxes: _Boxes) -> tuple[float, int]:
    beyond = lay_out(s, tables, boxes)
    total = 0
    for e in range(len(tables.edges)):
        u, v = tables.edges[e, 0], tables.edges[e, 1]
        total += abs(2 * (boxes.x[u] - boxes.x[v]) + boxes.extent_x[u] - boxes.extent_x[v])
        total += abs(2 * (boxes.y[u] - boxes.y[v]) + boxes.extent_y[u] - boxes.extent_y[v])
    return total / 2, beyond


@njit(cache=True)
def _copy(source: Shelves, target: Shelves) -> None:
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
def _row_width(s: Shelves, tables: _Tables, first: int, height: int) -> int:
    """Tiles that a row needs along x at a height; stops once it is too wide."""
    total, p, num = 0, first, len(s.order)
    while p < num and (p == first or s.begin[p] != NEW_ROW) and total <= tables.width:
        end = p + 1
        while end < num and s.begin[end] == STACKED:
            end += 1
        total += _slot_width(tables, s.order, p, end, height)
        p = end
    return total


@njit(cache=True)
def _refit(s: Shelves, tables: _Tables, p: int) -> None:
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
def _fill_up(s: Shelves, tables: _Tables) -> None:
    """The height that no row uses goes to one of them."""
    spare = tables.height
    for p in range(len(s.order)):
        if s.begin[p] == NEW_ROW:
            spare -= s.height[p]
    if spare > 0:
        s.height[_row_start(s, np.random.randint(len(s.order)))] += spare


@njit(cache=True)
def _move(s: Shelves, tables: _Tables) -> None:
    """One random change; rows that it touches are mostly fitted to their kernels again."""
    num = len(s.order)
    p, q = np.random.randint(num), np.random.randint(num)
    if np.random.randint(2):
        q = min(max(p + np.random.randint(-4, 5), 0), num - 1)
    _change(s, p, q, tables.height)
    if np.random.randint(4) > 0:
        _refit(s, tables, p)
        if _row_start(s, q) != _row_start(s, p):
            _refit(s, tables, q)
        if np.random.randint(4) > 0:
            _fill_up(s, tables)


@njit(cache=True)
def _change(s: Shelves, p: int, q: int, most_height: int) -> None:
    num = len(s.order)
    kind = np.random.randint(100)
    if kind < 22:  # a kernel goes elsewhere in the order
        kernel, step, at = s.order[p], 1 if q > p else -1, p
        while at != q:
            s.order[at] = s.order[at + step]
            at += step
        s.order[q] = kernel
    elif kind < 34:  # two kernels change places
        s.order[p], s.order[q] = s.order[q], s.order[p]
    elif kind < 40:  # a stretch is turned round
        low, high = p, min(num - 1, p + np.random.randint(1, 8))
        while low < high:
            s.order[low], s.order[high] = s.order[high], s.order[low]
            low, high = low + 1, high - 1
    elif kind < 52:  # a row begins one kernel earlier or later
        _shift_row(s, p)
    elif kind < 62:  # a slot opens or closes
        if s.begin[p] != NEW_ROW:
            s.begin[p] = STACKED if s.begin[p] == BESIDE else BESIDE
    elif kind < 68:
        _split_or_join(s, p, most_height)
    elif kind < 90:
        _change_heights(s, p, most_height)
    elif kind < 94:
        s.up[p] = 1 - s.up[p]
    elif kind < 97:
        s.side[_row_start(s, p)] = np.random.randint(3)
    else:
        first = _row_start(s, p)
        s.way[first] = 1 - s.way[first]


@njit(cache=True)
def _shift_row(s: Shelves, p: int) -> None:
    first = _row_start(s, p)
    if first == 0:
        first = _next_row(s, p)
    target = first + (1 if np.random.randint(2) else -1)
    if first == 0 or target <= 0 or target >= len(s.order) or s.begin[target] == NEW_ROW:
        return
    s.begin[target], s.height[target] = NEW_ROW, s.height[first]
    s.side[target], s.way[target] = s.side[first], s.way[first]
    s.begin[first] = BESIDE


@njit(cache=True)
def _split_or_join(s: Shelves, p: int, most_height: int) -> None:
    if p == 0:
        return
    first = _row_start(s, p)
    if s.begin[p] == NEW_ROW:
        before = _row_start(s, p - 1)
        s.begin[p] = BESIDE
        if np.random.randint(2):
            s.height[before] = min(most_height, s.height[before] + s.height[p])
        else:
            s.height[before] = max(s.height[before], s.height[p])
    elif s.height[first] >= 4:
        share = np.random.randint(1, s.height[first])
        s.begin[p], s.height[p] = NEW_ROW, s.height[first] - share
        s.height[first] = share
        s.way[p], s.side[p] = 1 - s.way[first], s.side[first]


@njit(cache=True)
def _change_heights(s: Shelves, p: int, most_height: int) -> None:
    """A row grows or shrinks, often at the cost of another one."""
    first = _row_start(s, p)
    reach = 4 if np.random.randint(2) else 40
    step = np.random.randint(-reach, reach + 1)
    s.height[first] = min(max(s.height[first] + step, 2), most_height)
    if np.random.randint(3) > 0:
        other = _row_start(s, np.random.randint(len(s.order)))
        if other != first:
            s.height[other] = min(max(s.height[other] - step, 2), most_height)


@njit(cache=True)
def _anneal(
    s: Shelves, kept: Shelves, best: Shelves, tables: _Tables, boxes: _Boxes, steps: int,
    hot: float, cold: float, seed: int,
) -> float:  # fmt: skip
    """`best` becomes the best legal state that was seen; returns its wire length or inf."""
    np.random.seed(seed)
    length, beyond = _cost(s, tables, boxes)
    current = length + FEE * beyond
    lowest = length if beyond == 0 else np.inf
    _copy(s, best)
    _copy(s, kept)
    cooling = (cold / hot) ** (1.0 / max(steps, 1))
    temperature = hot
    for _ in range(steps):
        temperature *= cooling
        _move(s, tables)
        length, beyond = _cost(s, tables, boxes)
        value = length + FEE * beyond
        if value <= current or np.random.random() < np.exp((current - value) / temperature):
            current = value
            _copy(s, kept)
            if beyond == 0 and length < lowest:
                lowest = length
                _copy(s, best)
        else:
            _copy(kept, s)
    return lowest


def _tables_of(problem: Problem, shapes: Shapes) -> _Tables:
    wafer = problem.graph.wafer
    return _Tables(shapes.widths, shapes.heights, problem.edges, wafer.width, wafer.height)


def _empty(num: int) -> tuple[LongArray, ...]:
    return tuple(np.zeros(num, np.int64) for _ in range(6))


def anneal_shelves(
    problem: Problem, shapes: Shapes, start: Shelves, steps: int, hot: float, cold: float, seed: int
) -> Annealed:
    """Search from `start`; `hot` and `cold` are temperatures in tiles of wire."""
    num = problem.num
    state = Shelves(*(array.copy() for array in start))
    kept, best = Shelves(*_empty(num)), Shelves(*_empty(num))
    boxes = _Boxes(*_empty(num)[:4])
    length = _anneal(
        state, kept, best, _tables_of(problem, shapes), boxes, steps, hot, cold, seed
    )
    return Annealed(best if np.isfinite(length) else None, float(length))


def floorplan_of(problem: Problem, shapes: Shapes, shelves: Shelves) -> Floorplan:
    """The rectangles of a legal state."""
    boxes = _Boxes(*_empty(problem.num)[:4])
    lay_out(shelves, _tables_of(problem, shapes), boxes)
    return Floorplan(boxes.x, boxes.y, boxes.extent_x, boxes.extent_y)


def place_shelves(
    shelves: Shelves, extent_x: LongArray, extent_y: LongArray, width: int
) -> Floorplan:
    """Rectangles of given extents in the rows and slots of a state; rows are as high as needed."""
    x, y = np.zeros_like(extent_x), np.zeros_like(extent_x)
    starts = np.append(np.flatnonzero(shelves.begin == NEW_ROW), len(shelves.order))
    floor = 0
    for first, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        is_slot = shelves.begin[first:end] != STACKED
        bounds = np.append(np.flatnonzero(is_slot) + first, end).tolist()
        slots = [
            (shelves.order[p:q] if shelves.up[p] == 0 else shelves.order[p:q][::-1])
            for p, q in zip(bounds[:-1], bounds[1:], strict=True)
        ]
        if shelves.way[first] == 1:
            slots.reverse()
        widths = [int(extent_x[slot].max()) for slot in slots]
        slack = max(0, width - sum(widths))
        left = (0, slack, slack // 2)[shelves.side[first]]
        tallest = max(int(extent_y[slot].sum()) for slot in slots)
        for slot, wide in zip(slots, widths, strict=True):
            x[slot] = left + (wide - extent_x[slot]) // 2
            ends = np.cumsum(extent_y[slot])
            y[slot] = floor + (tallest - ends[-1]) // 2 + ends - extent_y[slot]
            left += wide
        floor += tallest
    return Floorplan(x, y, extent_x, extent_y)
