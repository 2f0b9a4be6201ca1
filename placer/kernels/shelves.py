"""Rows of slots: states, and the rectangles that they stand for.

A row holds slots side by side; a slot holds one kernel, or several stacked on each other. Widths
follow from the height of the row, so a state is only the order of kernels, where slots and rows
begin, heights, and which way rows and stacks run.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit

from placer.kernels.floorplan import Floorplan, wire_length
from placer.kernels.problem import Problem, Shapes
from placer.kernels.shapes import LongArray
from placer.kernels.strips import Rows

STACKED, BESIDE, NEW_ROW = 0, 1, 2  # how a kernel begins, after the one before it


class Shelves(NamedTuple):
    """A state; `height`, `side` and `way` count at the first kernel of a row."""

    order: LongArray  # [num] kernels
    begin: LongArray  # STACKED, BESIDE or NEW_ROW
    height: LongArray  # of the row that begins here
    side: LongArray  # 0: flush left, 1: flush right, 2: centred
    way: LongArray  # of a row, 0: to the right, 1: to the left
    up: LongArray  # of a slot that begins here, 0: stacked upwards, 1: downwards


class Tables(NamedTuple):
    """Shapes at the target time, edges and the wafer."""

    widths: LongArray  # [kernel, height] -> least extent along x
    heights: LongArray  # [kernel, width] -> least extent along y
    edges: LongArray
    width: int
    height: int


class Boxes(NamedTuple):
    """Lower left corners and extents of all kernels."""

    x: LongArray
    y: LongArray
    extent_x: LongArray
    extent_y: LongArray


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


@njit(cache=True)
def slot_width(tables: Tables, order: LongArray, first: int, end: int, height: int) -> int:
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
    s: Shelves, tables: Tables, boxes: Boxes, first: int, end: int, width: int, left: int
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
def lay_out(s: Shelves, tables: Tables, boxes: Boxes) -> int:
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
            total += min(slot_width(tables, s.order, q, end, height), 2 * tables.width)
            q = end
        beyond += max(0, total - tables.width)
        slack = max(0, tables.width - total)
        left = 0 if s.side[p] == 0 else (slack if s.side[p] == 1 else slack // 2)
        tallest, q = 0, p
        while q < num and (q == p or s.begin[q] != NEW_ROW):
            end = q + 1
            while end < num and s.begin[end] == STACKED:
                end += 1
            width = min(slot_width(tables, s.order, q, end, height), 2 * tables.width)
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
def _centre_row(s: Shelves, boxes: Boxes, first: int, end: int, floor: int, tallest: int) -> None:
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
def cost_of(s: Shelves, tables: Tables, boxes: Boxes) -> tuple[float, int]:
    """Wire length, and tiles beyond the wafer."""
    beyond = lay_out(s, tables, boxes)
    length = wire_length(boxes.x, boxes.y, boxes.extent_x, boxes.extent_y, tables.edges)
    return length, beyond


def tables_of(problem: Problem, shapes: Shapes) -> Tables:
    """What laying out needs to know."""
    return Tables(shapes.widths, shapes.heights, problem.edges, shapes.width, shapes.height)


def empty_arrays(num: int) -> tuple[LongArray, ...]:
    """Six arrays, for a state or boxes."""
    return tuple(np.zeros(num, np.int64) for _ in range(6))


def floorplan_of(problem: Problem, shapes: Shapes, shelves: Shelves) -> Floorplan:
    """The rectangles of a legal state."""
    boxes = Boxes(*empty_arrays(problem.num)[:4])
    lay_out(shelves, tables_of(problem, shapes), boxes)
    return Floorplan(boxes.x, boxes.y, boxes.extent_x, boxes.extent_y)


def is_on_wafer(problem: Problem, shapes: Shapes, shelves: Shelves) -> bool:
    """Whether a state is legal at the target time of the shapes."""
    boxes = Boxes(*empty_arrays(problem.num)[:4])
    return bool(lay_out(shelves, tables_of(problem, shapes), boxes) == 0)


def place_shelves(
    shelves: Shelves, extent_x: LongArray, extent_y: LongArray, width: int
) -> Floorplan:
    """Rectangles of given extents in the rows and slots of a state; rows are as high as needed."""
    x, y = np.zeros_like(extent_x), np.zeros_like(extent_x)
    starts = np.append(np.flatnonzero(shelves.begin == NEW_ROW), len(shelves.order))
    floor = 0
    for first, end in pairwise(starts.tolist()):
        is_slot = shelves.begin[first:end] != STACKED
        bounds = np.append(np.flatnonzero(is_slot) + first, end).tolist()
        slots = [
            (shelves.order[p:q] if shelves.up[p] == 0 else shelves.order[p:q][::-1])
            for p, q in pairwise(bounds)
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
