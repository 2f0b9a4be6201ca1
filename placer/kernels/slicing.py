"""Divide and conquer: halve the graph by area and cut edges, merge shape curves bottom up.

The order of kernels is cut where both parts have similar area and few edges cross. A node's shape
curve gives the least height for each width; its parts lie side by side or on each other, whichever
is lower at that width.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.kernels.finish import finish_rectangles
from placer.kernels.floorplan import Floorplan, length_of
from placer.kernels.graph import depth_first_order
from placer.kernels.joint import JointSizing
from placer.kernels.problem import FAR, Problem, Shapes
from placer.kernels.scan import scan
from placer.kernels.search import Search
from placer.kernels.shapes import LongArray
from placer.kernels.strips import flow_along

CUT_SHARE = 0.05  # of the area, that one edge across the cut is worth


def run_slicing(search: Search) -> None:
    """Scan the times; every floorplan that is expected to be near the best is finished."""
    problem = search.problem
    order = np.array(depth_first_order(problem.num, problem.graph.edges))
    weight = problem.graph.wafer.wire_weight

    def evaluate(ticks: int) -> tuple[float, Floorplan] | None:
        plan = slice_wafer(problem, problem.shapes_at(ticks), order)
        return None if plan is None else (weight * length_of(plan, problem.edges), plan)

    for score, ticks, plan in scan(problem, evaluate, margin=0.02):
        best = search.best
        if best is None or score < 1.02 * best.score.total_without_adapters:
            finish_rectangles(search, JointSizing(problem, ticks), plan, plan.extent_y)
        if search.is_over:
            return


def slice_wafer(problem: Problem, shapes: Shapes, order: LongArray) -> Floorplan | None:
    """The slicing floorplan at a target time, None if it does not fit."""
    num, width = problem.num, problem.tables.width
    crossing = flow_along(problem.edges, order).crossing
    areas = np.append(0, np.cumsum(shapes.areas[order]))
    tree = np.full((2 * num - 1, 2), -1, np.int64)  # parts of a node; leaves come first
    root = _cut(tree, areas, crossing, 0, num, [num])
    curves = np.full((2 * num - 1, width + 1), FAR, np.int64)
    splits = np.zeros((2 * num - 1, width + 1), np.int64)
    curves[:num] = shapes.heights[order]
    for node in range(num, root + 1):
        _merge(curves, splits, tree[node, 0], tree[node, 1], node)
    if curves[root, width] > problem.tables.height:
        return None
    x, y = np.zeros(num, np.int64), np.zeros(num, np.int64)
    extent_x, extent_y = np.zeros(num, np.int64), np.zeros(num, np.int64)
    todo = [(root, 0, 0, width)]
    while todo:
        node, left, low, room = todo.pop()
        if node < num:
            kernel = order[node]
            tall = int(curves[node, room])
            x[kernel], y[kernel] = left, low
            extent_x[kernel], extent_y[kernel] = shapes.widths[kernel, tall], tall
            continue
        one, two = tree[node].tolist()
        share = int(splits[node, room])
        if share:
            todo += [(one, left, low, share), (two, left + share, low, room - share)]
        else:
            todo += [(one, left, low, room), (two, left, low + int(curves[one, room]), room)]
    return Floorplan(x, y, extent_x, extent_y)


def _cut(
    tree: LongArray, areas: LongArray, crossing: np.ndarray, first: int, end: int, free: list[int]
) -> int:
    """Nodes for kernels first .. end - 1, parts before wholes; returns the last one."""
    if end - first == 1:
        return first
    cuts = np.arange(first + 1, end)
    total = areas[end] - areas[first]
    uneven = np.abs(2 * (areas[cuts] - areas[first]) - total) / total
    cut = int(cuts[np.argmin(uneven + CUT_SHARE * crossing[cuts - 1])])
    parts = (
        _cut(tree, areas, crossing, first, cut, free),
        _cut(tree, areas, crossing, cut, end, free),
    )
    node = free[0]
    free[0] += 1
    tree[node] = parts
    return node


@njit(cache=True)
def _merge(curves: LongArray, splits: LongArray, one: int, two: int, node: int) -> None:
    """splits[node, width] = width of the first part if they lie side by side, else 0."""
    width = curves.shape[1] - 1
    for room in range(1, width + 1):
        best, split = min(curves[one, room] + curves[two, room], FAR), 0
        low, high = 1, room - 1
        while low < high:  # the first part falls, the second rises with the share
            middle = (low + high) // 2
            if curves[one, middle] <= curves[two, room - middle]:
                high = middle
            else:
                low = middle + 1
        for share in range(max(1, low - 1), min(room - 1, low + 1) + 1):
            height = max(curves[one, share], curves[two, room - share])
            if height < best:
                best, split = height, share
        curves[node, room], splits[node, room] = best, split
