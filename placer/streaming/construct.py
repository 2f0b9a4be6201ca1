"""Mappings built in one pass: random ones, and list scheduling with many noisy starts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placer.annealing.random import RngState, below, rng_state, uniform
from placer.hot import hot, hot_loop
from placer.streaming.board import ILLEGAL, Board, clear, copy_values, make_board, place, start_at
from placer.streaming.bounds import UNLIMITED, IntArray
from placer.streaming.mapping import Budget, Found, Mapping
from placer.streaming.problem import Problem, Tables

FloatArray = NDArray[np.float64]

_TRIES_PER_CALL = 64
_PRIORITY_NOISE = 6.0  # cycles; how far list scheduling may leave the order by longest tail
_START_NOISE = 1.5  # cycles; how much later than the earliest a start may be


def random_mapping(problem: Problem, budget: Budget, seed: int) -> Found:
    """Best of random legal mappings: any ready instruction, any legal tile."""
    return _many(problem, budget, seed, is_random=True)


def list_schedule(problem: Problem, budget: Budget, seed: int) -> Found:
    """Longest tail first, on the tile with the earliest start; then again with noise.

    The first try has no noise: plain greedy list scheduling is `budget.tries=1`.
    """
    return _many(problem, budget, seed, is_random=False)


def _many(problem: Problem, budget: Budget, seed: int, *, is_random: bool) -> Found:
    board, size = make_board(problem), problem.num_nodes
    waiting, ready = np.zeros(size, np.int64), np.zeros(size, np.int64)
    priority = np.zeros(size)
    best, record = make_board(problem), np.array([UNLIMITED])
    rng = rng_state(seed)
    tries, per_call = 0, problem.tries_per_call(_TRIES_PER_CALL)
    while not tries or not (budget.is_spent(tries) or record[0] == problem.bounds.total):
        count = per_call if budget.tries is None else min(per_call, budget.tries - tries)
        is_plain = tries == 0 and not is_random
        _construct_many(
            problem.tables, board, rng, waiting, ready, priority, count, is_random, is_plain,
            best.tile, best.start, record,
        )  # fmt: skip
        tries += count
    mapping = None
    if record[0] < UNLIMITED:
        mapping = Mapping(best.tile, best.start, problem.device.ii, problem.device.depth)
    return Found(mapping, problem.bounds.total, tries)


@hot_loop
def _construct_many(
    tables: Tables,
    board: Board,
    rng: RngState,
    waiting: IntArray,
    ready: IntArray,
    priority: FloatArray,
    count: int,
    is_random: bool,
    is_plain: bool,
    best_tile: IntArray,
    best_start: IntArray,
    record: IntArray,
) -> None:
    """Build `count` mappings, keep the best; `is_plain`: the first one without noise."""
    for k in range(count):
        noise = 0.0 if is_plain and k == 0 else 1.0
        for node in range(len(waiting)):
            priority[node] = tables.tail[node] + noise * _PRIORITY_NOISE * uniform(rng)
        cycles = _construct(tables, board, rng, waiting, ready, priority, noise, is_random)
        if cycles < record[0]:
            record[0] = cycles
            copy_values(board.tile, best_tile)
            copy_values(board.start, best_start)


@hot
def _construct(
    tables: Tables,
    board: Board,
    rng: RngState,
    waiting: IntArray,
    ready: IntArray,
    priority: FloatArray,
    noise: float,
    is_random: bool,
) -> int:
    """Cycles of a new mapping on `board`; UNLIMITED: it came to a dead end."""
    clear(tables, board)
    num_ready = 0
    for node in range(len(waiting)):
        waiting[node] = tables.pred_first[node + 1] - tables.pred_first[node]
        if not waiting[node]:
            ready[num_ready] = node
            num_ready += 1
    cycles = 0
    while num_ready:
        chosen = below(rng, num_ready)
        if not is_random:
            for k in range(num_ready):
                if priority[ready[k]] > priority[ready[chosen]]:
                    chosen = k
        node = ready[chosen]
        num_ready -= 1
        ready[chosen] = ready[num_ready]
        tile = _choose_tile(tables, board, rng, node, noise, is_random)
        if tile == ILLEGAL:
            return UNLIMITED
        start = start_at(tables, board, node, tile, 0)
        place(tables, board, node, tile, start)
        cycles = max(cycles, start + tables.depth)
        for e in range(tables.succ_first[node], tables.succ_first[node + 1]):
            other = tables.succ[e]
            waiting[other] -= 1
            if not waiting[other]:
                ready[num_ready] = other
                num_ready += 1
    return cycles


@hot
def _choose_tile(
    tables: Tables, board: Board, rng: RngState, node: int, noise: float, is_random: bool
) -> int:
    """The tile with the earliest noisy start (nearest to the middle of the line), or any."""
    best, least = ILLEGAL, np.inf
    for tile in range(tables.num_tiles):
        start = start_at(tables, board, node, tile, 0)
        if start == ILLEGAL:
            continue
        if is_random:
            cost = uniform(rng)
        else:
            off_centre = abs(2 * tile - tables.num_tiles + 1) / (4.0 * tables.num_tiles)
            cost = start + off_centre + noise * _START_NOISE * uniform(rng)
        if cost < least:
            best, least = tile, cost
    return best
