"""Mappings built in one pass: random ones, and list scheduling with many noisy starts.

A `Board` holds a mapping under construction: which tiles an instruction may go to, and when it
would start. All mappers but the exact one place instructions one after the other on it, so rules
and look-ahead are written once. An instruction takes the first free slot at or after its arrival;
any order is allowed in which predecessors come first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.base import FloatArray, LongArray, RngState, below, hot, hot_loop, rng_state, uniform
from placer.streaming.model import Budget, Found, Mapping
from placer.streaming.search.bounds import UNLIMITED, Tables
from placer.streaming.search.problem import Problem

ILLEGAL = -1
_TRIES_PER_CALL = 64
_PRIORITY_NOISE = 6.0  # cycles; how far list scheduling may leave the order by longest tail
_START_NOISE = 1.5  # cycles; how much later than the earliest a start may be
_LIST_TRIES, _RANDOM_TRIES = 64, 4096  # for a mapping to begin with


class Board(NamedTuple):
    """What is placed so far. `clear` empties it."""

    tile: LongArray  # [num_nodes] ILLEGAL: not placed
    start: LongArray  # [num_nodes]
    slots: NDArray[np.int8]  # [num_tiles, ii] 1: taken
    free: LongArray  # [num_tiles] slots that are neither taken nor kept for a cluster
    forbidden: NDArray[np.int16]  # [num_clusters, num_tiles] rivals of the cluster on the tile
    cluster_tile: LongArray  # [num_clusters] ILLEGAL: no member is placed


def make_board(num_nodes: int, num_clusters: int, num_tiles: int, ii: int, batch: tuple[int, ...] = ()) -> Board:
    """Return a board, or as many as `batch` says side by side; it must be cleared before use."""
    return Board(
        np.full((*batch, num_nodes), ILLEGAL),
        np.zeros((*batch, num_nodes), np.int64),
        np.zeros((*batch, num_tiles, ii), np.int8),
        np.zeros((*batch, num_tiles), np.int64),
        np.zeros((*batch, num_clusters, num_tiles), np.int16),
        np.full((*batch, num_clusters), ILLEGAL),
    )


class Search(NamedTuple):
    """What a compiled search works on, and the best mapping that it has seen."""

    tables: Tables
    board: Board  # of the mapping that is being made
    rng: RngState
    best: LongArray  # [2, num_nodes] tile and start
    cycles: LongArray  # [1] of the best; UNLIMITED: there is none
    goal: int  # no mapping takes fewer cycles


def begin_search(problem: Problem, seed: int, start: Mapping | None = None) -> Search:
    """Return a search that has seen `start` so far."""
    tables, best = problem.tables, np.zeros((2, problem.num_nodes), np.int64)
    if start is not None:
        best[:] = start.tile, start.start
    board = make_board(problem.num_nodes, len(tables.cluster_size), tables.num_tiles, tables.ii)
    cycles = np.array([UNLIMITED if start is None else start.cycles])
    return Search(tables, board, rng_state(seed), best, cycles, problem.bounds.total)


def found_by(problem: Problem, search: Search, tries: int) -> Found:
    """Return what a search has found."""
    mapping = problem.mapping(*search.best) if search.cycles[0] < UNLIMITED else None
    return Found(mapping, search.goal, tries)


@hot
def keep_board(search: Search, cycles: int) -> None:
    """Keep the mapping on the board if it takes fewer cycles than the best."""
    if cycles < search.cycles[0]:
        search.cycles[0] = cycles
        copy_values(search.board.tile, search.best[0])
        copy_values(search.board.start, search.best[1])


@hot
def clear(tables: Tables, board: Board) -> None:
    board.tile[:] = ILLEGAL
    board.slots[:] = 0
    board.free[:] = tables.ii
    board.forbidden[:] = 0
    board.cluster_tile[:] = ILLEGAL


@hot
def copy_values(source: LongArray, target: LongArray) -> None:
    """Copy an array; a slice assignment would need numba's runtime."""
    for k in range(len(source)):
        target[k] = source[k]


@hot
def cycles_of(tables: Tables, board: Board, num_nodes: int) -> int:
    """Return the cycles of the mapping on a full board."""
    last = 0
    for node in range(num_nodes):
        last = max(last, board.start[node])
    return last + tables.depth


