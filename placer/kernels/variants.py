"""Non-dominated variants: nothing is as low, as narrow and as fast at once, and better in one.

J. L. Bentley, "Multidimensional divide-and-conquer", CACM 23 (1980): split by one coordinate, find
the minima of both halves, then drop from the upper half what the lower half dominates in the two
remaining coordinates, in one sweep. Compiled, from the leaves upwards like a merge sort.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.kernels.graph import Kernel, KernelGraph
from placer.kernels.shapes import NEVER, LongArray, variant_cells


def non_dominated(points: LongArray) -> NDArray[np.bool_]:
    """Which rows of `points` [num, 3] are minimal; of equal rows, the first."""
    order = np.lexsort((points[:, 2], points[:, 1], points[:, 0]))
    is_minimal = np.zeros(len(points), np.bool_)
    is_minimal[order[_minima(points[order], np.arange(len(points)))]] = True
    return is_minimal


@njit(cache=True)
def _minima(points: LongArray, rows: LongArray) -> LongArray:
    """Minima among rows that are in lexicographic order; they come by second coordinate."""
    if len(rows) <= 1:
        return rows
    low = _minima(points, rows[: len(rows) // 2])
    high = _minima(points, rows[len(rows) // 2 :])
    return _merge(points, low, high)


@njit(cache=True)
def _merge(points: LongArray, low: LongArray, high: LongArray) -> LongArray:
    """All of `low`, and of `high` what no row of `low` dominates; by second coordinate."""
    merged = np.empty(len(low) + len(high), np.int64)
    num, i = 0, 0
    best = points[low[0], 2]  # smallest third coordinate of the rows of `low` seen so far
    for row in high:
        while i < len(low) and points[low[i], 1] <= points[row, 1]:
            best = points[low[i], 2] if i == 0 else min(best, points[low[i], 2])
            merged[num] = low[i]
            num, i = num + 1, i + 1
        if i == 0 or points[row, 2] < best:
            merged[num] = row
            num += 1
    for row in low[i:]:
        merged[num] = row
        num += 1
    return merged[:num]


def find_variants(kernel: Kernel, graph: KernelGraph) -> LongArray:
    """All non-dominated (height, width, ticks) of a kernel, [num, 3], by height."""
    wafer = graph.wafer
    side = max(wafer.width, wafer.height)
    cells = variant_cells(kernel.convs, side, wafer.memory_limit, graph.time_scale)
    height, k = np.nonzero(cells < NEVER)
    points = np.stack((height, 3 * k, cells[height, k]), axis=1)
    return points[non_dominated(points)]
