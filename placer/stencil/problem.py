"""The two nouns of the mapper: a problem (volume, heat, fabric) and a solution (prisms, places)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placer.errors import InputError

HeatArray = NDArray[np.float32]
LongArray = NDArray[np.int64]
IntArray = NDArray[np.int32]

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
    heat: HeatArray  # [vz + 1, vy + 1, vx + 1], in 2-D [1, vy + 1, vx + 1]; in [0, 1]
    weights: tuple[float, float] = (1.0, 1.0)  # part of the file format; the score ignores them

    def __post_init__(self) -> None:
        if len(self.volume) not in (2, 3):
            raise InputError(f"dimension is {len(self.volume)}; allowed: 2 or 3")
        for name, sizes in (("volume", self.volume), ("fabric", self.fabric)):
            if min(sizes) < 1:
                raise InputError(f"{name} is {_by(sizes)}; every size must be at least 1")
        if self.num_pes > MAX_PES:
            raise InputError(
                f"fabric {_by(self.fabric)} has {self.num_pes:,} PEs; allowed: {MAX_PES:,}"
            )
        if self.heat.shape != lattice_shape(self.volume):
            raise InputError(
                f"{self.heat.size:,} heat values; a volume of {_by(self.volume)} needs "
                f"{math.prod(lattice_shape(self.volume)):,} (one per lattice point)"
            )
        bad = ~((self.heat >= 0) & (self.heat <= 1))
        if bad.any():
            where = int(np.argmax(bad))
            raise InputError(
                f"heat value {where + 1:,} is {self.heat.ravel()[where]:g}; "
                "every value must lie in [0, 1]"
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
    """Shape of the array of heat values; a flat volume has one layer."""
    vx, vy, *rest = volume
    return (rest[0] + 1 if rest else 1, vy + 1, vx + 1)


def sampling_unit(volume: tuple[int, ...]) -> int:
    """Sampling must be a multiple of this, so that tiles can fill the volume exactly."""
    return int(np.lcm.reduce([TILE_POINTS // np.gcd(TILE_POINTS, v) for v in volume]))


def _by(sizes: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in sizes)
