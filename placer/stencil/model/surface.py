"""Problems from surfaces: heat falls with the square of the distance to a triangle mesh.

Heat is min(1, strength / d^2) with d the distance to the surface in volume units, 0 where that is
below a floor, and 0 inside the object. The object stands in the middle of a cube that is twice as
large as its largest extent.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from placer.base import FloatArray, InputError, IntArray, hot_loop
from placer.stencil.model.problem import Problem

SPACING = 0.3  # between points that stand for the surface, in volume units
MAX_POINTS = 20_000_000
MAX_SIZE = 512
_STL_HEADER = 84  # bytes before the first triangle of a binary file
_STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("colour", "<u2")])


def surface_problem(
    triangles: FloatArray, size: int, fabric: tuple[int, int], strength: float, floor: float
) -> Problem:
    """Return the problem around a mesh [triangles, 3 corners, 3 axes]. Raises InputError."""
    if not 4 <= size <= MAX_SIZE:
        raise InputError(f"size of a surface problem is {size}; allowed: 4 .. {MAX_SIZE}")
    if not (strength > 0 and 0 < floor < 1):
        raise InputError(f"strength {strength} must be above 0, floor {floor} between 0 and 1")
    corners = triangles.reshape(-1, 3)
    extent = float(np.ptp(corners, axis=0).max())
    if not extent > 0:
        raise InputError("the surface has no extent")
    middle = (corners.min(axis=0) + corners.max(axis=0)) / 2
    fitted = (triangles - middle) * (size / (2 * extent)) + size / 2
    distance = _distance(fitted, size, math.sqrt(strength / floor))
    heat = np.minimum(1.0, strength / np.maximum(distance, 1e-6) ** 2)
    heat[heat < floor] = 0.0
    crossings = np.zeros((size + 1,) * 3, np.int32)
    # Rays along x are shifted a little, so that they do not run through corners and edges.
    count_crossings(np.ascontiguousarray(fitted), 1.234e-5, crossings)
    heat[np.cumsum(crossings, axis=2) % 2 == 1] = 0.0
    return Problem((size,) * 3, fabric, np.ascontiguousarray(heat, np.float32))


def read_surface(path: Path) -> FloatArray:
    """Return the triangles [triangles, 3, 3] of an OBJ or STL file. Raises InputError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    suffix = path.suffix.lower()
    if suffix not in (".obj", ".stl"):
        raise InputError(f"{path}: unknown kind of surface {suffix!r}; allowed: .obj, .stl")
    try:
        triangles = _parse_obj(data) if suffix == ".obj" else _parse_stl(data)
    except (ValueError, IndexError) as error:
        raise InputError(f"{path}: no complete {suffix[1:].upper()} file ({error})") from error
    if not len(triangles) or not np.isfinite(triangles).all():
        raise InputError(f"{path}: holds no triangles with finite corners")
    return triangles


def _parse_obj(data: bytes) -> FloatArray:
    points: list[list[float]] = []
    faces: list[tuple[int, int, int]] = []
    for line in data.decode(errors="replace").splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            points.append([float(word) for word in words[1:4]])
        elif words[:1] == ["f"]:
            corners = [int(word.split("/")[0]) for word in words[1:]]
            corners = [c - 1 if c > 0 else len(points) + c for c in corners]
            faces += [(corners[0], b, c) for b, c in pairwise(corners[1:])]
    corners_of = np.array(faces, np.int64).reshape(-1, 3)
    if (corners_of < 0).any():
        raise IndexError("a face names a corner before the first one")
    triangles: FloatArray = np.array(points, np.float64).reshape(-1, 3)[corners_of]
    return triangles


def _parse_stl(data: bytes) -> FloatArray:
    if len(data) >= _STL_HEADER:
        count = int.from_bytes(data[_STL_HEADER - 4 : _STL_HEADER], "little")
        if len(data) == _STL_HEADER + count * _STL_TRIANGLE.itemsize:
            rows = np.frombuffer(data, _STL_TRIANGLE, count, _STL_HEADER)
            return rows["corners"].astype(np.float64)
    lines = (line.split() for line in data.decode(errors="replace").splitlines())
    corners = [[float(w) for w in words[1:4]] for words in lines if words[:1] == ["vertex"]]
    return np.array(corners, np.float64).reshape(-1, 3, 3)


def _distance(triangles: FloatArray, size: int, reach: float) -> FloatArray:
    """Return the distance [z, y, x] of lattice points to the surface, infinite beyond `reach`."""
    points = _surface_points(triangles)
    tree = cKDTree(points)
    axis = np.arange(size + 1.0)
    distance = np.full((size + 1,) * 3, np.inf)
    for z in range(size + 1):
        if points[:, 2].min() - reach <= z <= points[:, 2].max() + reach:
            y, x = np.meshgrid(axis, axis, indexing="ij")
            layer = np.stack([x, y, np.full_like(x, z)], axis=-1).reshape(-1, 3)
            distance[z] = tree.query(layer, distance_upper_bound=reach)[0].reshape(y.shape)
    return distance


def _surface_points(triangles: FloatArray) -> FloatArray:
    """Return points on all triangles, no further than about SPACING from each other."""
    edges = triangles - np.roll(triangles, 1, axis=1)
    parts = np.ceil(np.linalg.norm(edges, axis=2).max(axis=1) / SPACING).astype(np.int64)
    parts = np.maximum(parts, 1)
    if int(((parts + 1) * (parts + 2) // 2).sum()) > MAX_POINTS:
        raise InputError(f"the surface is too large to be sampled by {MAX_POINTS:,} points")
    clouds = []
    for count in np.unique(parts):
        i, j = np.meshgrid(np.arange(count + 1), np.arange(count + 1), indexing="ij")
        weights = np.stack([i, j, count - i - j], axis=-1)[i + j <= count] / count
        clouds.append(np.einsum("pc,tcx->tpx", weights, triangles[parts == count]).reshape(-1, 3))
    return np.concatenate(clouds)


@hot_loop
def count_crossings(triangles: FloatArray, shift: float, crossings: IntArray) -> None:
    """Count, at the first lattice point after it, where a ray along x meets a triangle."""
    size = crossings.shape[0]
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        area = (b[1] - a[1]) * (c[2] - a[2]) - (b[2] - a[2]) * (c[1] - a[1])
        if area == 0.0:
            continue
        y0, y1 = min(a[1], b[1], c[1]), max(a[1], b[1], c[1])
        z0, z1 = min(a[2], b[2], c[2]), max(a[2], b[2], c[2])
        for z in range(max(0, math.floor(z0)), min(size, math.ceil(z1) + 1)):
            for y in range(max(0, math.floor(y0)), min(size, math.ceil(y1) + 1)):
                py, pz = y + shift - a[1], z + 0.7 * shift - a[2]
                u = (py * (c[2] - a[2]) - pz * (c[1] - a[1])) / area
                v = ((b[1] - a[1]) * pz - (b[2] - a[2]) * py) / area
                if u < 0.0 or v < 0.0 or u + v > 1.0:
                    continue
                x = math.ceil(a[0] + u * (b[0] - a[0]) + v * (c[0] - a[0]))
                if 0 <= x < size:
                    crossings[z, y, x] += 1
