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

from placer.base import FloatArray, LongArray
from placer.kernels.engines.search import Search, finish_rectangles, starts
from placer.kernels.engines.shelves import floorplan_of, shelves_of
from placer.kernels.engines.strips import Arrangement, Rows, arrange, tight_heights
from placer.kernels.sizing import Shapes

MAX_NODES = 300_000  # rows tried at one time
NEIGHBOURS = 400  # times looked at above the smallest feasible one
TALLER = 30  # times looked at on the way to the largest
NEAR = 1.02  # rows that score this close to the best, adapters left out, are refined and judged


def run_rows(search: Search) -> None:
    """Find the smallest feasible time, then look at times above it while they can still pay."""
    problem = search.problem
    arranged = arrange(problem.edges, problem.depth_first)
    times = problem.times
    low, high = 0, len(times)
    for place in starts(problem):
        if _offer_rows(search, int(times[place]), arranged):
            high = place
            break
        low = place + 1
    if high == len(times):
        return
    while low < high and not search.is_over():
        middle = (low + high) // 2
        if _offer_rows(search, int(times[middle]), arranged):
            high = middle
        else:
            low = middle + 1
    near = np.arange(low, min(low + NEIGHBOURS, len(times)))
    far = np.unique(np.geomspace(low + 1, len(times), TALLER).astype(np.int64) - 1)
    for ticks in times[np.unique(np.concatenate((far, near)))].tolist():
        if search.is_over():
            return
        if search.best is None or problem.score(ticks, 0) < search.best.score.total:
            _offer_rows(search, ticks, arranged)


def _offer_rows(search: Search, ticks: int, arranged: Arrangement) -> bool:
    """Judge the rows at a time if they are near the best; returns whether there are any."""
    problem, best = search.problem, search.best
    shapes = problem.shapes_at(ticks)
    rows = fill_rows(shapes, arranged)
    if rows is None:
        return False
    expected = problem.score(ticks, rows.cost)
    if best is None or expected <= NEAR * best.score.total_without_adapters:
        plan = floorplan_of(shapes, shelves_of(rows))
        room = np.empty(problem.num, np.int64)
        room[rows.order] = np.repeat(rows.heights, np.diff(rows.starts))
        finish_rectangles(search, ticks, plan, room)
    return True


def fill_rows(shapes: Shapes, arranged: Arrangement) -> Rows | None:
    """Return the rows of least estimated wire length that the recursion finds, None if none."""
    num, order = len(arranged.order), arranged.order
    rest = np.append(np.cumsum(shapes.areas[order][::-1])[::-1], 0)
    ends, heights = np.zeros(num, np.int64), np.zeros(num, np.int64)
    num_rows, cost = _recurse(shapes.widths[order], arranged, rest, shapes.width, shapes.height, ends, heights)
    if num_rows == 0:
        return None
    starts = np.concatenate(([0], ends[:num_rows]))
    return Rows(order, starts, heights[:num_rows].copy(), np.zeros(num, np.bool_), cost)


@njit(cache=True)
def _fill_one(
    widths: LongArray, cover: FloatArray, tight: LongArray, first: int, row: int, width: int
) -> tuple[int, int, float]:
    """Fill a row greedily: return the end of its kernels, its true height, and its wire length."""
    total, tall, cost, j = 0, 0, 0.0, first
    while j < len(widths) and total + widths[j, row] <= width:
        total += widths[j, row]
        tall = max(tall, tight[j, row])
        cost += cover[j] * widths[j, row]
        j += 1
    return j, tall, cost


@njit(cache=True)
def _recurse(
    widths: LongArray, arranged: Arrangement, rest: LongArray, width: int, height: int,
    best_ends: LongArray, best_heights: LongArray,
) -> tuple[int, float]:  # fmt: skip
    """Go depth first over row heights, from high to low; returns rows and cost of the best."""
    num = len(widths)
    tight = tight_heights(widths)
    first, floor = np.zeros(num + 1, np.int64), np.zeros(num + 1, np.int64)
    trial, rows = np.zeros(num + 1, np.int64), np.zeros(num + 1, np.int64)
    costs = np.zeros(num + 1)
    best, best_rows, nodes, depth = np.inf, 0, 0, 0
    trial[0] = height
    while depth >= 0 and nodes < MAX_NODES:
        row = trial[depth]
        if row < 1 or depth >= num:
            depth -= 1
            continue
        nodes += 1
        i, used = first[depth], floor[depth]
        end, tall, cost = _fill_one(widths, arranged.cover, tight, i, row, width)
        trial[depth] = min(tall, row) - 1  # heights between change nothing
        if end == i:
            trial[depth] = 0  # lower rows hold no kernel either
            continue
        if depth > 0:
            last = rows[depth - 1]
            turn = min(widths[i - 1, last], widths[i, tall])
            cost += arranged.crossing[i - 1] * (tall + last) / 2 - arranged.adjacent[i - 1] * turn
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
