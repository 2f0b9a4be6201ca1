"""A mapping: tile and start of every instruction; and what a search for one returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from placer.streaming.bounds import IntArray


@dataclass(frozen=True, slots=True)
class Mapping:
    """Where and when each instruction runs."""

    tile: IntArray  # [num_nodes]
    start: IntArray  # [num_nodes] cycle in the first thread
    ii: int
    depth: int

    @property
    def spoke(self) -> IntArray:
        return np.asarray(self.start % self.ii)

    @property
    def cycles(self) -> int:
        """Until the last result is ready, by the mapper's own count; the checker recounts."""
        return int(self.start.max()) + self.depth

    def with_start(self, start: Sequence[int]) -> Mapping:
        """The same tiles with other starts."""
        return Mapping(self.tile, np.array(start), self.ii, self.depth)


def require_bound(bound: int, cycles: int) -> None:
    """RuntimeError when a legal mapping takes fewer cycles than a bound says is possible."""
    if cycles < bound:
        raise RuntimeError(f"a lower bound is wrong: {bound} cycles, but a mapping takes {cycles}")


@dataclass(frozen=True, slots=True)
class Found:
    """What a mapper found: no mapping when its time was too short or there is none."""

    mapping: Mapping | None
    bound: int  # no mapping takes fewer cycles
    tries: int  # mappings that were looked at
    is_infeasible: bool = False  # proved that there is no mapping

    def __post_init__(self) -> None:
        if self.mapping is not None:
            require_bound(self.bound, self.mapping.cycles)

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
        """Seconds."""
        left = self.began + self.seconds - time.monotonic()
        return 0.0 if self.is_interrupted() else max(0.0, left)

    def part(self, seconds: float, tries: int | None = None) -> Budget:
        """A budget of its own, from now on, for a step of the search."""
        return replace(self, seconds=seconds, tries=tries, began=time.monotonic())
