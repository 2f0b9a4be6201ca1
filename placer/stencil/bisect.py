"""First places: volume and fabric are halved together until a block of the fabric holds a column.

Nodes are split at a quantile of one coordinate whenever the fabric rectangle is cut across; two
axes of the volume so become the two axes of the fabric. The third is folded: the nodes of a final
block, ordered by it, fill the block row by row, to and fro.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placer.hot import hot, hot_loop
from placer.stencil.problem import IntArray, LongArray
from placer.stencil.pyramid import FloatArray


class Layout(NamedTuple):
    """One way to lay the volume out."""

    across: int  # axis of the volume that becomes fabric x
    along: int  # axis that becomes fabric y
    folded: int  # axis that is folded inside blocks
    block_pes: int  # rectangles of at most this many PEs are blocks


def lay_out(position: FloatArray, fabric: tuple[int, int], layout: Layout) -> IntArray:
    """A place [nodes, 2] for every node, all different, by its position in the volume."""
    scale = np.maximum(np.ptp(position, axis=0), 1e-9)
    unit = (position - position.min(axis=0)) / scale
    # Ties along the cut axis are broken by the others, so that cuts through a layer stay straight.
    a, b, c = unit[:, layout.across], unit[:, layout.along], unit[:, layout.folded]
    keys = np.stack([a + 1e-5 * b + 1e-9 * c, b + 1e-5 * a + 1e-9 * c, c], axis=0)
    return spread(keys, fabric, layout.block_pes)


def spread(keys: FloatArray, fabric: tuple[int, int], block_pes: int) -> IntArray:
    """A place [nodes, 2] for every node, all different, in the order of `keys` [3, nodes].

    The first two keys become the axes of the fabric, the third is folded inside blocks.
    """
    order = np.arange(keys.shape[1], dtype=np.int32)
    places = np.zeros((keys.shape[1], 2), np.int32)
    bisect(keys, order, fabric[0], fabric[1], block_pes, np.zeros((128, 6), np.int64), places)
    return places


@hot_loop
def bisect(
    keys: FloatArray,
    order: IntArray,
    width: int,
    height: int,
    block_pes: int,
    stack: LongArray,
    places: IntArray,
) -> None:
    """Halve nodes and rectangle until blocks are small. `stack` rows: nodes, then rectangle."""
    stack[0, 0], stack[0, 1] = 0, order.shape[0]
    stack[0, 2], stack[0, 3], stack[0, 4], stack[0, 5] = 0, 0, width, height
    top = 0
    while top >= 0:
        first, last = stack[top, 0], stack[top, 1]
        x, y, w, h = stack[top, 2], stack[top, 3], stack[top, 4], stack[top, 5]
        top -= 1
        count = last - first
        if count == 0:
            continue
        if w * h <= block_pes or count == 1:
            _sort(keys[2], order, first, last)
            _fill_block(order, first, last, x, y, w, h, places)
            continue
        cuts_x = h == 1 or (w > 1 and w > h)
        size = w if cuts_x else h
        other = h if cuts_x else w
        half = size // 2
        low = (count * half + size // 2) // size
        low = max(count - (size - half) * other, min(low, half * other))
        select(keys[0] if cuts_x else keys[1], order, first, last - 1, first + low)
        for part in range(2):
            top += 1
            stack[top, 0] = first if part == 0 else first + low
            stack[top, 1] = first + low if part == 0 else last
            stack[top, 2] = x + (half if part and cuts_x else 0)
            stack[top, 3] = y + (half if part and not cuts_x else 0)
            cut = half if part == 0 else size - half
            stack[top, 4] = cut if cuts_x else w
            stack[top, 5] = h if cuts_x else cut


@hot
def _fill_block(
    order: IntArray, first: int, last: int, x: int, y: int, w: int, h: int, places: IntArray
) -> None:
    """Row by row, to and fro."""
    for k in range(last - first):
        row = k // w
        column = k - row * w
        places[order[first + k], 0] = x + (column if row % 2 == 0 else w - 1 - column)
        places[order[first + k], 1] = y + row


@hot_loop
def _sort(key: FloatArray, order: IntArray, first: int, last: int) -> None:
    """Insertion sort: blocks are small."""
    for k in range(first + 1, last):
        node = order[k]
        at = k
        while at > first and key[order[at - 1]] > key[node]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = node


@hot_loop
def select(key: FloatArray, order: IntArray, low: int, high: int, nth: int) -> None:
    """Reorder order[low .. high] so that what stands before `nth` is not above what follows."""
    while low < high:
        pivot = key[order[(low + high) // 2]]
        i, j = low, high
        while i <= j:
            while key[order[i]] < pivot:
                i += 1
            while key[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if nth <= j:
            high = j
        elif nth >= i:
            low = i
        else:
            return
