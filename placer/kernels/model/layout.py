"""What a mapping is: execution arguments, position and rotation of every kernel.

For what changes and reads thousands of them a second, mappings are tables of whole numbers with one
row per kernel: `table[kernel, X]` and so on. Convolutions that a kernel has not have c = k = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from placer.base import LongArray


@dataclass(frozen=True, slots=True)
class Execution:
    """How the loops of a kernel are unrolled over tiles."""

    image_height: int  # h, shared by all convolutions of the kernel
    image_width: int  # w
    channels_in: tuple[int, ...]  # c of each convolution
    channels_out: tuple[int, ...]  # k of each convolution


@dataclass(frozen=True, slots=True)
class Placed:
    """A kernel on the wafer; (x, y) is its lower left tile."""

    execution: Execution
    x: int
    y: int
    is_rotated: bool  # R90: height and width change places


KernelLayout = tuple[Placed, ...]  # one for every kernel of a graph, in the graph's order

MAX_CONVS = 4  # of a kernel
X, Y, ROTATED, H, W = range(5)
C, K = 5, 5 + MAX_CONVS  # first of MAX_CONVS columns each
NUM_COLUMNS = 5 + 2 * MAX_CONVS


def table_of(layout: KernelLayout) -> LongArray:
    """Return a layout as a table [num_kernels, NUM_COLUMNS]."""
    table = np.zeros((len(layout), NUM_COLUMNS), np.int64)
    for row, placed in zip(table, layout, strict=True):
        execution = placed.execution
        num = len(execution.channels_in)
        row[X], row[Y], row[ROTATED] = placed.x, placed.y, placed.is_rotated
        row[H], row[W] = execution.image_height, execution.image_width
        row[C : C + num], row[K : K + num] = execution.channels_in, execution.channels_out
    return table


def layout_of(table: LongArray) -> KernelLayout:
    """Return what `table_of` made a table of."""
    kernels = []
    for x, y, is_rotated, h, w, *channels in table.tolist():
        num = sum(c > 0 for c in channels[:MAX_CONVS])
        ins, outs = channels[:num], channels[MAX_CONVS : MAX_CONVS + num]
        kernels.append(Placed(Execution(h, w, tuple(ins), tuple(outs)), x, y, bool(is_rotated)))
    return tuple(kernels)


@njit(cache=True)
def extents_of(row: LongArray) -> tuple[int, int]:
    """Return the tiles along x and y: 3 k by h w (c + 1) upright, the other way round if R90."""
    highest, across = 0, 0
    for i in range(MAX_CONVS):
        highest = max(highest, row[C + i])
        across += 3 * row[K + i]
    along = row[H] * row[W] * (highest + 1)
    return (along, across) if row[ROTATED] else (across, along)
