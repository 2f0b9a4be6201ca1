"""The last word belongs to the simulator: the best placements of a search are simulated.

A search finds the errors of its cost model: what it likes best is what the model overrates most. So
the best placement after every round is remembered, and a few of those that the model likes are
simulated for long; the fastest wins.

Where samples are long, a full simulation takes seconds, so placements race: the best one so far and
its challenger are simulated shortly, and the challenger goes on to a full simulation only if it is
not slower by more than such comparisons err.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from placer.base import Interrupt
from placer.cost import CostModel, SimulatorCost, energies_of
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.netlist import Netlist
from placer.simulation import LONG_SAMPLE_CYCLES, simulate_short

JUDGING_SHARE = 0.3  # of the time of a pool, at most
RACE_MARGIN = 0.01  # how much slower by short simulations is too slow for a full one


def key_of(decision: Decisions) -> bytes:
    """Return a key that is the same for the same placement and turns."""
    return decision.sites.tobytes() + decision.channels.tobytes()


@dataclass(slots=True)
class Elite:
    """Different placements, in the order in which they came."""

    decisions: list[Decisions] = field(default_factory=list)  # stacks of one
    favourite: Decisions | None = None  # of the heuristic
    _seen: set[bytes] = field(default_factory=set)

    def add(self, decision: Decisions) -> None:
        key = key_of(decision)
        if key not in self._seen:
            self._seen.add(key)
            self.decisions.append(decision)


class Judge:
    """Simulates placements, each once, and keeps the fastest.

    Some of them should not depend on the cost model, so that a bad model costs time but little
    else.
    """

    def __init__(self, fabric: Fabric, netlist: Netlist) -> None:
        self._netlist, self._truth = netlist, SimulatorCost(fabric)
        self.best: Decisions | None = None
        self.throughput = 0.0  # of the best
        self._best_period = math.nan  # of the best by a short simulation, nan before it
        self.spent_seconds = 0.0
        self.is_interrupted = False  # by Ctrl-C
        self._known: dict[bytes, float] = {}

    @property
    def seconds(self) -> float:
        """Return the mean seconds that a placement took, or 0 before the first one."""
        return self.spent_seconds / max(len(self._known), 1)

    def simulate(self, decision: Decisions) -> float:
        """Return the throughput of a placement, or an estimate of it if it is slower than the best."""
        key = key_of(decision)
        if key not in self._known:
            begin = time.monotonic()
            with Interrupt() as interrupt:
                estimate = self._race(decision)
                if estimate is None:
                    throughput = float(self._truth.score(self._netlist, decision)[0])
                    if self.best is None or throughput > self.throughput:
                        self.best, self.throughput, self._best_period = decision, throughput, math.nan
                else:
                    throughput = estimate
            self.is_interrupted |= interrupt.is_asked
            self._known[key] = throughput
            self.spent_seconds += time.monotonic() - begin
        return self._known[key]

    def _race(self, decision: Decisions) -> float | None:
        """Return the estimated throughput of a placement that cannot win, None of one that can."""
        if self.best is None or self._netlist.bound_cycles < LONG_SAMPLE_CYCLES:
            return None
        # Short simulations of one netlist err in the same direction, so both are measured alike.
        if math.isnan(self._best_period):
            self._best_period = self._short_period(self.best)
        period = self._short_period(decision)
        if not period * (1 - RACE_MARGIN) > self._best_period:
            return None
        return self.throughput * self._best_period / period

    def _short_period(self, decision: Decisions) -> float:
        outcome = simulate_short(self._truth.fabric, self._netlist, decision)
        return float(outcome.cycles_per_sample[0])

    def judge(self, cost: CostModel, elite: Elite, number: int, seconds: float) -> Decisions:
        """Simulate those that the cost model likes best, `number` at most, while there is time.

        Returns the one that it likes best.
        """
        energies = energies_of(cost, self._netlist, Decisions.concatenate(elite.decisions))
        order = np.argsort(energies, kind="stable")
        liked: list[Decisions] = [elite.decisions[k] for k in order]
        end = time.monotonic() + seconds
        for decision in [d for d in liked if key_of(d) not in self._known][:number]:
            if time.monotonic() + self.seconds > end or self.is_interrupted:
                break
            self.simulate(decision)
        return liked[0]
