"""Divide and conquer: halve the graph by area and cut edges, merge shape curves bottom up.

The order of kernels is cut where both parts have similar area and few edges cross. A node's shape
curve gives the least height for each width; its parts lie side by side or on each other, whichever
is lower at that width.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.kernels.finish import finish_rectangles
from placer.kernels.floorplan import Floorplan, length_of, wire_length
from placer.kernels.flow import flow_along
from placer.kernels.graph import depth_first_order
from placer.kernels.joint import JointSizing
from placer.kernels.problem import FAR, Problem, Shapes
from placer.kernels.search import Search
from placer.kernels.shapes import BoolArray, LongArray

CUT_SHARE = 0.05  # of the area, that one edge across the cut is worth
NUM_TIMES = 100  # that are looked at
NEAR = 1.02  # floorplans that score this close to the best so far, adapters left out, are judged


def run_slicing(search: Search) -> None:
    """Times from the bound upwards in growing steps; good floorplans are judged."""
    problem = search.problem
    order = np.array(depth_first_order(problem.num, problem.graph.edges))
    num = len(problem.times)
    places = np.unique(np.geomspace(1, num, min(num, NUM_TIMES)).astype(np.int64)) - 1
    if _shortest_plan(problem, problem.shapes_at(int(problem.times[-1])), order) is None:
        return  # a shorter time has no floorplan either
    lowest = np.inf
    for ticks in problem.times[places].tolist():
        if problem.score(ticks, 0) >= lowest:
            return
        plan = _shortest_plan(problem, problem.shapes_at(ticks), order)
        if plan is not None:
            score = problem.score(ticks, length_of(plan, problem.edges))
            lowest = min(lowest, score)
            if score <= NEAR * lowest:
                sizing = JointSizing(problem, ticks, search.is_over)
                finish_rectangles(search, sizing, plan, plan.extent_y)
        if search.is_over():
            return


def _shortest_plan(problem: Problem, shapes: Shapes, order: LongArray) -> Floorplan | None:
    """Of floorplans for several widths of the whole, the one with the shortest wires."""
    widths = problem.tables.width * np.arange(1, 9) // 8
    plans = [slice_wafer(problem, shapes, order, int(width)) for width in widths]
    legal = [plan for plan in plans if plan is not None]
    return min(legal, key=lambda plan: length_of(plan, problem.edges), default=None)


def slice_wafer(problem: Problem, shapes: Shapes, order: LongArray, width: int) -> Floorplan | None:
    """The slicing floorplan at a target time and width, None if it does not fit.

    Parts change places, node by node from the root, where that shortens the wires.
    """
    num = problem.num
    crossing = flow_along(problem.edges, order).crossing
    areas = np.append(0, np.cumsum(shapes.areas[order]))
    tree = np.full((2 * num - 1, 2), -1, np.int64)  # parts of a node; leaves come first
    root = _cut(tree, areas, crossing, 0, num, [num])
    curves = np.full((2 * num - 1, width + 1), FAR, np.int64)
    splits = np.zeros((2 * num - 1, width + 1), np.int64)
    curves[:num] = shapes.heights[order][:, : width + 1]
    for node in range(num, root + 1):
        _merge(curves, splits, tree[node, 0], tree[node, 1], node)
    if curves[root, width] > problem.tables.height:
        return None
    is_turned = np.zeros(2 * num - 1, np.bool_)
    best = _realise(tree, curves, splits, is_turned, order, shapes.widths, root)
    length = _length(best, problem.edges)
    for node in range(root, num - 1, -1):
        is_turned[node] = True
        boxes = _realise(tree, curves, splits, is_turned, order, shapes.widths, root)
        turned = _length(boxes, problem.edges)
        if turned < length:
            best, length = boxes, turned
        else:
            is_turned[node] = False
    return Floorplan(*best)


def _length(boxes: LongArray, edges: LongArray) -> float:
    return float(wire_length(boxes[0], boxes[1], boxes[2], boxes[3], edges))


@njit(cache=True)
def _realise(
    tree: LongArray, curves: LongArray, splits: LongArray, is_turned: BoolArray, order: LongArray,
    widths: LongArray, root: int,
) -> LongArray:  # fmt: skip
    """x, y and extents of all kernels, [4, num]; from the root down."""
    num = len(order)
    boxes = np.zeros((4, num), np.int64)
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
        boxes[0, kernel], boxes[1, kernel] = left[leaf], low[leaf]
        boxes[2, kernel], boxes[3, kernel] = widths[kernel, tall], tall
    return boxes


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
