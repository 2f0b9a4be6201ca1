"""Simulated annealing of non-slicing floorplans: twin binary sequences.

A mosaic floorplan is a pair of twin binary trees with the same inorder (E. Young, C. Chu and Z.
Shen, "Twin binary sequences", TCAD 22 (2003)). The pair is kept as the permutation whose increasing
and decreasing trees the twins are: exchanging two consecutive values rotates both trees. Inorder
and permutation together are a sequence pair, which packs the kernels compactly to the lower left.
Moves: another shape, two kernels change places, rotation.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.annealing.random import RngState, below, rng_state, uniform
from placer.kernels.finish import finish_rectangles
from placer.kernels.floorplan import Floorplan
from placer.kernels.graph import depth_first_order
from placer.kernels.joint import JointSizing
from placer.kernels.problem import Problem, Shapes
from placer.kernels.search import Search
from placer.kernels.shapes import LongArray

STEPS = 40_000
FEE = 4.0  # wire tiles per tile beyond the wafer
HOT, COLD = 200.0, 0.5  # tiles of wire
LOOSENESS = (1.3, 2.0, 1.15, 4.0, 1.6, 8.0, 1.08, 16.0)  # target time / bound, tried in turn


def run_tbs(search: Search) -> None:
    """Anneal at several target times, again and again with other seeds and more steps."""
    problem = search.problem
    generator = np.random.default_rng(search.seed)
    repeat = 0
    while not search.is_over:
        looseness = LOOSENESS[repeat % len(LOOSENESS)] ** (1 + repeat // len(LOOSENESS) % 3)
        place = int(np.searchsorted(problem.times, problem.bound * looseness))
        ticks = int(problem.times[min(place, len(problem.times) - 1)])
        steps = STEPS * (1 + repeat // len(LOOSENESS))
        plan = anneal_twins(
            problem, problem.shapes_at(ticks), steps, int(generator.integers(1 << 31))
        )
        if plan is not None:
            finish_rectangles(search, JointSizing(problem, ticks), plan, plan.extent_y)
        repeat += 1
        if search.best is None and repeat > 4 * len(LOOSENESS):
            return


def anneal_twins(problem: Problem, shapes: Shapes, steps: int, seed: int) -> Floorplan | None:
    """The best legal floorplan that one run at a target time finds."""
    order = np.array(depth_first_order(problem.num, problem.graph.edges))
    boxes = np.zeros((4, problem.num), np.int64)
    width, height = problem.tables.width, problem.tables.height
    is_legal = _anneal(
        shapes.widths, problem.edges, order, width, height, steps, rng_state(seed), boxes
    )
    return Floorplan(*boxes) if is_legal else None


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
    total = 0
    for e in range(len(edges)):
        u, v = edges[e, 0], edges[e, 1]
        total += abs(2 * (boxes[0, u] - boxes[0, v]) + boxes[2, u] - boxes[2, v])
        total += abs(2 * (boxes[1, u] - boxes[1, v]) + boxes[3, u] - boxes[3, v])
    return total / 2 + FEE * (max(0, wide - width) + max(0, high - height))


@njit(cache=True)
def _reshape(widths: LongArray, extents: LongArray, kernel: int, width: int, rng: RngState) -> None:
    """Another shape: a random height, and the least width for it."""
    for _ in range(20):
        tall = 1 + below(rng, widths.shape[1] - 1)
        if widths[kernel, tall] <= width:
            extents[0, kernel], extents[1, kernel] = widths[kernel, tall], tall
            return


@njit(cache=True)
def _anneal(
    widths: LongArray, edges: LongArray, order: LongArray, width: int, height: int, steps: int,
    rng: RngState, best: LongArray,
) -> bool:  # fmt: skip
    """`best` becomes the boxes of the best legal packing; returns whether there is one."""
    num = len(order)
    inorder, value = order.copy(), np.arange(num)
    at = np.arange(num)  # position of each value
    extents, boxes = np.zeros((2, num), np.int64), np.zeros((4, num), np.int64)
    for kernel in range(num):
        extents[0, kernel], extents[1, kernel] = widths[kernel, height], height
        _reshape(widths, extents, kernel, width, rng)
    wide, high = _pack(inorder, value, extents, boxes)
    current, lowest = _price(boxes, edges, wide, high, width, height), np.inf
    for step in range(steps):
        temperature = HOT * (COLD / HOT) ** (step / steps)
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
    return lowest < np.inf


@njit(cache=True)
def _rotate(value: LongArray, at: LongArray, v: int) -> None:
    """Exchange the values v and v + 1."""
    p, q = at[v], at[v + 1]
    value[p], value[q] = v + 1, v
    at[v], at[v + 1] = q, p
