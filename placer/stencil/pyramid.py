"""Mean and maximum of the heat in every block of cells, at all levels.

Cells are the smallest tiles, of edge 10 / sampling; a block of level r has 2^r cells along an edge.
Blocks may begin at an offset before the volume: what they hold of the outside makes them unusable
as tiles. All levels lie in flat arrays, level by level, x fastest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placer.hot import hot_loop
from placer.stencil.problem import TILE_POINTS, HeatArray, LongArray, Problem

FloatArray = NDArray[np.float64]
BlockArray = NDArray[np.float32]

OUTSIDE = -1.0  # maximum of blocks that hold nothing of the volume
STRADDLES = np.inf  # maximum of blocks that hold some of the outside
MAX_LEVELS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Pyramid:
    """Statistics of all blocks of a problem at one sampling and offset."""

    dimension: int
    sampling: int
    offset: tuple[int, int, int]  # cells by which blocks begin before the volume, per axis
    cells: tuple[int, int, int]  # of the volume, along x, y, z
    dims: LongArray  # [levels, 3]: blocks along x, y, z
    base: LongArray  # [levels + 1]: first block of each level in the flat arrays
    mean: BlockArray  # [blocks]
    high: BlockArray  # [blocks]: exact maximum, OUTSIDE or STRADDLES

    @property
    def num_levels(self) -> int:
        return len(self.dims)


def build_pyramid(
    problem: Problem, sampling: int, offset: tuple[int, int, int] = (0, 0, 0)
) -> Pyramid:
    """Exact statistics of all blocks. `sampling` must divide the volume into cells."""
    cells = cell_counts(problem.volume, sampling)
    dims, base = _layout(cells, offset, problem.dimension)
    mean, high = np.zeros(base[-1], np.float32), np.full(base[-1], OUTSIDE, np.float32)
    axes = [_axis(n, v + 1, sampling) for n, v in zip(cells, problem.volume, strict=False)]
    if problem.dimension == 2:
        axes.append(_Axis.flat())
    x, y, z = axes
    shape = problem.heat.shape
    planes = np.zeros((1 + z.stops.shape[1], *shape[1:]))
    rows = np.zeros((2, shape[2]))
    cell_statistics(
        problem.heat, x.first, x.weights, x.stops, y.first, y.weights, y.stops,
        z.first, z.weights, z.stops, np.array(offset), dims[0], planes, rows, mean, high,
    )  # fmt: skip
    for level in range(1, len(dims)):
        coarsen(dims, base, level, problem.dimension, mean, high)
    return Pyramid(problem.dimension, sampling, offset, cells, dims, base, mean, high)


def cell_counts(volume: tuple[int, ...], sampling: int) -> tuple[int, int, int]:
    """Cells along x, y, z; one layer in 2-D."""
    counts = [v * sampling // TILE_POINTS for v in volume]
    return (counts[0], counts[1], counts[2] if len(counts) == 3 else 1)


def _layout(
    cells: tuple[int, int, int], offset: tuple[int, int, int], dimension: int
) -> tuple[LongArray, LongArray]:
    sizes = np.array(cells) + np.array(offset)
    dims = [sizes]
    while len(dims) < MAX_LEVELS and dims[-1][:dimension].min() > 1:
        dims.append((dims[-1] + 1) // 2)
    counts = [int(np.prod(size)) for size in dims]
    return np.array(dims), np.concatenate([[0], np.cumsum(counts)])


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """How cells along an axis see the lattice points."""

    first: LongArray  # [cells]: first lattice point with weight
    weights: FloatArray  # [cells, points]: mean over the cell of their hat functions
    stops: FloatArray  # [cells, stops]: where the maximum can lie, the last one repeated

    @staticmethod
    def flat() -> _Axis:
        return _Axis(np.zeros(1, np.int64), np.ones((1, 1)), np.zeros((1, 1)))


def _axis(num_cells: int, num_points: int, sampling: int) -> _Axis:
    """Weights and stops of the cells of one axis, on lattice points exactly where they meet."""
    begin = np.arange(num_cells) * TILE_POINTS
    end = begin + TILE_POINTS
    first = begin // sampling
    last = -(-end // sampling)  # lattice point at or after the end
    width = int((last - first).max()) + 1
    low, high = begin / sampling, end / sampling
    points = first[:, None] + np.arange(width)
    weights = np.zeros((num_cells, width))
    for side in (-1, 1):
        a = np.maximum(low[:, None], points - (side < 0))
        b = np.minimum(high[:, None], points + (side > 0))
        part = (b - a) * (1 + side * (points - (a + b) / 2))
        weights += np.where(b > a, part, 0.0)
    weights *= sampling / TILE_POINTS
    weights[points >= num_points] = 0.0
    stops = np.minimum(np.maximum(points, low[:, None]), high[:, None])
    return _Axis(first, weights, stops)


@hot_loop
def cell_statistics(
    heat: HeatArray,
    x_first: LongArray, x_weights: FloatArray, x_stops: FloatArray,
    y_first: LongArray, y_weights: FloatArray, y_stops: FloatArray,
    z_first: LongArray, z_weights: FloatArray, z_stops: FloatArray,
    offset: LongArray, dims: LongArray, planes: FloatArray, rows: FloatArray,
    mean: BlockArray, high: BlockArray,
) -> None:  # fmt: skip
    """Mean and maximum of every cell; layer by layer, row by row, so that scratch stays small.

    `planes` [1 + stops, y, x] holds the mean over z and the values at the stops in z; `rows`
    [2, x] the same for one row of cells.
    """
    for k in range(z_first.shape[0]):
        _layers(heat, z_first[k], z_weights[k], z_stops[k], planes)
        for j in range(y_first.shape[0]):
            start = ((k + offset[2]) * dims[1] + j + offset[1]) * dims[0] + offset[0]
            for i in range(x_first.shape[0]):
                high[start + i] = 0.0
            if _row_mean(planes[0], y_first[j], y_weights[j], rows[0]):
                for i in range(x_first.shape[0]):
                    total = 0.0
                    for p in range(x_weights.shape[1]):
                        if x_weights[i, p] > 0.0:
                            total += x_weights[i, p] * rows[0, x_first[i] + p]
                    mean[start + i] = total
                for t in range(z_stops.shape[1]):
                    for q in range(y_stops.shape[1]):
                        if q > 0 and y_stops[j, q] == y_stops[j, q - 1]:
                            continue
                        _row_at(planes[1 + t], y_stops[j, q], rows[1])
                        _raise_to_row(rows[1], x_stops, high, start)


@hot_loop
def _layers(
    heat: HeatArray, first: int, weights: FloatArray, stops: FloatArray, planes: FloatArray
) -> None:
    """Mean over z of a layer of cells, and the planes at its stops."""
    nz, ny, nx = heat.shape
    for y in range(ny):
        for x in range(nx):
            total = 0.0
            for p in range(weights.shape[0]):
                if weights[p] > 0.0:
                    total += weights[p] * heat[first + p, y, x]
            planes[0, y, x] = total
    for t in range(stops.shape[0]):
        z = min(int(stops[t]), max(0, nz - 2))
        share = stops[t] - z
        for y in range(ny):
            for x in range(nx):
                value = float(heat[z, y, x])
                if share > 0.0:
                    value += share * (heat[z + 1, y, x] - value)
                planes[1 + t, y, x] = value


@hot_loop
def _row_mean(plane: FloatArray, first: int, weights: FloatArray, row: FloatArray) -> bool:
    """Mean over y of a row of cells; whether there is any heat in it."""
    is_hot = False
    for x in range(row.shape[0]):
        total = 0.0
        for p in range(weights.shape[0]):
            if weights[p] > 0.0:
                total += weights[p] * plane[first + p, x]
        row[x] = total
        is_hot = is_hot or total > 0.0
    return is_hot


@hot_loop
def _row_at(plane: FloatArray, stop: float, row: FloatArray) -> None:
    """Values along x at one y."""
    y = min(int(stop), plane.shape[0] - 2)
    share = stop - y
    for x in range(row.shape[0]):
        row[x] = plane[y, x]
        if share > 0.0:
            row[x] += share * (plane[y + 1, x] - plane[y, x])


@hot_loop
def _raise_to_row(row: FloatArray, stops: FloatArray, high: BlockArray, start: int) -> None:
    """Raise the maxima of a row of cells to the values at their stops in x."""
    last = row.shape[0] - 2
    for i in range(stops.shape[0]):
        best = high[start + i]
        for p in range(stops.shape[1]):
            x = min(int(stops[i, p]), last)
            value = row[x] + (stops[i, p] - x) * (row[x + 1] - row[x])
            if value > best:
                best = value
        high[start + i] = best


@hot_loop
def coarsen(
    dims: LongArray, base: LongArray, level: int, dimension: int, mean: BlockArray, high: BlockArray
) -> None:
    """Statistics of the blocks of a level from those of the level below."""
    depth = 2 if dimension == 3 else 1
    fine, coarse = dims[level - 1], dims[level]
    for z in range(coarse[2]):
        for y in range(coarse[1]):
            for x in range(coarse[0]):
                total, best, num_inside = 0.0, OUTSIDE, 0
                for k in range(depth):
                    for j in range(2):
                        for i in range(2):
                            fx, fy, fz = 2 * x + i, 2 * y + j, depth * z + k
                            if fx >= fine[0] or fy >= fine[1] or fz >= fine[2]:
                                continue
                            at = base[level - 1] + (fz * fine[1] + fy) * fine[0] + fx
                            if high[at] != OUTSIDE:
                                num_inside += 1
                                total += mean[at]
                                best = max(best, high[at])
                at = base[level] + (z * coarse[1] + y) * coarse[0] + x
                mean[at] = total / (4 * depth)
                if 0 < num_inside < 4 * depth:
                    best = STRADDLES
                high[at] = best
