"""Mean and maximum of the heat in every block of cells, at all levels.

Cells are the smallest tiles, of edge 10 / sampling; a block of level r has 2^r cells along an edge.
Blocks may begin at an offset before the volume: what they hold of the outside makes them unusable
as tiles. All levels lie in flat arrays, level by level, x fastest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placer.base import FloatArray, LongArray, SingleArray, hot_loop
from placer.stencil.model import TILE_POINTS, Problem

AnyArray = SingleArray | FloatArray
Cells = tuple[int, int, int]  # along x, y, z

OUTSIDE = -1.0  # maximum of blocks that hold nothing of the volume
STRADDLES = np.inf  # maximum of blocks that hold some of the outside
MAX_LEVELS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Pyramid:
    """Statistics of all blocks of a problem at one sampling and offset."""

    dimension: int
    sampling: int
    offset: Cells  # by which blocks begin before the volume
    cells: Cells  # of the volume
    dims: LongArray  # [levels, 3]: blocks along x, y, z
    base: LongArray  # [levels + 1]: first block of each level in the flat arrays
    mean: SingleArray  # [blocks]
    high: SingleArray  # [blocks]: exact maximum, OUTSIDE or STRADDLES

    @property
    def num_levels(self) -> int:
        return len(self.dims)


def build_pyramid(problem: Problem, sampling: int, offset: Cells = (0, 0, 0)) -> Pyramid:
    """Return exact statistics of all blocks. `sampling` must divide the volume into cells."""
    cells = cell_counts(problem.volume, sampling)
    sizes = [np.array(cells) + np.array(offset)]
    while len(sizes) < MAX_LEVELS and sizes[-1][: problem.dimension].min() > 1:
        sizes.append((sizes[-1] + 1) // 2)
    dims = np.array(sizes)
    base = np.concatenate([[0], np.cumsum(np.prod(dims, axis=1))])
    mean, high = np.zeros(base[-1], np.float32), np.full(base[-1], OUTSIDE, np.float32)
    axes = [_axis(n, v + 1, sampling) for n, v in zip(cells, problem.volume, strict=False)]
    if problem.dimension == 2:
        axes.append(_Axis(np.zeros(1, np.int64), np.ones((1, 1)), np.zeros((1, 1))))
    x, y, z = axes
    nz, ny, nx = problem.heat.shape
    planes, rows = np.zeros((1 + z.stops.shape[1], ny * nx)), np.zeros((2, nx))
    heat = problem.heat.reshape(nz, ny * nx)
    cell_statistics(heat, x, y, z, np.array(offset), dims[0], planes, rows, mean, high)
    for level in range(1, len(dims)):
        coarsen(dims, base, level, mean, high)
    return Pyramid(problem.dimension, sampling, offset, cells, dims, base, mean, high)


def cell_counts(volume: tuple[int, ...], sampling: int) -> Cells:
    """Return the cells along x, y, z; one layer in 2-D."""
    counts = [v * sampling // TILE_POINTS for v in volume]
    return (counts[0], counts[1], counts[2] if len(counts) == 3 else 1)


class _Axis(NamedTuple):
    """How cells along an axis see the lattice points."""

    first: LongArray  # [cells]: first lattice point with weight
    weights: FloatArray  # [cells, points]: mean over the cell of their hat functions
    stops: FloatArray  # [cells, stops]: where the maximum can lie, the last one repeated


def _axis(num_cells: int, num_points: int, sampling: int) -> _Axis:
    """Return how the cells of an axis see it, on lattice points exactly where they meet."""
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
    heat: SingleArray, x: _Axis, y: _Axis, z: _Axis, offset: LongArray, dims: LongArray,
    planes: FloatArray, rows: FloatArray, mean: SingleArray, high: SingleArray,
) -> None:  # fmt: skip
    """Write mean and maximum of every cell; layer by layer, row by row, so that scratch is small.

    `heat` is [z, y * x]. `planes` [1 + stops, y * x] holds the mean over z and the values at the
    stops in z; `rows` [2, x] the same for one row of cells.
    """
    shape = planes.shape[1] // rows.shape[1], rows.shape[1]
    for k in range(z.first.shape[0]):
        _mean(heat, z.first[k], z.weights[k], planes[0])
        for t in range(z.stops.shape[1]):
            _interpolate(heat, z.stops[k, t], planes[1 + t])
        for j in range(y.first.shape[0]):
            start = ((k + offset[2]) * dims[1] + j + offset[1]) * dims[0] + offset[0]
            for i in range(x.first.shape[0]):
                high[start + i] = 0.0
            if _mean(planes[0].reshape(shape), y.first[j], y.weights[j], rows[0]):
                for i in range(x.first.shape[0]):
                    total = 0.0
                    for p in range(x.weights.shape[1]):
                        if x.weights[i, p] > 0.0:
                            total += x.weights[i, p] * rows[0, x.first[i] + p]
                    mean[start + i] = total
                for t in range(z.stops.shape[1]):
                    for q in range(y.stops.shape[1]):
                        if q > 0 and y.stops[j, q] == y.stops[j, q - 1]:
                            continue
                        _interpolate(planes[1 + t].reshape(shape), y.stops[j, q], rows[1])
                        _raise_to_row(rows[1], x.stops, high, start)


@hot_loop
def _mean(lines: AnyArray, first: int, weights: FloatArray, result: FloatArray) -> bool:
    """Write the weighted sum of some lines, from `first` on; return whether it has any heat."""
    is_hot = False
    for x in range(result.shape[0]):
        total = 0.0
        for p in range(weights.shape[0]):
            if weights[p] > 0.0:
                total += weights[p] * lines[first + p, x]
        result[x] = total
        is_hot = is_hot or total > 0.0
    return is_hot


@hot_loop
def _interpolate(lines: AnyArray, stop: float, result: FloatArray) -> None:
    """Write the values at a stop between two lines."""
    line = min(int(stop), max(0, lines.shape[0] - 2))
    share = stop - line
    for x in range(result.shape[0]):
        value = float(lines[line, x])
        if share > 0.0:
            value += share * (lines[line + 1, x] - value)
        result[x] = value


@hot_loop
def _raise_to_row(row: FloatArray, stops: FloatArray, high: SingleArray, start: int) -> None:
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
def coarsen(dims: LongArray, base: LongArray, level: int, mean: SingleArray, high: SingleArray) -> None:
    """Write the statistics of the blocks of a level from those of the level below."""
    fine, coarse = dims[level - 1], dims[level]
    depth = 2 if fine[2] > 1 else 1
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
