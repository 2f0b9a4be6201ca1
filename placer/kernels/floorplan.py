"""Rectangles on the wafer: wire length, and the best alignment.

For given extents and given neighbours, the shortest wires are a linear programme for each axis: the
distance of centres of extents of different parity is never below 1/2, and with that every corner
of the programme is whole-numbered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from scipy.optimize import linprog
from scipy.sparse import coo_array

from placer.kernels.shapes import LongArray


@dataclass(frozen=True, slots=True)
class Floorplan:
    """Positions (lower left) and extents of all kernels, in tiles."""

    x: LongArray
    y: LongArray
    extent_x: LongArray
    extent_y: LongArray


@njit(cache=True)
def wire_length(
    x: LongArray, y: LongArray, extent_x: LongArray, extent_y: LongArray, edges: LongArray
) -> float:
    """Sum over edges of the Manhattan distance of centres."""
    total = 0
    for e in range(len(edges)):
        u, v = edges[e, 0], edges[e, 1]
        total += abs(2 * (x[u] - x[v]) + extent_x[u] - extent_x[v])
        total += abs(2 * (y[u] - y[v]) + extent_y[u] - extent_y[v])
    return total / 2


def length_of(plan: Floorplan, edges: LongArray) -> float:
    """Wire length of a floorplan."""
    return float(wire_length(plan.x, plan.y, plan.extent_x, plan.extent_y, edges))


@njit(cache=True)
def overlaps(x: LongArray, y: LongArray, extent_x: LongArray, extent_y: LongArray) -> bool:
    """Whether two rectangles share a tile."""
    for i in range(len(x)):
        for j in range(i):
            if (
                x[i] < x[j] + extent_x[j]
                and x[j] < x[i] + extent_x[i]
                and y[i] < y[j] + extent_y[j]
                and y[j] < y[i] + extent_y[i]
            ):
                return True
    return False


def is_legal(plan: Floorplan, width: int, height: int) -> bool:
    """Whether all rectangles lie on the wafer and none overlap."""
    is_inside = (
        min(plan.x.min(), plan.y.min()) >= 0
        and (plan.x + plan.extent_x).max() <= width
        and (plan.y + plan.extent_y).max() <= height
    )
    return bool(is_inside) and not overlaps(plan.x, plan.y, plan.extent_x, plan.extent_y)


@njit(cache=True)
def _neighbours(
    place: LongArray, extent: LongArray, across: LongArray, extent_across: LongArray
) -> LongArray:
    """Pairs (i before j) that keep their order along an axis, without those that follow."""
    num = len(place)
    before = np.zeros((num, num), np.bool_)
    for i in range(num):
        for j in range(num):
            overlap = across[i] < across[j] + extent_across[j] and (
                across[j] < across[i] + extent_across[i]
            )
            before[i, j] = i != j and overlap and place[i] + extent[i] <= place[j]
    pairs = np.empty((num * num, 2), np.int64)
    count = 0
    for i in range(num):
        for j in range(num):
            if not before[i, j]:
                continue
            follows = False
            for k in range(num):
                follows = follows or (before[i, k] and before[k, j])
            if not follows:
                pairs[count, 0], pairs[count, 1] = i, j
                count += 1
    return pairs[:count]


def _best_places(
    place: LongArray, extent: LongArray, pairs: LongArray, edges: LongArray, size: int
) -> LongArray:
    """Whole-numbered places along one axis of least wire length."""
    num, num_edges = len(place), len(edges)
    u, v = edges[:, 0], edges[:, 1]
    offset = (extent[u] - extent[v]) / 2
    e, p = np.arange(num_edges), np.arange(len(pairs))
    rows = np.concatenate([e, e, e, *(num_edges + e,) * 3, *(2 * num_edges + p,) * 2])
    columns = np.concatenate([u, v, num + e, u, v, num + e, pairs[:, 0], pairs[:, 1]])
    one = np.ones(num_edges)
    values = np.concatenate(
        [one, -one, -one, -one, one, -one, np.ones(len(pairs)), -np.ones(len(pairs))]
    )
    shape = (2 * num_edges + len(pairs), num + num_edges)
    matrix = coo_array((values, (rows, columns)), shape=shape).tocsr()
    limits = np.concatenate([-offset, offset, -extent[pairs[:, 0]]])
    lower = np.concatenate([np.zeros(num), np.abs(offset) % 1])
    upper = np.concatenate([size - extent, np.full(num_edges, 2.0 * size)])
    costs = np.concatenate([np.zeros(num), np.ones(num_edges)])
    result = linprog(
        costs, matrix, limits, bounds=np.stack((lower, upper), axis=1), method="highs-ds"
    )
    if result.status != 0:
        return place
    places: LongArray = np.rint(result.x[:num]).astype(np.int64)
    return places


def align(plan: Floorplan, edges: LongArray, width: int, height: int) -> Floorplan:
    """Move rectangles without passing each other until no axis can be improved alone."""
    if len(edges) == 0:
        return plan
    best = length_of(plan, edges)
    for _ in range(8):
        before = best
        for axis in range(2):
            moved = _align_axis(plan, edges, width, height, axis)
            length = length_of(moved, edges)
            if length < best and not overlaps(moved.x, moved.y, moved.extent_x, moved.extent_y):
                plan, best = moved, length
        if best == before:
            break
    return plan


def _align_axis(plan: Floorplan, edges: LongArray, width: int, height: int, axis: int) -> Floorplan:
    if axis == 0:
        pairs = _neighbours(plan.y, plan.extent_y, plan.x, plan.extent_x)
        return replace(plan, y=_best_places(plan.y, plan.extent_y, pairs, edges, height))
    pairs = _neighbours(plan.x, plan.extent_x, plan.y, plan.extent_y)
    return replace(plan, x=_best_places(plan.x, plan.extent_x, pairs, edges, width))
