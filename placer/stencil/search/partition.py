"""Partitions of the volume: from a plan to the lowest resolution that fits, filled or annealed.

A tile of level r stands for a resolution R = finest_limit / 2^r; it needs R >= its maximal heat and
earns mean heat / R. The score divides by the scale, so only R counts, not the level itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from placer.base import DoesNotFitError, rng_state
from placer.stencil.model import Problem, sampling_unit
from placer.stencil.search.moves import (
    Ledger,
    anneal_sweep,
    candidates_of,
    fill_by_yield,
    new_heap,
    new_ledger,
    remove_islands,
)
from placer.stencil.search.netlist import find_tiles, needed_scale, num_lifts
from placer.stencil.search.plan import Plan
from placer.stencil.search.pyramid import Cells, Pyramid, build_pyramid
from placer.stencil.search.tree import PES, VALUE, Tree, coarsest_tree, count

Question = Callable[[], bool]

LEAST_YIELD = 0.04  # of a split, as a share of what a PE earns on average
PRICE_SHARE = 0.45  # first price of a PE, as a share of what a PE earns on average
HOT, COLD = 1.0, 0.04  # temperatures of annealing, in prices
MAX_TRIES = 12  # trees that are built to find the lowest resolution that fits
FIRST_STRIDE = 1.005  # by which it is raised at least while nothing fits, squared each time
CLOSE = 1.001  # it is found when it is known up to this factor
MARGIN = 0.15  # of an interval, next to its ends, where it is not looked for
MAX_SIGMA = 2.2  # beyond twice the resolution, a lower sampling serves as well
LIMIT_SLACK = 1.12  # by which the resolution of an estimated plan may be raised to make it fit


class Draft(NamedTuple):
    """A tree that is worked on, and what it comes to."""

    pyramid: Pyramid
    tree: Tree
    ledger: Ledger

    @property
    def value(self) -> float:
        return float(self.ledger.totals[VALUE])

    @property
    def pes(self) -> float:
        return float(self.ledger.totals[PES])

    @property
    def average(self) -> float:
        """Return what a PE earns on average."""
        return self.value / max(1.0, self.pes)


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A finished tree, with all fillers that it needs."""

    pyramid: Pyramid
    tree: Tree
    accuracy: float  # as the score counts it
    used_pes: int


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A partition that fits the fabric, and the plan behind it."""

    plan: Plan
    offset: Cells  # of its pyramid
    partition: Partition
    base: tuple[float, float]  # value and PEs before filling


def evaluate(
    pyramid: Pyramid, plan: Plan, highest: float, max_pes: int, is_over: Question = lambda: False
) -> Found | None:
    """Return the partition of a plan at the lowest resolution that fits, filled.

    None when none fits, or when `is_over` says so between two trees.
    """
    limit = lowest_limit(pyramid, plan, highest, max_pes, is_over)
    if limit is None or is_over():
        return None
    draft = coarsest(pyramid, limit)
    base = draft.value, draft.pes
    partition = fill(draft, max_pes)
    if partition is None:
        return None
    return Found(replace(plan, finest_limit=limit), pyramid.offset, partition, base)


def lowest_limit(pyramid: Pyramid, plan: Plan, highest: float, max_pes: int, is_over: Question) -> float | None:
    """Return the lowest resolution of the finest level with which the coarsest tree fits.

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
        pes = coarsest(pyramid, limit).pes
        if pes > max_pes:
            low = limit, pes
        else:
            high = limit, pes
        if high is None:
            stride = max(stride**2, pes / max_pes)
            limit *= stride
        elif high[0] == floor or high[0] < CLOSE * low[0]:
            break
        elif low[1] == math.inf:
            limit = low[0]  # untried
        else:  # where PEs may just fit, well within the interval
            share = (low[1] - max_pes) / (low[1] - high[1])
            limit = float(low[0] * (high[0] / low[0]) ** min(max(share, MARGIN), 1 - MARGIN))
    return high[0] if high else None


def finer(plan: Plan, used_pes: float, dimension: int, max_pes: int) -> Plan:
    """Return a plan of the same tiles with one more level below them, for leftover PEs.

    `used_pes` are those before filling. Where all tiles can be split, some of half the size come
    instead.
    """
    if used_pes * 2**dimension <= max_pes:
        return replace(plan, sampling=2 * plan.sampling)
    return Plan(2 * plan.sampling, plan.spare_levels + 1, 2 * plan.finest_limit, plan.accuracy)


