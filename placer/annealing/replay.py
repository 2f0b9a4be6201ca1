"""How the best placement changed during a search, in few steps: for looking at it afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field

from placer.annealing.annealer import Round
from placer.decision import Decisions

MAX_SNAPSHOTS = 24  # enough to watch, little to keep


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The best placement after a round."""

    moves: int  # so far
    temperature: float
    energy: float
    decision: Decisions  # a stack of one


@dataclass(slots=True)
class Replay:
    """At most `MAX_SNAPSHOTS` rounds, evenly spread over those that found something better.

    When there are too many, every second one is forgotten and from then on half as many are kept.
    """

    snapshots: list[Snapshot] = field(default_factory=list)
    _stride: int = 1
    _num_better: int = 0
    _best: float = float("inf")

    def add(self, point: Round, decision: Decisions) -> None:
        """Note the best placement after a round; it is ignored when the last one was as good."""
        if not point.best_energy < self._best:
            return
        self._best = point.best_energy
        if self._num_better % self._stride == 0:
            self.snapshots.append(Snapshot(point.moves, point.temperature, point.best_energy, decision))
        self._num_better += 1
        if len(self.snapshots) > MAX_SNAPSHOTS:
            self.snapshots = self.snapshots[::2]
            self._stride *= 2
