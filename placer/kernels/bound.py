"""A time that no mapping can beat: the smallest at which the kernels' areas fit the wafer."""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.kernels.shapes import NEVER, LongArray, ShapeTables, narrowest


@njit(cache=True)
def smallest_areas(
    fastest: LongArray, ticks: int, width: int, height: int, areas: LongArray
) -> None:
    """Smallest number of tiles of each kind of kernel at this time, NEVER if there is none."""
    widths = np.empty(fastest.shape[1], np.int64)
    for kind in range(len(fastest)):
        narrowest(fastest[kind], ticks, widths)
        areas[kind] = NEVER
        for tall in range(1, len(widths)):
            wide = widths[tall]
            is_upright = tall <= height and wide <= width
            if is_upright or (tall <= width and wide <= height):
                areas[kind] = min(areas[kind], tall * wide)


def total_area(tables: ShapeTables, ticks: int) -> int:
    """Tiles that all kernels need at least at this time."""
    areas = np.empty(len(tables.fastest), np.int64)
    smallest_areas(tables.fastest, ticks, tables.width, tables.height, areas)
    if areas.max() >= NEVER:
        return int(NEVER)
    return int(areas[tables.kind].sum())


def time_bound(tables: ShapeTables) -> int:
    """Lower bound on the slowest kernel's time, in ticks, by binary search over all times."""
    times = tables.times
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        if total_area(tables, int(times[middle])) <= tables.width * tables.height:
            high = middle
        else:
            low = middle + 1
    return int(times[low])
