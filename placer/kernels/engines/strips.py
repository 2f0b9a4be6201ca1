"""Rows of kernels by dynamic programming over (kernels placed, height used).

The kernels follow one order; a row takes the next few of them, each as narrow as the height of the
row allows; rows go to and fro, so that the last kernel of a row is below the first of the next.
The wire length of a row is the sum of `cover * width`, cover being the number of edges that pass a
kernel (those that end in it count half); edges round a turn are shorter. After B. Jiang et al.,
"CU.POKer" (ICCAD 2020) and the strips and stacks of another team of the ISPD 2020 contest, with
wire length in the recursion.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.base import FloatArray, LongArray
from placer.kernels.sizing import FAR, Shapes

MAX_STACK = 3  # kernels on each other within a row
MAX_WORK = 2_500_000_000  # steps after which the best rows so far will do: two seconds or three


class Arrangement(NamedTuple):
    """How the edges lie along an order."""

    order: LongArray
    place: LongArray  # position of every kernel
    cover: FloatArray  # per position
    crossing: FloatArray  # edges from positions <= p to positions > p
    adjacent: FloatArray  # edges between p and p + 1
    ends: LongArray  # [num_edges, 2] positions, the smaller first
    over: LongArray  # edges that cross each gap, gap by gap
    over_start: LongArray  # [num + 1] where those of the gap before a position begin in `over`


def arrange(edges: LongArray, order: LongArray) -> Arrangement:
    """Count the edges over each position of an order, which may hold a part of the graph."""
    num = len(order)
    place = np.full(max(order.max() + 1, edges.max(initial=-1) + 1), -1, np.int64)
    place[order] = np.arange(num)
    ends = np.sort(place[edges[(place[edges] >= 0).all(axis=1)]], axis=1)
    cover, crossing, adjacent = np.zeros(num), np.zeros(num), np.zeros(num)
    for low, high in ends:
        cover[low + 1 : high] += 1
        cover[[low, high]] += 0.5
        crossing[low:high] += 1
        adjacent[low] += high == low + 1
    gaps = [np.flatnonzero((ends[:, 0] < p) & (p <= ends[:, 1])) for p in range(num)]
    over = np.concatenate(gaps).astype(np.int64)
    starts = np.cumsum([0, *(len(gap) for gap in gaps)])
    return Arrangement(order, place, cover, crossing, adjacent, ends, over, starts)


class Rows(NamedTuple):
    """Rows from bottom to top: kernels by `order[starts[r] : starts[r + 1]]`."""

    order: LongArray
    starts: LongArray  # [num_rows + 1]
    heights: LongArray  # [num_rows]
    is_stacked: NDArray[np.bool_]  # per position: stands on the kernel before it
    cost: float  # estimated wire length


def best_rows(shapes: Shapes, arranged: Arrangement, max_stack: int = MAX_STACK, extra: int = 0) -> Rows | None:
    """Return rows of least estimated wire length, None if none fit.

    With `extra` rows of tiles above the wafer: the lowest rows, however long their wires.
    """
    num, height, width = len(arranged.order), shapes.height, shapes.width
    slots = np.empty((max_stack, num, height + 1), np.int64)
    slots[0] = shapes.widths[arranged.order]
    _stack_widths(shapes.heights[arranged.order], width, slots)
    rest = np.append(np.cumsum(shapes.areas[arranged.order][::-1])[::-1], 0)
    costs = np.full((num + 1, height + extra + 1), np.inf)
    back = np.zeros((num + 1, height + extra + 1, 3), np.int64)
    sums = np.zeros((height + 1, num + 1), np.int64)  # [height, place] -> widths before the place
    sums[1:, 1:] = np.cumsum(np.minimum(slots[0], width), axis=0).T[1:]
    _fill_rows(slots, sums, arranged, rest, width, extra == 0, costs, back)
    top = int(np.argmax(np.isfinite(costs[num])) if extra else np.argmin(costs[num]))
    if not np.isfinite(costs[num, top]):
        return None
    return _trace(arranged.order, slots, costs, back, width, top)


def _trace(order: LongArray, slots: LongArray, costs: FloatArray, back: LongArray, width: int, top: int) -> Rows:
    """Return the rows that lead to the last state."""
    num = len(order)
    starts, heights = [num], []
    is_stacked = np.zeros(num, np.bool_)
    place, used = num, top
    while place > 0:
        first, row, has_stacks = back[place, used].tolist()
        if has_stacks:
            _, _, sizes = _narrowest_slots(slots, first, row, width)
            at = place
            while at > first:
                is_stacked[at - sizes[at] + 1 : at] = True
                at -= int(sizes[at])
        starts.append(first)
        heights.append(row)
        place, used = first, used - row
    return Rows(order, np.array(starts[::-1]), np.array(heights[::-1]), is_stacked, float(costs[num, top]))


@njit(cache=True)
def _stack_widths(heights: LongArray, width: int, slots: LongArray) -> None:
    """Set slots[s, p, row] = least width at which kernels p .. p + s fit on each other."""
    num, tallest = slots.shape[1], slots.shape[2] - 1
    for s in range(1, slots.shape[0]):
        for p in range(num):
            wide = width
            for row in range(tallest + 1):
                slots[s, p, row] = FAR
            if p + s >= num:
                continue
            for row in range(tallest, 0, -1):  # from the narrowest to the widest
                if row == tallest:
                    wide = 1
                while wide <= width:
                    total = 0
                    for q in range(p, p + s + 1):
                        total += heights[q, wide]
                    if total <= row:
                        break
                    wide += 1
                if wide > width:
                    break
                slots[s, p, row] = wide


@njit(cache=True)
def tight_heights(widths: LongArray) -> LongArray:
    """Return [place, height] -> least height at which the kernel is as narrow."""
    tight = np.zeros_like(widths)
    for p in range(widths.shape[0]):
        for y in range(1, widths.shape[1]):
            tight[p, y] = tight[p, y - 1] if widths[p, y] == widths[p, y - 1] else y
    return tight


@njit(cache=True)
def _narrowest_slots(slots: LongArray, first: int, row: int, width: int) -> tuple[int, LongArray, LongArray]:
    """Return the last j that fits, and for each j the least width of kernels first .. j - 1.

    And the number of kernels in the last slot.
    """
    num = slots.shape[1]
    widths, sizes = np.empty(num + 1, np.int64), np.empty(num + 1, np.int64)
    widths[first] = 0
    for j in range(first + 1, num + 1):
        widths[j] = FAR
        for s in range(slots.shape[0]):
            if j - s - 1 >= first:
                total = widths[j - s - 1] + slots[s, j - s - 1, row]
                if total < widths[j]:
                    widths[j], sizes[j] = total, s + 1
        if widths[j] > 2 * width:
            return j - 1, widths, sizes
    return num, widths, sizes


@njit(cache=True)
def _row_options(
    slots: LongArray, cover: FloatArray, tight: LongArray, width: int, i: int, row: int
) -> tuple[int, FloatArray, LongArray]:
    """Return the end of j, the wire length of kernels i .. j - 1 in a row, whether in stacks.

    Kernels stand alone if they fit so, else in the narrowest slots. Redundant rows take inf.
    """
    num = slots.shape[1]
    options, is_stacked = np.empty(num + 1), np.zeros(num + 1, np.int64)
    total, cost, tall, j = 0, 0.0, 0, i
    while j < num and total + slots[0, j, row] <= width:
        total += slots[0, j, row]
        cost += cover[j] * slots[0, j, row]
        tall = max(tall, tight[j, row])
        j += 1
        options[j] = cost if tall == row else np.inf
    alone = end = j
    if slots.shape[0] == 1:
        return alone, options, is_stacked
    last, widths, sizes = _narrowest_slots(slots, i, row, width)
    costs = np.zeros(num + 1)
    for j in range(i + 1, last + 1):
        size = sizes[j]
        most = 0.0
        for q in range(j - size, j):
            most = max(most, cover[q])
        costs[j] = costs[j - size] + most * slots[size - 1, j - size, row] + 2 * row * (1 - 1 / size)
        if j > alone and widths[j] <= width:
            options[j], is_stacked[j], end = costs[j], 1, j
        elif j > alone:
            options[j] = np.inf
    return end, options, is_stacked


@njit(cache=True)
def _turn(
    sums: LongArray, ends: LongArray, over: LongArray, i: int, row: int, first: int, last: int,
    second: int, second_last: int, width: int, beyond: FloatArray, within: FloatArray,
) -> None:  # fmt: skip
    """Tell what the edges over a gap save, as rows go to and fro, against the way in order.

    With distances d to the side of the turn, an edge to the next row is |d_u - d_v| long instead of
    d_u + d_v, and one over a whole row |width - d_u - d_v| instead of d_u + width + d_v. `beyond`:
    the edge ends behind the row that begins at i; `within`: in it. The last row begins at `first`
    and is `last` high, the one before it begins at `second`.
    """
    for e in range(len(over)):
        u, v = ends[over[e], 0], ends[over[e], 1]
        target = min((sums[row, v] + sums[row, v + 1]) / 2 - sums[row, i], width)
        beyond[e] = within[e] = 0.0
        if u >= first:
            source = min(sums[last, i] - (sums[last, u] + sums[last, u + 1]) / 2, width)
            beyond[e], within[e] = 2 * source, 2 * min(source, target)
        elif u >= second:
            before = sums[second_last]
            source = min(before[first] - (before[u] + before[u + 1]) / 2, width)
            within[e] = 2 * (min(source + target, width) - source)


@njit(cache=True)
def _least_costs(
    sums: LongArray, ends: LongArray, over: LongArray, i: int, width: int, costs: FloatArray,
    back: LongArray, least: FloatArray,
) -> None:  # fmt: skip
    """Lower bounds of what becomes of the states with i kernels: turns can only save so much."""
    for used in range(costs.shape[1]):
        least[used] = costs[i, used]
        if least[used] < np.inf:
            first, last = back[i, used, 0], back[i, used, 1]
            for e in over:
                u = ends[e, 0]
                if u >= first:
                    source = sums[last, i] - (sums[last, u] + sums[last, u + 1]) / 2
                    least[used] -= 2 * min(source, width)


@njit(cache=True)
def _fill_rows(
    slots: LongArray, sums: LongArray, arranged: Arrangement, rest: LongArray, width: int,
    is_by_wires: bool, costs: FloatArray, back: LongArray,
) -> None:  # fmt: skip
    """Recur forward; back[placed, used] = (first of the last row, its height, has stacks)."""
    num, tallest, height = slots.shape[1], slots.shape[2] - 1, costs.shape[1] - 1
    tight, ends = tight_heights(slots[0]), arranged.ends
    options, is_stacked = np.empty(num + 1), np.empty(num + 1, np.int64)
    beyond, within = np.empty(len(ends)), np.empty(len(ends))
    least = np.zeros(height + 1)
    best, work = np.inf, 0  # of all rows that hold everything; steps
    costs[0, 0] = 0.0
    for i in range(num):
        if work > MAX_WORK and best < np.inf:
            return
        gap = arranged.over[arranged.over_start[i] : arranged.over_start[i + 1]]
        _least_costs(sums, ends, gap, i, width, costs, back, least)
        for row in range(1, tallest + 1):
            end = -1  # the options of this row are not known yet
            for used in range(height - row + 1):
                if least[used] >= best:
                    continue
                if end < 0:
                    end, options, is_stacked = _row_options(slots, arranged.cover, tight, width, i, row)
                start, last = costs[i, used], back[i, used, 1]
                top, free = used + row, width * (height - used - row)
                if end == i or rest[end] > free:
                    continue
                first = back[i, used, 0]
                second, second_last = back[first, used - last, 0], back[first, used - last, 1]
                _turn(
                    sums, ends, gap, i, row, first, last, second, second_last, width, beyond,
                    within,
                )  # fmt: skip
                start += len(gap) * (row + last) / 2
                work += (end - i) * (len(gap) + 1)
                for j in range(end, i, -1):
                    if rest[j] > free:
                        break
                    cost = start + options[j]
                    for e in range(len(gap)):
                        cost -= within[e] if ends[gap[e], 1] < j else beyond[e]
                    if cost < costs[j, top]:
                        costs[j, top] = cost
                        if j == num and is_by_wires:
                            best = min(best, cost)
                        back[j, top, 0], back[j, top, 1], back[j, top, 2] = i, row, is_stacked[j]
