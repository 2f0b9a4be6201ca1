"""How the edges of a graph lie along an order of its kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placer.kernels.shapes import FloatArray, LongArray


@dataclass(frozen=True, slots=True)
class Flow:
    """How the edges lie along an order."""

    order: LongArray
    place: LongArray  # position of every kernel
    cover: FloatArray  # per position
    crossing: FloatArray  # edges from positions <= p to positions > p
    adjacent: FloatArray  # edges between p and p + 1
    ends: LongArray  # [num_edges, 2] positions, the smaller first
    over: LongArray  # edges that cross each gap, gap by gap
    over_start: LongArray  # [num + 1] where those of the gap before a position begin in `over`


def flow_along(edges: LongArray, order: LongArray) -> Flow:
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
    return Flow(order, place, cover, crossing, adjacent, ends, over, starts)
