"""What a search is asked: what to place, and how to search."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from placer.annealing.annealer import AnnealOptions
from placer.annealing.loop import Start
from placer.base import BoolArray, InputError
from placer.cost import CostModel, Rules
from placer.fabric import Fabric
from placer.netlist import Netlist


class StartKind(Enum):
    """Where a search begins when no placement is given."""

    RANDOM = "random"  # a random placement
    HEURISTIC = "heuristic"  # the end of a search with the heuristic, at the same effort


@dataclass(frozen=True, slots=True)
class Task:
    """What to place."""

    fabric: Fabric
    netlist: Netlist
    cost: CostModel
    is_allowed: BoolArray  # [num_units, num_sites] see `allowed_sites`


@dataclass(frozen=True, slots=True)
class Strategy:
    """How to search."""

    options: AnnealOptions  # the limits hold for one start
    start: StartKind = StartKind.RANDOM
    rules: Rules = field(default_factory=Rules)  # of the heuristic that makes starts
    warm_start: Start | None = None  # begin here, whatever `start` says
    pool: int = 1  # searches with the heuristic, of which the best is the start (pool.py)
    finalists: int = 0  # placements that are simulated, of which the fastest is the result

    def __post_init__(self) -> None:
        if self.pool < 1 or self.finalists < 0:
            raise InputError(f"pool={self.pool}, finalists={self.finalists}; allowed: 1 or more, 0 or more")

    @property
    def has_pool(self) -> bool:
        """Return whether searches with the heuristic make the start."""
        return self.warm_start is None and self.start is StartKind.HEURISTIC
