"""The independent checker and scorer: rules and formulas of the contest, nothing of the mapper.

A solution is painted cell by cell onto the volume (a cell is the smallest tile that occurs, not
the smallest that the sampling would allow); what a tile touches is then read from the painting.
docs/stencil.md states the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from placer.errors import InputError
from placer.stencil.problem import (
    EMPTY_LEVEL,
    TILE_POINTS,
    IntArray,
    LongArray,
    Problem,
    Solution,
)
from placer.stencil.scoring_kernels import (
    SPLIT_ADAPTER,
    UNPAINTED,
    hottest_empty,
    list_tiles,
    paint,
    read_faces,
    sum_wires,
    tile_terms,
)

EMPTY_HEAT = 1e-6  # largest integral of heat over an empty prism
MAX_LEVEL = 30  # a tile of it is larger than any volume whose size fits 32 bits
MAX_CELLS = 1_000_000_000  # that are painted, in 4 bytes each
WIRE_CAPACITY = 100  # the score of the wires is 1 at this many units of L^1.5 per PE


class Fault(Enum):
    """Why a solution is illegal."""

    SAMPLING = "sampling step does not divide the volume into tiles"
    PRISM = "prism has a wrong level, shape or origin"
    OUTSIDE = "prism leaves the volume"
    OVERLAP = "prisms overlap"
    COVERAGE = "prisms do not cover the volume"
    EMPTY = "empty prism has heat"
    LEVELS = "neighbours differ by two levels or more"
    PARTIAL = "face of a tile is not matched by its neighbours"
    COMPUTE_COUNT = "compute_map has the wrong number of rows"
    COMPUTE_RANGE = "tile outside the fabric"
    COMPUTE_SHARED = "two tiles on one PE"
    ADAPTER_COUNT = "adapter_map has the wrong number of rows"
    ADAPTER_RANGE = "adapter outside the fabric"
    ADAPTER_SPLIT = "connections of an adapter name different PEs"
    ADAPTER_SHARED = "adapter on the PE of a tile or of another adapter"


class IllegalSolutionError(ValueError):
    """A solution breaks a rule: `fault` says which, the message where."""

    def __init__(self, fault: Fault, detail: str) -> None:
        self.fault = fault
        super().__init__(f"{fault.value}: {detail}")


@dataclass(frozen=True, slots=True)
class Score:
    """What a legal solution is worth."""

    accuracy: float  # sum over tiles of mean heat / (resolution * scale)
    wires: float  # S: sum over connections of 2 * length^1.5
    num_pes: int  # of the fabric
    num_tiles: int
    num_adapters: int
    scale: float

    @property
    def accuracy_norm(self) -> float:
        return self.accuracy / self.num_pes

    @property
    def wires_norm(self) -> float:
        return wires_norm(self.wires, self.num_pes)

    @property
    def total(self) -> float:
        return min(self.accuracy_norm, self.wires_norm)

    @property
    def used_pes(self) -> int:
        return self.num_tiles + self.num_adapters


def wires_norm(wires: float, num_pes: int) -> float:
    """(100 N / S)^(2/3), and 1 when there is next to no wire."""
    if wires ** (2 / 3) <= 1e-4:
        return 1.0
    return float((WIRE_CAPACITY * num_pes / wires) ** (2 / 3))


def score(problem: Problem, solution: Solution) -> Score:
    """Check every rule, then score. Raises IllegalSolutionError."""
    grid = _grid_of(problem, solution)
    _check_empty_prisms(problem, solution)
    num_adapters = _check_faces(problem, grid)
    _check_compute_map(problem, grid.tiles, solution)
    wires = _check_adapters(problem, grid, solution, num_adapters)
    means, ratios = np.zeros(len(grid.tiles)), np.zeros(len(grid.tiles))
    tile_terms(problem.heat, grid.tiles, grid.unit, np.zeros((2, 3)), means, ratios)
    # Levels of the grid begin at 0, those of the solution at `lowest`.
    scale = max(1.0, float(ratios.max(initial=0.0)) * 2.0**grid.lowest)
    accuracy = float(np.sum(means * 2.0 ** (grid.tiles[:, 0] + grid.lowest)) / scale)
    return Score(accuracy, wires, problem.num_pes, len(grid.tiles), num_adapters, scale)


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """The volume in cells of the smallest tile, every cell painted with what it belongs to."""

    lowest: int  # level of the cells
    unit: float  # edge of a cell in volume units
    tiles: IntArray  # [tiles, 4] in the order of ids: level above `lowest`, origin in cells
    painting: IntArray  # [z, y, x]: tile id, NO_NEIGHBOUR where empty


def _grid_of(problem: Problem, solution: Solution) -> _Grid:
    """Read the prisms, each in the volume, all together covering it once."""
    counts = np.array(_level_0_cells(problem, solution))
    prisms = _prisms_in_cells(solution, counts)
    lowest = _common_level(prisms, counts, solution.dimension)
    edge = np.array([1 << lowest, 1 << lowest, 1 << lowest if solution.dimension == 3 else 1])
    is_empty = prisms[:, 0] == EMPTY_LEVEL
    prisms[~is_empty, 0] -= lowest
    prisms[:, 1:4] //= edge
    prisms[is_empty, 4:7] //= edge
    shape = counts // edge
    if np.prod(shape, dtype=float) > MAX_CELLS:
        raise InputError(
            f"the smallest tiles cut the volume into {np.prod(shape, dtype=float):.3g} cells; "
            f"this checker can hold {MAX_CELLS:.3g}"
        )
    tile_counts = np.where(is_empty, 0, np.prod(prisms[:, 4:7], axis=1))
    tiles = np.zeros((int(tile_counts.sum()), 4), np.int32)
    list_tiles(prisms, solution.dimension, tiles)
    painting = np.full(shape[::-1], UNPAINTED, np.int32)
    prism = paint(prisms, solution.dimension, painting)
    if prism >= 0:
        raise IllegalSolutionError(Fault.OVERLAP, f"prism {prism} and one before it")
    if (painting == UNPAINTED).any():
        raise IllegalSolutionError(Fault.COVERAGE, "some cells belong to no prism")
    return _Grid(lowest, TILE_POINTS * 2.0**lowest / solution.sampling, tiles, painting)


def _level_0_cells(problem: Problem, solution: Solution) -> tuple[int, int, int]:
    """Numbers of tiles of level 0 along x, y, z."""
    if solution.dimension != problem.dimension or solution.sampling < 1:
        raise IllegalSolutionError(Fault.SAMPLING, f"inverse step {solution.sampling}")
    counts = []
    for v in problem.volume:
        if v * solution.sampling % TILE_POINTS:
            raise IllegalSolutionError(
                Fault.SAMPLING, f"{v} * {solution.sampling} is no multiple of {TILE_POINTS}"
            )
        counts.append(v * solution.sampling // TILE_POINTS)
    return (counts[0], counts[1], counts[2] if len(counts) == 3 else 1)


def _prisms_in_cells(solution: Solution, counts: LongArray) -> LongArray:
    """A copy with origins in tiles of level 0; no prism is malformed or leaves the volume."""
    prisms = solution.prisms.copy()
    levels, origins, shapes = prisms[:, 0], prisms[:, 1:4], prisms[:, 4:7]
    bad = (levels < EMPTY_LEVEL) | (levels > MAX_LEVEL) | (shapes < 1).any(axis=1)
    if bad.any():
        raise IllegalSolutionError(Fault.PRISM, f"prism {int(np.argmax(bad))}")
    edges = np.left_shift(1, np.maximum(levels, 0))[:, None] * np.ones(3, np.int64)
    units = np.full(3, TILE_POINTS)
    if solution.dimension == 2:
        edges[:, 2] = units[2] = 1
    ends = origins + shapes.astype(np.float64) * edges * units  # may be beyond 64-bit integers
    leaves = ((origins < 0) | (ends > counts * units)).any(axis=1)
    if leaves.any():
        raise IllegalSolutionError(Fault.OUTSIDE, f"prism {int(np.argmax(leaves))}")
    if np.prod(shapes * edges, axis=1, dtype=float).sum() > np.prod(counts, dtype=float) * 1.0001:
        raise IllegalSolutionError(Fault.OVERLAP, "their volumes sum to more than the volume")
    # Edges are multiples of 10, so in an exact cover all origins are.
    loose = (origins % units != 0).any(axis=1)
    if loose.any():
        raise IllegalSolutionError(
            Fault.COVERAGE, f"prism {int(np.argmax(loose))} is not at a multiple of {TILE_POINTS}"
        )
    prisms[:, 1:4] //= units
    return prisms


def _common_level(prisms: LongArray, counts: LongArray, dimension: int) -> int:
    """The highest level of whose tiles everything is made."""
    is_empty = prisms[:, 0] == EMPTY_LEVEL
    lengths = np.concatenate(
        [
            counts[:dimension],
            prisms[:, 1 : 1 + dimension].ravel(),
            prisms[is_empty, 4 : 4 + dimension].ravel(),
            np.left_shift(1, prisms[~is_empty, 0]),
        ]
    )
    common = int(np.gcd.reduce(lengths))
    return (common & -common).bit_length() - 1  # the power of two in it


def _check_empty_prisms(problem: Problem, solution: Solution) -> None:
    unit = 1.0 / solution.sampling
    prism, heat = hottest_empty(
        problem.heat, solution.prisms, unit, TILE_POINTS * unit, np.zeros((2, 3))
    )
    if heat > EMPTY_HEAT:
        raise IllegalSolutionError(Fault.EMPTY, f"prism {prism} holds {heat:.3g}")


def _check_faces(problem: Problem, grid: _Grid) -> int:
    """The number of adapters that the faces need."""
    found = np.zeros(8, np.int32)
    tile, face, is_level, num_adapters = read_faces(
        grid.tiles, grid.painting, problem.dimension, found
    )
    if tile >= 0:
        fault = Fault.LEVELS if is_level else Fault.PARTIAL
        level = grid.tiles[tile, 0] + grid.lowest
        raise IllegalSolutionError(fault, f"tile {tile} (level {level}), face {face}")
    return int(num_adapters)


def _check_compute_map(problem: Problem, tiles: IntArray, solution: Solution) -> None:
    places = solution.compute_map
    if len(places) != len(tiles):
        raise IllegalSolutionError(
            Fault.COMPUTE_COUNT, f"{len(places)} rows for {len(tiles)} tiles"
        )
    _check_range(problem, places, Fault.COMPUTE_RANGE)
    sites = places[:, 0] + places[:, 1].astype(np.int64) * problem.fabric[0]
    if len(np.unique(sites)) != len(sites):
        order = np.sort(sites)
        site = int(order[:-1][order[1:] == order[:-1]][0])
        where = f"({site % problem.fabric[0]}, {site // problem.fabric[0]})"
        raise IllegalSolutionError(Fault.COMPUTE_SHARED, f"PE {where}")


def _check_range(problem: Problem, places: IntArray, fault: Fault) -> None:
    outside = ((places < 0) | (places >= np.array(problem.fabric))).any(axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        raise IllegalSolutionError(fault, f"row {row}: {places[row, 0]} {places[row, 1]}")


def _check_adapters(problem: Problem, grid: _Grid, solution: Solution, num_adapters: int) -> float:
    """S over all connections."""
    fan = 2 ** (problem.dimension - 1)
    places = solution.adapter_map
    if len(places) != num_adapters * fan:
        raise IllegalSolutionError(
            Fault.ADAPTER_COUNT,
            f"{len(places)} rows for {num_adapters} adapters of {fan} connections",
        )
    _check_range(problem, places, Fault.ADAPTER_RANGE)
    taken = np.zeros(problem.fabric[::-1], np.int8)
    taken[solution.compute_map[:, 1], solution.compute_map[:, 0]] = 1
    found, wires = np.zeros(8, np.int32), np.zeros(1)
    fault, row = sum_wires(
        grid.tiles, grid.painting, problem.dimension, solution.compute_map, places, taken, found,
        wires,
    )  # fmt: skip
    if fault:
        kind = Fault.ADAPTER_SPLIT if fault == SPLIT_ADAPTER else Fault.ADAPTER_SHARED
        raise IllegalSolutionError(kind, f"row {row}")
    return float(wires[0])
