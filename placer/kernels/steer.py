"""A search steered by a cost that is not the contest's score: walks from the best rows.

Rows come from the engines, which know the contest's score only. From there walks (walk.py) change
how kernels are unrolled and where they stand, at several temperatures, and go on from the best.
"""

from __future__ import annotations

from placer.kernels.check import judge
from placer.kernels.mapping import Mapping
from placer.kernels.mapping_cost import MappingCost
from placer.kernels.mapping_table import layout_of
from placer.kernels.search import Search
from placer.kernels.walk import Heat, walk
from placer.kernels.walk_moves import State

STEPS = 600  # changes that are tried per walk
HEATS = (0.03, 0.01, 0.003)  # of log throughput, where walks begin; they end at a tenth


class Steering:
    """Offers what its walks find to the search."""

    def __init__(self, search: Search, cost: MappingCost) -> None:
        self._search, self._cost = search, cost
        self.best: State | None = None
        self._highest = 0.0

    def walk_from(self, start: State, number: int) -> None:
        """One walk; `number` counts them and chooses temperature and random numbers."""
        search, hot = self._search, HEATS[number % len(HEATS)]
        seed = (search.seed << 20) + number
        heat = Heat(STEPS, hot, hot / 10)
        for step in walk(search.problem, start, self._cost, heat, seed):
            if search.is_over():
                return
            if step.throughput > self._highest:
                self.best, self._highest = step.state, step.throughput
                layout = layout_of(step.state.table)
                score = judge(search.problem.graph, layout, search.rules)
                search.take(Mapping(layout, score, step.throughput))