@hot
def arrival_at(tables: Tables, board: Board, node: int, tile: int) -> int:
    """Return the first cycle at which all inputs of `node` are on `tile`, or ILLEGAL."""
    arrival = 0
    for other in tables.pred[tables.pred_first[node] : tables.pred_first[node + 1]]:
        hop = abs(board.tile[other] - tile)
        if hop > tables.max_hop:
            return ILLEGAL
        arrival = max(arrival, board.start[other] + tables.depth + hop)
    return arrival


@hot
def first_slot(tables: Tables, board: Board, node: int, tile: int, arrival: int, delay: int) -> int:
    """Return the first cycle from `arrival + delay` on with a free slot, or ILLEGAL."""
    ii = tables.ii
    is_source = tables.pred_first[node] == tables.pred_first[node + 1]
    tries = 1 if tables.is_exact and not is_source else ii
    spoke = (arrival + delay) % ii
    for wait in range(delay, tries):
        if not board.slots[tile, spoke]:
            return arrival + wait
        spoke += 1
        if spoke == ii:
            spoke = 0
    return ILLEGAL


@hot
def is_open(tables: Tables, board: Board, node: int, tile: int) -> bool:
    """Say whether the cluster of `node` is on `tile` or may go there."""
    cluster = tables.cluster[node]
    home = board.cluster_tile[cluster]
    if home != ILLEGAL:
        return bool(tile == home)
    has_room = board.free[tile] >= tables.cluster_size[cluster]
    return bool(has_room and board.forbidden[cluster, tile] == 0)


@hot
def start_at(tables: Tables, board: Board, node: int, tile: int, delay: int) -> int:
    """Return the start of `node` on `tile`, or ILLEGAL; all predecessors are placed.

    It waits for `delay` cycles, or longer for a free slot.
    """
    if not is_open(tables, board, node, tile):
        return ILLEGAL
    arrival = arrival_at(tables, board, node, tile)
    if arrival == ILLEGAL:
        return ILLEGAL
    start = first_slot(tables, board, node, tile, arrival, delay)
    cluster = tables.cluster[node]
    if start == ILLEGAL or board.cluster_tile[cluster] != ILLEGAL:
        return start
    if board.free[tile] - tables.cluster_size[cluster] < tables.largest_cluster and (
        _starves_rivals(tables, board, cluster, tile) or _starves_clusters(tables, board, cluster, tile)
    ):
        return ILLEGAL
    return start


@hot
def _starves_rivals(tables: Tables, board: Board, cluster: int, tile: int) -> bool:
    """Say whether `cluster` on `tile` leaves a set of rivals with fewer tiles than members."""
    if board.free[tile] > tables.cluster_size[cluster]:
        return False
    num_open = 0  # tiles with room
    for other in range(tables.num_tiles):
        num_open += other != tile and board.free[other] > 0
    for c in range(len(tables.clique_first) - 1):
        waiting, usable = 0, num_open
        is_member = False
        for member in tables.clique[tables.clique_first[c] : tables.clique_first[c + 1]]:
            is_member |= member == cluster
            home = board.cluster_tile[member]
            if home == ILLEGAL:
                waiting += 1
            elif home != tile and board.free[home] > 0:
                usable -= 1  # no other member may go there; members are on different tiles
        if usable < waiting and not is_member:
            return True
    return False


@hot
def _starves_clusters(tables: Tables, board: Board, cluster: int, tile: int) -> bool:
    """Say whether `cluster` on `tile` leaves a memory cluster without a tile with room for it."""
    for other in range(len(tables.cluster_size)):
        size = tables.cluster_size[other]
        if size < 2:
            break  # large clusters come first
        if other == cluster or board.cluster_tile[other] != ILLEGAL:
            continue
        has_room = False
        for x in range(tables.num_tiles):
            if x != tile and board.free[x] >= size and board.forbidden[other, x] == 0:
                has_room = True
                break
        if not has_room and not _fits_beside(tables, board, other, cluster, tile):
            return True
    return False


@hot
def _fits_beside(tables: Tables, board: Board, other: int, cluster: int, tile: int) -> bool:
    """Say whether cluster `other` may join `cluster` on `tile`."""
    room = board.free[tile] - tables.cluster_size[cluster]
    if room < tables.cluster_size[other] or board.forbidden[other, tile]:
        return False
    return not are_rivals(tables, cluster, other)


@hot
def are_rivals(tables: Tables, cluster: int, other: int) -> bool:
    """Say whether two clusters must be on different tiles."""
    for rival in tables.rival[tables.rival_first[cluster] : tables.rival_first[cluster + 1]]:
        if rival == other:
            return True
    return False


