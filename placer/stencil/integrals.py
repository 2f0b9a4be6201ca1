"""Exact integral and maximum of the multilinear heat map over a box, compiled.

Between lattice points the map is linear along each axis. Over an interval [a, b] of an axis, the
integral is a weighted sum of the values at the lattice points around it, and the maximum lies at
a, at b or at a lattice point between them; boxes are products of intervals.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from placer.hot import hot, hot_loop

FloatArray = NDArray[np.float64]
HeatArray = NDArray[np.float32]


@hot
def hat_weight(a: float, b: float, point: int) -> float:
    """Integral over [a, b] of the hat function of a lattice point: max(0, 1 - |t - point|)."""
    total = 0.0
    low, high = max(a, point - 1.0), min(b, float(point))
    if low < high:
        total += (high - low) * (1.0 - point + 0.5 * (low + high))
    low, high = max(a, float(point)), min(b, point + 1.0)
    if low < high:
        total += (high - low) * (1.0 + point - 0.5 * (low + high))
    return total


@hot_loop
def box_integral(heat: HeatArray, low: FloatArray, high: FloatArray) -> float:
    """Integral over the box [low, high], axes x, y, z in volume units; a flat z axis counts 1."""
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
    """How many points of [low, high] can hold the maximum: both ends, lattice points between."""
    return 2 + max(0, math.ceil(high) - 1 - int(low))


@hot
def stop(low: float, high: float, k: int) -> float:
    """The k-th of these points."""
    if k == 0:
        return low
    point = int(low) + k
    return min(float(point), high)


@hot
def heat_at(heat: HeatArray, x: float, y: float, z: float) -> float:
    """Multilinear interpolation."""
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
def box_maximum(heat: HeatArray, low: FloatArray, high: FloatArray) -> float:
    """Largest heat in the box [low, high]."""
    is_flat = heat.shape[0] == 1
    best = 0.0
    for k in range(1 if is_flat else num_stops(low[2], high[2])):
        z = 0.0 if is_flat else stop(low[2], high[2], k)
        for j in range(num_stops(low[1], high[1])):
            y = stop(low[1], high[1], j)
            for i in range(num_stops(low[0], high[0])):
                best = max(best, heat_at(heat, stop(low[0], high[0], i), y, z))
    return best
