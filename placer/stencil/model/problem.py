"""The nouns of the mapper: a problem (volume, heat, fabric), a solution, and what one is worth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from placer.base import InputError, IntArray, LongArray, SingleArray

TILE_POINTS = 10  # grid points along the edge of a tile: its edge in sampling units at level 0
MAX_PES = 20_000_000  # the official score holds 100 * PEs in 32 bits
EMPTY_LEVEL = -1  # of prisms without tiles


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A volume of 2 or 3 axes with heat at its lattice points, and the fabric to map it to.

    Raises InputError for sizes, counts or values that are not allowed.
    """

    volume: tuple[int, ...]  # extents along x, y and, in 3-D, z
    fabric: tuple[int, int]  # processing elements along x and y
    heat: SingleArray  # [vz + 1, vy + 1, vx + 1], in 2-D [1, vy + 1, vx + 1]; in [0, 1]
    weights: tuple[float, float] = (1.0, 1.0)  # of the terms of `WeightedSum`

    def __post_init__(self) -> None:
        if len(self.volume) not in (2, 3):
            raise InputError(f"dimension is {len(self.volume)}; allowed: 2 or 3")
        for name, sizes in (("volume", self.volume), ("fabric", self.fabric)):
            if min(sizes) < 1:
                raise InputError(f"{name} is {_by(sizes)}; every size must be at least 1")
        if self.num_pes > MAX_PES:
            raise InputError(f"fabric {_by(self.fabric)} has {self.num_pes:,} PEs; allowed: {MAX_PES:,}")
        if self.heat.shape != lattice_shape(self.volume):
            raise InputError(
                f"{self.heat.size:,} heat values; a volume of {_by(self.volume)} needs "
                f"{math.prod(lattice_shape(self.volume)):,} (one per lattice point)"
            )
        bad = ~((self.heat >= 0) & (self.heat <= 1))
        if bad.any():
            where = int(np.argmax(bad))
            raise InputError(
                f"heat value {where + 1:,} is {self.heat.ravel()[where]:g}; every value must lie in [0, 1]"
            )

    @property
    def dimension(self) -> int:
        return len(self.volume)

    @property
    def num_pes(self) -> int:
        return self.fabric[0] * self.fabric[1]


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Prisms of tiles, and the processing element of every tile and adapter connection."""

    dimension: int
    sampling: int  # inverse sampling step: sampling units per unit of the volume
    prisms: LongArray  # [prisms, 7]: level, origin x y z (sampling units), tiles along x y z
    compute_map: IntArray  # [tiles, 2]: x, y
    adapter_map: IntArray  # [connections of adapters, 2]: x, y


def lattice_shape(volume: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the shape of the array of heat values; a flat volume has one layer."""
    vx, vy, *rest = volume
    return (rest[0] + 1 if rest else 1, vy + 1, vx + 1)


def sampling_unit(volume: tuple[int, ...]) -> int:
    """Return what sampling must be a multiple of, so that tiles can fill the volume exactly."""
    return int(np.lcm.reduce([TILE_POINTS // np.gcd(TILE_POINTS, v) for v in volume]))


def _by(sizes: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in sizes)


# What a mapping is worth: a function of normalised accuracy and wires that must not fall with
# either. The mapper knows it by its values alone. Whether shorter wires still help, and how many
# tiles should be traded for them, it finds out by asking.
Objective = Callable[[float, float], float]


class ObjectiveName(Enum):
    """The objectives that a command can be told."""

    CONTEST = "contest"  # the smaller of the two terms: the official score
    WEIGHTED = "weighted"  # their sum, weighted as the problem file says


def contest_score(accuracy: float, wires: float) -> float:
    """Return the official score: the smaller of the two terms."""
    return min(accuracy, wires)


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """alpha * accuracy + beta * min(1, wires), as the call for participation weighted the terms."""

    alpha: float
    beta: float

    def __call__(self, accuracy: float, wires: float) -> float:
        return self.alpha * accuracy + self.beta * min(1.0, wires)


def make_objective(name: ObjectiveName, problem: Problem) -> Objective:
    """Return the objective with this name for a problem."""
    return contest_score if name is ObjectiveName.CONTEST else WeightedSum(*problem.weights)
