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

from placer.stencil.moves import PES
from placer.stencil.partition import Partition, anneal, as_partition, coarsest, fill
from placer.stencil.plan import Plan, make_plans
from placer.stencil.problem import Problem, sampling_unit
from placer.stencil.pyramid import Pyramid, build_pyramid, cell_counts

MAX_TRIES = 9  # trees that are built to find the lowest resolution that fits
MAX_SIGMA = 2.2  # beyond twice the resolution, a lower sampling serves as well
NUM_FINALISTS = 3
FIRST_SWEEPS = 12
MAX_SWEEPS = 12_000
NUM_PLANS = 48
MAX_CELLS = 60_000_000  # of a sampling: 600 MB
SHIFTS = (1, 2, 4, 8)
SWEEPS_PER_WORK = 8  # of annealing, in the time that it takes to evaluate a plan, about
ESTIMATE_SLACK = 1.06  # by which a partition may be better than estimated


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A partition and the plan behind it; `offset` in cells."""

    plan: Plan
    offset: tuple[int, int, int]
    partition: Partition


class Work(Protocol):
    """Asked before each step, with the cells that it will go through."""

    def __call__(self, cells: float) -> bool: ...


def search(
    problem: Problem,
    max_pes: int,
    seed: int,
    affords: Work = lambda cells: True,
) -> Iterator[Partition]:
    """Better and better partitions, one per step (the same again when a step found nothing).

    Ends when the next step cannot be afforded.
    """
    found: list[Found] = []  # the best of each pyramid, best first
    for cells, act in _steps(problem, max_pes, seed, found):
        if found and not affords(cells):
            return
        step = act()
        if step is not None:
            _keep(found, step)
        if found:
            yield found[0].partition


def _keep(found: list[Found], new: Found) -> None:
    """Add a partition to the finalists, one per pyramid."""
    key = (new.plan.sampling, new.offset)
    rivals = [new, *(f for f in found if (f.plan.sampling, f.offset) == key)]
    others = [f for f in found if (f.plan.sampling, f.offset) != key]
    best = max(rivals, key=lambda f: f.partition.accuracy)
    found[:] = sorted([best, *others], key=lambda f: -f.partition.accuracy)[:NUM_FINALISTS]


def _steps(
    problem: Problem, max_pes: int, seed: int, found: list[Found]
) -> Iterator[tuple[float, Callable[[], Found | None]]]:
    """Cells to go through, and what to do. `found` grows between the steps."""
    for number, plan in enumerate(make_plans(problem, MAX_CELLS)):
        best = found[0].partition.accuracy / max_pes if found else 0.0
        if found and (number >= NUM_PLANS or plan.accuracy * ESTIMATE_SLACK < best):
            break
        yield _num_cells(problem, plan), partial(evaluate, problem, plan, (0, 0, 0), max_pes)
    if not found:
        return
    for start in list(found):
        plan = _finer(start.plan)
        if _num_cells(problem, plan) <= MAX_CELLS:
            yield _num_cells(problem, plan), partial(evaluate, problem, plan, (0, 0, 0), max_pes)
    for start in list(found):
        work = _num_cells(problem, start.plan) * (1 + FIRST_SWEEPS / SWEEPS_PER_WORK)
        yield work, partial(_annealed, start, max_pes, FIRST_SWEEPS, seed)
    for axis, shift in product(range(problem.dimension), SHIFTS):
        work = _num_cells(problem, found[0].plan)
        yield work, partial(_shifted, problem, found[0], axis, shift, max_pes)
    sweeps = 2 * FIRST_SWEEPS
    while sweeps <= MAX_SWEEPS:
        for number, start in enumerate(list(found)):
            work = _num_cells(problem, start.plan) * (1 + sweeps / SWEEPS_PER_WORK)
            yield work, partial(_annealed, start, max_pes, sweeps, seed + number)
        sweeps *= 2


def _num_cells(problem: Problem, plan: Plan) -> float:
    return float(np.prod(cell_counts(problem.volume, plan.sampling), dtype=float))


def evaluate(
    problem: Problem, plan: Plan, offset: tuple[int, int, int], max_pes: int
) -> Found | None:
    """The partition of a plan at the lowest resolution that fits, filled; None when none fits."""
    pyramid = build_pyramid(problem, plan.sampling, offset)
    limit = lowest_limit(pyramid, plan, float(problem.heat.max()), max_pes)
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
    floor = max(highest, 1e-9) * 2**plan.spare_levels
    low, high = floor, None  # too low, fits
    limit = max(floor, plan.finest_limit)
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
            if limit > MAX_SIGMA * floor:
                break
        if high is not None and high / low < 1.004:
            break
    return high


def _finer(plan: Plan) -> Plan:
    """The same tiles with one more level below them, to which leftover PEs can go."""
    return Plan(2 * plan.sampling, plan.spare_levels + 1, 2 * plan.finest_limit, plan.accuracy)


def _shifted(problem: Problem, start: Found, axis: int, shift: int, max_pes: int) -> Found | None:
    """Blocks that begin before the volume along one axis, by `shift` of the largest fine tiles."""
    offset = list(start.offset)
    offset[axis] = shift * 2**start.plan.spare_levels
    pyramid = build_pyramid(problem, start.plan.sampling, (offset[0], offset[1], offset[2]))
    return _filled(pyramid, start.plan, max_pes)


def _annealed(start: Found, max_pes: int, sweeps: int, seed: int) -> Found | None:
    pyramid = start.partition.pyramid
    tree, totals = coarsest(pyramid, start.plan.finest_limit)
    partition = anneal(pyramid, tree, totals, max_pes, sweeps, seed)
    return None if partition is None else replace(start, partition=partition)


def smallest_partition(problem: Problem) -> Partition:
    """The partition with about the fewest PEs: the largest tiles at the lowest sampling."""
    unit = sampling_unit(problem.volume)
    pyramid = build_pyramid(problem, unit)
    # A limit this high allows every block as a tile; only the shape of the volume counts.
    limit = max(float(problem.heat.max()), 1e-9) * 2**pyramid.num_levels
    tree, totals = coarsest(pyramid, limit)
    return as_partition(pyramid, tree, totals)
