"""Simulated annealing of non-slicing floorplans: twin binary sequences.

A mosaic floorplan is a pair of twin binary trees with the same inorder (E. Young, C. Chu and Z.
Shen, "Twin binary sequences", TCAD 22 (2003)). The pair is kept as the permutation whose increasing
and decreasing trees the twins are: exchanging two consecutive values rotates both trees. Inorder
and permutation together are a sequence pair, which packs the kernels compactly to the lower left.
Moves: another shape, two kernels change places, rotation.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import LongArray, RngState, below, rng_state, uniform
from placer.kernels.engines.floorplan import Floorplan, wire_length
from placer.kernels.engines.search import STEPS_PER_LOOK, Search, finish_rectangles, starts
from placer.kernels.engines.shelves import copy_arrays, empty_plan
from placer.kernels.sizing import Problem, Shapes

STEPS = 40_000
FIRST_TRIES = 6  # runs, if none finds a mapping
FEE = 4.0  # wire tiles per tile beyond the wafer
HOT, COLD = 200.0, 0.5  # tiles of wire
LOOSENESS = (1.3, 2.0, 1.15, 4.0, 1.6, 8.0, 1.08, 16.0)  # target time / bound, tried in turn


class Twins(NamedTuple):
    """A floorplan: kernels in order, the permutation of the twin trees, shapes and places."""

    inorder: LongArray
    value: LongArray
    at: LongArray  # position of each value
    plan: Floorplan


def run_tbs(search: Search) -> None:
    """Anneal at several target times, again and again with other seeds and more steps."""
    problem, generator = search.problem, np.random.default_rng(search.seed)
    for repeat in count():
        cycle = repeat // len(LOOSENESS)
        if search.best is None:  # longer and longer times, until there is a mapping
            first = starts(problem)
            place = first[min(repeat, len(first) - 1)]
        else:
            looseness = LOOSENESS[repeat % len(LOOSENESS)] ** (1 + cycle % 3)
            place = int(np.searchsorted(problem.times, problem.bound * looseness))
            place = min(place, len(problem.times) - 1)
        ticks, seed = int(problem.times[place]), int(generator.integers(1 << 31))
        steps = STEPS * (1 + cycle)
        plan = anneal_twins(problem, problem.shapes_at(ticks), steps, seed, search.is_over)
        if plan is not None:
            finish_rectangles(search, ticks, plan)
        if search.is_over() or (search.best is None and repeat >= FIRST_TRIES):
            return


def anneal_twins(
    problem: Problem, shapes: Shapes, steps: int, seed: int, is_over: Callable[[], bool]
) -> Floorplan | None:
    """Return the best legal floorplan that a run at a target time finds, None if it is cut off."""
    num = problem.num
    twins = Twins(problem.depth_first.copy(), np.arange(num), np.arange(num), empty_plan(num))
    best, rng, lowest = empty_plan(num), rng_state(seed), np.inf
    twins.plan.extent_x[:], twins.plan.extent_y[:] = shapes.widths[:, -1], shapes.height
    for kernel in range(num):
        _reshape(shapes, twins.plan, kernel, rng)
    for part in range(0, steps, STEPS_PER_LOOK):
        if is_over():
            return None
        hot, cold = (HOT * (COLD / HOT) ** (at / steps) for at in (part, part + STEPS_PER_LOOK))
        lowest = _anneal(twins, shapes, STEPS_PER_LOOK, hot, cold, rng, best, lowest)
    return best if lowest < np.inf else None


@njit(cache=True)
def _pack(twins: Twins) -> tuple[int, int]:
    """Pack compactly; earlier with smaller value is left, with larger value below.

    Returns the width and the height of the whole.
    """
    inorder, value, _, plan = twins
    wide, high = 0, 0
    for p in range(len(inorder)):
        kernel = inorder[p]
        x, y = 0, 0
        for q in range(p):
            other = inorder[q]
            if value[q] < value[p]:
                x = max(x, plan.x[other] + plan.extent_x[other])
            else:
                y = max(y, plan.y[other] + plan.extent_y[other])
        plan.x[kernel], plan.y[kernel] = x, y
        wide, high = max(wide, x + plan.extent_x[kernel]), max(high, y + plan.extent_y[kernel])
    return wide, high


@njit(cache=True)
def _reshape(shapes: Shapes, plan: Floorplan, kernel: int, rng: RngState) -> None:
    """Give a kernel another shape: a random height, and the least width for it."""
    for _ in range(20):
        tall = 1 + below(rng, shapes.height)
        if shapes.widths[kernel, tall] <= shapes.width:
            plan.extent_x[kernel], plan.extent_y[kernel] = shapes.widths[kernel, tall], tall
            return


@njit(cache=True)
def _anneal(
    twins: Twins, shapes: Shapes, steps: int, hot: float, cold: float, rng: RngState,
    best: Floorplan, lowest: float,
) -> float:  # fmt: skip
    """`best` becomes the best legal packing below `lowest`; returns its price."""
    inorder, value, at, plan = twins
    num, current = len(inorder), np.inf
    for step in range(-1, steps):
        kind, p, q = -1, 0, 0  # first the packing as it is
        if step >= 0:
            kind, p, q = below(rng, 3), below(rng, num), below(rng, num)
        old_x, old_y = plan.extent_x[p], plan.extent_y[p]
        v = min(p, num - 2) if num > 1 else 0
        if kind == 0:
            _reshape(shapes, plan, p, rng)
        elif kind == 1:
            inorder[p], inorder[q] = inorder[q], inorder[p]
        elif kind == 2 and num > 1:
            _rotate(value, at, v)
        wide, high = _pack(twins)
        beyond = max(0, wide - shapes.width) + max(0, high - shapes.height)
        price = wire_length(plan, shapes.edges) + FEE * beyond
        temperature = hot * (cold / hot) ** (step / steps)
        if price <= current or uniform(rng) < np.exp((current - price) / temperature):
            current = price
            if kind >= 0 and beyond == 0 and price < lowest:
                lowest = price
                copy_arrays(plan, best)
        elif kind == 0:
            plan.extent_x[p], plan.extent_y[p] = old_x, old_y
        elif kind == 1:
            inorder[p], inorder[q] = inorder[q], inorder[p]
        elif num > 1:
            _rotate(value, at, v)
    return lowest


@njit(cache=True)
def _rotate(value: LongArray, at: LongArray, v: int) -> None:
    """Exchange the values v and v + 1."""
    p, q = at[v], at[v + 1]
    value[p], value[q] = v + 1, v
    at[v], at[v + 1] = q, p
