"""Lower bounds on start times, from paths and from siblings that must spread over the line.

A path of k edges takes at least k * depth cycles. More is known when an instruction r has several
children that must be on different tiles: they sit at different distances from r. Let child i lead
to t. For a distance m from r to t, child i at position y (r at 0, t at m) gives

    s_t - s_r >= depth + |y| + max(cut_i, path_i + |y - m|)

with `path_i` the longest path in cycles from child i to t, and `cut_i >= path_i` the bound already
known. Which y keep this within B is an interval for each child, so whether all children find
different places is decided by a sweep: the next place goes to the child whose interval ends first.
The least B over all m is the bound (a "spread cut"). From r to the end of the program there is no
m: depth + |y| + tail_i. Sweeps are counted: a large graph gets no more cuts after the last one that
is allowed, and its bounds stay valid.

Slots repeat: without hop or wait, a chain on one tile comes back to its first slot after
P = ii / gcd(depth, ii) instructions. A path of k edges therefore has at least ceil((k + 1) / P) - 1
hops or waits, each of a cycle or more (a "period cut").
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from placer.base import LongArray, hot, hot_loop

NO_PATH = -1
UNLIMITED = 1 << 30  # as max_hop
_MOST_WORK = 200_000_000  # children looked at in sweeps; some tenths of a second


class Tables(NamedTuple):
    """The problem for compiled code. Lists of lists are flat: `x[x_first[i]:x_first[i + 1]]`."""

    num_tiles: int
    ii: int
    depth: int
    max_hop: int
    is_exact: bool
    largest_cluster: int  # instructions
    pred_first: LongArray
    pred: LongArray
    succ_first: LongArray
    succ: LongArray
    cluster: LongArray  # [num_nodes]
    cluster_size: LongArray  # [num_clusters]
    rival_first: LongArray
    rival: LongArray
    clique_first: LongArray  # sets of clusters that are rivals of each other: siblings, flow starts
    clique: LongArray
    tail: LongArray  # [num_nodes] cycles from the start of a node to the end, at least


class Bounds(NamedTuple):
    """Cycles that no mapping goes below."""

    path: LongArray  # [num_nodes, num_nodes] longest path, NO_PATH where there is none
    distance: LongArray  # [num_nodes, num_nodes] between starts, NO_PATH where there is no path
    head: LongArray  # [num_nodes] earliest start
    tail: LongArray  # [num_nodes] from the start of a node to the end of the program
    total: int  # the whole program


def lower_bounds(tables: Tables, order: LongArray) -> Bounds:
    """Return the bounds of a graph, and fill in the tails of `tables`, which are 0.

    Children in different clusters must be on different tiles; `order` has predecessors first.
    """
    size = len(order)
    path, distance = np.full((2, size, size), NO_PATH)
    _fill(tables, order, path, distance, np.zeros((6, size + 1), np.int64))
    head = np.maximum(distance.max(axis=0), 0)
    return Bounds(path, distance, head, tables.tail, int((head + tables.tail).max()))


@hot
def _fits(bound: int, separation: int, depth: int, max_hop: int, num: int, rows: LongArray) -> bool:
    """Say whether `num` children find different places so that t starts within `bound` of r.

    `rows`: paths, cuts, and room for the first and last position of each child.
    """
    paths, cuts, first, last = rows[0], rows[1], rows[2], rows[3]
    for child in range(num):
        around = bound - depth - cuts[child]  # |y| within it
        both = bound - depth - paths[child]  # |y| + |y - separation| within it
        if around < 0 or both < separation:
            return False
        first[child] = max(-around, -((both - separation) // 2), -max_hop)
        last[child] = min(around, (both + separation) // 2, max_hop)
    y = -UNLIMITED
    for placed in range(num):
        next_first = UNLIMITED
        for child in range(placed, num):
            next_first = min(next_first, first[child])
        y = max(y + 1, next_first)
        chosen = -1
        for child in range(placed, num):
            if first[child] <= y and (chosen < 0 or last[child] < last[chosen]):
                chosen = child
        if last[chosen] < y:
            return False
        first[chosen], last[chosen] = first[placed], last[placed]
    return True


@hot
def _least_bound(low: int, direct: int, depth: int, max_hop: int, num: int, rows: LongArray) -> int:
    """Return the least bound over all separations of r and t, or `low` after too much work.

    `direct` is the longest path between them; `rows[4, 0]` counts the work.
    """
    work = rows[4]
    best = UNLIMITED
    separation = 0
    while direct + separation < best and separation <= 2 * max_hop and best > low:
        least = max(low, direct + separation)  # may fit
        if best < UNLIMITED:
            most = best - 1  # if that does not fit, this separation is no better
        else:
            most = least
            while not _fits(most, separation, depth, max_hop, num, rows):
                most += num
                work[0] += num * num
        work[0] += num * num
        if work[0] > _MOST_WORK:
            return low
        if _fits(most, separation, depth, max_hop, num, rows):
            while least < most:
                middle = (least + most) // 2
                work[0] += num * num
                if _fits(middle, separation, depth, max_hop, num, rows):
                    most = middle
                else:
                    least = middle + 1
            best = most
        separation += 1
    return best


@hot_loop
def _fill(tables: Tables, order: LongArray, path: LongArray, distance: LongArray, scratch: LongArray) -> None:
    """Fill `path`, `distance` and the tails, last nodes first."""
    succ_first, succ, cluster, tail = tables.succ_first, tables.succ, tables.cluster, tables.tail
    depth, max_hop = tables.depth, tables.max_hop
    period = tables.ii // math.gcd(depth, tables.ii)
    size = len(order)
    paths, cuts, mark = scratch[0], scratch[1], scratch[5]
    for position in range(size - 1, -1, -1):
        r = order[position]
        path[r, r] = distance[r, r] = 0
        first, end = succ_first[r], succ_first[r + 1]
        for t in range(size):
            for e in range(first, end):
                child = succ[e]
                if distance[child, t] != NO_PATH:
                    path[r, t] = max(path[r, t], depth + path[child, t])
                    distance[r, t] = max(distance[r, t], depth + distance[child, t])
            if path[r, t] != NO_PATH:
                breaks = path[r, t] // depth // period  # = ceil((k + 1) / period) - 1
                distance[r, t] = max(distance[r, t], path[r, t] + breaks)
                tail[r] = max(tail[r], distance[r, t] + depth)
        for e in range(first, end):
            tail[r] = max(tail[r], depth + tail[succ[e]])
        for t in range(size + 1):  # the last one stands for the end of the program
            num = 0
            for e in range(first, end):
                child = succ[e]
                if t < size and distance[child, t] == NO_PATH:
                    continue
                if mark[cluster[child]] != position * (size + 1) + t + 1:  # one of each cluster
                    mark[cluster[child]] = position * (size + 1) + t + 1
                    cuts[num] = tail[child] if t == size else distance[child, t]
                    paths[num] = -UNLIMITED if t == size else path[child, t]
                    num += 1
            if num < 2:
                continue
            low = tail[r] if t == size else distance[r, t]
            direct = low if t == size else path[r, t]
            least = _least_bound(low, direct, depth, max_hop, num, scratch)
            if t == size:
                tail[r] = max(tail[r], least)
            else:
                distance[r, t] = max(distance[r, t], least)
