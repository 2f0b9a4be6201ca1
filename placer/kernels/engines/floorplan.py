"""Rectangles on the wafer: wire length, and the best alignment.

For given extents and given neighbours, the shortest wires are a linear programme for each axis: the
distance of centres of extents of different parity is never below 1/2, and with that every corner
of the programme is whole-numbered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.optimize import linprog
from scipy.sparse import coo_array

from placer.base import BoolArray, LongArray


class Floorplan(NamedTuple):
    """Positions (lower left) and extents of all kernels, in tiles."""

    x: LongArray
    y: LongArray
    extent_x: LongArray
    extent_y: LongArray


@njit(cache=True)
def wire_length(plan: Floorplan, edges: LongArray) -> float:
    """Return the sum over edges of the Manhattan distance of centres."""
    x, y, extent_x, extent_y = plan
    total = 0
    for e in range(len(edges)):
        u, v = edges[e, 0], edges[e, 1]
        total += abs(2 * (x[u] - x[v]) + extent_x[u] - extent_x[v])
        total += abs(2 * (y[u] - y[v]) + extent_y[u] - extent_y[v])
    return total / 2


def _share(place: LongArray, extent: LongArray) -> BoolArray:
    """Return, for all pairs, whether stretches of an axis have a tile in common."""
    end = place + extent
    common: BoolArray = (place[:, None] < end) & (place < end[:, None])
    return common


def is_legal(plan: Floorplan, width: int, height: int) -> bool:
    """Tell whether all rectangles lie on the wafer and none overlap."""
    x, y, extent_x, extent_y = plan
    is_inside = min(x.min(), y.min()) >= 0 and (x + extent_x).max() <= width
    overlaps = (_share(x, extent_x) & _share(y, extent_y)).sum() > len(x)  # more than with itself
    return bool(is_inside and (y + extent_y).max() <= height and not overlaps)


def _neighbours(place: LongArray, extent: LongArray, across: LongArray, extent_across: LongArray) -> LongArray:
    """Return pairs (i before j) that keep their order along an axis, without those that follow."""
    before = _share(across, extent_across) & ((place + extent)[:, None] <= place)
    follows = before.astype(np.float32) @ before > 0  # there is one between them
    return np.argwhere(before & ~follows)


def _best_places(place: LongArray, extent: LongArray, pairs: LongArray, edges: LongArray, size: int) -> LongArray:
    """Return whole-numbered places along one axis of least wire length."""
    num, num_edges = len(place), len(edges)
    u, v = edges[:, 0], edges[:, 1]
    offset = (extent[u] - extent[v]) / 2
    e, p = np.arange(num_edges), np.arange(len(pairs))
    rows = np.concatenate([e, e, e, *(num_edges + e,) * 3, *(2 * num_edges + p,) * 2])
    columns = np.concatenate([u, v, num + e, u, v, num + e, pairs[:, 0], pairs[:, 1]])
    one = np.ones(num_edges)
    values = np.concatenate([one, -one, -one, -one, one, -one, np.ones(len(pairs)), -np.ones(len(pairs))])
    shape = (2 * num_edges + len(pairs), num + num_edges)
    matrix = coo_array((values, (rows, columns)), shape=shape).tocsr()
    limits = np.concatenate([-offset, offset, -extent[pairs[:, 0]]])
    lower = np.concatenate([np.zeros(num), np.abs(offset) % 1])
    upper = np.concatenate([size - extent, np.full(num_edges, 2.0 * size)])
    costs = np.concatenate([np.zeros(num), np.ones(num_edges)])
    result = linprog(costs, matrix, limits, bounds=np.stack((lower, upper), axis=1), method="highs-ds")
    if result.status != 0:
        return place
    places: LongArray = np.rint(result.x[:num]).astype(np.int64)
    return places


def align(plan: Floorplan, edges: LongArray, width: int, height: int) -> Floorplan:
    """Move rectangles without passing each other until no axis can be improved alone."""
    if len(edges) == 0:
        return plan
    best = wire_length(plan, edges)
    for _ in range(8):
        before = best
        for axis, size in ((1, height), (0, width)):
            place, extent = plan[axis], plan[2 + axis]
            pairs = _neighbours(place, extent, plan[1 - axis], plan[3 - axis])
            moved = plan._replace(**{"xy"[axis]: _best_places(place, extent, pairs, edges, size)})
            length = wire_length(moved, edges)
            if length < best and is_legal(moved, width, height):
                plan, best = moved, length
        if best == before:
            break
    return plan
