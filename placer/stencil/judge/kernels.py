"""Compiled parts of the checker: paint cells, read faces, integrate the heat over boxes.

Between lattice points the heat is linear along each axis. Over an interval [a, b] of an axis, its
integral is a weighted sum of the values at the lattice points around it, and its maximum lies at
a, at b or at a lattice point between them; boxes are products of intervals.
"""

from __future__ import annotations

import math

from placer.base import FloatArray, IntArray, LongArray, SingleArray, hot, hot_loop

Point = tuple[float, float, float]  # x, y, z in volume units

NO_NEIGHBOUR = -1  # cells of empty prisms, and what lies outside the volume
UNPAINTED = -2  # cells of no prism
MAX_FOUND = 5  # distinct tiles at a face that are told apart; more are as wrong as five


@hot_loop
def paint(prisms: LongArray, dimension: int, tiles: IntArray, painting: IntArray) -> int:
    """List the tiles [tiles, 4] (level, origin in cells) and write their ids into their cells.

    Return the first prism that meets a painted cell, -1 when there is none.
    """
    n = 0
    for p in range(prisms.shape[0]):
        level = prisms[p, 0]
        edge = 1 << max(level, 0)
        depth = edge if dimension == 3 else 1
        for k in range(prisms[p, 6]):
            for j in range(prisms[p, 5]):
                for i in range(prisms[p, 4]):
                    x0, y0 = prisms[p, 1] + i * edge, prisms[p, 2] + j * edge
                    z0 = prisms[p, 3] + k * depth
                    for z in range(z0, z0 + depth):
                        for y in range(y0, y0 + edge):
                            for x in range(x0, x0 + edge):
                                if painting[z, y, x] != UNPAINTED:
                                    return p
                                painting[z, y, x] = NO_NEIGHBOUR if level < 0 else n
                    if level >= 0:
                        tiles[n, 0], tiles[n, 1], tiles[n, 2], tiles[n, 3] = level, x0, y0, z0
                        n += 1
    return -1


@hot_loop
def face_tiles(tiles: IntArray, painting: IntArray, dimension: int, tile: int, face: int, found: IntArray) -> int:
    """Write the ids of the tiles behind a face into `found`, ascending; return how many."""
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
    tiles: IntArray, painting: IntArray, dimension: int, found: IntArray, links: IntArray
) -> tuple[int, int, bool, int, int]:
    """Write the connections of tiles, and of adapters with the tiles on both sides, into `links`.

    Adapters are numbered after the tiles, in the order of tiles and faces. Return the first tile
    and face that break a rule (-1 when none does), whether by levels, and the numbers of adapters
    and of links.
    """
    fan = 1 << (dimension - 1)
    adapters, num = 0, 0
    for tile in range(tiles.shape[0]):
        for face in range(2 * dimension):
            count = face_tiles(tiles, painting, dimension, tile, face, found)
            if count == 0:
                continue
            step = tiles[found[0], 0] - tiles[tile, 0]
            for k in range(count):
                other = tiles[found[k], 0] - tiles[tile, 0]
                if other > 1 or other < -1:
                    return tile, face, True, adapters, num
                if other != step:
                    return tile, face, False, adapters, num
            if count != (fan if step == -1 else 1):
                return tile, face, False, adapters, num
            if step == -1:
                for k in range(fan):
                    links[num + k, 0], links[num + k, 1] = tiles.shape[0] + adapters, found[k]
                links[num + fan, 0], links[num + fan, 1] = tiles.shape[0] + adapters, tile
                num += fan + 1
                adapters += 1
            elif step == 0 and found[0] > tile:
                links[num, 0], links[num, 1] = tile, found[0]
                num += 1
    return -1, -1, False, adapters, num


@hot_loop
def hottest_empty(heat: SingleArray, prisms: LongArray, unit: float, edge: float) -> tuple[int, float]:
    """Return the hottest empty prism and its integral; `unit`, `edge`: of origins and shapes."""
    hottest, most = -1, 0.0
    for p in range(prisms.shape[0]):
        if prisms[p, 0] >= 0:
            continue
        x, y, z = prisms[p, 1] * unit, prisms[p, 2] * unit, prisms[p, 3] * unit
        high = x + prisms[p, 4] * edge, y + prisms[p, 5] * edge, z + prisms[p, 6] * edge
        integral = box_integral(heat, (x, y, z), high)
        if integral > most:
            hottest, most = p, integral
    return hottest, most


