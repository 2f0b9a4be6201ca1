"""The last word belongs to the simulator: the best placements of a search are simulated.

A search finds the errors of its cost model: what it likes best is what the model overrates most. So
the best placement after every round is remembered, and a few of those that the model likes are
simulated for long; the fastest wins.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from placer.annealing.rerouting import energies_of
from placer.annealing.search import Search
from placer.cost import CostModel, SimulatorCost
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.netlist import Netlist
from placer.simulation import PRECISE_LIMITS

JUDGING_SHARE = 0.15  # of a time limit


@dataclass(slots=True)
class Elite:
    """Different placements, in the order in which they came."""

    decisions: list[Decisions] = field(default_factory=list)  # stacks of one
    favourite: Decisions | None = None  # of the heuristic: simulated whatever the model thinks
    _seen: set[bytes] = field(default_factory=set)

    def add(self, decision: Decisions) -> None:
        key = decision.sites.tobytes() + decision.channels.tobytes()
        if key not in self._seen:
            self._seen.add(key)
            self.decisions.append(decision)

    def add_best(self, search: Search) -> None:
        """The best placement that a search has found so far."""
        self.add(search.best())


def fastest_of(
    fabric: Fabric,
    netlist: Netlist,
    cost: CostModel,
    elite: Elite,
    number: int,
    seconds: float = math.inf,
) -> tuple[Decisions, float]:
    """The fastest in simulation of the `number` best by the cost model, and its throughput.

    The heuristic's favourite is simulated too, so that a bad model costs time but little else.
    Those that the model likes less are left out where there is no time for them.
    """
    energies = energies_of(cost, netlist, Decisions.concatenate(elite.decisions))
    chosen = [elite.decisions[k] for k in np.argsort(energies, kind="stable")[:number]]
    if elite.favourite is not None and not any(d is elite.favourite for d in chosen):
        chosen.insert(1, elite.favourite)
    truth, begin = SimulatorCost(fabric, PRECISE_LIMITS), time.monotonic()
    simulated = list[float]()
    for done, decision in enumerate(chosen):
        if done and (time.monotonic() - begin) * (done + 1) / done > seconds:
            break
        simulated.append(float(truth.score(netlist, decision)[0]))
    winner = int(np.argmax(simulated))
    return chosen[winner], simulated[winner]
