"""Search for the partition: samplings, resolutions and offsets first, then annealing.

The search is a fixed sequence of steps that depends on the problem and the seed alone. It can be
stopped after any of them, and what it has found never gets worse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
ESTIMATE_SLACK = 1.06  # by which a partition may be better than estimated


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A partition and the plan behind it; `offset` in cells."""

    plan: Plan
    offset: tuple[int, int, int]
    partition: Partition


def search(problem: Problem, max_pes: int, max_cells: int, seed: int) -> Iterator[Partition]:
    """Better and better partitions, one per step (the same again when a step found nothing)."""
    found: list[Found] = []  # the best of each pyramid, best first
    for step in _steps(problem, max_pes, max_cells, seed, found):
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
    problem: Problem, max_pes: int, max_cells: int, seed: int, found: list[Found]
) -> Iterator[Found | None]:
    for number, plan in enumerate(make_plans(problem, max_cells)):
        best = found[0].partition.accuracy / max_pes if found else 0.0
        if found and (number >= NUM_PLANS or plan.accuracy * ESTIMATE_SLACK < best):
            break
        yield evaluate(problem, plan, (0, 0, 0), max_pes)
    for start in list(found):
        yield from _finer(problem, start, max_pes, max_cells)
    for start in list(found):
        yield _annealed(start, max_pes, FIRST_SWEEPS, seed)
    yield from _shifted(problem, found[0], max_pes) if found else ()
    sweeps = 2 * FIRST_SWEEPS
    while found and sweeps <= MAX_SWEEPS:
        for number, start in enumerate(list(found)):
            yield _annealed(start, max_pes, sweeps, seed + number)
        sweeps *= 2


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


def _finer(problem: Problem, start: Found, max_pes: int, max_cells: int) -> Iterator[Found | None]:
    """The same tiles with one more level below them, to which leftover PEs can go."""
    plan = start.plan
    cells = cell_counts(problem.volume, 2 * plan.sampling)
    if cells[0] * cells[1] * cells[2] > max_cells:
        return
    finer = Plan(2 * plan.sampling, plan.spare_levels + 1, 2 * plan.finest_limit, plan.accuracy)
    yield evaluate(problem, finer, start.offset, max_pes)


def _shifted(problem: Problem, start: Found, max_pes: int) -> Iterator[Found | None]:
    """Blocks that begin before the volume, axis by axis; a better offset is kept."""
    best = start
    unit = 2**start.plan.spare_levels
    for axis in range(problem.dimension):
        for shift in (1, 2, 4, 8):
            offset = list(best.offset)
            offset[axis] = shift * unit
            pyramid = build_pyramid(problem, best.plan.sampling, (offset[0], offset[1], offset[2]))
            step = _filled(pyramid, best.plan, max_pes)
            yield step
            if step is not None and step.partition.accuracy > best.partition.accuracy:
                best = step


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
