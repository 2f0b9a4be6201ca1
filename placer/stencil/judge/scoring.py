"""The independent checker and scorer: rules and formulas of the contest, nothing of the mapper.

A solution is painted cell by cell onto the volume (a cell is the smallest tile that occurs, not
the smallest that the sampling would allow); what a tile touches is then read from the painting.
docs/stencil.md states the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from placer.base import BoolArray, InputError, IntArray, LongArray
from placer.stencil.judge.kernels import UNPAINTED, hottest_empty, paint, read_faces, tile_terms
from placer.stencil.model import EMPTY_LEVEL, TILE_POINTS, Problem, Solution

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
    def binding(self) -> str:
        """Return the name of the smaller term."""
        return "accuracy" if self.accuracy_norm <= self.wires_norm else "wires"

    @property
    def used_pes(self) -> int:
        return self.num_tiles + self.num_adapters


def wires_norm(wires: float, num_pes: int) -> float:
    """Return (100 N / S)^(2/3), or 1 when there is next to no wire."""
    if wires ** (2 / 3) <= 1e-4:
        return 1.0
    return float((WIRE_CAPACITY * num_pes / wires) ** (2 / 3))


def score(problem: Problem, solution: Solution) -> Score:
    """Check every rule, then score. Raises IllegalSolutionError."""
    lowest, tiles, painting = _painted(problem, solution)
    step = 1.0 / solution.sampling
    prism, heat = hottest_empty(problem.heat, solution.prisms, step, TILE_POINTS * step)
    if heat > EMPTY_HEAT:
        raise IllegalSolutionError(Fault.EMPTY, f"prism {prism} holds {heat:.3g}")
    num_adapters, links = _read_faces(problem.dimension, lowest, tiles, painting)
    places = _check_places(problem, solution, len(tiles), num_adapters)
    wires = _sum_wires(places, links)
    means, ratios = np.zeros(len(tiles)), np.zeros(len(tiles))
    unit = TILE_POINTS * 2.0**lowest / solution.sampling  # edge of a cell in volume units
    tile_terms(problem.heat, tiles, unit, means, ratios)
    # Levels of `tiles` begin at 0, those of the solution at `lowest`.
    scale = max(1.0, float(ratios.max(initial=0.0)) * 2.0**lowest)
    accuracy = float(np.sum(means * 2.0 ** (tiles[:, 0] + lowest)) / scale)
    return Score(accuracy, wires, problem.num_pes, len(tiles), num_adapters, scale)


def _painted(problem: Problem, solution: Solution) -> tuple[int, IntArray, IntArray]:
    """Read the prisms, each in the volume, all together covering it once.

    Return the level of the smallest tiles, of which cells are made; the tiles [tiles, 4] in the
    order of their ids (level above that one, origin in cells); and the cells [z, y, x], each
    painted with the id of its tile, or NO_NEIGHBOUR where it is empty.
    """
    counts = _level_0_cells(problem, solution)
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
    painting = np.full(shape[::-1], UNPAINTED, np.int32)
    prism = paint(prisms, solution.dimension, tiles, painting)
    if prism >= 0:
        raise IllegalSolutionError(Fault.OVERLAP, f"prism {prism} and one before it")
    if (painting == UNPAINTED).any():
        raise IllegalSolutionError(Fault.COVERAGE, "some cells belong to no prism")
    return lowest, tiles, painting


def _level_0_cells(problem: Problem, solution: Solution) -> LongArray:
    """Return the numbers of tiles of level 0 along x, y, z."""
    if solution.dimension != problem.dimension or solution.sampling < 1:
        raise IllegalSolutionError(Fault.SAMPLING, f"inverse step {solution.sampling}")
    counts = np.ones(3, np.int64)
    for axis, v in enumerate(problem.volume):
        counts[axis], rest = divmod(v * solution.sampling, TILE_POINTS)
        if rest:
            detail = f"{v} * {solution.sampling} is no multiple of {TILE_POINTS}"
            raise IllegalSolutionError(Fault.SAMPLING, detail)
    return counts


def _prisms_in_cells(solution: Solution, counts: LongArray) -> LongArray:
    """Return the prisms, origins in tiles of level 0; none is malformed or leaves the volume."""
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
        detail = f"prism {int(np.argmax(loose))} is not at a multiple of {TILE_POINTS}"
        raise IllegalSolutionError(Fault.COVERAGE, detail)
    prisms[:, 1:4] //= units
    return prisms


def _common_level(prisms: LongArray, counts: LongArray, dimension: int) -> int:
    """Return the highest level of whose tiles everything is made."""
    is_empty = prisms[:, 0] == EMPTY_LEVEL
    origins, shapes = prisms[:, 1 : 1 + dimension], prisms[is_empty, 4 : 4 + dimension]
    edges = np.left_shift(1, prisms[~is_empty, 0])
    lengths = [counts[:dimension], origins.ravel(), shapes.ravel(), edges]
    common = int(np.gcd.reduce(np.concatenate(lengths)))
    return (common & -common).bit_length() - 1  # the power of two in it


def _read_faces(dimension: int, lowest: int, tiles: IntArray, painting: IntArray) -> tuple[int, IntArray]:
    """Return the number of adapters that the faces need, and all links [links, 2] of nodes."""
    # A link of tiles takes two faces; an adapter takes one for each of its links.
    links, found = np.empty((2 * dimension * len(tiles), 2), np.int32), np.zeros(8, np.int32)
    tile, face, is_level, num_adapters, num_links = read_faces(tiles, painting, dimension, found, links)
    if tile >= 0:
        fault = Fault.LEVELS if is_level else Fault.PARTIAL
        level = tiles[tile, 0] + lowest
        raise IllegalSolutionError(fault, f"tile {tile} (level {level}), face {face}")
    return num_adapters, links[:num_links]


def _check_places(problem: Problem, solution: Solution, num_tiles: int, num_adapters: int) -> IntArray:
    """Return the places [nodes, 2] of tiles and adapters, each on a PE of its own."""
    tiles, rows, fan = solution.compute_map, solution.adapter_map, 2 ** (problem.dimension - 1)
    if len(tiles) != num_tiles:
        raise IllegalSolutionError(Fault.COMPUTE_COUNT, f"{len(tiles)} rows for {num_tiles} tiles")
    _check_range(problem, tiles, Fault.COMPUTE_RANGE)
    sites, is_shared = _sites(problem, tiles)
    if is_shared.any():
        y, x = divmod(int(sites[is_shared].min()), problem.fabric[0])
        raise IllegalSolutionError(Fault.COMPUTE_SHARED, f"PE ({x}, {y})")
    if len(rows) != num_adapters * fan:
        detail = f"{len(rows)} rows for {num_adapters} adapters of {fan} connections"
        raise IllegalSolutionError(Fault.ADAPTER_COUNT, detail)
    _check_range(problem, rows, Fault.ADAPTER_RANGE)
    is_split = (rows != np.repeat(rows[::fan], fan, axis=0)).any(axis=1)
    split = int(np.argmax(is_split)) if is_split.any() else len(rows)
    places = np.concatenate([tiles, rows[: split // fan * fan : fan]])  # of whole adapters
    _, is_shared = _sites(problem, places)
    if is_shared.any():
        row = fan * (int(np.argmax(is_shared)) - num_tiles)
        raise IllegalSolutionError(Fault.ADAPTER_SHARED, f"row {row}")
    if split < len(rows):
        raise IllegalSolutionError(Fault.ADAPTER_SPLIT, f"row {split}")
    return places


def _check_range(problem: Problem, places: IntArray, fault: Fault) -> None:
    outside = ((places < 0) | (places >= np.array(problem.fabric))).any(axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        raise IllegalSolutionError(fault, f"row {row}: {places[row, 0]} {places[row, 1]}")


def _sites(problem: Problem, places: IntArray) -> tuple[LongArray, BoolArray]:
    """Return places as single numbers, and which of them stood there before."""
    sites = places[:, 0] + places[:, 1].astype(np.int64) * problem.fabric[0]
    is_shared = np.ones(len(sites), bool)
    is_shared[np.unique(sites, return_index=True)[1]] = False
    return sites, is_shared


def _sum_wires(places: IntArray, links: IntArray) -> float:
    """Return S: the sum over links, in their order, of both directions, 2 * L^1.5."""
    lengths = np.abs(places[links[:, 0]] - places[links[:, 1]]).sum(axis=1)
    return float(np.cumsum(2.0 * lengths * np.sqrt(lengths))[-1]) if len(links) else 0.0
