"""Compiled parts of the checker: expand prisms, paint cells, read faces, sum the score."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from placer.hot import hot, hot_loop
from placer.stencil.integrals import box_integral, box_maximum
from placer.stencil.problem import HeatArray, IntArray, LongArray

FloatArray = NDArray[np.float64]

NO_NEIGHBOUR = -1  # cells of empty prisms, and what lies outside the volume
UNPAINTED = -2  # cells of no prism
SPLIT_ADAPTER, SHARED_ADAPTER = 1, 2  # faults of adapters
MAX_FOUND = 5  # distinct tiles at a face that are told apart; more are as wrong as five


@hot_loop
def list_tiles(prisms: LongArray, dimension: int, tiles: IntArray) -> None:
    """Fill `tiles` [tiles, 4] (level, origin in cells) in the order of tile ids."""
    n = 0
    for p in range(prisms.shape[0]):
        level = prisms[p, 0]
        if level < 0:
            continue
        edge = 1 << level
        depth = edge if dimension == 3 else 1
        for k in range(prisms[p, 6]):
            for j in range(prisms[p, 5]):
                for i in range(prisms[p, 4]):
                    tiles[n, 0] = level
                    tiles[n, 1] = prisms[p, 1] + i * edge
                    tiles[n, 2] = prisms[p, 2] + j * edge
                    tiles[n, 3] = prisms[p, 3] + k * depth
                    n += 1


@hot_loop
def paint(prisms: LongArray, dimension: int, painting: IntArray) -> int:
    """Write ids of tiles into cells; returns the first prism that meets a painted cell, or -1."""
    first = 0
    for p in range(prisms.shape[0]):
        level = prisms[p, 0]
        edge = 1 << max(level, 0)
        depth = edge if dimension == 3 else 1
        nx, ny, nz = prisms[p, 4], prisms[p, 5], prisms[p, 6]
        x0, y0, z0 = prisms[p, 1], prisms[p, 2], prisms[p, 3]
        for z in range(nz * depth):
            for y in range(ny * edge):
                row = first + (z // depth * ny + y // edge) * nx
                for x in range(nx * edge):
                    if painting[z0 + z, y0 + y, x0 + x] != UNPAINTED:
                        return p
                    painting[z0 + z, y0 + y, x0 + x] = (
                        NO_NEIGHBOUR if level < 0 else row + x // edge
                    )
        if level >= 0:
            first += nx * ny * nz
    return -1


@hot_loop
def face_tiles(
    tiles: IntArray, painting: IntArray, dimension: int, tile: int, face: int, found: IntArray
) -> int:
    """Distinct tiles on the other side of a face, ids ascending in `found`; returns how many."""
    edge = 1 << tiles[tile, 0]
    axis, is_high = face // 2, face % 2
    x0, y0, z0 = tiles[tile, 1], tiles[tile, 2], tiles[tile, 3]
    x1, y1, z1 = x0 + edge, y0 + edge, z0 + (edge if dimension == 3 else 1)
    if axis == 0:
        x0, x1 = (x1, x1 + 1) if is_high else (x0 - 1, x0)
    elif axis == 1:
        y0, y1 = (y1, y1 + 1) if is_high else (y0 - 1, y0)
    else:
        z0, z1 = (z1, z1 + 1) if is_high else (z0 - 1, z0)
    nz, ny, nx = painting.shape
    if x0 < 0 or y0 < 0 or z0 < 0 or x1 > nx or y1 > ny or z1 > nz:
        return 0
    count = 0
    for z in range(z0, z1):
        for y in range(y0, y1):
            for x in range(x0, x1):
                other = painting[z, y, x]
                if other != NO_NEIGHBOUR:
                    count = _insert(found, count, other)
    return count


@hot
def _insert(found: IntArray, count: int, tile: int) -> int:
    """Add to the sorted distinct values, of which at most MAX_FOUND are kept."""
    at = count
    for k in range(count):
        if found[k] == tile:
            return count
        if found[k] > tile:
            at = k
            break
    if count == MAX_FOUND:
        return count
    for k in range(count, at, -1):
        found[k] = found[k - 1]
    found[at] = tile
    return count + 1


@hot_loop
def read_faces(
    tiles: IntArray, painting: IntArray, dimension: int, found: IntArray
) -> tuple[int, int, bool, int]:
    """First tile and face that break a rule, whether by levels, and the number of adapters.

    The tile is -1 when no rule is broken; only then all adapters are counted.
    """
    fan = 1 << (dimension - 1)
    adapters = 0
    for tile in range(tiles.shape[0]):
        for face in range(2 * dimension):
            count = face_tiles(tiles, painting, dimension, tile, face, found)
            if count == 0:
                continue
            step = tiles[found[0], 0] - tiles[tile, 0]
            for k in range(count):
                other = tiles[found[k], 0] - tiles[tile, 0]
                if other > 1 or other < -1:
                    return tile, face, True, adapters
                if other != step:
                    return tile, face, False, adapters
            if count != (fan if step == -1 else 1):
                return tile, face, False, adapters
            adapters += step == -1
    return -1, -1, False, adapters


@hot_loop
def hottest_empty(
    heat: HeatArray, prisms: LongArray, unit: float, edge: float, scratch: FloatArray
) -> tuple[int, float]:
    """The empty prism with most heat, and its integral; `unit`, `edge`: of origins and shapes."""
    low, high = scratch[0], scratch[1]
    hottest, most = -1, 0.0
    for p in range(prisms.shape[0]):
        if prisms[p, 0] >= 0:
            continue
        for axis in range(3):
            low[axis] = prisms[p, 1 + axis] * unit
            high[axis] = low[axis] + prisms[p, 4 + axis] * edge
        integral = box_integral(heat, low, high)
        if integral > most:
            hottest, most = p, integral
    return hottest, most


@hot
def _cost(ax: int, ay: int, bx: int, by: int) -> float:
    """Both directions of a connection: 2 * L^1.5."""
    length = float(abs(ax - bx) + abs(ay - by))
    return 2.0 * length * math.sqrt(length)


@hot_loop
def sum_wires(
    tiles: IntArray,
    painting: IntArray,
    dimension: int,
    places: IntArray,
    adapters: IntArray,
    taken: NDArray[np.int8],
    found: IntArray,
    wires: FloatArray,
) -> tuple[int, int]:
    """Match adapter rows with coarse faces (as many as there are), sum S into `wires`.

    Returns a fault, 0 for none, and its row: rows of an adapter differ, or its PE is taken.
    """
    fan = 1 << (dimension - 1)
    row = 0
    for tile in range(tiles.shape[0]):
        for face in range(2 * dimension):
            count = face_tiles(tiles, painting, dimension, tile, face, found)
            if count == 0:
                continue
            step = tiles[found[0], 0] - tiles[tile, 0]
            if step == 0 and found[0] > tile:
                wires[0] += _cost(
                    places[tile, 0], places[tile, 1], places[found[0], 0], places[found[0], 1]
                )
            if step != -1:
                continue
            x, y = adapters[row, 0], adapters[row, 1]
            for k in range(fan):
                if adapters[row + k, 0] != x or adapters[row + k, 1] != y:
                    return SPLIT_ADAPTER, row + k
                wires[0] += _cost(x, y, places[found[k], 0], places[found[k], 1])
            if taken[y, x]:
                return SHARED_ADAPTER, row
            taken[y, x] = 1
            wires[0] += _cost(x, y, places[tile, 0], places[tile, 1])
            row += fan
    return 0, row


@hot_loop
def tile_terms(
    heat: HeatArray,
    tiles: IntArray,
    unit: float,
    scratch: FloatArray,
    means: FloatArray,
    ratios: FloatArray,
) -> None:
    """Mean heat and maximum / resolution of every tile; `unit` is the edge of a cell."""
    low, high = scratch[0], scratch[1]
    for tile in range(tiles.shape[0]):
        edge = unit * (1 << tiles[tile, 0])
        for axis in range(3):
            low[axis] = tiles[tile, 1 + axis] * unit
            high[axis] = low[axis] + edge
        size = edge**3 if heat.shape[0] > 1 else edge**2
        means[tile] = box_integral(heat, low, high) / size
        ratios[tile] = box_maximum(heat, low, high) * (1 << tiles[tile, 0])