@hot_loop
def tile_terms(heat: SingleArray, tiles: IntArray, unit: float, means: FloatArray, ratios: FloatArray) -> None:
    """Write mean heat and maximum / resolution of every tile; `unit` is the edge of a cell."""
    for tile in range(tiles.shape[0]):
        edge = unit * (1 << tiles[tile, 0])
        low = tiles[tile, 1] * unit, tiles[tile, 2] * unit, tiles[tile, 3] * unit
        high = low[0] + edge, low[1] + edge, low[2] + edge
        size = edge**3 if heat.shape[0] > 1 else edge**2
        means[tile] = box_integral(heat, low, high) / size
        ratios[tile] = box_maximum(heat, low, high) * (1 << tiles[tile, 0])


@hot
def hat_weight(a: float, b: float, point: int) -> float:
    """Return the integral over [a, b] of max(0, 1 - |t - point|), the hat of a lattice point."""
    total = 0.0
    low, high = max(a, point - 1.0), min(b, float(point))
    if low < high:
        total += (high - low) * (1.0 - point + 0.5 * (low + high))
    low, high = max(a, float(point)), min(b, point + 1.0)
    if low < high:
        total += (high - low) * (1.0 + point - 0.5 * (low + high))
    return total


@hot_loop
def box_integral(heat: SingleArray, low: Point, high: Point) -> float:
    """Return the integral over a box; axes x, y, z in volume units, a flat z axis counts 1."""
    nz, ny, nx = heat.shape
    x0, x1 = int(low[0]), min(nx - 1, math.ceil(high[0]))
    y0, y1 = int(low[1]), min(ny - 1, math.ceil(high[1]))
    z0, z1 = (0, 0) if nz == 1 else (int(low[2]), min(nz - 1, math.ceil(high[2])))
    total = 0.0
    for z in range(z0, z1 + 1):
        wz = 1.0 if nz == 1 else hat_weight(low[2], high[2], z)
        plane = 0.0
        for y in range(y0, y1 + 1):
            row = 0.0
            for x in range(x0, x1 + 1):
                if heat[z, y, x] != 0.0:
                    row += hat_weight(low[0], high[0], x) * heat[z, y, x]
            if row != 0.0:
                plane += hat_weight(low[1], high[1], y) * row
        total += wz * plane
    return total


@hot
def num_stops(low: float, high: float) -> int:
    """Count the points of [low, high] that can hold the maximum: ends, lattice points between."""
    return 2 + max(0, math.ceil(high) - 1 - int(low))


@hot
def stop(low: float, high: float, k: int) -> float:
    """Return the k-th of these points."""
    return low if k == 0 else min(float(int(low) + k), high)


@hot
def heat_at(heat: SingleArray, x: float, y: float, z: float) -> float:
    """Return the heat at a point, by multilinear interpolation."""
    nz, ny, nx = heat.shape
    ix, iy, iz = min(int(x), nx - 2), min(int(y), ny - 2), max(0, min(int(z), nz - 2))
    fx, fy, fz = x - ix, y - iy, (z - iz if nz > 1 else 0.0)
    total = 0.0
    for k in range(2 if fz > 0.0 else 1):
        wz = fz if k else 1.0 - fz
        for j in range(2 if fy > 0.0 else 1):
            wy = fy if j else 1.0 - fy
            value = (1.0 - fx) * heat[iz + k, iy + j, ix]
            if fx > 0.0:
                value += fx * heat[iz + k, iy + j, ix + 1]
            total += wz * wy * value
    return total


@hot_loop
def box_maximum(heat: SingleArray, low: Point, high: Point) -> float:
    """Return the largest heat in the box [low, high]."""
    is_flat = heat.shape[0] == 1
    best = 0.0
    for k in range(1 if is_flat else num_stops(low[2], high[2])):
        z = 0.0 if is_flat else stop(low[2], high[2], k)
        for j in range(num_stops(low[1], high[1])):
            y = stop(low[1], high[1], j)
            for i in range(num_stops(low[0], high[0])):
                best = max(best, heat_at(heat, stop(low[0], high[0], i), y, z))
    return best