def smallest_partition(problem: Problem) -> Partition:
    """Return a partition with about the fewest PEs: the largest tiles at the lowest sampling.

    Raises DoesNotFitError when the fabric has fewer.
    """
    pyramid = build_pyramid(problem, sampling_unit(problem.volume))
    # A limit this high allows every block as a tile; only the shape of the volume counts.
    limit = (float(problem.heat.max()) or 1.0) * 2**pyramid.num_levels
    smallest, num_pes = _finished(coarsest(pyramid, limit)), problem.num_pes
    if smallest.used_pes > num_pes:
        hint = "use a larger fabric or a smaller volume"
        raise DoesNotFitError("PEs", smallest.used_pes, num_pes, hint)
    return smallest


def coarsest(pyramid: Pyramid, finest_limit: float) -> Draft:
    """Return the tree with the fewest tiles that the heat allows."""
    return _counted(pyramid, coarsest_tree(pyramid, finest_limit))


def _counted(pyramid: Pyramid, tree: Tree) -> Draft:
    draft = Draft(pyramid, tree, new_ledger())
    count(tree, draft.ledger.totals)
    return draft


def fill(draft: Draft, max_pes: int) -> Partition | None:
    """Split where it pays most until the fabric is full; None when the tree does not fit.

    The draft is used up.
    """
    _, tree, ledger = draft
    candidates = candidates_of(tree)
    heap, limit = new_heap(len(candidates)), float(max_pes)
    while draft.pes <= limit:
        fill_by_yield(tree, ledger, candidates, heap, LEAST_YIELD * draft.average, limit)
        partition = _finished(draft)
        if partition.used_pes <= max_pes:
            return partition
        # Fillers that call for fillers came on top: leave room for them and try again.
        limit -= partition.used_pes - max_pes
        _shrink(draft, limit)
    return None


def anneal(draft: Draft, max_pes: int, sweeps: int, seed: int, is_over: Question = lambda: False) -> Partition | None:
    """Anneal splits and merges, the price of a PE following the room that is left; then fill.

    The draft is used up. None when it does not fit, or when `is_over` says so between two sweeps.
    """
    _, tree, ledger = draft
    candidates = candidates_of(tree)
    num = len(candidates)
    if num < 2 or draft.pes == 0:
        return fill(draft, max_pes)
    random, rng = np.random.default_rng(seed), rng_state(seed)
    price = PRICE_SHARE * draft.average
    for sweep in range(sweeps):
        if is_over():
            return None
        warmth = price * HOT * (COLD / HOT) ** (sweep / max(1, sweeps - 1))
        start, stride = int(random.integers(num)), _stride(num, random)
        anneal_sweep(tree, ledger, candidates, start, stride, rng, warmth, price, 1.02 * max_pes)
        price *= math.exp(min(0.1, max(-0.1, 3.0 * (draft.pes / max_pes - 1.0))))
    remove_islands(tree, ledger, candidates, price)
    _shrink(draft, max_pes)
    return fill(draft, max_pes)


def resized(partition: Partition, max_pes: int) -> Partition | None:
    """Undo the least valuable splits of a partition, or split more; None if that cannot be."""
    tree = partition.tree._replace(status=partition.tree.status.copy())
    draft = _counted(partition.pyramid, tree)
    _shrink(draft, max_pes)
    return fill(draft, max_pes)


def _shrink(draft: Draft, max_pes: float) -> None:
    """Merge what is worth least until the tree fits, or nothing is left to merge."""
    _, tree, ledger = draft
    candidates, price, rng = candidates_of(tree), 0.3 * draft.average, rng_state(0)
    for _ in range(60):
        if draft.pes <= max_pes or not len(candidates):
            return
        anneal_sweep(tree, ledger, candidates, 0, 1, rng, 0.0, price, 0.0)
        price *= 1.05


def _stride(num: int, random: np.random.Generator) -> int:
    """Return a stride that visits all candidates in a scattered order."""
    stride = int(random.integers(1, num))
    while math.gcd(stride, num) > 1:
        stride = stride % (num - 1) + 1
    return stride


def _finished(draft: Draft) -> Partition:
    """Return a draft as a partition.

    The limits may be above what the tiles need: the score counts the scale that they need.
    """
    pyramid, tree, _ = draft
    is_tile, num_adapters = find_tiles(tree)
    scale = needed_scale(tree, is_tile)
    lift = 2.0 ** num_lifts(pyramid, scale)
    accuracy = draft.value * float(tree.limit[0]) * lift / max(1.0, lift * scale)
    return Partition(pyramid, tree, accuracy, int(is_tile.sum()) + num_adapters)
