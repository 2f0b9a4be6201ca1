"""How the mapping game is played, in compiled code; `environment.py` says what it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.annealing.random import RngState, uniform
from placer.hot import hot, hot_loop
from placer.streaming.board import ILLEGAL, Board, clear, last_start, place, start_at
from placer.streaming.bounds import UNLIMITED, IntArray
from placer.streaming.decode import FAILED, Plan, decode
from placer.streaming.problem import Tables
from placer.streaming.rl.pack import Pack, board_of, tables_of

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]


class Episodes(NamedTuple):
    """State of all games beside their boards."""

    problem: IntArray  # [batch] index into the pack
    order: IntArray  # [batch, num_nodes]
    step: IntArray  # [batch] instructions placed
    bound: IntArray  # [batch] LB
    anchor: IntArray  # [batch] tile of the first instruction; positions are relative to it
    is_alive: BoolArray  # [batch]
    cycles: IntArray  # [batch] UNLIMITED until the game is won


@hot_loop
def reset_games(
    pack: Pack,
    boards: Board,
    episodes: Episodes,
    rng: RngState,
    scratch: IntArray,
    noise: NDArray[np.float64],
    kind: int,
) -> None:
    """Empty boards and new orders; `kind` counts through `Order`."""
    for game in range(len(episodes.problem)):
        k = episodes.problem[game]
        tables = tables_of(pack, k)
        clear(tables, board_of(boards, game))
        _fill_order(tables, pack, k, episodes.order[game], rng, scratch, noise, kind)
        episodes.step[game] = 0
        episodes.bound[game] = pack.bound[k]
        episodes.anchor[game] = pack.num_tiles[k] // 2
        episodes.is_alive[game] = True
        episodes.cycles[game] = UNLIMITED


@hot
def _fill_order(
    tables: Tables,
    pack: Pack,
    k: int,
    order: IntArray,
    rng: RngState,
    scratch: IntArray,
    noise: NDArray[np.float64],
    kind: int,
) -> None:
    """The ready instruction with the highest priority comes next; id order asks for no more."""
    size = pack.num_nodes[k]
    waiting, is_done = scratch[0], scratch[1]
    for node in range(size):
        is_done[node] = 0
        waiting[node] = tables.pred_first[node + 1] - tables.pred_first[node]
        tie = 0.5 * uniform(rng)
        if kind == 0:
            noise[node] = tie - pack.head[k, node]
        elif kind == 1:
            noise[node] = tie + tables.tail[node]
        elif kind == 2:
            noise[node] = tie
        else:
            noise[node] = -node
            waiting[node] = 0
    for position in range(size):
        chosen = ILLEGAL
        for node in range(size):
            if is_done[node] or waiting[node] > 0:
                continue
            if chosen == ILLEGAL or noise[node] > noise[chosen]:
                chosen = node
        order[position] = chosen
        is_done[chosen] = 1
        for e in range(tables.succ_first[chosen], tables.succ_first[chosen + 1]):
            waiting[tables.succ[e]] -= 1


@hot
def meeting_bound(tables: Tables, board: Board, node: int, tile: int, start: int) -> int:
    """Largest LB that successors of `node` give, with `node` started there; 0: none."""
    largest = 0
    for e in range(tables.succ_first[node], tables.succ_first[node + 1]):
        child = tables.succ[e]
        if board.tile[child] != ILLEGAL:  # only when the order is by id
            apart = abs(board.tile[child] - tile)
            largest = max(largest, start + tables.depth + apart + tables.tail[child])
            continue
        for f in range(tables.pred_first[child], tables.pred_first[child + 1]):
            other = tables.pred[f]
            if other == node or board.tile[other] == ILLEGAL:
                continue
            apart = abs(board.tile[other] - tile)
            sum_ready = start + board.start[other] + 2 * tables.depth + apart
            largest = max(largest, (sum_ready + 1) // 2 + tables.tail[child])
    return largest


@hot
def estimate_start(tables: Tables, pack: Pack, k: int, board: Board, node: int, tile: int) -> int:
    """For id order: start of `node` on `tile` by what is placed; ILLEGAL: a rule is broken."""
    cluster = tables.cluster[node]
    home = board.cluster_tile[cluster]
    if home != ILLEGAL:
        if tile != home:
            return ILLEGAL
    elif board.free[tile] < tables.cluster_size[cluster] or board.forbidden[cluster, tile]:
        return ILLEGAL
    start = int(pack.head[k, node])
    for e in range(tables.pred_first[node], tables.pred_first[node + 1]):
        other = tables.pred[e]
        if board.tile[other] != ILLEGAL:
            hop = abs(board.tile[other] - tile)
            start = max(start, board.start[other] + tables.depth + hop)
    return start


@hot_loop
def step_games(
    pack: Pack,
    boards: Board,
    episodes: Episodes,
    actions: IntArray,
    rewards: FloatArray,
    scratch: IntArray,
    is_unordered: bool,
) -> None:
    for game in range(len(actions)):
        rewards[game] = 0.0
        if not episodes.is_alive[game]:
            continue
        k = episodes.problem[game]
        tables, board = tables_of(pack, k), board_of(boards, game)
        size = pack.num_nodes[k]
        node, tile = episodes.order[game, episodes.step[game]], actions[game]
        start = ILLEGAL
        if 0 <= tile < tables.num_tiles:
            if is_unordered:
                start = estimate_start(tables, pack, k, board, node, tile)
            else:
                start = start_at(tables, board, node, tile, 0)
        if start == ILLEGAL:
            rewards[game] = -(tables.depth + tables.num_tiles) * (size - episodes.step[game])
            episodes.is_alive[game] = False
            continue
        if episodes.step[game] == 0:
            episodes.anchor[game] = tile
        after = max(start + tables.tail[node], meeting_bound(tables, board, node, tile, start))
        after = max(after, episodes.bound[game])
        place(tables, board, node, tile, start)
        episodes.step[game] += 1
        if episodes.step[game] == size:
            episodes.is_alive[game] = False
            if is_unordered and not _settle(tables, board, pack.head[k], scratch, size):
                rewards[game] = -(tables.depth + tables.num_tiles) * size
                continue
            after = last_start(board, size) + tables.depth
            episodes.cycles[game] = after
        rewards[game] = episodes.bound[game] - after
        episodes.bound[game] = after


@hot
def _settle(tables: Tables, board: Board, head: IntArray, scratch: IntArray, size: int) -> bool:
    """Slots for tiles chosen in any order: decode, earliest possible start first."""
    wish, order, delay = scratch[0], scratch[1], scratch[2]
    for node in range(size):
        delay[node] = 0
        wish[tables.cluster[node]] = board.tile[node]
        at = node
        while at > 0 and head[order[at - 1]] > head[node]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = node
    return decode(tables, board, Plan(wish, order[:size], delay), 0) < FAILED
