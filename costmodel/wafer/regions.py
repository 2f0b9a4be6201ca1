"""Routes of streams between *regions*, which stand for some 80 x 80 tiles each, compiled.

A lane is a rim of a kernel that streams leave by (the first lane of each of their routes), or a
link from one region to the next. A stream that is wider than a region takes several parallel paths.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from costmodel.wafer.streams import Stream, span
from placer.base import IntArray, LongArray, hot
from placer.kernels.model import ROTATED

REGIONS = 8  # along the longer side of the wafer
LOW_SHARE, HIGH_SHARE = 0.1, 0.4  # of a link that kernels use: limits between kinds of lanes


class Regions(NamedTuple):
    """How a wafer is divided."""

    columns: int
    rows: int
    pitch_x: float  # tiles of a region along x
    pitch_y: float


class Routes(NamedTuple):
    """Room for the routes of one mapping; the first `counts` columns count."""

    visits: IntArray  # [3, most] flow, lane, lane before
    lanes: IntArray  # [2, most] kind, link
    counts: LongArray  # [2] visits, lanes


@njit(cache=True)
def regions_of(width: int, height: int) -> Regions:
    """Return the regions of a wafer."""
    pitch = max(width, height, REGIONS) / REGIONS
    columns, rows = max(1, round(width / pitch)), max(1, round(height / pitch))
    return Regions(columns, rows, width / columns, height / rows)


def room_for_routes(width: int, height: int, num_kernels: int, num_edges: int) -> Routes:
    """Return as much room as any mapping to a wafer may need."""
    num_visits, num_lanes = _most(width, height, num_kernels, num_edges)
    return Routes(np.zeros((3, num_visits), np.int32), np.zeros((2, num_lanes), np.int32), np.zeros(2, np.int64))


@njit(cache=True)
def _most(width: int, height: int, num_kernels: int, num_edges: int) -> tuple[int, int]:
    """Count visits and lanes; compiled code returns no named tuples to Python."""
    regions = regions_of(width, height)
    columns, rows = regions.columns, regions.rows
    most_visits = num_edges * (1 + max(columns, rows) * (columns + rows))
    return most_visits, 4 * num_kernels + 4 * columns * rows


@njit(cache=True)
def link_kinds(regions: Regions, table: LongArray, loads: NDArray[np.float64], slowest: float) -> IntArray:
    """Return the kind of every link between regions: by the share that kernels below it use.

    `loads` [num_kernels, 2]: what a kernel moves along its rows and across them, in cycles.
    """
    columns, rows, pitch_x, pitch_y = regions
    used = np.zeros((2, columns, rows))
    for kernel in range(len(table)):
        (left, right), (low, high) = span(table, kernel, 0), span(table, kernel, 1)
        is_turned = table[kernel, ROTATED]
        for i in range(int(left / pitch_x), min(columns, int(right / pitch_x) + 1)):
            wide = min(right, (i + 1) * pitch_x) - max(left, i * pitch_x)
            for j in range(int(low / pitch_y), min(rows, int(high / pitch_y) + 1)):
                tall = min(high, (j + 1) * pitch_y) - max(low, j * pitch_y)
                share = max(0.0, wide) * max(0.0, tall) / (pitch_x * pitch_y)
                used[0, i, j] += share * min(1.0, loads[kernel, is_turned] / slowest)
                used[1, i, j] += share * min(1.0, loads[kernel, 1 - is_turned] / slowest)
    kinds = np.zeros(4 * columns * rows, np.int32)
    for direction in range(4):
        for i in range(columns):
            for j in range(rows):
                share = used[direction // 2, i, j]
                kind = 1 + int(share > LOW_SHARE) + int(share > HIGH_SHARE)
                kinds[(direction * columns + i) * rows + j] = kind
    return kinds


@njit(cache=True)
def count_paths(regions: Regions, stream: Stream) -> tuple[int, float]:
    """Count parallel paths of a stream, and tiles of a region across its axis."""
    pitch = regions.pitch_y if stream.axis == 0 else regions.pitch_x
    return math.ceil(stream.lanes / pitch - 1e-9), pitch


@hot
def add_route(
    e: int, source: int, stream: Stream, regions: Regions, kinds: IntArray, lane_of: IntArray,
    routes: Routes,
) -> None:  # fmt: skip
    """Visit the rim, then region after region: along the axis, then across it, path by path.

    `lane_of`: number of the lane of each link, then of each rim; -1: not visited yet.
    """
    columns, rows, pitch_x, pitch_y = regions
    axis, lanes, out_tile, in_tile, out_start, in_start = stream
    side = 4 * source + 2 * axis + (1 if out_tile < in_tile else 0)
    rim = _visit(e, len(kinds) + side, 0, -1, lane_of, routes)
    num_paths = count_paths(regions, stream)[0]
    for path in range(num_paths):
        middle = (path + 0.5) * lanes / num_paths
        if axis == 0:
            x, goal_x = (out_tile + 0.5) / pitch_x, (in_tile + 0.5) / pitch_x
            y, goal_y = (out_start + middle) / pitch_y, (in_start + middle) / pitch_y
        else:
            x, goal_x = (out_start + middle) / pitch_x, (in_start + middle) / pitch_x
            y, goal_y = (out_tile + 0.5) / pitch_y, (in_tile + 0.5) / pitch_y
        i, j, goal_i, goal_j = int(x), int(y), int(goal_x), int(goal_y)
        before = rim
        for leg in range(2):
            is_x = (axis == 0) == (leg == 0)
            while (i != goal_i) if is_x else (j != goal_j):
                forward = goal_i > i if is_x else goal_j > j
                direction = (0 if is_x else 2) + (0 if forward else 1)
                link = (direction * columns + i) * rows + j
                before = _visit(e, link, kinds[link], before, lane_of, routes)
                step = 1 if forward else -1
                if is_x:
                    i += step
                else:
                    j += step


@hot
def _visit(e: int, key: int, kind: int, before: int, lane_of: IntArray, routes: Routes) -> int:
    """Note that a stream takes a lane; returns the number of the lane."""
    visits, lanes, counts = routes
    if lane_of[key] < 0:
        lane_of[key] = counts[1]
        lanes[0, counts[1]], lanes[1, counts[1]] = kind, counts[1]
        counts[1] += 1
    visits[0, counts[0]], visits[1, counts[0]], visits[2, counts[0]] = e, lane_of[key], before
    counts[0] += 1
    return int(lane_of[key])
