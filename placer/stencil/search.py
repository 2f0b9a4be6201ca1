"""Search for the partition: samplings, resolutions and offsets first, then annealing.

The search is a fixed sequence of steps that depends on the problem and the seed alone. It can be
stopped after any of them, and what it has found never gets worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Protocol

import numpy as np

from placer.stencil.moves import PES, VALUE
from placer.stencil.partition import Partition, anneal, as_partition, coarsest, fill
from placer.stencil.plan import (
    SPLIT_YIELD,
    Correction,
    HeatSummary,
    Plan,
    last_resorts,
    learn,
    make_plans,
)
from placer.stencil.problem import Problem, sampling_unit
from placer.stencil.pyramid import Pyramid, build_pyramid, cell_counts

MAX_TRIES = 9  # trees that are built to find the lowest resolution that fits
MAX_SIGMA = 2.2  # beyond twice the resolution, a lower sampling serves as well
LIMIT_SLACK = 1.12  # by which the resolution of an estimated plan may be raised to make it fit
NUM_FINALISTS = 3
FIRST_SWEEPS = 12
MAX_SWEEPS = 12_000
NUM_PLANS = 48
MAX_CELLS = 60_000_000  # of a sampling: 600 MB
LEAST_CELLS, CELLS_PER_PE = 200_000, 1_000  # likewise, for small fabrics
FIRST_CELLS, FIRST_PLANS = 2_000_000, 8  # of the first partition, which must be found soon
FULL = 0.999  # share of the PEs from which on a fabric is full
SHIFTS = (1, 2, 3, 4, 6, 8, 12, 16)
MAX_OFFSET = 64  # cells
SWEEPS_PER_WORK = 8  # of annealing, in the time that it takes to evaluate a plan, about
ESTIMATE_SLACK = 1.08  # by which a partition may be better than estimated


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A partition and the plan behind it; `offset` in cells."""

    plan: Plan
    offset: tuple[int, int, int]
    partition: Partition


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
    found: list[Found] = []  # the best of each pyramid, best first
    for cells, act in _steps(problem, summary, max_pes, seed, budget, found):
        if found and not budget.affords(cells):
            return
        step = act()
        if step is not None:
            _keep(found, step)
        if found:
            yield found[0].partition


def _keep(found: list[Found], new: Found) -> None:
    """Add a partition to the finalists, one per pyramid."""
    key = (new.plan.sampling, new.offset)
    rivals = [*(f for f in found if (f.plan.sampling, f.offset) == key), new]
    others = [f for f in found if (f.plan.sampling, f.offset) != key]
    best = max(rivals, key=lambda f: f.partition.accuracy)
    found[:] = sorted([*others, best], key=lambda f: -f.partition.accuracy)[:NUM_FINALISTS]


def _steps(
    problem: Problem,
    summary: HeatSummary,
    max_pes: int,
    seed: int,
    budget: Budget,
    found: list[Found],
) -> Iterator[Step]:
    """All steps in order. `found` grows between them."""
    yield from _planned_steps(problem, summary, max_pes, found)
    if not found:
        return
    max_cells = _max_cells(max_pes)
    while found[0].partition.used_pes < FULL * max_pes:
        plan = _finer(found[0].plan)
        if _num_cells(problem, plan) > max_cells:
            break
        before = found[0].partition.accuracy
        yield _evaluation(problem, plan, max_pes)
        if found[0].partition.accuracy <= before:
            break
    for start in list(found):
        yield _annealing(problem, start, max_pes, FIRST_SWEEPS, seed, budget)
    for axes, shift in product(_shifted_axes(problem.dimension), SHIFTS):
        work = _num_cells(problem, found[0].plan)
        yield work, partial(_shifted, problem, found[0], axes, shift, max_pes)
    sweeps = 2 * FIRST_SWEEPS
    while sweeps <= MAX_SWEEPS:
        for number, start in enumerate(list(found)):
            yield _annealing(problem, start, max_pes, sweeps, seed + number, budget)
        sweeps *= 2


def _planned_steps(
    problem: Problem, summary: HeatSummary, max_pes: int, found: list[Found]
) -> Iterator[Step]:
    """Plans in the order of what they promise; estimates get better with each that was tried.

    There is a partition soon: plans of few cells come first, then the lowest sampling.
    """
    tried, lessons = set[tuple[int, int]](), list[Lesson]()
    for num_plans, max_cells in ((FIRST_PLANS, FIRST_CELLS), (NUM_PLANS, MAX_CELLS)):
        for _ in range(num_plans):
            plan = _next_plan(problem, summary, max_pes, max_cells, lessons, tried)
            best = found[0].partition.accuracy / max_pes if found else 0.0
            if plan is None or plan.accuracy * ESTIMATE_SLACK < best:
                break
            tried.add((plan.sampling, plan.spare_levels))
            yield (
                _num_cells(problem, plan),
                partial(_learnt, problem, summary, plan, max_pes, lessons),
            )
            finer = _worthwhile_finer(problem, lessons[-1].found, max_pes, found)
            if finer is not None:
                yield _evaluation(problem, finer, max_pes)
    for plan in last_resorts(problem, summary.highest):
        if found:
            break
        yield _evaluation(problem, plan, max_pes)


