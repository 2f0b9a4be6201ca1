"""A search steered by a cost that is not the contest's score: walks from the best rows.

Rows come from the engines, which know the contest's score only. From there walks (walk.py) change
how kernels are unrolled and where they stand, at several temperatures, and go on from the best.
A search climbs where its cost errs on the high side; so what a walk likes best is simulated, and
the next ones go on from what is best in simulation.
"""

from __future__ import annotations

from placer.kernels.check import judge
from placer.kernels.mapping import Mapping
from placer.kernels.mapping_cost import MappingCost, simulated_throughput
from placer.kernels.mapping_table import layout_of
from placer.kernels.search import Search
from placer.kernels.walk import Heat, walk
from placer.kernels.walk_state import State

STEPS = 600  # changes that are tried per walk
HEATS = (0.03, 0.01, 0.003)  # of log throughput, where walks begin; they end at a tenth


class Steering:
    """Offers what its walks find to the search."""

    def __init__(self, search: Search, cost: MappingCost) -> None:
        self._search, self._cost = search, cost
        self.best: State | None = None  # in simulation
        self._highest = 0.0

    def walk_from(self, start: State, number: int) -> None:
        """One walk; `number` counts them and chooses temperature and random numbers."""
        problem, hot = self._search.problem, HEATS[number % len(HEATS)]
        seed, heat = (self._search.seed << 20) + number, Heat(STEPS, hot, hot / 10)
        liked, likes = start, 0.0
        for step in walk(problem, start, self._cost, heat, seed):
            if step.throughput > likes:
                liked, likes = step.state, step.throughput
            if self._search.is_over():
                if self.best is not None:  # with more time this walk would offer something else
                    return
                break
        throughput = simulated_throughput(problem, liked.table, self._cost, likes)
        if throughput > self._highest:
            self.best, self._highest = liked, throughput
            layout = layout_of(liked.table)
            score = judge(problem.graph, layout, self._search.rules)
            self._search.take(Mapping(layout, score, throughput, likes))
