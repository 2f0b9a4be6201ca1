"""CU.POKer's engine: rows filled greedily in depth-first order, all heights tried recursively.

B. Jiang et al., "CU.POKer: Placing DNNs on Wafer-Scale AI Accelerator with Optimal Kernel Sizing"
(ICCAD 2020): binary search for a feasible time, then a search over the neighbouring times; a row of
a given height takes kernels until the next one does not fit; two prunings (area that is left,
heights that change nothing). Post-refinement chooses the arguments with fewest adapters that keep
the widths (they unify (h, w) by row and anneal c; here both at once), and aligns.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.kernels.finish import finish_rectangles
from placer.kernels.flow import Flow, flow_along
from placer.kernels.graph import depth_first_order
from placer.kernels.joint import JointSizing
from placer.kernels.problem import Shapes
from placer.kernels.scan import starts
from placer.kernels.search import Search
from placer.kernels.shapes import FloatArray, LongArray
from placer.kernels.shelves import floorplan_of, shelves_of
from placer.kernels.strips import Rows, tight_heights

MAX_NODES = 300_000  # rows tried at one time
NEIGHBOURS = 400  # times looked at above the smallest feasible one
TALLER = 30  # times looked at on the way to the largest
NEAR = 1.02  # rows that score this close to the best, adapters left out, are refined and judged


def run_rows(search: Search) -> None:
    """Smallest feasible time, then times above it while they can still pay."""
    problem = search.problem
    order = np.array(depth_first_order(problem.num, problem.graph.edges))
    flow = flow_along(problem.edges, order)
    times = problem.times
    low, high = 0, len(times)
    for place in starts(problem):
        if _offer_rows(search, int(times[place]), flow):
            high = place
            break
        low = place + 1
    if high == len(times):
        return
    while low < high and not search.is_over():
        middle = (low + high) // 2
        if _offer_rows(search, int(times[middle]), flow):
            high = middle
        else:
            low = middle + 1
    near = np.arange(low, min(low + NEIGHBOURS, len(times)))
    far = np.unique(np.geomspace(low + 1, len(times), TALLER).astype(np.int64) - 1)
    for ticks in times[np.unique(np.concatenate((far, near)))].tolist():
        if search.is_over():
            return
        if search.best is None or problem.score(ticks, 0) < search.best.score.total:
            _offer_rows(search, ticks, flow)


def _offer_rows(search: Search, ticks: int, flow: Flow) -> bool:
    """Judge the rows at a time if they are near the best; returns whether there are any."""
    problem, best = search.problem, search.best
    shapes = problem.shapes_at(ticks)
    rows = fill_rows(shapes, flow)
    if rows is None:
        return False
    expected = problem.score(ticks, rows.cost)
    if best is None or expected <= NEAR * best.score.total_without_adapters:
        plan = floorplan_of(problem, shapes, shelves_of(rows))
        room = np.empty(problem.num, np.int64)
        room[rows.order] = np.repeat(rows.heights, np.diff(rows.starts))
        finish_rectangles(search, JointSizing(problem, ticks, search.is_over), plan, room)
    return True


def fill_rows(shapes: Shapes, flow: Flow) -> Rows | None:
    """The rows of least estimated wire length that the recursion finds, None if there are none."""
    num = len(flow.order)
    widths = shapes.widths[flow.order]
    rest = np.append(np.cumsum(shapes.areas[flow.order][::-1])[::-1], 0)
    ends, heights = np.zeros(num, np.int64), np.zeros(num, np.int64)
    num_rows, cost = _recurse(
        widths, flow.cover, flow.crossing, flow.adjacent, rest, shapes.width, shapes.height,
        MAX_NODES, ends, heights,
    )  # fmt: skip
    if num_rows == 0:
        return None
    starts = np.concatenate(([0], ends[:num_rows]))
    return Rows(flow.order, starts, heights[:num_rows].copy(), np.zeros(num, np.bool_), cost)


@njit(cache=True)
def _fill_one(
    widths: LongArray, cover: FloatArray, tight: LongArray, first: int, row: int, width: int
) -> tuple[int, int, float]:
    """Greedy row: end of its kernels, its true height, and its wire length."""
    total, tall, cost, j = 0, 0, 0.0, first
    while j < len(widths) and total + widths[j, row] <= width:
        total += widths[j, row]
        tall = max(tall, tight[j, row])
        cost += cover[j] * widths[j, row]
        j += 1
    return j, tall, cost


@njit(cache=True)
def _recurse(
    widths: LongArray, cover: FloatArray, crossing: FloatArray, adjacent: FloatArray,
    rest: LongArray, width: int, height: int, max_nodes: int, best_ends: LongArray,
    best_heights: LongArray,
) -> tuple[int, float]:  # fmt: skip
    """Depth first over row heights, from high to low; returns rows and cost of the best."""
    num = len(widths)
    tight = tight_heights(widths)
    first, floor = np.zeros(num + 1, np.int64), np.zeros(num + 1, np.int64)
    trial, rows = np.zeros(num + 1, np.int64), np.zeros(num + 1, np.int64)
    costs = np.zeros(num + 1)
    best, best_rows, nodes, depth = np.inf, 0, 0, 0
    trial[0] = height
    while depth >= 0 and nodes < max_nodes:
        row = trial[depth]
        if row < 1 or depth >= num:
            depth -= 1
            continue
        nodes += 1
        i, used = first[depth], floor[depth]
        end, tall, cost = _fill_one(widths, cover, tight, i, row, width)
        trial[depth] = min(tall, row) - 1  # heights between change nothing
        if end == i:
            trial[depth] = 0  # lower rows hold no kernel either
            continue
        if depth > 0:
            last = rows[depth - 1]
            turn = min(widths[i - 1, last], widths[i, tall])
            cost += crossing[i - 1] * (tall + last) / 2 - adjacent[i - 1] * turn
        total = costs[depth] + cost
        if total >= best or rest[end] > width * (height - used - tall):
            continue
        rows[depth] = tall
        if end == num:
            best, best_rows = total, depth + 1
            for r in range(best_rows):
                best_heights[r] = rows[r]
                best_ends[r] = first[r + 1] if r + 1 < best_rows else num
            continue
        first[depth + 1], floor[depth + 1] = end, used + tall
        costs[depth + 1], trial[depth + 1] = total, height - used - tall
        depth += 1
    return best_rows, best
