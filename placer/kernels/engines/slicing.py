"""Divide and conquer: halve the graph by area and cut edges, merge shape curves bottom up.

The order of kernels is cut where both parts have similar area and few edges cross. A node's shape
curve gives the least height for each width; its parts lie side by side or on each other, whichever
is lower at that width.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.base import BoolArray, LongArray
from placer.kernels.engines.floorplan import Floorplan, wire_length
from placer.kernels.engines.search import Search, finish_rectangles
from placer.kernels.engines.strips import arrange
from placer.kernels.sizing import FAR, Shapes

CUT_SHARE = 0.05  # of the area, that one edge across the cut is worth
NUM_TIMES = 100  # that are looked at
NEAR = 1.02  # floorplans that score this close to the best so far, adapters left out, are judged


def run_slicing(search: Search) -> None:
    """Look at times from the bound upwards in growing steps, and judge good floorplans."""
    problem, order, num = search.problem, search.problem.depth_first, len(search.problem.times)
    places = np.unique(np.geomspace(1, num, min(num, NUM_TIMES)).astype(np.int64)) - 1
    if _shortest_plan(problem.shapes_at(int(problem.times[-1])), order) is None:
        return  # a shorter time has no floorplan either
    lowest = np.inf
    for ticks in problem.times[places].tolist():
        if problem.score(ticks, 0) >= lowest:
            return
        plan = _shortest_plan(problem.shapes_at(ticks), order)
        if plan is not None:
            score = problem.score(ticks, wire_length(plan, problem.edges))
            lowest = min(lowest, score)
            if score <= NEAR * lowest:
                finish_rectangles(search, ticks, plan)
        if search.is_over():
            return


def _shortest_plan(shapes: Shapes, order: LongArray) -> Floorplan | None:
    """Return the floorplan with the shortest wires, of those for several widths of the whole."""
    plans = [slice_wafer(shapes, order, shapes.width * eighth // 8) for eighth in range(1, 9)]
    legal = [plan for plan in plans if plan is not None]
    return min(legal, key=lambda plan: wire_length(plan, shapes.edges), default=None)


def slice_wafer(shapes: Shapes, order: LongArray, width: int) -> Floorplan | None:
    """Return the slicing floorplan at a target time and width, None if it does not fit.

    Parts change places, node by node from the root, where that shortens the wires.
    """
    num, edges = len(order), shapes.edges
    crossing = arrange(edges, order).crossing
    areas = np.append(0, np.cumsum(shapes.areas[order]))
    tree = np.full((2 * num - 1, 2), -1, np.int64)  # parts of a node; leaves come first
    root = _cut(tree, areas, crossing, 0, num, [num])
    curves = np.full((2 * num - 1, width + 1), FAR, np.int64)
    splits = np.zeros((2 * num - 1, width + 1), np.int64)
    curves[:num] = shapes.heights[order][:, : width + 1]
    for node in range(num, root + 1):
        _merge(curves, splits, tree[node, 0], tree[node, 1], node)
    if curves[root, width] > shapes.height:
        return None
    is_turned = np.zeros(2 * num - 1, np.bool_)
    best = _realise(tree, curves, splits, is_turned, order, shapes.widths, root)
    length = wire_length(best, edges)
    for node in range(root, num - 1, -1):
        is_turned[node] = True
        plan = _realise(tree, curves, splits, is_turned, order, shapes.widths, root)
        turned = wire_length(plan, edges)
        if turned < length:
            best, length = plan, turned
        else:
            is_turned[node] = False
    return best


@njit(cache=True)
def _realise(
    tree: LongArray, curves: LongArray, splits: LongArray, is_turned: BoolArray, order: LongArray,
    widths: LongArray, root: int,
) -> Floorplan:  # fmt: skip
    """Place all kernels, from the root down."""
    num = len(order)
    boxes = np.zeros((4, num), np.int64)
    plan = Floorplan(boxes[0], boxes[1], boxes[2], boxes[3])
    left, low = np.zeros(2 * num - 1, np.int64), np.zeros(2 * num - 1, np.int64)
    room = np.zeros(2 * num - 1, np.int64)
    room[root] = curves.shape[1] - 1
    for node in range(root, num - 1, -1):
        one, two, share = tree[node, 0], tree[node, 1], splits[node, room[node]]
        room[one], room[two] = room[node], room[node]
        left[one] = left[two] = left[node]
        low[one] = low[two] = low[node]
        if share > 0:
            room[one], room[two] = share, room[node] - share
        first, second = (two, one) if is_turned[node] else (one, two)
        if share > 0:
            left[second] += room[first]
        else:
            low[second] += curves[first, room[first]]
    for leaf in range(num):
        tall = curves[leaf, room[leaf]]
        kernel = order[leaf]
        plan.x[kernel], plan.y[kernel] = left[leaf], low[leaf]
        plan.extent_x[kernel], plan.extent_y[kernel] = widths[kernel, tall], tall
    return plan


def _cut(tree: LongArray, areas: LongArray, crossing: np.ndarray, first: int, end: int, free: list[int]) -> int:
    """Make nodes for kernels first .. end - 1, parts before wholes; returns the last one."""
    if end - first == 1:
        return first
    cuts = np.arange(first + 1, end)
    total = areas[end] - areas[first]
    uneven = np.abs(2 * (areas[cuts] - areas[first]) - total) / total
    cut = int(cuts[np.argmin(uneven + CUT_SHARE * crossing[cuts - 1])])
    one, two = (_cut(tree, areas, crossing, *part, free) for part in ((first, cut), (cut, end)))
    tree[free[0]] = one, two
    free[0] += 1
    return free[0] - 1


@njit(cache=True)
def _merge(curves: LongArray, splits: LongArray, one: int, two: int, node: int) -> None:
    """Set splits[node, width] = width of the first part if they lie side by side, else 0."""
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
