"""A graph as arrays, for the engines: which rectangles a kernel can have at which time, compiled.

`fastest[height, k]` is the smallest time of a legal kernel of at most `height` tiles and at most
`3 k` tiles across, in ticks (time * KernelGraph.time_scale). It holds everything that sizing needs:
for a target time, a row of it gives the smallest width by binary search.

Equal c in all convolutions of a block (up to their C) loses nothing in height, width, time and
memory: a larger c in a convolution below the highest one costs no height.
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import InputError, LongArray
from placer.kernels.model import MAX_CONVS, Conv, Kernel, KernelGraph, breadth_first_order, depth_first_order

NEVER = np.int64(1 << 60)  # ticks of what cannot be
FAR = np.int64(1 << 30)  # tiles: wider than any wafer
LARGEST_SIDE = 1 << 13  # of grids that are suggested


def conv_array(convs: tuple[Conv, ...]) -> LongArray:
    """Return [num_convs, 7]: H, W, R S, C, K, T^2 and (H + R - 1)(W + S - 1)."""
    rows = []
    for conv in convs:
        window = conv.window_height * conv.window_width
        image = (conv.height + conv.window_height - 1) * (conv.width + conv.window_width - 1)
        channels = conv.channels_in, conv.channels_out
        rows.append((conv.height, conv.width, window, *channels, conv.stride**2, image))
    return np.array(rows, np.int64)


class Loops(NamedTuple):
    """The loops of all kernels."""

    convs: LongArray  # [num_kernels, MAX_CONVS, 7] rows of `conv_array`
    num_convs: LongArray  # [num_kernels]


def loops_of(graph: KernelGraph) -> Loops:
    """Return the loops of a graph; convolutions that a kernel has not are rows of 0."""
    convs = np.zeros((len(graph.kernels), MAX_CONVS, 7), np.int64)
    for i, kernel in enumerate(graph.kernels):
        convs[i, : len(kernel.convs)] = conv_array(kernel.convs)
    return Loops(convs, np.array([len(kernel.convs) for kernel in graph.kernels], np.int64))


@njit(cache=True)
def ticks_per_pass(conv: LongArray, h: int, w: int, c: int, scale: int) -> int:
    """Return the time, in ticks, for one of the ceil(K / k) passes."""
    steps = -(-conv[0] // h) * -(-conv[1] // w) * -(-conv[3] // c)
    return int(steps * conv[2] * scale // conv[5])


@njit(cache=True)
def fewest_channels(conv: LongArray, h: int, w: int, c: int, memory_limit: int) -> int:
    """Return the smallest k that memory allows: K (C R S h w + image c) <= limit c k h w."""
    need = conv[4] * (conv[3] * conv[2] * h * w + conv[6] * c)
    room = memory_limit * c * h * w
    return int(-(-need // room))


@njit(cache=True)
def _fill(convs: LongArray, side: int, memory_limit: int, scale: int, cells: LongArray) -> None:
    """For every legal (h, w, c), walk from the fewest channels k to ever faster ones."""
    num = len(convs)
    most_c = int(np.max(convs[:, 3]))
    k, passes, ticks = np.empty(num, np.int64), np.empty(num, np.int64), np.empty(num, np.int64)
    for h in range(1, min(convs[0, 0], side // 2) + 1):
        for w in range(1, min(convs[0, 1], side // (2 * h)) + 1):
            for c in range(1, min(most_c, side // (h * w) - 1) + 1):
                is_legal = True
                for i in range(num):
                    own = min(c, convs[i, 3])
                    k[i] = fewest_channels(convs[i], h, w, own, memory_limit)
                    is_legal = is_legal and k[i] <= convs[i, 4]
                    passes[i] = -(-convs[i, 4] // max(k[i], 1))
                    ticks[i] = ticks_per_pass(convs[i], h, w, own, scale)
                height = h * w * (c + 1)
                while is_legal:
                    total, slowest = 0, 0
                    for i in range(num):
                        total += k[i]
                        slowest = max(slowest, ticks[i] * passes[i])
                    if 3 * total > side:
                        break
                    cells[height, total] = min(cells[height, total], slowest)
                    for i in range(num):
                        if ticks[i] * passes[i] == slowest:
                            is_legal = is_legal and passes[i] > 1
                            k[i] = -(-convs[i, 4] // max(passes[i] - 1, 1))
                            passes[i] = -(-convs[i, 4] // k[i])


@lru_cache(maxsize=64)
def _fastest(convs: tuple[Conv, ...], side: int, limit: int, scale: int) -> LongArray:
    """Return [height, k] -> ticks of the fastest legal kernel within that height and width 3 k."""
    cells = np.full((side + 1, side // 3 + 1), NEVER, np.int64)
    _fill(conv_array(convs), side, limit, scale, cells)
    fastest: LongArray = np.minimum.accumulate(np.minimum.accumulate(cells), axis=1)
    return fastest


def find_variants(kernel: Kernel, graph: KernelGraph) -> LongArray:
    """Return all non-dominated (height, width, ticks) of a kernel, [num, 3], by height.

    Nothing is as low, as narrow and as fast at once, and better in one: a cell of the table is
    such a variant if it is faster than the fastest of all lower and of all narrower cells.
    """
    wafer = graph.wafer
    side = max(wafer.width, wafer.height)
    fastest = _fastest(kernel.convs, side, wafer.memory_limit, graph.time_scale)
    padded = np.pad(fastest, ((1, 0), (1, 0)), constant_values=NEVER)
    height, k = np.nonzero(fastest < np.minimum(padded[:-1, 1:], padded[1:, :-1]))
    return np.stack((height, 3 * k, fastest[height, k]), axis=1)


class ShapeTables:
    """Tables of all kernels of a graph; equal kernels share one.

    Kernels that do not fit the wafer have no shape at any time; `require_fit` refuses them.
    """

    def __init__(self, graph: KernelGraph) -> None:
        kinds = list(dict.fromkeys(kernel.convs for kernel in graph.kernels))
        self.kind = np.array([kinds.index(kernel.convs) for kernel in graph.kernels], np.int64)
        self.first = [int(np.argmax(self.kind == i)) for i in range(len(kinds))]
        self.graph, wafer = graph, graph.wafer
        self.edges = np.array(graph.edges, np.int64).reshape(-1, 2)
        self.width, self.height = wafer.width, wafer.height
        side, scale = max(wafer.width, wafer.height), graph.time_scale
        for first in self.first:
            _require_countable(graph.kernels[first], side, scale)
        tables = [_fastest(convs, side, wafer.memory_limit, scale) for convs in kinds]
        self.fastest = np.stack(tables)  # [num_kinds, height, k]

    @cached_property
    def times(self) -> LongArray:
        """Return all ticks at which some kernel gains a shape, ascending."""
        times = np.unique(self.fastest)
        return times[times < NEVER]

    def require_fit(self) -> None:
        """Raise InputError for a kernel that does not fit the wafer even alone."""
        width, height = self.width, self.height
        for table, first in zip(self.fastest, self.first, strict=True):
            if min(table[height, width // 3], table[width, height // 3]) == NEVER:
                raise InputError(_why_it_does_not_fit(self.graph, self.graph.kernels[first]))


def _require_countable(kernel: Kernel, side: int, scale: int) -> None:
    """Raise InputError when times or memory of a kernel leave the range of compiled integers."""
    for conv in kernel.convs:
        window = conv.window_height * conv.window_width
        image = (conv.height + conv.window_height) * (conv.width + conv.window_width)
        steps = conv.height * conv.width * conv.channels_in * conv.channels_out
        memory = conv.channels_out * (conv.channels_in * window + image) * side
        if max(steps * window * scale, memory) >= NEVER:
            raise InputError(
                f"kernel {kernel.name} is too large to be counted: its time without unrolling is "
                f"{steps * window / conv.stride**2:.3g}, in units of 1/{scale}; use smaller sizes"
            )


@njit(cache=True)
def _smallest_side(convs: LongArray, most: int, memory_limit: int) -> int:
    """Return the side of the smallest square that holds a legal kernel, `most` + 1 if none does."""
    smallest = most + 1
    for h in range(1, min(convs[0, 0], most // 2) + 1):
        for w in range(1, min(convs[0, 1], most // (2 * h)) + 1):
            for c in range(1, min(int(np.max(convs[:, 3])), most // (h * w) - 1) + 1):
                total, is_legal = 0, True
                for i in range(len(convs)):
                    k = fewest_channels(convs[i], h, w, min(c, convs[i, 3]), memory_limit)
                    is_legal = is_legal and k <= convs[i, 4]
                    total += k
                if is_legal:
                    smallest = min(smallest, max(h * w * (c + 1), 3 * total))
    return smallest


def _why_it_does_not_fit(graph: KernelGraph, kernel: Kernel) -> str:
    """Say which kernel is too large, and how large a square grid would have to be for it."""
    wafer, most = graph.wafer, LARGEST_SIDE
    side = _smallest_side(conv_array(kernel.convs), most, wafer.memory_limit)
    if side > most:
        return (
            f"kernel {kernel.name} exceeds the memory limit {wafer.memory_limit} per tile however "
            f"it is unrolled, on grids up to {most} x {most}; raise memlimit"
        )
    return (
        f"kernel {kernel.name} does not fit the grid of {wafer.width} x {wafer.height} tiles with "
        f"{wafer.memory_limit} memory per tile; the smallest square grid that would do for it is "
        f"{side} x {side}"
    )


@njit(cache=True)
def narrowest(table: LongArray, ticks: int, out: LongArray) -> None:
    """Set out[height] = smallest width for at most this height and time, NEVER if there is none."""
    k = table.shape[1] - 1
    out[0] = NEVER
    for height in range(1, len(out)):
        row = table[height]
        if row[k] > ticks:
            out[height] = NEVER
            continue
        while k > 0 and row[k - 1] <= ticks:
            k -= 1
        out[height] = 3 * k


class Target(NamedTuple):
    """What the unrolling of a kernel has to keep."""

    ticks: int  # time at most
    limit: int  # memory per tile
    scale: int  # ticks per unit of time


@njit(cache=True)
def least_channels(conv: LongArray, h: int, w: int, c: int, target: Target) -> int:
    """Return the smallest k for the time and the memory limit, 0 if there is none."""
    passes = target.ticks // ticks_per_pass(conv, h, w, c, target.scale)
    if passes < 1:
        return 0
    k = max(-(-conv[4] // passes), fewest_channels(conv, h, w, c, target.limit))
    return int(k) if k <= conv[4] else 0


class Shapes(NamedTuple):
    """Least extents of all kernels at a target time, with the edges and the size of the wafer."""

    widths: LongArray  # [kernel, height] -> least extent along x
    heights: LongArray  # [kernel, width] -> least extent along y
    areas: LongArray  # [kernel] smallest number of tiles, NEVER if there is no shape
    edges: LongArray  # [num_edges, 2]
    width: int
    height: int


class Problem:
    """What an engine knows about the graph that it maps.

    Raises InputError for a kernel that does not fit the wafer even alone.
    """

    def __init__(self, graph: KernelGraph, slowest: Fraction | None = None) -> None:
        """Engines look at no longer times than `slowest`, None: at any."""
        self.graph, self.slowest = graph, slowest
        self.tables = ShapeTables(graph)
        self.tables.require_fit()
        self.num, self.edges = len(graph.kernels), self.tables.edges
        self.depth_first = np.array(depth_first_order(self.num, graph.edges))
        self.breadth_first = np.array(breadth_first_order(self.num, graph.edges))
        times, room = self.tables.times, self.tables.width * self.tables.height
        first = bisect_left(times[:-1], True, key=lambda t: total_area(self.tables, t) <= room)
        self.bound = int(times[first])  # ticks; no mapping is faster, as areas exceed the wafer
        self.least_time = Fraction(self.bound, graph.time_scale)  # the same in the unit of time
        self.times = times[times >= self.bound]  # ticks, ascending
        if slowest is not None:
            self.times = self.times[self.times <= int(slowest * graph.time_scale)]

    def score(self, ticks: int, wire_length: float) -> float:
        """Return the score, adapters left out, of a layout whose slowest kernel takes `ticks`."""
        wafer = self.graph.wafer
        return wafer.time_weight * ticks / self.graph.time_scale + wafer.wire_weight * wire_length

    def shapes_at(self, ticks: int) -> Shapes:
        """Return the smallest extents of all kernels at a target time."""
        return shapes_at(self.tables, ticks)


def shapes_at(tables: ShapeTables, ticks: int) -> Shapes:
    """Return the smallest extents of all kernels at a target time."""
    width, height, kind = tables.width, tables.height, tables.kind
    widths = np.empty((len(tables.fastest), height + 1), np.int64)
    heights = np.empty((len(tables.fastest), width + 1), np.int64)
    _extents(tables.fastest, ticks, width, height, widths)
    _extents(tables.fastest, ticks, height, width, heights)
    areas = _smallest_areas(tables.fastest, ticks, width, height)
    return Shapes(widths[kind], heights[kind], areas[kind], tables.edges, width, height)


def total_area(tables: ShapeTables, ticks: int) -> int:
    """Return the tiles that all kernels need at least at this time, NEVER if one has no shape."""
    areas = _smallest_areas(tables.fastest, ticks, tables.width, tables.height)
    return int(NEVER if areas.max() >= NEVER else areas[tables.kind].sum())


@njit(cache=True)
def _smallest_areas(fastest: LongArray, ticks: int, width: int, height: int) -> LongArray:
    """Return [kind] -> smallest number of tiles of a kernel at this time, NEVER if none."""
    areas = np.full(len(fastest), NEVER)
    widths = np.empty(fastest.shape[1], np.int64)
    for kind in range(len(fastest)):
        narrowest(fastest[kind], ticks, widths)
        for tall in range(1, len(widths)):
            wide = widths[tall]
            is_upright = tall <= height and wide <= width
            if is_upright or (tall <= width and wide <= height):
                areas[kind] = min(areas[kind], tall * wide)
    return areas


@njit(cache=True)
def _extents(fastest: LongArray, ticks: int, width: int, height: int, out: LongArray) -> None:
    """Set out[kind, y] = least extent along x, upright or rotated, FAR if more than `width`."""
    side = fastest.shape[1] - 1
    upright = np.empty(side + 1, np.int64)
    for kind in range(len(fastest)):
        table = fastest[kind]
        narrowest(table, ticks, upright)
        tall = side  # height of a rotated kernel lies along x
        for y in range(height + 1):
            k = y // 3
            best = upright[y]
            if table[tall, k] <= ticks:
                while tall > 0 and table[tall - 1, k] <= ticks:
                    tall -= 1
                best = min(best, tall)
            out[kind, y] = best if best <= width and best < NEVER else FAR
