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
MAX_FOUND = 5  # distinct tiles at a face that are told apart; more are as wrong as five


@hot_loop
def list_tiles(prisms: LongArray, origins: LongArray, dimension: int, tiles: IntArray) -> None:
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
                    tiles[n, 1] = origins[p, 0] + i * edge
                    tiles[n, 2] = origins[p, 1] + j * edge
                    tiles[n, 3] = origins[p, 2] + k * depth
                    n += 1


@hot_loop
def paint(prisms: LongArray, dimension: int, unit: int, painting: IntArray) -> int:
    """Write ids of tiles into cells; returns the first prism that meets a painted cell, or -1."""
    first = 0
    for p in range(prisms.shape[0]):
        level = prisms[p, 0]
        edge = 1 << max(level, 0)
        depth = edge if dimension == 3 else 1
        nx, ny, nz = prisms[p, 4], prisms[p, 5], prisms[p, 6]
        x0, y0 = prisms[p, 1] // unit, prisms[p, 2] // unit
        z0 = prisms[p, 3] // unit if dimension == 3 else 0
        for z in range(nz * depth):
            for y in range(ny * edge):
                row = first + (z // depth * ny + y // edge) * nx
                for x in range(nx * edge):
                    if painting[z0 + z, y0 + y, x0 + x] != NO_NEIGHBOUR - 1:
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
def face_faults(
    tiles: IntArray, painting: IntArray, dimension: int, found: IntArray
) -> tuple[int, int, bool]:
    """First tile and face that break a rule, and whether by levels; tile -1 when none does."""
    fan = 1 << (dimension - 1)
    for tile in range(tiles.shape[0]):
        for face in range(2 * dimension):
            count = face_tiles(tiles, painting, dimension, tile, face, found)
            if count == 0:
                continue
            step = tiles[found[0], 0] - tiles[tile, 0]
            for k in range(count):
                other = tiles[found[k], 0] - tiles[tile, 0]
                if other > 1 or other < -1:
                    return tile, face, True
                if other != step:
                    return tile, face, False
            if count != (fan if step == -1 else 1):
                return tile, face, False
    return -1, -1, False


@hot
def _cost(ax: int, ay: int, bx: int, by: int) -> float:
    """Both directions of a connection: 2 * L^1.5."""
    length = float(abs(ax - bx) + abs(ay - by))
    return 2.0 * length * math.sqrt(length)


@hot_loop
def adapters_and_wires(
    tiles: IntArray,
    painting: IntArray,
    dimension: int,
    places: IntArray,
    adapters: IntArray,
    taken: NDArray[np.int8],
    found: IntArray,
    wires: FloatArray,
) -> tuple[int, int]:
    """Match adapter rows with coarse faces and sum S into `wires`.

    Returns 0, or a fault and its row: 1 wrong count (then: rows needed), 2 rows of an adapter
    differ, 3 PE is taken.
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
            if row + fan <= adapters.shape[0]:
                x, y = adapters[row, 0], adapters[row, 1]
                for k in range(fan):
                    if adapters[row + k, 0] != x or adapters[row + k, 1] != y:
                        return 2, row + k
                    wires[0] += _cost(x, y, places[found[k], 0], places[found[k], 1])
                if taken[y, x]:
                    return 3, row
                taken[y, x] = 1
                wires[0] += _cost(x, y, places[tile, 0], places[tile, 1])
            row += fan
    return (0, row) if row == adapters.shape[0] else (1, row)


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
