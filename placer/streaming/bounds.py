"""Lower bounds on start times, from paths and from siblings that must spread over the line.

A path of k edges takes at least k * depth cycles. More is known when an instruction r has several
children that must be on different tiles: they sit at different distances from r. Let child i lead
to t. For a distance m from r to t, child i at position y (r at 0, t at m) gives

    s_t - s_r >= depth + |y| + max(cut_i, path_i + |y - m|)

with `path_i` the longest path in cycles from child i to t, and `cut_i >= path_i` the bound already
known. Which y keep this within B is an interval for each child, so whether all children find
different places is decided by a sweep. The least B over all m is the bound (a "spread cut"). From r
to the end of the program there is no m: depth + |y| + tail_i.

Slots repeat: without hop or wait, a chain on one tile comes back to its first slot after
P = ii / gcd(depth, ii) instructions. A path of k edges therefore has at least ceil((k + 1) / P) - 1
hops or waits, each of a cycle or more (a "period cut").
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.hot import hot, hot_loop

IntArray = NDArray[np.int64]

NO_PATH = -1
UNLIMITED = 1 << 30  # as max_hop


class Bounds(NamedTuple):
    """Cycles that no mapping goes below."""

    path: IntArray  # [num_nodes, num_nodes] longest path, NO_PATH where there is none
    distance: IntArray  # [num_nodes, num_nodes] between starts, NO_PATH where there is no path
    head: IntArray  # [num_nodes] earliest start
    tail: IntArray  # [num_nodes] from the start of a node to the end of the program
    total: int  # the whole program


def lower_bounds(
    order: IntArray,
    succ_first: IntArray,
    succ: IntArray,
    cluster: IntArray,
    depth: int,
    ii: int,
    max_hop: int | None,
) -> Bounds:
    """Bounds of a graph; children in different clusters must be on different tiles."""
    size = len(order)
    path = np.full((size, size), NO_PATH)
    distance = np.full((size, size), NO_PATH)
    tail = np.zeros(size, np.int64)
    scratch = np.zeros((4, size + 1), np.int64)
    hop = UNLIMITED if max_hop is None else max_hop
    period = ii // math.gcd(depth, ii)
    _fill(order, succ_first, succ, cluster, depth, period, hop, path, distance, tail, scratch)
    head = np.maximum(distance.max(axis=0), 0)
    return Bounds(path, distance, head, tail, int((head + tail).max()))


@hot
def _fits(
    bound: int,
    separation: int,
    paths: IntArray,
    cuts: IntArray,
    taken: IntArray,
    num: int,
    depth: int,
    max_hop: int,
) -> bool:
    """Do `num` children find different positions so that t starts within `bound` of r?"""
    for child in range(num):
        taken[child] = 0
    reach = min(bound - depth, max_hop)
    placed = 0
    for y in range(-reach, reach + 1):
        choice, least = -1, UNLIMITED
        for child in range(num):
            if taken[child]:
                continue
            room = bound - depth - abs(y)
            if room < cuts[child] or room < paths[child] + abs(y - separation):
                continue
            # Last position that this child could still take: the smallest goes first.
            last = y
            while last < reach:
                room = bound - depth - abs(last + 1)
                if room < cuts[child] or room < paths[child] + abs(last + 1 - separation):
                    break
                last += 1
            if last < least:
                choice, least = child, last
        if choice >= 0:
            taken[choice] = 1
            placed += 1
    return placed == num


@hot
def _least_bound(
    low: int,
    direct: int,
    paths: IntArray,
    cuts: IntArray,
    taken: IntArray,
    num: int,
    depth: int,
    max_hop: int,
) -> int:
    """Least bound over all separations of r and t; `direct` is the longest path between them."""
    best = UNLIMITED
    separation = 0
    while direct + separation < best and separation <= 2 * max_hop:
        bound = max(low, direct + separation)
        while bound < best and not _fits(
            bound, separation, paths, cuts, taken, num, depth, max_hop
        ):
            bound += 1
        best = min(best, bound)
        separation += 1
        if best <= low:
            break
    return best


@hot_loop
def _fill(
    order: IntArray,
    succ_first: IntArray,
    succ: IntArray,
    cluster: IntArray,
    depth: int,
    period: int,
    max_hop: int,
    path: IntArray,
    distance: IntArray,
    tail: IntArray,
    scratch: IntArray,
) -> None:
    """Fill `path`, `distance` and `tail`, last nodes first."""
    size = len(order)
    paths, cuts, taken, children = scratch[0], scratch[1], scratch[2], scratch[3]
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
                is_new = True
                for k in range(num):
                    if cluster[children[k]] == cluster[child]:
                        is_new = False
                if is_new:
                    children[num] = child
                    cuts[num] = tail[child] if t == size else distance[child, t]
                    paths[num] = -UNLIMITED if t == size else path[child, t]
                    num += 1
            if num < 2:
                continue
            low = tail[r] if t == size else distance[r, t]
            direct = low if t == size else path[r, t]
            least = _least_bound(low, direct, paths, cuts, taken, num, depth, max_hop)
            if t == size:
                tail[r] = max(tail[r], least)
            else:
                distance[r, t] = max(distance[r, t], least)