@hot
def place(tables: Tables, board: Board, node: int, tile: int, start: int) -> None:
    """Put `node` where `start_at` said that it may go."""
    cluster = tables.cluster[node]
    board.tile[node] = tile
    board.start[node] = start
    board.slots[tile, start % tables.ii] = 1
    if board.cluster_tile[cluster] == ILLEGAL:
        board.cluster_tile[cluster] = tile
        board.free[tile] -= tables.cluster_size[cluster]
        for other in tables.rival[tables.rival_first[cluster] : tables.rival_first[cluster + 1]]:
            board.forbidden[other, tile] += 1


def random_mapping(problem: Problem, budget: Budget, seed: int) -> Found:
    """Return the best of random legal mappings: any ready instruction, any legal tile."""
    return _many(problem, budget, seed, is_random=True)


def list_schedule(problem: Problem, budget: Budget, seed: int) -> Found:
    """Place by longest tail, on the tile with the earliest start; then again with noise.

    The first try has no noise: plain greedy list scheduling is `budget.tries=1`.
    """
    return _many(problem, budget, seed, is_random=False)


def start_mapping(problem: Problem, budget: Budget, seed: int) -> Mapping | None:
    """Return where searches begin: the best of a few list schedules, or a random mapping."""
    seconds = budget.seconds / 4
    found = list_schedule(problem, budget.part(seconds, _LIST_TRIES), seed).mapping
    return found or random_mapping(problem, budget.part(seconds, _RANDOM_TRIES), seed).mapping


def _many(problem: Problem, budget: Budget, seed: int, *, is_random: bool) -> Found:
    search = begin_search(problem, seed)
    scratch = np.zeros((2, problem.num_nodes), np.int64)
    priority = np.zeros(problem.num_nodes)
    tries, per_call = 0, problem.tries_per_call(_TRIES_PER_CALL)
    while not tries or not (budget.is_spent(tries) or search.cycles[0] == search.goal):
        count = per_call if budget.tries is None else min(per_call, budget.tries - tries)
        _construct_many(search, scratch, priority, tries, count, is_random)
        tries += count
    return found_by(problem, search, tries)


@hot_loop
def _construct_many(
    search: Search, scratch: LongArray, priority: FloatArray, done: int, count: int, is_random: bool
) -> None:
    """Build `count` mappings after `done` ones and keep the best; the first has no noise."""
    for k in range(count):
        noise = 1.0 if done + k or is_random else 0.0
        for node in range(len(priority)):
            change = noise * _PRIORITY_NOISE * uniform(search.rng)
            priority[node] = search.tables.tail[node] + change
        keep_board(search, _construct(search, scratch, priority, noise, is_random))


@hot
def _construct(search: Search, scratch: LongArray, priority: FloatArray, noise: float, is_random: bool) -> int:
    """Return the cycles of a new mapping on the board, or UNLIMITED after a dead end."""
    tables, board = search.tables, search.board
    waiting, ready = scratch[0], scratch[1]
    clear(tables, board)
    num_ready = 0
    for node in range(len(waiting)):
        waiting[node] = tables.pred_first[node + 1] - tables.pred_first[node]
        if not waiting[node]:
            ready[num_ready] = node
            num_ready += 1
    cycles = 0
    while num_ready:
        chosen = below(search.rng, num_ready)
        if not is_random:
            for k in range(num_ready):
                if priority[ready[k]] > priority[ready[chosen]]:
                    chosen = k
        node = ready[chosen]
        num_ready -= 1
        ready[chosen] = ready[num_ready]
        tile = _choose_tile(search, node, noise, is_random)
        if tile == ILLEGAL:
            return UNLIMITED
        start = start_at(tables, board, node, tile, 0)
        place(tables, board, node, tile, start)
        cycles = max(cycles, start + tables.depth)
        for other in tables.succ[tables.succ_first[node] : tables.succ_first[node + 1]]:
            waiting[other] -= 1
            if not waiting[other]:
                ready[num_ready] = other
                num_ready += 1
    return cycles


@hot
def _choose_tile(search: Search, node: int, noise: float, is_random: bool) -> int:
    """Return the tile with the earliest noisy start (nearest to the middle), or any."""
    tables, rng = search.tables, search.rng
    best, least = ILLEGAL, np.inf
    for tile in range(tables.num_tiles):
        start = start_at(tables, search.board, node, tile, 0)
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