def _next_plan(
    problem: Problem,
    summary: HeatSummary,
    max_pes: int,
    max_cells: int,
    lessons: list[Lesson],
    tried: set[tuple[int, int]],
) -> Plan | None:
    """The most promising plan that was not tried yet."""
    corrections = [lesson.correction for lesson in lessons]
    limit = min(max_cells, _max_cells(max_pes))
    plans = make_plans(problem, summary, max_pes, limit, corrections)
    return next((p for p in plans if (p.sampling, p.spare_levels) not in tried), None)


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What the evaluation of a plan has shown."""

    correction: Correction
    found: Found | None


def _learnt(
    problem: Problem, summary: HeatSummary, plan: Plan, max_pes: int, lessons: list[Lesson]
) -> Found | None:
    """Evaluate a plan, and learn how far its estimate was off."""
    pyramid = build_pyramid(problem, plan.sampling)
    _, totals = coarsest(pyramid, plan.finest_limit)
    correction = learn(problem, summary, plan, totals[VALUE], totals[PES])
    found = _evaluate(pyramid, plan, summary.highest, max_pes)
    lessons.append(Lesson(correction, found))
    return found


def _worthwhile_finer(
    problem: Problem, result: Found | None, max_pes: int, found: list[Found]
) -> Plan | None:
    """The same plan with a level more, if PEs are left that could make it the best."""
    if result is None or result.partition.used_pes >= FULL * max_pes:
        return None
    plan = _finer(result.plan)
    left = max_pes - result.partition.used_pes
    promised = result.partition.accuracy + left * SPLIT_YIELD[problem.dimension]
    is_better = promised > found[0].partition.accuracy
    return plan if is_better and _num_cells(problem, plan) <= _max_cells(max_pes) else None


def _evaluation(problem: Problem, plan: Plan, max_pes: int) -> Step:
    return _num_cells(problem, plan), partial(evaluate, problem, plan, (0, 0, 0), max_pes)


def _annealing(
    problem: Problem, start: Found, max_pes: int, sweeps: int, seed: int, budget: Budget
) -> Step:
    work = _num_cells(problem, start.plan) * (1 + sweeps / SWEEPS_PER_WORK)
    return work, partial(_annealed, start, max_pes, sweeps, seed, budget)


def _max_cells(max_pes: int) -> int:
    """Finer samplings are not worth their time."""
    return min(MAX_CELLS, max(LEAST_CELLS, CELLS_PER_PE * max_pes))


def _num_cells(problem: Problem, plan: Plan) -> float:
    return float(np.prod(cell_counts(problem.volume, plan.sampling), dtype=float))


def evaluate(
    problem: Problem, plan: Plan, offset: tuple[int, int, int], max_pes: int
) -> Found | None:
    """The partition of a plan at the lowest resolution that fits, filled; None when none fits."""
    pyramid = build_pyramid(problem, plan.sampling, offset)
    return _evaluate(pyramid, plan, float(problem.heat.max()), max_pes)


def _evaluate(pyramid: Pyramid, plan: Plan, highest: float, max_pes: int) -> Found | None:
    limit = lowest_limit(pyramid, plan, highest, max_pes)
    if limit is None:
        return None
    return _filled(pyramid, replace(plan, finest_limit=limit), max_pes)


def _filled(pyramid: Pyramid, plan: Plan, max_pes: int) -> Found | None:
    """The partition of a plan at its resolution."""
    tree, totals = coarsest(pyramid, plan.finest_limit)
    partition = fill(pyramid, tree, totals, max_pes)
    return None if partition is None else Found(plan, pyramid.offset, partition)


def lowest_limit(pyramid: Pyramid, plan: Plan, highest: float, max_pes: int) -> float | None:
    """The lowest resolution of the finest level with which the coarsest tree fits."""
    floor = (highest or 1.0) * 2**plan.spare_levels
    low, high = floor, None  # too low, fits
    limit = max(floor, plan.finest_limit)
    last = LIMIT_SLACK * limit if plan.accuracy else MAX_SIGMA * floor
    for number in range(MAX_TRIES):
        _, totals = coarsest(pyramid, limit)
        if totals[PES] <= max_pes:
            high = limit
            if limit == floor:
                break
            limit = floor if number == 0 else (low * limit) ** 0.5
        else:
            low = limit
            guess = limit * (totals[PES] / max_pes) * 1.001
            limit = guess if high is None else max((low * high) ** 0.5, min(guess, 0.999 * high))
            if limit > last:
                break
        if high is not None and high / low < 1.004:
            break
    return high


def _finer(plan: Plan) -> Plan:
    """The same tiles with one more level below them, to which leftover PEs can go."""
    return Plan(2 * plan.sampling, plan.spare_levels + 1, 2 * plan.finest_limit, plan.accuracy)


def _shifted_axes(dimension: int) -> list[tuple[int, ...]]:
    """All axes together, then one after the other."""
    return [tuple(range(dimension)), *((axis,) for axis in range(dimension))]


def _shifted(
    problem: Problem, start: Found, axes: tuple[int, ...], shift: int, max_pes: int
) -> Found | None:
    """Blocks that begin before the volume, by `shift` of the largest fine tiles along some axes."""
    offset = list(start.offset)
    for axis in axes:
        offset[axis] = (offset[axis] + shift * 2**start.plan.spare_levels) % MAX_OFFSET
    return evaluate(problem, start.plan, (offset[0], offset[1], offset[2]), max_pes)


def _annealed(start: Found, max_pes: int, sweeps: int, seed: int, budget: Budget) -> Found | None:
    pyramid = start.partition.pyramid
    tree, totals = coarsest(pyramid, start.plan.finest_limit)
    partition = anneal(pyramid, tree, totals, max_pes, sweeps, seed, budget.is_over)
    return None if partition is None else replace(start, partition=partition)


def smallest_partition(problem: Problem) -> Partition:
    """The partition with about the fewest PEs: the largest tiles at the lowest sampling."""
    unit = sampling_unit(problem.volume)
    pyramid = build_pyramid(problem, unit)
    # A limit this high allows every block as a tile; only the shape of the volume counts.
    limit = (float(problem.heat.max()) or 1.0) * 2**pyramid.num_levels
    tree, totals = coarsest(pyramid, limit)
    return as_partition(pyramid, tree, totals)
