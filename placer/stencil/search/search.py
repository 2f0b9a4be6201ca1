"""Search for the partition: samplings, resolutions and offsets first, then annealing.

The search is a fixed sequence of steps that depends on the problem and the seed alone. It can be
stopped after any of them, and what it has found never gets worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from operator import attrgetter

import numpy as np

from placer.stencil.model import Problem
from placer.stencil.search.clock import Clock
from placer.stencil.search.partition import Found, Partition, anneal, coarsest, evaluate, finer
from placer.stencil.search.plan import SPLIT_YIELD, Correction, HeatSummary, Plan, last_resorts, learn, make_plans
from placer.stencil.search.pyramid import Cells, build_pyramid, cell_counts

NUM_FINALISTS = 3
FIRST_SWEEPS = 12
MAX_SWEEPS = 12_000
MAX_CELLS = 60_000_000  # of a sampling: 600 MB
LEAST_CELLS, CELLS_PER_PE = 200_000, 1_000  # with heat, likewise, for small fabrics
LEAST_SHARE = 1e-6  # of cells with heat that is told from none
SOON_CELLS, SOON_CELLS_PER_PE = (2_000_000, 16_000_000), 50  # of the first plans
QUICK_CELLS = 6_000_000  # of a sampling that is polished before finer ones are tried
SOON_PLANS, NUM_PLANS = 8, 48
FULL = 0.999  # share of the PEs from which on a fabric is full
FINER_GAIN = 1.01  # that a finer level must promise when the fabric is full without it
SHIFTS = (1, 2, 3, 4, 6, 8, 12, 16)
MAX_OFFSET = 64  # cells
SWEEPS_PER_WORK = 8  # of annealing, in the time that it takes to evaluate a plan, about
ESTIMATE_SLACK = 1.08  # by which a partition may be better than estimated
CLEARLY = 0.97  # share of an estimate that must be above the best for a promise of clearly more

Step = tuple[float, Callable[[], Found | None]]  # cells to go through, and what to do


def search(problem: Problem, summary: HeatSummary, max_pes: int, seed: int, clock: Clock) -> Iterator[Partition]:
    """Yield better and better partitions, one per step (the same again if a step found nothing).

    Ends when the next step cannot be afforded; the first partition is found at any price.
    """
    max_cells = most_cells(summary, max_pes)
    sequence = _Sequence(problem, summary, max_pes, max_cells, seed, clock)
    for cells, act in sequence.steps():
        if sequence.found and not clock.affords(cells):
            return
        sequence.keep(act())
        if sequence.best is not None:
            yield sequence.best


def most_cells(summary: HeatSummary, max_pes: int) -> int:
    """Return the most cells that are worth their time. Cells without heat do not count."""
    hot_share = float(summary.volume.sum()) / math.prod(summary.size)
    hot_cells = max(LEAST_CELLS, CELLS_PER_PE * max_pes)
    return min(MAX_CELLS, round(hot_cells / max(hot_share, LEAST_SHARE)))


@dataclass(frozen=True, slots=True, eq=False)
class _Finalist:
    """What was found, without its statistics: those of a large sampling take 550 MB, and are made again."""

    plan: Plan
    offset: Cells
    base: tuple[float, float]  # value and PEs before filling
    accuracy: float
    used_pes: int


@dataclass(slots=True, eq=False)
class _Sequence:
    """The steps in their order; later ones depend on what earlier ones have found."""

    problem: Problem
    summary: HeatSummary
    max_pes: int
    max_cells: int
    seed: int
    clock: Clock
    found: list[_Finalist] = field(default_factory=list)  # the best of each pyramid, best first
    best: Partition | None = None  # of the first of them
    last: _Finalist | None = None  # by the last step
    tried: set[tuple[int, int]] = field(default_factory=set)  # samplings and spare levels
    corrections: list[Correction] = field(default_factory=list)

    def keep(self, new: Found | None) -> None:
        """Add what a step found to the finalists, one per pyramid."""
        self.last = None
        if new is not None:
            partition = new.partition
            own = _Finalist(new.plan, new.offset, new.base, partition.accuracy, partition.used_pes)
            key = own.plan.sampling, own.offset
            rivals = [*(f for f in self.found if (f.plan.sampling, f.offset) == key), own]
            others = [f for f in self.found if (f.plan.sampling, f.offset) != key]
            accuracy = attrgetter("accuracy")
            best = [*others, max(rivals, key=accuracy)]
            self.found, self.last = sorted(best, key=accuracy, reverse=True)[:NUM_FINALISTS], own
            if self.found[0] is own:
                self.best = partition

    def steps(self) -> Iterator[Step]:
        """Yield small samplings first, so that there is a partition soon; then those that promise
        clearly more, then all that may be better, then long anneals.
        """
        least, most = SOON_CELLS
        soon = min(most, max(least, SOON_CELLS_PER_PE * self.max_pes), self.max_cells)
        yield from self._planned(SOON_PLANS, soon, ESTIMATE_SLACK)
        polished: _Finalist | None = None
        for slack in (CLEARLY, ESTIMATE_SLACK):
            yield from self._planned(NUM_PLANS, self.max_cells, slack)
            best = self.found[0] if self.found else None
            is_quick = best is not None and self._num_cells(best.plan) <= QUICK_CELLS
            if best is not polished and (is_quick or slack == ESTIMATE_SLACK):
                yield from self._polished()
                polished = self.found[0]
        for plan in last_resorts(self.summary):
            if self.found:
                break
            yield self._evaluation(plan)
        if not self.found:
            return
        yield from self._filled_up()
        sweeps = 2 * FIRST_SWEEPS
        while sweeps <= MAX_SWEEPS:
            for number, start in enumerate(list(self.found)):
                yield self._annealing(start, sweeps, self.seed + number)
            sweeps *= 2

    def _planned(self, num_plans: int, max_cells: int, slack: float) -> Iterator[Step]:
        """Yield plans in the order of what they promise; estimates get better with each tried one.

        Ends when no estimate, times `slack`, is above what was found.
        """
        for _ in range(num_plans):
            plans = make_plans(self.summary, self.max_pes, max_cells, self.corrections)
            plan = next((p for p in plans if (p.sampling, p.spare_levels) not in self.tried), None)
            best = self.found[0].accuracy / self.max_pes if self.found else 0.0
            if plan is None or plan.accuracy * slack < best:
                return
            yield self._evaluation(plan, learns=True)
            if self.last is not None and self._promises_more(self.last):
                yield self._evaluation(self._finer(self.last))

    def _finer(self, result: _Finalist) -> Plan:
        return finer(result.plan, result.base[1], self.problem.dimension, self.max_pes)

    def _promises_more(self, result: _Finalist) -> bool:
        """Tell whether a finer level, for what tiles leave over, could make it the best; once only.

        Without one only tiles that are not the hottest can be split, which yields little.
        """
        plan = self._finer(result)
        value, pes = result.base
        promised = value + (self.max_pes - pes) * SPLIT_YIELD[self.problem.dimension]
        best = max(result.accuracy, self.found[0].accuracy)
        is_full = result.used_pes >= FULL * self.max_pes
        return (
            promised > best * (FINER_GAIN if is_full else 1.0)
            and self._num_cells(plan) <= self.max_cells
            and (plan.sampling, plan.spare_levels) not in self.tried
        )

    def _filled_up(self) -> Iterator[Step]:
        """Yield finer levels for the best, until the fabric is full."""
        while self._promises_more(self.found[0]):
            yield self._evaluation(self._finer(self.found[0]))

    def _polished(self) -> Iterator[Step]:
        """Yield finer levels, short anneals and other offsets of the best."""
        yield from self._filled_up()
        for start in list(self.found):
            yield self._annealing(start, FIRST_SWEEPS, self.seed)
        axes = tuple(range(self.problem.dimension))
        for some, shift in product([axes, *((axis,) for axis in axes)], SHIFTS):
            best = self.found[0]
            step = shift * 2**best.plan.spare_levels  # blocks begin so much before the volume
            x, y, z = ((old + step * (a in some)) % MAX_OFFSET for a, old in enumerate(best.offset))
            yield self._num_cells(best.plan), partial(self._evaluate, best.plan, (x, y, z))

    def _evaluation(self, plan: Plan, *, learns: bool = False) -> Step:
        self.tried.add((plan.sampling, plan.spare_levels))
        return self._num_cells(plan), partial(self._evaluate, plan, learns=learns)

    def _evaluate(self, plan: Plan, offset: Cells = (0, 0, 0), *, learns: bool = False) -> Found | None:
        """Evaluate a plan; learn, if wanted, how far its estimate was off."""
        pyramid = build_pyramid(self.problem, plan.sampling, offset)
        if learns:
            tree = coarsest(pyramid, plan.finest_limit)
            self.corrections.append(learn(self.summary, plan, tree.value, tree.pes))
        return evaluate(pyramid, plan, self.summary.highest, self.max_pes, self._is_over)

    def _annealing(self, start: _Finalist, sweeps: int, seed: int) -> Step:
        work = self._num_cells(start.plan) * (1 + sweeps / SWEEPS_PER_WORK)
        return work, partial(self._anneal, start, sweeps, seed)

    def _anneal(self, start: _Finalist, sweeps: int, seed: int) -> Found | None:
        """Anneal from the coarsest tree of a finalist; statistics that are not at hand are made again."""
        if self.best is not None and start is self.found[0]:
            pyramid = self.best.pyramid
        else:
            pyramid = build_pyramid(self.problem, start.plan.sampling, start.offset)
        draft = coarsest(pyramid, start.plan.finest_limit)
        partition = anneal(draft, self.max_pes, sweeps, seed, self.clock.is_over)
        return None if partition is None else Found(start.plan, start.offset, partition, start.base)

    def _num_cells(self, plan: Plan) -> float:
        return float(np.prod(cell_counts(self.problem.volume, plan.sampling), dtype=float))

    def _is_over(self) -> bool:
        """Tell whether time is over; the first partition is found at any price."""
        return bool(self.found) and self.clock.is_over()
