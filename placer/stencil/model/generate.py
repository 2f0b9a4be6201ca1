"""Inputs by formula: the documented ones of the contest, and others of the same families."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placer.base import FloatArray
from placer.stencil.model.problem import Problem, lattice_shape

Size = tuple[int, ...]  # of a volume
Pair = tuple[int, int]  # processing elements of a fabric along x and y
Point = tuple[float, ...]


def lattice(volume: Size) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return coordinates x, y, z of the lattice points, ready to broadcast to [z, y, x]."""
    nz, ny, nx = lattice_shape(volume)
    z, y, x = np.ogrid[0:nz, 0:ny, 0:nx]
    return x.astype(float), y.astype(float), z.astype(float)


def make_problem(volume: Size, fabric: Pair, heat: FloatArray) -> Problem:
    """Return a problem with heat that broadcasts to the lattice."""
    full = np.broadcast_to(heat, lattice_shape(volume))
    return Problem(volume, fabric, np.ascontiguousarray(full, np.float32))


def flat(volume: Size, fabric: Pair, value: float = 1.0) -> Problem:
    """Return a problem with the same heat everywhere."""
    return make_problem(volume, fabric, np.array(value))


def ramp(volume: Size, fabric: Pair, *, falls: bool = False) -> Problem:
    """Return a problem whose heat rises from 0 to 1 along the last axis, or falls from 1 to 0."""
    last = len(volume) - 1
    height = lattice(volume)[last] / volume[last]
    return make_problem(volume, fabric, 1 - height if falls else height)


def box(volume: Size, fabric: Pair, low: Point, high: Point, outside: float = 0.5) -> Problem:
    """Return a problem with heat 1 at lattice points from `low` to `high`, `outside` elsewhere."""
    inside = np.array(True)
    for axis, begin, end in zip(lattice(volume), low, high, strict=False):
        inside = inside & (axis >= begin) & (axis <= end)
    return make_problem(volume, fabric, np.where(inside, 1.0, outside))


def ball(volume: Size, fabric: Pair, centre: Point, square_radius: float, floor: float = 0.01) -> Problem:
    """Return heat max(1 - d^2 / square_radius, floor), with d the distance to `centre`."""
    distance = sum((x - c) ** 2 for x, c in zip(lattice(volume), centre, strict=False))
    return make_problem(volume, fabric, np.maximum(1 - distance / square_radius, floor))


def hollow_sphere(size: int, fabric: Pair, inner: float = 0.45, outer: float = 0.48) -> Problem:
    """Return heat 1 between two radii (shares of the size), ramps of one unit, else 0."""
    x, y, z = (axis - size / 2 for axis in lattice((size, size, size)))
    radius = np.sqrt(x * x + y * y + z * z)
    outside = np.maximum(radius - outer * size, inner * size - radius)
    return make_problem((size,) * 3, fabric, np.clip(1 - outside, 0, 1))


def torus(volume: Size, fabric: Pair, major: float = 0.39, minor: float = 0.1) -> Problem:
    """Return heat 1 in a tube around the middle (radii: shares of vx), a ramp of 1 unit, else 0."""
    x, y, z = (axis - v / 2 for axis, v in zip(lattice(volume), volume, strict=True))
    ring = np.sqrt(x * x + y * y) - major * volume[0]
    depth = np.sqrt(ring * ring + z * z) - minor * volume[0]
    return make_problem(volume, fabric, np.clip(1 - depth, 0, 1))


# The documented inputs of the contest at their documented sizes, and two small ones.
INPUTS: dict[str, Callable[[], Problem]] = {
    "gradient_small": lambda: ramp((2, 2), (4, 4), falls=True),
    "simple_2d": lambda: ramp((2, 2), (4, 4)),
    "flat_small": lambda: flat((4, 4), (4, 4)),
    "empty": lambda: flat((4, 4), (4, 4), 0.0),
    "box_small": lambda: box((6, 6), (4, 4), (2, 2), (4, 4)),
    "box_small_solved": lambda: box((6, 6), (5, 5), (2, 2), (4, 4)),
    "circle": lambda: ball((9, 9), (200, 200), (5, 5), 10.0),
    "gradient_big": lambda: make_problem((32, 32), (256, 256), (lattice((32, 32))[1] + 1) / 33),
    "simple_3d": lambda: ramp((2, 2, 2), (4, 4)),
    "sample": lambda: box((3, 3, 3), (400, 400), (1, 1, 1), (2, 2, 2)),
    "box_big": lambda: box((15, 15, 15), (200, 200), (0, 5, 5), (15, 9, 9)),
    "sphere": lambda: ball((15, 15, 15), (400, 400), (8, 8, 8), 16.0),
    "flat_big": lambda: flat((20, 40, 200), (400, 400)),
    "hollow_sphere": lambda: hollow_sphere(100, (800, 1600)),
    "torus": lambda: torus((400, 400, 200), (800, 1600)),
    "small_sphere": lambda: ball((10, 10, 10), (80, 80), (5, 5, 5), 12.0),
    "small_torus": lambda: torus((40, 40, 20), (120, 80)),
}
