"""A mapping in rows of slots, and the places that its kernels get, compiled."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from placer.kernels.mapping_table import X, Y, extents_of
from placer.kernels.shapes import LongArray
from placer.kernels.shelf_search import copy_shelves
from placer.kernels.shelves import NEW_ROW, STACKED, Shelves


class State(NamedTuple):
    """A mapping with the rows that it stands in; heights of rows are those of their kernels."""

    shelves: Shelves
    table: LongArray  # see mapping_table.py


@njit(cache=True)
def copy_state(source: State, target: State) -> None:
    copy_shelves(source.shelves, target.shelves)
    target.table[:, :] = source.table


@njit(cache=True)
def _slot(s: Shelves, table: LongArray, first: int) -> tuple[int, int, int]:
    """End of the slot that begins at `first`, its width and its height."""
    end, widest, total = first, 0, 0
    while end < len(s.order) and (end == first or s.begin[end] == STACKED):
        wide, tall = extents_of(table[s.order[end]])
        widest, total, end = max(widest, wide), total + tall, end + 1
    return end, widest, total


@njit(cache=True)
def _place_row(
    s: Shelves, table: LongArray, first: int, floor: int, width: int
) -> tuple[int, int, int]:
    """Place a row on its floor; returns its end, its width and its height."""
    total, tallest, end = 0, 0, first
    while end < len(s.order) and (end == first or s.begin[end] != NEW_ROW):
        end, widest, tall = _slot(s, table, end)
        total, tallest = total + widest, max(tallest, tall)
    slack = max(0, width - total)
    left = 0 if s.side[first] == 0 else (slack if s.side[first] == 1 else slack // 2)
    right, p = left + total, first
    while p < end:
        after, widest, tall = _slot(s, table, p)
        right -= widest
        at = left if s.way[first] == 0 else right
        left += widest
        y = floor + (tallest - tall) // 2
        for q in range(p, after):
            kernel = s.order[p + after - 1 - q] if s.up[p] == 1 else s.order[q]
            wide, high = extents_of(table[kernel])
            table[kernel, X], table[kernel, Y] = at + (widest - wide) // 2, y
            y += high
        p = after
    return end, total, tallest


@njit(cache=True)
def place(state: State, width: int, height: int) -> tuple[int, int]:
    """Give every kernel its place; returns tiles beyond the wafer, and the first row too wide.

    The row is the place of its first kernel; -1: all rows are narrow enough.
    """
    s, table = state
    floor, beyond, wide_row, p = 0, 0, -1, 0
    while p < len(s.order):
        end, total, tallest = _place_row(s, table, p, floor, width)
        if total > width:
            beyond += total - width
            wide_row = p if wide_row < 0 else wide_row
        floor += tallest
        p = end
    return beyond + max(0, floor - height), wide_row


@njit(cache=True)
def row_of(s: Shelves, p: int) -> tuple[int, int]:
    """First place and end of the row that place p of the order lies in."""
    first, end = p, p + 1
    while s.begin[first] != NEW_ROW:
        first -= 1
    while end < len(s.order) and s.begin[end] != NEW_ROW:
        end += 1
    return first, end
