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

from placer.annealing.random import RngState, below, rng_state, uniform
from placer.kernels.finish import finish_rectangles
from placer.kernels.floorplan import Floorplan, wire_length
from placer.kernels.graph import depth_first_order
from placer.kernels.joint import JointSizing
from placer.kernels.problem import Problem, Shapes
from placer.kernels.scan import starts
from placer.kernels.search import Search
from placer.kernels.shapes import LongArray

STEPS = 40_000
PART = 2_000  # steps between looks at the clock
FIRST_TRIES = 6  # runs, if none finds a mapping
FEE = 4.0  # wire tiles per tile beyond the wafer
HOT, COLD = 200.0, 0.5  # tiles of wire
LOOSENESS = (1.3, 2.0, 1.15, 4.0, 1.6, 8.0, 1.08, 16.0)  # target time / bound, tried in turn


class Twins(NamedTuple):
    """A floorplan: kernels in order, the permutation of the twin trees, and shapes."""

    inorder: LongArray
    value: LongArray
    at: LongArray  # position of each value
    extents: LongArray  # [2, kernel]: along x, along y


def run_tbs(search: Search) -> None:
    """Anneal at several target times, again and again with other seeds and more steps."""
    problem = search.problem
    generator = np.random.default_rng(search.seed)
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
            sizing = JointSizing(problem, ticks, search.is_over)
            finish_rectangles(search, sizing, plan, plan.extent_y)
        if search.is_over() or (search.best is None and repeat >= FIRST_TRIES):
            return


def anneal_twins(
    problem: Problem, shapes: Shapes, steps: int, seed: int, is_over: Callable[[], bool]
) -> Floorplan | None:
    """The best legal floorplan that one run at a target time finds, None if it is cut off."""
    num, order = problem.num, np.array(depth_first_order(problem.num, problem.graph.edges))
    twins = Twins(order, np.arange(num), np.arange(num), np.zeros((2, num), np.int64))
    best, rng = np.zeros((4, num), np.int64), rng_state(seed)
    _start(twins, shapes.widths, shapes.width, rng)
    lowest = np.inf
    for part in range(0, steps, PART):
        if is_over():
            return None
        hot, cold = (HOT * (COLD / HOT) ** (at / steps) for at in (part, part + PART))
        lowest = _anneal(
            twins, shapes.widths, problem.edges, shapes.width, shapes.height, PART, hot, cold, rng,
            best, lowest,
        )  # fmt: skip
    return Floorplan(*best) if lowest < np.inf else None


@njit(cache=True)
def _pack(
    inorder: LongArray, value: LongArray, extents: LongArray, boxes: LongArray
) -> tuple[int, int]:
    """Compact packing; earlier with smaller value is left, with larger value below."""
    num = len(inorder)
    wide, high = 0, 0
    for p in range(num):
        kernel = inorder[p]
        x, y = 0, 0
        for q in range(p):
            other = inorder[q]
            if value[q] < value[p]:
                x = max(x, boxes[0, other] + boxes[2, other])
            else:
                y = max(y, boxes[1, other] + boxes[3, other])
        boxes[0, kernel], boxes[1, kernel] = x, y
        boxes[2, kernel], boxes[3, kernel] = extents[0, kernel], extents[1, kernel]
        wide, high = max(wide, x + extents[0, kernel]), max(high, y + extents[1, kernel])
    return wide, high


@njit(cache=True)
def _price(
    boxes: LongArray, edges: LongArray, wide: int, high: int, width: int, height: int
) -> float:
    length = wire_length(boxes[0], boxes[1], boxes[2], boxes[3], edges)
    return float(length + FEE * (max(0, wide - width) + max(0, high - height)))


@njit(cache=True)
def _reshape(widths: LongArray, extents: LongArray, kernel: int, width: int, rng: RngState) -> None:
    """Another shape: a random height, and the least width for it."""
    for _ in range(20):
        tall = 1 + below(rng, widths.shape[1] - 1)
        if widths[kernel, tall] <= width:
            extents[0, kernel], extents[1, kernel] = widths[kernel, tall], tall
            return


@njit(cache=True)
def _start(twins: Twins, widths: LongArray, width: int, rng: RngState) -> None:
    """Random shapes."""
    tallest = widths.shape[1] - 1
    for kernel in range(len(twins.inorder)):
        twins.extents[0, kernel], twins.extents[1, kernel] = widths[kernel, tallest], tallest
        _reshape(widths, twins.extents, kernel, width, rng)


@njit(cache=True)
def _anneal(
    twins: Twins, widths: LongArray, edges: LongArray, width: int, height: int, steps: int,
    hot: float, cold: float, rng: RngState, best: LongArray, lowest: float,
) -> float:  # fmt: skip
    """`best` becomes the boxes of the best legal packing below `lowest`; returns its price."""
    inorder, value, at, extents = twins
    num = len(inorder)
    boxes = np.zeros((4, num), np.int64)
    wide, high = _pack(inorder, value, extents, boxes)
    current = _price(boxes, edges, wide, high, width, height)
    for step in range(steps):
        temperature = hot * (cold / hot) ** (step / steps)
        kind = below(rng, 3)
        p, q = below(rng, num), below(rng, num)
        old_x, old_y = extents[0, p], extents[1, p]
        v = min(p, num - 2) if num > 1 else 0
        if kind == 0:
            _reshape(widths, extents, p, width, rng)
        elif kind == 1:
            inorder[p], inorder[q] = inorder[q], inorder[p]
        elif num > 1:
            _rotate(value, at, v)
        wide, high = _pack(inorder, value, extents, boxes)
        price = _price(boxes, edges, wide, high, width, height)
        if price <= current or uniform(rng) < np.exp((current - price) / temperature):
            current = price
            if wide <= width and high <= height and price < lowest:
                lowest = price
                best[:] = boxes
        elif kind == 0:
            extents[0, p], extents[1, p] = old_x, old_y
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
