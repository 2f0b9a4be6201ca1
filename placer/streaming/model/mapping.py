"""A mapping: tile and start of every instruction; and what a search for one returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from placer.base import LongArray


@dataclass(frozen=True, slots=True)
class Mapping:
    """Where and when each instruction runs."""

    tile: LongArray  # [num_nodes]
    start: LongArray  # [num_nodes] cycle in the first thread
    ii: int
    depth: int

    @property
    def spoke(self) -> LongArray:
        return np.asarray(self.start % self.ii)

    @property
    def cycles(self) -> int:
        """Return the cycles until the last result is ready, as the mapper counts; the checker recounts."""
        return int(self.start.max()) + self.depth


@dataclass(frozen=True, slots=True)
class Found:
    """What a mapper found: no mapping when its time was too short or there is none.

    Raises RuntimeError when the mapping takes fewer cycles than the bound says is possible.
    """

    mapping: Mapping | None
    bound: int  # no mapping takes fewer cycles
    tries: int  # mappings that were looked at
    is_infeasible: bool = False  # proved that there is no mapping
    needed: float | None = None  # seconds that it would take, told when a look at the first steps said so

    def __post_init__(self) -> None:
        if self.mapping is not None and self.mapping.cycles < self.bound:
            raise RuntimeError(
                f"a lower bound is wrong: {self.bound} cycles, but a mapping takes {self.mapping.cycles}"
            )

    @property
    def is_optimal(self) -> bool:
        return self.mapping is not None and self.mapping.cycles == self.bound


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a search may go on: by the clock, by the number of mappings it looks at, or both.

    Nothing remains once the user has interrupted.
    """

    seconds: float
    tries: int | None = None
    is_interrupted: Callable[[], bool] = lambda: False
    began: float = field(default_factory=time.monotonic)

    def is_spent(self, tries: int) -> bool:
        return self.remaining <= 0 or (self.tries is not None and tries >= self.tries)

    @property
    def remaining(self) -> float:
        """Return the seconds that are left."""
        left = self.began + self.seconds - time.monotonic()
        return 0.0 if self.is_interrupted() else max(0.0, left)

    def part(self, seconds: float, tries: int | None = None) -> Budget:
        """Return a budget of its own, from now on, for a step of the search."""
        return replace(self, seconds=seconds, tries=tries, began=time.monotonic())
