"""What searches change: a tile wished for each cluster, the order of placing, and delays.

Decoding follows the order; an instruction goes to the tile wished for, or to the nearest legal one,
and takes the first free slot after its delay. The wishes are then what was done, so a wish is never
out of reach. Delays are mostly 0, but without them some optima cannot be reached: it can pay to
leave an early slot to another instruction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placer.annealing.random import RngState, below
from placer.hot import hot, hot_loop
from placer.streaming.board import ILLEGAL, Board, clear, copy_values, place, start_at
from placer.streaming.bounds import IntArray
from placer.streaming.problem import Tables

FAILED = 1e9  # energy of a dead end


class Plan(NamedTuple):
    """A point of the search space."""

    wish: IntArray  # [num_clusters] tile
    order: IntArray  # [num_nodes] predecessors first
    delay: IntArray  # [num_nodes] cycles


def plan_of(tables: Tables, tile: IntArray, start: IntArray) -> Plan:
    """The plan that leads to a known mapping: its tiles, in the order of its starts."""
    wish = np.zeros(len(tables.cluster_size), np.int64)
    wish[tables.cluster] = tile
    return Plan(wish, np.argsort(start, kind="stable"), np.zeros(len(start), np.int64))


@hot
def copy_plan(source: Plan, target: Plan) -> None:
    copy_values(source.wish, target.wish)
    copy_values(source.order, target.order)
    copy_values(source.delay, target.delay)


@hot
def decode(tables: Tables, board: Board, plan: Plan, goal: int) -> float:
    """Fill `board` after `plan`; energy = cycles + mean lateness of instructions over `goal`.

    Lateness of n: max(0, start_n + tail_n - goal), the cycles by which n alone misses the goal. The
    number of cycles is flat almost everywhere; the lateness shows the way down.
    """
    clear(tables, board)
    cycles, lateness = 0, 0
    for k in range(len(plan.order)):
        node = plan.order[k]
        cluster = tables.cluster[node]
        wish = plan.wish[cluster]
        tile = ILLEGAL
        start = ILLEGAL
        for off in range(2 * tables.num_tiles):
            tile = wish + (off + 1) // 2 * (1 - 2 * (off % 2))  # wish, -1, +1, -2, +2, ...
            if 0 <= tile < tables.num_tiles:
                start = start_at(tables, board, node, tile, plan.delay[node])
                if start != ILLEGAL:
                    break
        if start == ILLEGAL:
            return FAILED
        place(tables, board, node, tile, start)
        plan.wish[cluster] = tile
        cycles = max(cycles, start + tables.depth)
        lateness += max(0, start + tables.tail[node] - goal)
    return cycles + lateness / len(plan.order)


@hot_loop
def decode_once(tables: Tables, board: Board, plan: Plan, goal: int) -> float:
    """`decode`, called from Python."""
    return decode(tables, board, plan, goal)


@hot
def mutate(tables: Tables, rng: RngState, plan: Plan) -> None:
    """Change one thing: shift a cluster, swap two, join a neighbour, reorder, or delay."""
    kind = below(rng, 9)
    num_clusters = len(plan.wish)
    node = below(rng, len(plan.order))
    cluster = tables.cluster[node]
    if kind < 2:
        step = 1 + below(rng, 3)
        _send(tables, plan, cluster, plan.wish[cluster] + (step if below(rng, 2) else -step))
    elif kind < 4:
        other = below(rng, num_clusters)
        plan.wish[cluster], plan.wish[other] = plan.wish[other], plan.wish[cluster]
    elif kind < 6:
        preds = tables.pred_first[node + 1] - tables.pred_first[node]
        succs = tables.succ_first[node + 1] - tables.succ_first[node]
        if preds + succs:
            k = below(rng, preds + succs)
            if k < preds:
                near = tables.pred[tables.pred_first[node] + k]
            else:
                near = tables.succ[tables.succ_first[node] + k - preds]
            _send(tables, plan, cluster, plan.wish[tables.cluster[near]] + below(rng, 3) - 1)
    elif kind < 8:
        _reorder(tables, rng, plan)
    else:
        is_idle = plan.delay[node] == 0 and not tables.is_exact
        plan.delay[node] = below(rng, min(4, tables.ii)) if is_idle else 0


@hot
def _send(tables: Tables, plan: Plan, cluster: int, tile: int) -> None:
    plan.wish[cluster] = min(max(tile, 0), tables.num_tiles - 1)


@hot
def _is_edge(tables: Tables, start: int, end: int) -> bool:
    for e in range(tables.succ_first[start], tables.succ_first[start + 1]):
        if tables.succ[e] == end:
            return True
    return False


@hot
def _reorder(tables: Tables, rng: RngState, plan: Plan) -> None:
    """Move one instruction some places forward or back, as far as its neighbours let it."""
    size = len(plan.order)
    position = below(rng, size)
    step = 1 if below(rng, 2) else -1
    node = plan.order[position]
    for _ in range(1 + below(rng, size)):
        following = position + step
        if not 0 <= following < size:
            break
        other = plan.order[following]
        if _is_edge(tables, node, other) or _is_edge(tables, other, node):
            break
        plan.order[position], plan.order[following] = other, node
        position = following
