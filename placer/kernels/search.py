"""What every engine works with: the problem, the clock, and the best mapping so far."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from placer.kernels.check import DEFAULT_OUT_RULES, IllegalLayoutError, OutRules, judge
from placer.kernels.floorplan import Floorplan
from placer.kernels.graph import KernelGraph
from placer.kernels.joint import Sized
from placer.kernels.layout import Layout
from placer.kernels.mapping import Mapping, make_mapping
from placer.kernels.mapping_cost import MappingCost, simulated_throughput
from placer.kernels.mapping_table import table_of
from placer.kernels.problem import Problem

HOPEFUL = 0.97  # mappings that a cost likes this much, relative to the best one, are simulated


@dataclass(slots=True)
class Search:
    """Engines offer mappings; the best one counts.

    The sequence of offers depends on the seed alone, the time limit only cuts it off: more time
    never makes a result worse. What an engine was at work on when the time ended is dropped.
    With a cost, mappings that it likes are simulated, and the fastest counts.
    """

    problem: Problem
    time_limit: float  # seconds from now on
    seed: int = 0
    rules: OutRules = field(default_factory=lambda: DEFAULT_OUT_RULES)
    on_better: Callable[[Mapping], None] | None = None
    best: Mapping | None = None
    cost: MappingCost | None = None  # chooses in place of the score; None: the score chooses
    must_find: bool = True  # without a mapping, go on after the end of the time
    is_interrupted: Callable[[], bool] = lambda: False  # the search ends, mapping or not
    clock: Callable[[], float] = time.perf_counter
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = self.clock() + self.time_limit

    def is_over(self) -> bool:
        """Whether the search may end: the time is up, and there is a mapping if there must be."""
        may_end = self.best is not None or not self.must_find or self.is_interrupted()
        return may_end and self.is_late()

    def is_late(self) -> bool:
        """Whether the time is up, by the clock or by the user."""
        return self.clock() > self._end or self.is_interrupted()

    def offer(self, plan: Floorplan, sized: Sized) -> None:
        """Judge a mapping, keep it if it is the best."""
        try:
            self.take(make_mapping(self.problem, plan, sized, self.rules))
        except IllegalLayoutError as error:  # a fault of the engine; others may still be found
            warnings.warn(f"dropped: {error}", stacklevel=2)

    def take(self, mapping: Mapping) -> None:
        """Keep a judged mapping of this problem if it is the best."""
        if self.cost is not None and mapping.throughput is None:
            table = table_of(mapping.layout)
            liked = float(self.cost.score(self.problem, table[None]).throughput[0])
            if self.best is not None and liked < HOPEFUL * (self.best.predicted or 0.0):
                return
            throughput = simulated_throughput(self.problem, table, self.cost, liked)
            mapping = replace(mapping, throughput=throughput, predicted=liked)
        if self.best is None or _is_better(mapping, self.best):
            self.best = mapping
            if self.on_better is not None:
                self.on_better(mapping)

    def part(self, seconds: float, is_turned: bool) -> Search:
        """A search of its own for some of the time, on the wafer as it is or turned by 90 degrees.

        What it finds is offered to this search, too.
        """
        problem = self.problem
        if is_turned:
            problem = Problem(turned_graph(problem.graph), problem.slowest)

        def on_better(mapping: Mapping) -> None:
            if is_turned:
                layout = turned_layout(mapping.layout)
                mapping = Mapping(layout, judge(self.problem.graph, layout, self.rules))
            self.take(mapping)

        must_find = self.must_find and self.best is None
        return replace(
            self, problem=problem, time_limit=seconds, on_better=on_better, best=None,
            must_find=must_find,
        )  # fmt: skip


def _is_better(mapping: Mapping, other: Mapping) -> bool:
    """By throughput if it is known, else by the score."""
    if mapping.throughput is not None and other.throughput is not None:
        return mapping.throughput > other.throughput
    return mapping.score.total < other.score.total - 1e-9


def turned_graph(graph: KernelGraph) -> KernelGraph:
    """The same graph on a wafer with width and height exchanged."""
    wafer = replace(graph.wafer, width=graph.wafer.height, height=graph.wafer.width)
    return replace(graph, wafer=wafer)


def turned_layout(layout: Layout) -> Layout:
    """The layout of the wafer with width and height exchanged."""
    return Layout(
        tuple(
            replace(placed, x=placed.y, y=placed.x, is_rotated=not placed.is_rotated)
            for placed in layout.kernels
        )
    )
