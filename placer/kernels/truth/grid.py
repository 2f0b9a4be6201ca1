"""The coarse wafer: cells of many tiles, links of many lanes, and the streams' routes over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import FloatArray, LongArray
from placer.kernels.model import Wafer
from placer.kernels.truth.streams import KernelShape, Stream

KERNEL_COLOURS = 2  # that a kernel takes on its own links: inputs and outputs, or sums both ways
# A link has the number (direction, column, row) of the cell that it leaves, with the directions
# right, left, up, down: 2 axis + (0 forward, 1 backward).


@dataclass(frozen=True, slots=True)
class Coarse:
    """Equal cells over a wafer."""

    num: tuple[int, int]  # along x, along y
    pitch: tuple[float, float]  # tiles of a cell along x and y

    @property
    def num_links(self) -> int:
        return 4 * self.num[0] * self.num[1]

    @property
    def lanes(self) -> FloatArray:
        """Return, per link, the tiles side by side along the boundary that a link crosses."""
        return np.repeat(np.array(self.pitch)[[1, 1, 0, 0]], self.num_links // 4)


def coarse_grid(wafer: Wafer, cells: int) -> Coarse:
    """Lay `cells` along the longer side of the wafer, cells as square as they can be."""
    pitch = max(wafer.width, wafer.height, cells) / cells
    num = (max(1, round(wafer.width / pitch)), max(1, round(wafer.height / pitch)))
    return Coarse(num, (wafer.width / num[0], wafer.height / num[1]))


class Routes(NamedTuple):
    """Every stream in parts of equal width, each with the links that it takes."""

    part_start: LongArray  # [num_streams + 1] into `link_start`
    link_start: LongArray  # [num_parts + 1] into `links`
    links: LongArray


def stream_of_links(routes: Routes) -> LongArray:
    """Return the stream of each entry of `links`."""
    stream_of_part = np.repeat(np.arange(len(routes.part_start) - 1), np.diff(routes.part_start))
    return np.repeat(stream_of_part, np.diff(routes.link_start))


def make_routes(grid: Coarse, streams: Sequence[Stream]) -> Routes:
    """Make as many parts as lanes need cells; they go along the axis first, then across it."""
    table = np.array(
        [(s.axis, s.lanes, s.out_tile, s.in_tile, s.out_start, s.in_start) for s in streams], np.int64
    ).reshape(-1, 6)
    across = np.array(grid.pitch)[1 - table[:, 0]]
    num_parts = np.ceil(table[:, 1] / across - 1e-9).astype(np.int64)
    part_start = np.concatenate(([0], np.cumsum(num_parts)))
    link_start, links = _walk(table, part_start, np.array(grid.num), np.array(grid.pitch))
    return Routes(part_start, link_start, links)


@njit(cache=True)
def _walk(table: LongArray, part_start: LongArray, num: LongArray, pitch: FloatArray) -> tuple[LongArray, LongArray]:
    link_start = np.zeros(part_start[-1] + 1, np.int64)
    links = np.empty(part_start[-1] * num.sum(), np.int64)
    used = 0
    here, goal = np.empty(2, np.int64), np.empty(2, np.int64)
    for stream in range(len(table)):
        axis, lanes, out_tile, in_tile, out_start, in_start = table[stream]
        first, last = part_start[stream], part_start[stream + 1]
        for part in range(first, last):
            middle = (part - first + 0.5) * lanes / (last - first)
            here[axis], goal[axis] = (out_tile + 0.5) / pitch[axis], (in_tile + 0.5) / pitch[axis]
            across = 1 - axis
            here[across] = (out_start + middle) / pitch[across]
            goal[across] = (in_start + middle) / pitch[across]
            for way in (axis, across):
                step = 1 if goal[way] > here[way] else -1
                while here[way] != goal[way]:
                    direction = 2 * way + (0 if step > 0 else 1)
                    links[used] = (direction * num[0] + here[0]) * num[1] + here[1]
                    used += 1
                    here[way] += step
            link_start[part + 1] = used
    return link_start, links[:used].copy()


def link_shares(grid: Coarse, shapes: Sequence[KernelShape], slowest: float) -> tuple[FloatArray, FloatArray]:
    """Return, per link, the shares of it that kernels under it use, and that they cover.

    A kernel moves its wavelets once per sample, a sample takes `slowest` cycles at least.
    """
    used, covered = np.zeros((4, *grid.num)), np.zeros((4, *grid.num))
    for shape in shapes:
        for axis in (0, 1):
            first, last = shape.span(axis)
            boundary = np.arange(1, grid.num[axis] + 1) * grid.pitch[axis]  # behind each cell
            is_inside = (first < boundary) & (boundary < last)
            beside = _overlap(grid, shape, 1 - axis)
            share = np.outer(is_inside, beside) if axis == 0 else np.outer(beside, is_inside)
            along_rows = shape.has_rows_along_x == (axis == 0)
            load = shape.row_load if along_rows else shape.column_load
            # A boundary is crossed from the cell before it, and from the cell behind it.
            for direction, shift in ((2 * axis, 0), (2 * axis + 1, 1)):
                moved = np.roll(share, shift, axis)
                covered[direction] += moved
                used[direction] += moved * min(1.0, load / slowest)
    return used.ravel(), covered.ravel()


def _overlap(grid: Coarse, shape: KernelShape, axis: int) -> FloatArray:
    """Return the share of each cell of an axis that the kernel covers."""
    low = np.arange(grid.num[axis]) * grid.pitch[axis]
    first, last = shape.span(axis)
    tiles = np.minimum(low + grid.pitch[axis], last) - np.maximum(low, first)
    share: FloatArray = np.maximum(tiles, 0) / grid.pitch[axis]
    return share


def link_capacity(grid: Coarse, used: FloatArray, colours: int) -> FloatArray:
    """Return, per link, the wavelets per cycle that are left for streams.

    Colours take turns on a link, so a stream never gets less than one turn of all colours.
    """
    left: FloatArray = grid.lanes * np.maximum(1 - used, 1 / colours)
    return left


def colour_shares(
    grid: Coarse, routes: Routes, streams: Sequence[Stream], covered: FloatArray, colours: int
) -> FloatArray:
    """Return the share of its lanes that each stream keeps: every lane takes a colour per link."""
    free = grid.lanes * (colours - KERNEL_COLOURS * covered)
    parts = np.diff(routes.part_start)
    per_part = np.array([stream.lanes for stream in streams]) / parts
    stream = stream_of_links(routes)
    wanted = np.bincount(routes.links, per_part[stream], grid.num_links)
    share = np.minimum(1, free / np.maximum(wanted, 1e-9))
    kept = np.ones(len(streams))
    np.minimum.at(kept, stream, share[routes.links])
    return kept
