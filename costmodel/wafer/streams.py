"""How the streams of a mapping lie, compiled: the rims that they take, and the tiles between.

The rules are those of placer/kernels/truth/streams.py (tested against it).
"""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from placer.base import LongArray
from placer.kernels.model import ROTATED, C, H, W, X, Y, extents_of


class Stream(NamedTuple):
    """From one kernel to another, in parallel lanes along an axis (0: x, 1: y)."""

    axis: int
    lanes: int
    out_tile: int  # of the rim that it leaves by, along the axis
    in_tile: int  # of the rim that it enters by
    out_start: int  # of its stretch of the rim, across the axis
    in_start: int


@njit(cache=True)
def span(table: LongArray, kernel: int, axis: int) -> tuple[int, int]:
    """Return the first tile and the end of a kernel along an axis."""
    wide, tall = extents_of(table[kernel])
    first = table[kernel, Y] if axis else table[kernel, X]
    return first, first + (tall if axis else wide)


@njit(cache=True)
def _facing_axis(table: LongArray, u: int, v: int) -> int:
    """Return the axis of the larger gap; of equal gaps, of the longer facing rims."""
    gap_x, gap_y, rim_x, rim_y = 0, 0, 0, 0
    for axis in range(2):
        (first, last), (low, high) = span(table, u, axis), span(table, v, axis)
        gap = max(low - last, first - high)
        rim = min(last - first, high - low)
        if axis == 0:
            gap_x, rim_y = gap, rim  # rims that face along y have this length
        else:
            gap_y, rim_x = gap, rim
    return 1 if gap_y > gap_x or (gap_y == gap_x and rim_y > rim_x) else 0


@njit(cache=True)
def stream_of(table: LongArray, u: int, v: int) -> Stream:
    """Return the stream from u to v: as wide as the shorter rim, straight if it can be."""
    axis = _facing_axis(table, u, v)
    (first, last), (low, high) = span(table, u, 1 - axis), span(table, v, 1 - axis)
    lanes = min(last - first, high - low)
    if last - first == lanes:
        out_start, in_start = first, min(max(first, low), high - lanes)
    else:
        out_start, in_start = min(max(low, first), last - lanes), low
    (start, end), (begin, stop) = span(table, u, axis), span(table, v, axis)
    if end <= begin:
        return Stream(axis, lanes, end - 1, begin, out_start, in_start)
    return Stream(axis, lanes, start, stop - 1, out_start, in_start)


@njit(cache=True)
def spread_share(table: LongArray, kernel: int, axis: int, start: int, lanes: int) -> float:
    """Return the share of a tensor that crosses one link beside the stretch."""
    (first, last), (begin, end) = span(table, kernel, 1 - axis), span(table, kernel, axis)
    return max(start - first, last - start - lanes) / (last - first) / (end - begin)


@njit(cache=True)
def count_adapters(table: LongArray, u: int, v: int, num_convs: int) -> int:
    """Count the adapters of the contest; `num_convs` are those of the source."""
    differs = int(table[u, H] != table[v, H]) + int(table[u, W] != table[v, W])
    return differs + int(table[u, C + num_convs - 1] != table[v, C])


@njit(cache=True)
def is_across(table: LongArray, kernel: int, axis: int) -> bool:
    """Tell whether a stream along an axis meets the rows of a kernel at their side."""
    return bool(table[kernel, ROTATED] == 0) != (axis == 0)


@njit(cache=True)
def rim_hops(table: LongArray, kernel: int, axis: int, lanes: int) -> int:
    """Count tiles between the stretch and the rows of a kernel (truth_streams.rim_hops)."""
    first, last = span(table, kernel, 1 - axis)
    hops = last - first - lanes
    if is_across(table, kernel, axis):
        begin, end = span(table, kernel, axis)
        hops += end - begin
    return hops
