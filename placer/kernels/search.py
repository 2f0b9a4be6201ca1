"""What every engine works with: the problem, the clock, and the best mapping so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from placer.kernels.check import DEFAULT_OUT_RULES, OutRules
from placer.kernels.floorplan import Floorplan
from placer.kernels.joint import Sized
from placer.kernels.mapping import Mapping, make_mapping
from placer.kernels.problem import Problem


@dataclass(slots=True)
class Search:
    """Engines offer mappings; the best one counts.

    The sequence of offers depends on the seed alone, the time limit only cuts it off: more time
    never makes a result worse.
    """

    problem: Problem
    time_limit: float  # seconds
    seed: int = 0
    rules: OutRules = field(default_factory=lambda: DEFAULT_OUT_RULES)
    on_better: Callable[[Mapping], None] | None = None
    best: Mapping | None = None
    begin: float = field(default_factory=time.perf_counter)

    @property
    def is_over(self) -> bool:
        """Whether the time is up; an engine goes on until it has one mapping."""
        return self.best is not None and time.perf_counter() - self.begin > self.time_limit

    def offer(self, plan: Floorplan, sized: Sized) -> float:
        """Judge a mapping, keep it if it is the best; returns its score."""
        mapping = make_mapping(self.problem, plan, sized, self.rules)
        total = mapping.score.total
        if self.best is None or total < self.best.score.total - 1e-9:
            self.best = mapping
            if self.on_better is not None:
                self.on_better(mapping)
        return total
