"""Rows of kernels by dynamic programming over (kernels placed, height used).

The kernels follow one order; a row takes the next few of them, each as narrow as the height of the
row allows; rows go to and fro, so that the last kernel of a row is below the first of the next.
The wire length of a row is the sum of `cover * width`, cover being the number of edges that pass a
kernel (those that end in it count half). After B. Jiang et al., "CU.POKer" (ICCAD 2020) and the
strips and stacks of the ISPD 2020 contest, with wire length in the recursion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.kernels.problem import Problem, Shapes
from placer.kernels.shapes import LongArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows from bottom to top: kernels by `order[starts[r] : starts[r + 1]]`."""

    order: LongArray
    starts: LongArray  # [num_rows + 1]
    heights: LongArray  # [num_rows]
    cost: float  # estimated wire length


@dataclass(frozen=True, slots=True)
class Flow:
    """How the edges lie along an order."""

    order: LongArray
    place: LongArray  # position of every kernel
    cover: FloatArray  # per position
    crossing: LongArray  # edges from positions <= p to positions > p
    adjacent: LongArray  # edges between p and p + 1


def flow_along(edges: LongArray, order: LongArray) -> Flow:
    """Count the edges over each position of an order."""
    num = len(order)
    place = np.empty(num, np.int64)
    place[order] = np.arange(num)
    cover, crossing, adjacent = np.zeros(num), np.zeros(num, np.int64), np.zeros(num, np.int64)
    for source, target in edges:
        low, high = sorted((place[source], place[target]))
        cover[low + 1 : high] += 1
        cover[[low, high]] += 0.5
        crossing[low:high] += 1
        adjacent[low] += high == low + 1
    return Flow(order, place, cover, crossing, adjacent)


def best_rows(problem: Problem, shapes: Shapes, flow: Flow, wire_weight: float = 1.0) -> Rows | None:
    """Rows of least estimated wire length (any rows for weight 0), None if none fit."""
    widths = shapes.widths[flow.order]
    num, height = len(widths), problem.tables.height
    rest = np.append(np.cumsum(shapes.areas[flow.order][::-1])[::-1], 0)
    costs = np.full((num + 1, height + 1), np.inf)
    back = np.zeros((num + 1, height + 1, 2), np.int64)
    _fill_rows(
        widths, flow.cover * wire_weight, flow.crossing * wire_weight, flow.adjacent * wire_weight,
        rest, problem.tables.width, costs, back,
    )  # fmt: skip
    top = int(np.argmin(costs[num]))
    if not np.isfinite(costs[num, top]):
        return None
    starts, heights = [num], []
    place, used = num, top
    while place > 0:
        first, row_height = back[place, used]
        starts.append(int(first))
        heights.append(int(row_height))
        place, used = int(first), used - int(row_height)
    return Rows(
        flow.order, np.array(starts[::-1]), np.array(heights[::-1]), float(costs[num, top])
    )


@njit(cache=True)
def _fill_rows(
    widths: LongArray,
    cover: FloatArray,
    crossing: FloatArray,
    adjacent: FloatArray,
    rest: LongArray,
    width: int,
    costs: FloatArray,
    back: LongArray,
) -> None:
    """Forward recursion; back[placed, used] = (first kernel of the last row, its height)."""
    num, height = len(widths), costs.shape[1] - 1
    tight = np.zeros((num, height + 1), np.int64)  # least height of the same width
    for p in range(num):
        for y in range(1, height + 1):
            tight[p, y] = tight[p, y - 1] if widths[p, y] == widths[p, y - 1] else y
    costs[0, 0] = 0.0
    for i in range(num):
        for used in range(height):
            if costs[i, used] == np.inf or rest[i] > width * (height - used):
                continue
            last = back[i, used, 1]
            for row in range(1, height - used + 1):
                if widths[i, row] > width:
                    continue
                cost = costs[i, used]
                if i > 0:
                    turn = min(widths[i - 1, last], widths[i, row])
                    cost += crossing[i - 1] * (row + last) / 2 - adjacent[i - 1] * turn
                total, tall = 0, 0
                free = width * (height - used - row)
                for j in range(i, num):
                    total += widths[j, row]
                    if total > width:
                        break
                    cost += cover[j] * widths[j, row]
                    tall = max(tall, tight[j, row])
                    if tall < row or rest[j + 1] > free:
                        continue  # the same row is found at a lower height; or too little is left
                    if cost < costs[j + 1, used + row]:
                        costs[j + 1, used + row] = cost
                        back[j + 1, used + row, 0] = i
                        back[j + 1, used + row, 1] = row


