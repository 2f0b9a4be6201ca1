"""The last word belongs to the simulator: the best placements of a search are simulated.

A search finds the errors of its cost model: what it likes best is what the model overrates most. So
the best placement after every round is remembered, and a few of those that the model likes are
simulated for long; the fastest wins.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from placer.annealing.rerouting import energies_of
from placer.cost import CostModel, SimulatorCost
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.netlist import Netlist

JUDGING_SHARE = 0.3  # of a time limit, at most


@dataclass(slots=True)
class Elite:
    """Different placements, in the order in which they came."""

    decisions: list[Decisions] = field(default_factory=list)  # stacks of one
    favourite: Decisions | None = None  # of the heuristic
    _seen: set[bytes] = field(default_factory=set)

    def add(self, decision: Decisions) -> None:
        key = decision.sites.tobytes() + decision.channels.tobytes()
        if key not in self._seen:
            self._seen.add(key)
            self.decisions.append(decision)


class Judge:
    """Simulates placements and keeps the fastest.

    Begin with one that does not depend on the cost model, if there is one, so that a bad model
    costs time but little else; it also tells how long a simulation takes.
    """

    def __init__(self, fabric: Fabric, netlist: Netlist, first: Decisions) -> None:
        self._netlist, self._truth = netlist, SimulatorCost(fabric)
        begin = time.monotonic()
        self.best, self.throughput = first, self._simulate(first)
        self._first, self._seconds = first, time.monotonic() - begin

    def reserved_seconds(self, number: int, limit: float) -> float:
        """Of a time limit, for `number` more simulations or as many as are worth it."""
        return min(number * self._seconds, JUDGING_SHARE * limit)

    def judge(self, cost: CostModel, elite: Elite, number: int, seconds: float) -> Decisions:
        """Simulate those that the cost model likes best, `number` at most, while there is time.

        Returns the one that it likes best.
        """
        energies = energies_of(cost, self._netlist, Decisions.concatenate(elite.decisions))
        chosen: list[Decisions] = [
            elite.decisions[k] for k in np.argsort(energies, kind="stable")[:number]
        ]
        end = time.monotonic() + seconds
        for decision in (d for d in chosen if d is not self._first):
            if time.monotonic() + self._seconds > end:
                break
            throughput = self._simulate(decision)
            if throughput > self.throughput:
                self.best, self.throughput = decision, throughput
        return chosen[0]

    def _simulate(self, decision: Decisions) -> float:
        return float(self._truth.score(self._netlist, decision)[0])
