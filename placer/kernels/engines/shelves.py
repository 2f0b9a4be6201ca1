"""Rows of slots: states, and the rectangles that they stand for.

A row holds slots side by side; a slot holds one kernel, or several stacked on each other. Widths
follow from the height of the row, so a state is only the order of kernels, where slots and rows
begin, heights, and which way rows and stacks run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import LongArray
from placer.kernels.engines.floorplan import Floorplan
from placer.kernels.engines.strips import Rows
from placer.kernels.sizing import Shapes

STACKED, BESIDE, NEW_ROW = 0, 1, 2  # how a kernel begins, after the one before it


class Shelves(NamedTuple):
    """A state; `height`, `side` and `way` count at the first kernel of a row."""

    order: LongArray  # [num] kernels
    begin: LongArray  # STACKED, BESIDE or NEW_ROW
    height: LongArray  # of the row that begins here
    side: LongArray  # 0: flush left, 1: flush right, 2: centred
    way: LongArray  # of a row, 0: to the right, 1: to the left
    up: LongArray  # of a slot that begins here, 0: stacked upwards, 1: downwards


def shelves_of(rows: Rows) -> Shelves:
    """Return a state with rows that run to and fro."""
    num = len(rows.order)
    shelves = Shelves(rows.order.copy(), *np.zeros((5, num), np.int64))
    shelves.begin[:] = np.where(rows.is_stacked, STACKED, BESIDE)
    for r, first in enumerate(rows.starts[:-1]):
        shelves.begin[first] = NEW_ROW
        shelves.height[first] = rows.heights[r]
        shelves.way[first] = r % 2
        shelves.side[first] = 1
    return shelves


@njit(cache=True)
def slot_width(shapes: Shapes, order: LongArray, first: int, end: int, height: int) -> int:
    """Return the least width at which stacked kernels fit a height, over the wafer's if none."""
    if end == first + 1:
        return int(shapes.widths[order[first], height])
    low, high = 1, shapes.width + 1
    while low < high:
        middle = (low + high) // 2
        total = 0
        for p in range(first, end):
            total += shapes.heights[order[p], middle] if middle <= shapes.width else 0
        if total <= height:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True)
def copy_arrays(source: Shelves | Floorplan, target: Shelves | Floorplan) -> None:
    """Copy all fields of a state or of a floorplan."""
    for i in range(len(source)):
        for p in range(len(source[i])):  # faster than slices of short arrays
            target[i][p] = source[i][p]


@njit(cache=True)
def row_start(s: Shelves, p: int) -> int:
    """Return the place of the first kernel of a row."""
    while s.begin[p] != NEW_ROW:
        p -= 1
    return p


@njit(cache=True)
def row_end(s: Shelves, p: int) -> int:
    """Return the place after the last kernel of a row."""
    p += 1
    while p < len(s.order) and s.begin[p] != NEW_ROW:
        p += 1
    return p


@njit(cache=True)
def slot_end(s: Shelves, p: int) -> int:
    """Return the place after the last kernel of a slot."""
    p += 1
    while p < len(s.order) and s.begin[p] == STACKED:
        p += 1
    return p


@njit(cache=True)
def lay_out(s: Shelves, shapes: Shapes, plan: Floorplan) -> int:
    """Size and place everything; returns the tiles beyond the wafer."""
    slots, height, p = np.zeros((2, len(s.order)), np.int64), 0, 0
    while p < len(s.order):
        height, end = s.height[p] if s.begin[p] == NEW_ROW else height, slot_end(s, p)
        slots[0, p] = min(slot_width(shapes, s.order, p, end, height), 2 * shapes.width)
        for q in range(p, end):
            kernel = s.order[q]
            tall = shapes.heights[kernel, min(slots[0, p], shapes.width)]
            plan.extent_x[kernel] = shapes.widths[kernel, min(tall, shapes.height)]
            plan.extent_y[kernel] = tall
            slots[1, p] += tall
        p = end
    return _place(s, plan, slots, shapes.width, shapes.height)[0]


@njit(cache=True)
def place_sized(s: Shelves, plan: Floorplan, width: int, height: int) -> tuple[int, int]:
    """Place kernels that have their extents; returns what `_place` does."""
    slots, p = np.zeros((2, len(s.order)), np.int64), 0
    for q in range(len(s.order)):
        p, kernel = p if s.begin[q] == STACKED else q, s.order[q]
        slots[0, p] = max(slots[0, p], plan.extent_x[kernel])
        slots[1, p] += plan.extent_y[kernel]
    return _place(s, plan, slots, width, height)


@njit(cache=True)
def _place(s: Shelves, plan: Floorplan, slots: LongArray, width: int, height: int) -> tuple[int, int]:
    """Give every kernel its place; `slots` [2, num]: widths and heights where slots begin, else 0.

    Returns the tiles beyond the wafer (rows too wide, all too high), and the place of the first
    kernel of the first row that is too wide, -1 if there is none.
    """
    beyond, floor, wide_row, first = 0, 0, -1, 0
    while first < len(s.order):
        total, tallest, after = slots[0, first], slots[1, first], first + 1
        while after < len(s.order) and s.begin[after] != NEW_ROW:
            total, tallest = total + slots[0, after], max(tallest, slots[1, after])
            after += 1
        slack = max(0, width - total)
        left = 0 if s.side[first] == 0 else (slack if s.side[first] == 1 else slack // 2)
        right, p = left + total, first
        while p < after:
            room, end = slots[0, p], slot_end(s, p)
            right -= room
            at = left if s.way[first] == 0 else right
            y = floor + (tallest - slots[1, p]) // 2
            for q in range(p, end):
                kernel = s.order[p + end - 1 - q] if s.up[p] == 1 else s.order[q]
                plan.x[kernel] = at + (room - plan.extent_x[kernel]) // 2
                plan.y[kernel] = y
                y += plan.extent_y[kernel]
            left, p = left + room, end
        if total > width:
            beyond += total - width
            wide_row = first if wide_row < 0 else wide_row
        floor, first = floor + tallest, after
    return beyond + max(0, floor - height), wide_row


def empty_plan(num: int) -> Floorplan:
    """Return a floorplan to be filled."""
    return Floorplan(*np.zeros((4, num), np.int64))


def floorplan_of(shapes: Shapes, shelves: Shelves) -> Floorplan:
    """Return the rectangles of a legal state."""
    plan = empty_plan(len(shelves.order))
    lay_out(shelves, shapes, plan)
    return plan


def is_on_wafer(shapes: Shapes, shelves: Shelves) -> bool:
    """Tell whether a state is legal at the target time of the shapes."""
    return bool(lay_out(shelves, shapes, empty_plan(len(shelves.order))) == 0)


def place_shelves(shelves: Shelves, extent_x: LongArray, extent_y: LongArray, width: int) -> Floorplan:
    """Return rectangles of given extents in rows that are as high as needed."""
    plan = empty_plan(len(shelves.order))._replace(extent_x=extent_x, extent_y=extent_y)
    place_sized(shelves, plan, width, 0)
    return plan
