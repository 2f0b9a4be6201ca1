"""From a plan to a partition: the lowest resolution that fits the fabric, filled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from placer.stencil.moves import PES, VALUE
from placer.stencil.partition import Partition, as_partition, coarsest, fill
from placer.stencil.plan import Plan
from placer.stencil.problem import Problem, sampling_unit
from placer.stencil.pyramid import Pyramid, build_pyramid

MAX_TRIES = 12  # trees that are built to find the lowest resolution that fits
FIRST_STRIDE = 1.005  # by which it is raised at least while nothing fits, squared each time
CLOSE = 1.001  # it is found when it is known up to this factor
MARGIN = 0.15  # of an interval, next to its ends, where it is not looked for
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
    """The lowest resolution of the finest level with which the coarsest tree fits.

    PEs fall as the resolution rises, in steps and at no known rate. So it is raised in larger and
    larger strides until the tree fits, and then interpolated.
    """
    floor = (highest or 1.0) * 2**plan.spare_levels
    limit = max(floor, plan.finest_limit)
    last = LIMIT_SLACK * limit if plan.accuracy else MAX_SIGMA * floor
    low, high = (floor, math.inf), None  # limit and PEs: too low, fits
    stride = FIRST_STRIDE
    for _ in range(MAX_TRIES):
        if is_over() or limit > last:
            break
        pes = float(coarsest(pyramid, limit)[1][PES])
        if pes > max_pes:
            low = limit, pes
        else:
            high = limit, pes
        if high is None:
            stride = max(stride**2, pes / max_pes)
            limit *= stride
        elif high[0] == floor or high[0] < CLOSE * low[0]:
            break
        else:
            limit = _between(low, high, max_pes)
    return high[0] if high else None


def _between(low: tuple[float, float], high: tuple[float, float], max_pes: int) -> float:
    """Where PEs may just fit, well within the interval; its lower end if that is untried."""
    if low[1] == math.inf:
        return low[0]
    share = (low[1] - max_pes) / (low[1] - high[1])
    return float(low[0] * (high[0] / low[0]) ** min(max(share, MARGIN), 1 - MARGIN))


def finer(found: Found, max_pes: int) -> Plan:
    """The same tiles with one more level below them, to which leftover PEs can go.

    Where all of them can be split, tiles of half the size come instead.
    """
    plan = found.plan
    if found.base[1] * 2**found.partition.pyramid.dimension <= max_pes:
        return replace(plan, sampling=2 * plan.sampling)
    return Plan(2 * plan.sampling, plan.spare_levels + 1, 2 * plan.finest_limit, plan.accuracy)


def smallest_partition(problem: Problem) -> Partition:
    """The partition with about the fewest PEs: the largest tiles at the lowest sampling."""
    unit = sampling_unit(problem.volume)
    pyramid = build_pyramid(problem, unit)
    # A limit this high allows every block as a tile; only the shape of the volume counts.
    limit = (float(problem.heat.max()) or 1.0) * 2**pyramid.num_levels
    tree, totals = coarsest(pyramid, limit)
    return as_partition(pyramid, tree, totals)
