"""Search for the partition: samplings, resolutions and offsets first, then annealing.

The search is a fixed sequence of steps that depends on the problem and the seed alone. It can be
stopped after any of them, and what it has found never gets worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Protocol

import numpy as np

from placer.stencil.candidate import Found, evaluate, evaluate_pyramid, finer
from placer.stencil.moves import PES, VALUE
from placer.stencil.partition import Partition, anneal, coarsest
from placer.stencil.plan import (
    SPLIT_YIELD,
    Correction,
    HeatSummary,
    Plan,
    last_resorts,
    learn,
    make_plans,
)
from placer.stencil.problem import Problem
from placer.stencil.pyramid import build_pyramid, cell_counts

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


class Budget(Protocol):
    """Tells when the search must end."""

    def affords(self, cells: float) -> bool:
        """Asked before each step, with the cells that it will go through."""

    def is_over(self) -> bool:
        """Asked within long steps."""


class NoLimit:
    """A search that the caller ends."""

    def affords(self, cells: float) -> bool:
        return True

    def is_over(self) -> bool:
        return False


NO_LIMIT = NoLimit()


Step = tuple[float, Callable[[], Found | None]]  # cells to go through, and what to do


def search(
    problem: Problem,
    summary: HeatSummary,
    max_pes: int,
    seed: int,
    budget: Budget = NO_LIMIT,
) -> Iterator[Partition]:
    """Better and better partitions, one per step (the same again when a step found nothing).

    Ends when the next step cannot be afforded; the first partition is found at any price.
    """
    max_cells = most_cells(problem, summary, max_pes)
    sequence = _Sequence(problem, summary, max_pes, max_cells, seed, budget)
    for cells, act in sequence.steps():
        if sequence.found and not budget.affords(cells):
            return
        step = act()
        if step is not None:
            sequence.keep(step)
        if sequence.found:
            yield sequence.found[0].partition


def most_cells(problem: Problem, summary: HeatSummary, max_pes: int) -> int:
    """Of a sampling: finer ones are not worth their time. Cells without heat do not count."""
    hot_share = float(summary.volume.sum()) / math.prod(problem.volume)
    hot_cells = max(LEAST_CELLS, CELLS_PER_PE * max_pes)
    return min(MAX_CELLS, round(hot_cells / max(hot_share, LEAST_SHARE)))


@dataclass(slots=True, eq=False)
class _Sequence:
    """The steps in their order; later ones depend on what earlier ones have found."""

    problem: Problem
    summary: HeatSummary
    max_pes: int
    max_cells: int
    seed: int
    budget: Budget
    found: list[Found] = field(default_factory=list)  # the best of each pyramid, best first
    tried: set[tuple[int, int]] = field(default_factory=set)  # samplings and spare levels
    corrections: list[Correction] = field(default_factory=list)

    def keep(self, new: Found) -> None:
        """Add a partition to the finalists, one per pyramid."""
        key = (new.plan.sampling, new.offset)
        rivals = [*(f for f in self.found if (f.plan.sampling, f.offset) == key), new]
        others = [f for f in self.found if (f.plan.sampling, f.offset) != key]
        best = max(rivals, key=lambda f: f.partition.accuracy)
        self.found = sorted([*others, best], key=lambda f: -f.partition.accuracy)[:NUM_FINALISTS]

    def steps(self) -> Iterator[Step]:
        """Small samplings first, so that there is a partition soon; then those that promise clearly
        more, then all that may be better, then long anneals.
        """
        least, most = SOON_CELLS
        soon = min(most, max(least, SOON_CELLS_PER_PE * self.max_pes), self.max_cells)
        yield from self._planned(SOON_PLANS, soon, ESTIMATE_SLACK)
        polished: Found | None = None
        for slack in (CLEARLY, ESTIMATE_SLACK):
            yield from self._planned(NUM_PLANS, self.max_cells, slack)
            best = self.found[0] if self.found else None
            is_quick = best is not None and self._num_cells(best.plan) <= QUICK_CELLS
            if best is not polished and (is_quick or slack == ESTIMATE_SLACK):
                yield from self._polished()
                polished = self.found[0]
        for plan in last_resorts(self.problem, self.summary.highest):
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
        """Plans in the order of what they promise; estimates get better with each tried one.

        Ends when no estimate, times `slack`, is above what was found.
        """
        for _ in range(num_plans):
            plans = make_plans(
                self.problem, self.summary, self.max_pes, max_cells, self.corrections
            )
            plan = next((p for p in plans if (p.sampling, p.spare_levels) not in self.tried), None)
            best = self.found[0].partition.accuracy / self.max_pes if self.found else 0.0
            if plan is None or plan.accuracy * slack < best:
                return
            self.tried.add((plan.sampling, plan.spare_levels))
            results: list[Found] = []
            yield self._num_cells(plan), partial(self._learn, plan, results)
            for result in results:
                if self._promises_more(result):
                    yield self._evaluation(finer(result, self.max_pes))

    def _learn(self, plan: Plan, results: list[Found]) -> Found | None:
        """Evaluate a plan, and learn how far its estimate was off."""
        pyramid = build_pyramid(self.problem, plan.sampling)
        _, totals = coarsest(pyramid, plan.finest_limit)
        self.corrections.append(learn(self.problem, self.summary, plan, totals[VALUE], totals[PES]))
        result = evaluate_pyramid(pyramid, plan, self.summary.highest, self.max_pes, self._is_over)
        results += [result] if result is not None else []
        return result

    def _promises_more(self, result: Found) -> bool:
        """Whether a finer level, for what its tiles leave over, could make it the best; once only.

        Without one only tiles that are not the hottest can be split, which yields little.
        """
        plan = finer(result, self.max_pes)
        value, pes = result.base
        promised = value + (self.max_pes - pes) * SPLIT_YIELD[self.problem.dimension]
        best = max(result.partition.accuracy, self.found[0].partition.accuracy)
        is_full = result.partition.used_pes >= FULL * self.max_pes
        return (
            promised > best * (FINER_GAIN if is_full else 1.0)
            and self._num_cells(plan) <= self.max_cells
            and (plan.sampling, plan.spare_levels) not in self.tried
        )

    def _filled_up(self) -> Iterator[Step]:
        """Finer levels for the best, until the fabric is full."""
        while self._promises_more(self.found[0]):
            yield self._evaluation(finer(self.found[0], self.max_pes))

    def _polished(self) -> Iterator[Step]:
        """Finer levels, short anneals and other offsets of the best."""
        yield from self._filled_up()
        for start in list(self.found):
            yield self._annealing(start, FIRST_SWEEPS, self.seed)
        axes = tuple(range(self.problem.dimension))
        for some, shift in product([axes, *((axis,) for axis in axes)], SHIFTS):
            work = self._num_cells(self.found[0].plan)
            yield work, partial(self._shift, self.found[0], some, shift)

    def _shift(self, start: Found, axes: tuple[int, ...], shift: int) -> Found | None:
        """Blocks that begin before the volume, by `shift` of the largest fine tiles."""
        offset = list(start.offset)
        for axis in axes:
            offset[axis] = (offset[axis] + shift * 2**start.plan.spare_levels) % MAX_OFFSET
        place = (offset[0], offset[1], offset[2])
        return evaluate(self.problem, start.plan, place, self.max_pes, self._is_over)

    def _annealing(self, start: Found, sweeps: int, seed: int) -> Step:
        work = self._num_cells(start.plan) * (1 + sweeps / SWEEPS_PER_WORK)
        return work, partial(self._anneal, start, sweeps, seed)

    def _anneal(self, start: Found, sweeps: int, seed: int) -> Found | None:
        pyramid = start.partition.pyramid
        tree, totals = coarsest(pyramid, start.plan.finest_limit)
        partition = anneal(pyramid, tree, totals, self.max_pes, sweeps, seed, self.budget.is_over)
        return None if partition is None else replace(start, partition=partition)

    def _evaluation(self, plan: Plan) -> Step:
        self.tried.add((plan.sampling, plan.spare_levels))
        act = partial(evaluate, self.problem, plan, (0, 0, 0), self.max_pes, self._is_over)
        return self._num_cells(plan), act

    def _num_cells(self, plan: Plan) -> float:
        return float(np.prod(cell_counts(self.problem.volume, plan.sampling), dtype=float))

    def _is_over(self) -> bool:
        """Steps after the first partition are given up when time is over."""
        return bool(self.found) and self.budget.is_over()
