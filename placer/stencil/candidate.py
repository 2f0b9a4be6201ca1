"""From a plan to a partition: the lowest resolution that fits the fabric, filled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from placer.stencil.moves import PES, VALUE
from placer.stencil.partition import Partition, as_partition, coarsest, fill
from placer.stencil.plan import Plan
from placer.stencil.problem import Problem, sampling_unit
from placer.stencil.pyramid import Pyramid, build_pyramid

MAX_TRIES = 9  # trees that are built to find the lowest resolution that fits
MAX_SIGMA = 2.2  # beyond twice the resolution, a lower sampling serves as well
LIMIT_SLACK = 1.12  # by which the resolution of an estimated plan may be raised to make it fit


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A partition and the plan behind it; `offset` in cells."""

    plan: Plan
    offset: tuple[int, int, int]
    partition: Partition
    base: tuple[float, float]  # value and PEs before filling


def evaluate(
    problem: Problem,
    plan: Plan,
    offset: tuple[int, int, int],
    max_pes: int,
    is_over: Callable[[], bool] = lambda: False,
) -> Found | None:
    """The partition of a plan at the lowest resolution that fits, filled.

    None when none fits, or when `is_over` says so between two trees.
    """
    pyramid = build_pyramid(problem, plan.sampling, offset)
    return evaluate_pyramid(pyramid, plan, float(problem.heat.max()), max_pes, is_over)


def evaluate_pyramid(
    pyramid: Pyramid, plan: Plan, highest: float, max_pes: int, is_over: Callable[[], bool]
) -> Found | None:
    """The same for statistics that are there already."""
    limit = lowest_limit(pyramid, plan, highest, max_pes, is_over)
    if limit is None or is_over():
        return None
    return _filled(pyramid, replace(plan, finest_limit=limit), max_pes)


def _filled(pyramid: Pyramid, plan: Plan, max_pes: int) -> Found | None:
    """The partition of a plan at its resolution."""
    tree, totals = coarsest(pyramid, plan.finest_limit)
    base = float(totals[VALUE]), float(totals[PES])
    partition = fill(pyramid, tree, totals, max_pes)
    return None if partition is None else Found(plan, pyramid.offset, partition, base)


def lowest_limit(
    pyramid: Pyramid, plan: Plan, highest: float, max_pes: int, is_over: Callable[[], bool]
) -> float | None:
    """The lowest resolution of the finest level with which the coarsest tree fits."""
    floor = (highest or 1.0) * 2**plan.spare_levels
    low, high = floor, None  # too low, fits
    limit = max(floor, plan.finest_limit)
    last = LIMIT_SLACK * limit if plan.accuracy else MAX_SIGMA * floor
    for number in range(MAX_TRIES):
        if is_over():
            break
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


def finer(plan: Plan) -> Plan:
    """The same tiles with one more level below them, to which leftover PEs can go."""
    return Plan(2 * plan.sampling, plan.spare_levels + 1, 2 * plan.finest_limit, plan.accuracy)


def smallest_partition(problem: Problem) -> Partition:
    """The partition with about the fewest PEs: the largest tiles at the lowest sampling."""
    unit = sampling_unit(problem.volume)
    pyramid = build_pyramid(problem, unit)
    # A limit this high allows every block as a tile; only the shape of the volume counts.
    limit = (float(problem.heat.max()) or 1.0) * 2**pyramid.num_levels
    tree, totals = coarsest(pyramid, limit)
    return as_partition(pyramid, tree, totals)
