"""A mapping under construction: which tiles an instruction may go to, and when it would start.

All mappers but the exact one place instructions one after the other with these functions, so rules
and look-ahead are written once. An instruction takes the first free slot at or after its arrival;
any order is allowed in which predecessors come first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.hot import hot
from placer.streaming.bounds import IntArray
from placer.streaming.problem import Problem, Tables

ILLEGAL = -1


class Board(NamedTuple):
    """What is placed so far. `clear` empties it."""

    tile: IntArray  # [num_nodes] ILLEGAL: not placed
    start: IntArray  # [num_nodes]
    slots: NDArray[np.int8]  # [num_tiles, ii] 1: taken
    free: IntArray  # [num_tiles] slots that are neither taken nor kept for a cluster
    forbidden: NDArray[np.int16]  # [num_clusters, num_tiles] rivals of the cluster on the tile
    cluster_tile: IntArray  # [num_clusters] ILLEGAL: no member is placed


def make_board(problem: Problem) -> Board:
    """An empty board."""
    tables = problem.tables
    num_nodes, num_clusters = problem.num_nodes, len(tables.cluster_size)
    return Board(
        np.full(num_nodes, ILLEGAL),
        np.zeros(num_nodes, np.int64),
        np.zeros((tables.num_tiles, tables.ii), np.int8),
        np.full(tables.num_tiles, tables.ii),
        np.zeros((num_clusters, tables.num_tiles), np.int16),
        np.full(num_clusters, ILLEGAL),
    )


@hot
def clear(tables: Tables, board: Board) -> None:
    board.tile[:] = ILLEGAL
    board.slots[:] = 0
    board.free[:] = tables.ii
    board.forbidden[:] = 0
    board.cluster_tile[:] = ILLEGAL


@hot
def copy_values(source: IntArray, target: IntArray) -> None:
    """A slice assignment would need numba's runtime."""
    for k in range(len(source)):
        target[k] = source[k]


@hot
def last_start(board: Board, num_nodes: int) -> int:
    last = 0
    for node in range(num_nodes):
        last = max(last, board.start[node])
    return last


@hot
def arrival_at(tables: Tables, board: Board, node: int, tile: int) -> int:
    """First cycle at which all inputs of `node` are on `tile`; ILLEGAL: a hop is too long."""
    arrival = 0
    for e in range(tables.pred_first[node], tables.pred_first[node + 1]):
        other = tables.pred[e]
        hop = abs(board.tile[other] - tile)
        if hop > tables.max_hop:
            return ILLEGAL
        arrival = max(arrival, board.start[other] + tables.depth + hop)
    return arrival


@hot
def first_slot(tables: Tables, board: Board, node: int, tile: int, arrival: int, delay: int) -> int:
    """First cycle from `arrival + delay` on with a free slot for `node`; ILLEGAL: none."""
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
def start_at(tables: Tables, board: Board, node: int, tile: int, delay: int) -> int:
    """Start of `node` on `tile`, or ILLEGAL; all predecessors are placed.

    It waits for `delay` cycles, or longer for a free slot.
    """
    cluster = tables.cluster[node]
    home = board.cluster_tile[cluster]
    if home != ILLEGAL:
        if tile != home:
            return ILLEGAL
    elif board.free[tile] < tables.cluster_size[cluster] or board.forbidden[cluster, tile]:
        return ILLEGAL
    arrival = arrival_at(tables, board, node, tile)
    if arrival == ILLEGAL:
        return ILLEGAL
    start = first_slot(tables, board, node, tile, arrival, delay)
    if start == ILLEGAL or home != ILLEGAL:
        return start
    if board.free[tile] - tables.cluster_size[cluster] < tables.largest_cluster and (
        _starves_rivals(tables, board, cluster, tile)
        or _starves_clusters(tables, board, cluster, tile)
    ):
        return ILLEGAL
    return start


@hot
def _starves_rivals(tables: Tables, board: Board, cluster: int, tile: int) -> bool:
    """Would `cluster` on `tile` leave a set of rivals with fewer tiles than members?"""
    if board.free[tile] > tables.cluster_size[cluster]:
        return False
    num_open = 0  # tiles with room
    for other in range(tables.num_tiles):
        num_open += other != tile and board.free[other] > 0
    for c in range(len(tables.clique_first) - 1):
        waiting, usable = 0, num_open
        is_member = False
        for k in range(tables.clique_first[c], tables.clique_first[c + 1]):
            member = tables.clique[k]
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
    """Would `cluster` on `tile` leave a memory cluster without a tile that has room for it?"""
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
    """May cluster `other` join `cluster` on `tile`?"""
    room = board.free[tile] - tables.cluster_size[cluster]
    if room < tables.cluster_size[other] or board.forbidden[other, tile]:
        return False
    for k in range(tables.rival_first[cluster], tables.rival_first[cluster + 1]):
        if tables.rival[k] == other:
            return False
    return True


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
        for k in range(tables.rival_first[cluster], tables.rival_first[cluster + 1]):
            board.forbidden[tables.rival[k], tile] += 1
