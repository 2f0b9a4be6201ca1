"""The independent checker and scorer: rules and formulas of the contest, nothing of the mapper.

A solution is painted cell by cell onto the sampled volume (a cell is the smallest tile); what a
tile touches is then read from the painting. docs/stencil.md states the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from placer.stencil.check_kernels import (
    NO_NEIGHBOUR,
    adapters_and_wires,
    face_faults,
    list_tiles,
    paint,
    tile_terms,
)
from placer.stencil.integrals import box_integral
from placer.stencil.problem import EMPTY_LEVEL, TILE_POINTS, IntArray, Problem, Solution

EMPTY_HEAT = 1e-6  # largest integral of heat over an empty prism
MAX_LEVEL = 24
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
    cells = _cells(problem, solution)
    tiles = _tiles(solution, cells)
    painting = _paint(problem, solution, tiles, cells)
    _check_faces(problem, tiles, painting)
    _check_compute_map(problem, tiles, solution)
    num_adapters, wires = _check_adapters(problem, tiles, painting, solution)
    means, ratios = np.zeros(len(tiles)), np.zeros(len(tiles))
    scratch = np.zeros((2, 3))
    tile_terms(problem.heat, tiles, TILE_POINTS / solution.sampling, scratch, means, ratios)
    scale = max(1.0, float(ratios.max(initial=0.0)))
    accuracy = float(np.sum(means * 2.0 ** tiles[:, 0]) / scale)
    return Score(accuracy, wires, problem.num_pes, len(tiles), num_adapters, scale)


def _cells(problem: Problem, solution: Solution) -> tuple[int, int, int]:
    """Numbers of smallest tiles along x, y, z."""
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


def _tiles(solution: Solution, cells: tuple[int, int, int]) -> IntArray:
    """Tiles in the order of their ids, [tiles, 4]: level, origin in cells."""
    prisms = solution.prisms
    levels, origins, shapes = prisms[:, 0], prisms[:, 1:4], prisms[:, 4:7]
    bad = (levels < EMPTY_LEVEL) | (levels > MAX_LEVEL) | (shapes < 1).any(axis=1)
    if bad.any():
        raise IllegalSolutionError(Fault.PRISM, f"prism {int(np.argmax(bad))}")
    edges = np.left_shift(1, np.maximum(levels, 0))[:, None] * np.ones(3, np.int64)
    if solution.dimension == 2:
        edges[:, 2] = 1
    units = np.array([TILE_POINTS, TILE_POINTS, 1 if solution.dimension == 2 else TILE_POINTS])
    limit = np.array(cells) * units
    leaves = ((origins < 0) | (origins + shapes * edges * units > limit)).any(axis=1)
    if leaves.any():
        raise IllegalSolutionError(Fault.OUTSIDE, f"prism {int(np.argmax(leaves))}")
    volumes = np.prod(shapes * edges, axis=1)
    if int(volumes.sum()) > np.prod(cells, dtype=np.int64):
        raise IllegalSolutionError(Fault.OVERLAP, "their volumes sum to more than the volume")
    # Edges are multiples of 10, so in an exact cover all origins are.
    loose = (origins % units != 0).any(axis=1)
    if loose.any():
        raise IllegalSolutionError(
            Fault.COVERAGE, f"prism {int(np.argmax(loose))} is not at a multiple of {TILE_POINTS}"
        )
    counts = np.where(levels >= 0, np.prod(shapes, axis=1), 0)
    tiles = np.zeros((int(counts.sum()), 4), np.int32)
    list_tiles(prisms, origins // units, solution.dimension, tiles)
    return tiles


def _paint(
    problem: Problem, solution: Solution, tiles: IntArray, cells: tuple[int, int, int]
) -> IntArray:
    """Tile id per cell [z, y, x], NO_NEIGHBOUR where empty; every cell painted once."""
    painting = np.full(cells[::-1], NO_NEIGHBOUR - 1, np.int32)
    prism = paint(solution.prisms, solution.dimension, TILE_POINTS, painting)
    if prism >= 0:
        raise IllegalSolutionError(Fault.OVERLAP, f"prism {prism} and one before it")
    if (painting == NO_NEIGHBOUR - 1).any():
        raise IllegalSolutionError(Fault.COVERAGE, "some cells belong to no prism")
    for k in np.flatnonzero(solution.prisms[:, 0] == EMPTY_LEVEL):
        low = solution.prisms[k, 1:4] / solution.sampling
        high = low + solution.prisms[k, 4:7] * TILE_POINTS / solution.sampling
        heat = box_integral(problem.heat, low, high)
        if heat > EMPTY_HEAT:
            raise IllegalSolutionError(Fault.EMPTY, f"prism {k} holds {heat:.3g}")
    return painting


def _check_faces(problem: Problem, tiles: IntArray, painting: IntArray) -> None:
    found = np.zeros(8, np.int32)
    tile, face, is_level = face_faults(tiles, painting, problem.dimension, found)
    if tile >= 0:
        fault = Fault.LEVELS if is_level else Fault.PARTIAL
        raise IllegalSolutionError(fault, f"tile {tile} (level {tiles[tile, 0]}), face {face}")


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


def _check_adapters(
    problem: Problem, tiles: IntArray, painting: IntArray, solution: Solution
) -> tuple[int, float]:
    """Number of adapters, and S over all connections."""
    fan = 2 ** (problem.dimension - 1)
    places = solution.adapter_map
    _check_range(problem, places, Fault.ADAPTER_RANGE)
    taken = np.zeros(problem.fabric[::-1], np.int8)
    taken[solution.compute_map[:, 1], solution.compute_map[:, 0]] = 1
    found = np.zeros(8, np.int32)
    wires = np.zeros(1)
    fault, row = adapters_and_wires(
        tiles, painting, problem.dimension, solution.compute_map, places, taken, found, wires
    )
    if fault == 1:
        raise IllegalSolutionError(
            Fault.ADAPTER_COUNT, f"{len(places)} rows, the tiles need {row} of them"
        )
    if fault == 2:
        raise IllegalSolutionError(Fault.ADAPTER_SPLIT, f"row {row}")
    if fault == 3:
        raise IllegalSolutionError(Fault.ADAPTER_SHARED, f"row {row}")
    return len(places) // fan, float(wires[0])
