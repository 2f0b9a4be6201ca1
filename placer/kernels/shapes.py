"""Which rectangles a kernel can have at which time: one table per kernel, compiled.

`fastest[height, k]` is the smallest time of a legal kernel of at most `height` tiles and at most
`3 k` tiles across, in ticks (time * KernelGraph.time_scale). It holds everything that sizing needs:
for a target time, a row of it gives the smallest width by binary search.

Equal c in all convolutions of a block (up to their C) loses nothing in height, width, time and
memory: a larger c in a convolution below the highest one costs no height.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.errors import InputError
from placer.kernels.graph import Conv, Kernel, KernelGraph

LongArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

NEVER = np.int64(1 << 60)  # ticks of what cannot be
LARGEST_SIDE = 1 << 13  # of grids that are suggested


def conv_array(convs: tuple[Conv, ...]) -> LongArray:
    """[num_convs, 7]: H, W, R S, C, K, T^2 and (H + R - 1)(W + S - 1)."""
    rows = [
        (
            conv.height,
            conv.width,
            conv.window_height * conv.window_width,
            conv.channels_in,
            conv.channels_out,
            conv.stride**2,
            (conv.height + conv.window_height - 1) * (conv.width + conv.window_width - 1),
        )
        for conv in convs
    ]
    return np.array(rows, np.int64)


@njit(cache=True)
def ticks_per_pass(conv: LongArray, h: int, w: int, c: int, scale: int) -> int:
    """Time, in ticks, for one of the ceil(K / k) passes."""
    steps = -(-conv[0] // h) * -(-conv[1] // w) * -(-conv[3] // c)
    return int(steps * conv[2] * scale // conv[5])


@njit(cache=True)
def fewest_channels(conv: LongArray, h: int, w: int, c: int, memory_limit: int) -> int:
    """Smallest k that memory allows: K (C R S h w + image c) <= limit c k h w."""
    need = conv[4] * (conv[3] * conv[2] * h * w + conv[6] * c)
    room = memory_limit * c * h * w
    return int(-(-need // room))


@njit(cache=True)
def _fill(convs: LongArray, side: int, memory_limit: int, scale: int, cells: LongArray) -> None:
    """Every legal (h, w, c): walk from the fewest channels k to ever faster ones."""
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


@njit(cache=True)
def _accumulate(cells: LongArray) -> None:
    """Smallest of all cells that are no higher and no wider."""
    for height in range(cells.shape[0]):
        for k in range(cells.shape[1]):
            best = cells[height, k]
            if height > 0:
                best = min(best, cells[height - 1, k])
            if k > 0:
                best = min(best, cells[height, k - 1])
            cells[height, k] = best


def variant_cells(convs: tuple[Conv, ...], side: int, limit: int, scale: int) -> LongArray:
    """[height, k] -> ticks of the fastest legal kernel of exactly that height and width 3 k."""
    cells = np.full((side + 1, side // 3 + 1), NEVER, np.int64)
    _fill(conv_array(convs), side, limit, scale, cells)
    return cells


@lru_cache(maxsize=64)
def _fastest(convs: tuple[Conv, ...], side: int, limit: int, scale: int) -> LongArray:
    """[height, k] -> ticks of the fastest legal kernel within that height and width 3 k."""
    cells = variant_cells(convs, side, limit, scale)
    _accumulate(cells)
    return cells


class ShapeTables:
    """Tables of all kernels of a graph; equal kernels share one.

    Kernels that do not fit the wafer have no shape at any time; `require_fit` refuses them.
    """

    def __init__(self, graph: KernelGraph) -> None:
        kinds = list(dict.fromkeys(kernel.convs for kernel in graph.kernels))
        self.kind = np.array([kinds.index(kernel.convs) for kernel in graph.kernels], np.int64)
        self.first = [int(np.argmax(self.kind == i)) for i in range(len(kinds))]
        self.graph = graph
        wafer = graph.wafer
        self.width, self.height = wafer.width, wafer.height
        side, scale = max(wafer.width, wafer.height), graph.time_scale
        for first in self.first:
            _require_countable(graph.kernels[first], side, scale)
        tables = [_fastest(convs, side, wafer.memory_limit, scale) for convs in kinds]
        self.fastest = np.stack(tables)  # [num_kinds, height, k]

    @cached_property
    def times(self) -> LongArray:
        """All ticks at which some kernel gains a shape, ascending."""
        times = np.unique(self.fastest)
        return times[times < NEVER]

    def require_fit(self) -> None:
        """Raise InputError for a kernel that does not fit the wafer even alone."""
        for kind, first in enumerate(self.first):
            if not _fits(self.fastest[kind], self.width, self.height):
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


def _fits(table: LongArray, width: int, height: int) -> bool:
    upright = table[min(height, len(table) - 1), width // 3] < NEVER
    rotated = table[min(width, len(table) - 1), height // 3] < NEVER
    return bool(upright or rotated)


@njit(cache=True)
def _has_kernel(convs: LongArray, side: int, memory_limit: int) -> bool:
    """Whether any legal kernel fits a square grid."""
    for h in range(1, min(convs[0, 0], side // 2) + 1):
        for w in range(1, min(convs[0, 1], side // (2 * h)) + 1):
            for c in range(1, min(int(np.max(convs[:, 3])), side // (h * w) - 1) + 1):
                total, is_legal = 0, True
                for i in range(len(convs)):
                    k = fewest_channels(convs[i], h, w, min(c, convs[i, 3]), memory_limit)
                    is_legal = is_legal and k <= convs[i, 4]
                    total += k
                if is_legal and 3 * total <= side:
                    return True
    return False


def _why_it_does_not_fit(graph: KernelGraph, kernel: Kernel) -> str:
    """Which kernel is too large, and how large a square grid would have to be for it."""
    wafer, convs = graph.wafer, conv_array(kernel.convs)
    low, high = 1, LARGEST_SIDE
    if not _has_kernel(convs, high, wafer.memory_limit):
        return (
            f"kernel {kernel.name} exceeds the memory limit {wafer.memory_limit} per tile however "
            f"it is unrolled, on grids up to {high} x {high}; raise memlimit"
        )
    while low < high:
        middle = (low + high) // 2
        if _has_kernel(convs, middle, wafer.memory_limit):
            high = middle
        else:
            low = middle + 1
    return (
        f"kernel {kernel.name} does not fit the grid of {wafer.width} x {wafer.height} tiles with "
        f"{wafer.memory_limit} memory per tile; the smallest square grid that would do for it is "
        f"{low} x {low}"
    )


@njit(cache=True)
def narrowest(table: LongArray, ticks: int, out: LongArray) -> None:
    """out[height] = smallest width for at most this height and time, NEVER if there is none."""
    k = table.shape[1] - 1
    out[0] = NEVER
    for height in range(1, len(out)):
        row = table[min(height, len(table) - 1)]
        if row[k] > ticks:
            out[height] = NEVER
            continue
        while k > 0 and row[k - 1] <= ticks:
            k -= 1
        out[height] = 3 * k
