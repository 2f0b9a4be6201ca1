"""Mappings as tables of whole numbers, for what changes and reads thousands of them a second.

A table has one row per kernel: `table[kernel, X]` and so on. Convolutions that a kernel has not
have c = k = 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placer.kernels.graph import KernelGraph
from placer.kernels.layout import Execution, Layout, Placed
from placer.kernels.shapes import LongArray, conv_array

MAX_CONVS = 4  # of a kernel
X, Y, ROTATED, H, W = range(5)
C, K = 5, 5 + MAX_CONVS  # first of MAX_CONVS columns each
NUM_COLUMNS = 5 + 2 * MAX_CONVS


class Loops(NamedTuple):
    """The loops of all kernels."""

    convs: LongArray  # [num_kernels, MAX_CONVS, 7] rows of `conv_array`
    num_convs: LongArray  # [num_kernels]


def loops_of(graph: KernelGraph) -> Loops:
    """Convolutions that a kernel has not are rows of 0."""
    convs = np.zeros((len(graph.kernels), MAX_CONVS, 7), np.int64)
    for i, kernel in enumerate(graph.kernels):
        convs[i, : len(kernel.convs)] = conv_array(kernel.convs)
    return Loops(convs, np.array([len(kernel.convs) for kernel in graph.kernels], np.int64))


def table_of(layout: Layout) -> LongArray:
    """[num_kernels, NUM_COLUMNS]"""
    table = np.zeros((len(layout.kernels), NUM_COLUMNS), np.int64)
    for row, placed in zip(table, layout.kernels, strict=True):
        execution = placed.execution
        num = len(execution.channels_in)
        row[:C] = (
            placed.x, placed.y, placed.is_rotated, execution.image_height, execution.image_width,
        )  # fmt: skip
        row[C : C + num], row[K : K + num] = execution.channels_in, execution.channels_out
    return table


def layout_of(table: LongArray) -> Layout:
    """What `table_of` made a table of."""
    kernels = []
    for x, y, is_rotated, h, w, *channels in table.tolist():
        num = sum(c > 0 for c in channels[:MAX_CONVS])
        ins, outs = channels[:num], channels[MAX_CONVS : MAX_CONVS + num]
        kernels.append(Placed(Execution(h, w, tuple(ins), tuple(outs)), x, y, bool(is_rotated)))
    return Layout(tuple(kernels))


@njit(cache=True)
def extents_of(row: LongArray) -> tuple[int, int]:
    """Tiles along x and y of a kernel: 3 k by h w (c + 1) upright, the other way round if R90."""
    highest, across = 0, 0
    for i in range(MAX_CONVS):
        highest = max(highest, row[C + i])
        across += 3 * row[K + i]
    along = row[H] * row[W] * (highest + 1)
    return (along, across) if row[ROTATED] else (across, along)
