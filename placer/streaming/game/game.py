"""How the mapping game is played, many at once, in compiled code; `environment.py` says what it is.

Several problems lie side by side in padded arrays, and so do the boards of the games. `game_of`
takes one game out of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.base import BoolArray, FloatArray, LongArray, RngState, SingleArray, hot, hot_loop, uniform
from placer.streaming.search import (
    FAILED,
    ILLEGAL,
    UNLIMITED,
    Board,
    Plan,
    Problem,
    Tables,
    clear,
    cycles_of,
    decode,
    is_open,
    place,
    start_at,
)


class Pack(NamedTuple):
    """Several problems."""

    tables: Any  # `Tables` with a leading axis; lists of positions are padded by their last value
    num_nodes: LongArray  # [num_problems]
    bound: LongArray  # [num_problems]
    head: LongArray  # [num_problems, num_nodes]


class Episodes(NamedTuple):
    """State of all games beside their boards."""

    problem: LongArray  # [batch] index into the pack
    order: LongArray  # [batch, num_nodes]
    step: LongArray  # [batch] instructions placed
    bound: LongArray  # [batch] LB
    anchor: LongArray  # [batch] tile of the first instruction; positions are relative to it
    is_alive: BoolArray  # [batch]
    cycles: LongArray  # [batch] UNLIMITED until the game is won


class Games(NamedTuple):
    """All that compiled code needs to play."""

    pack: Pack
    boards: Board  # with a leading axis [batch]
    episodes: Episodes
    scratch: LongArray  # [3, most nodes or tiles]
    is_unordered: bool  # predecessors may come later


class Game(NamedTuple):
    """One game that is not over, at its next instruction."""

    tables: Tables
    board: Board
    num_nodes: int
    least: int  # bound of the problem
    head: LongArray  # [num_nodes]
    bound: int  # LB
    anchor: int
    step: int
    node: int
    is_unordered: bool


def pack_problems(problems: Sequence[Problem]) -> Pack:
    """Return the problems side by side."""
    tables: list[Any] = [
        _stacked([getattr(problem.tables, name) for problem in problems], name.endswith("first"))
        for name in Tables._fields
    ]
    return Pack(
        Tables(*tables),
        np.array([problem.num_nodes for problem in problems]),
        np.array([problem.bounds.total for problem in problems]),
        _stacked([problem.bounds.head for problem in problems]),
    )


def _stacked(rows: Sequence[Any], is_position: bool = False) -> NDArray[Any]:
    """Return numbers or rows of any length on a leading axis; padding is not read by lists."""
    if not np.ndim(rows[0]):
        return np.array(rows)
    width = max(1, *map(len, rows))
    mode: Any = "edge" if is_position else "constant"
    return np.stack([np.pad(row, (0, width - len(row)), mode) for row in rows])


@hot
def _tables_of(pack: Pack, k: int) -> Tables:
    t = pack.tables
    return Tables(
        t.num_tiles[k], t.ii[k], t.depth[k], t.max_hop[k], t.is_exact[k], t.largest_cluster[k],
        t.pred_first[k], t.pred[k], t.succ_first[k], t.succ[k], t.cluster[k], t.cluster_size[k],
        t.rival_first[k], t.rival[k], t.clique_first[k], t.clique[k], t.tail[k],
    )  # fmt: skip


@hot
def _board_of(boards: Board, k: int) -> Board:
    return Board(
        boards.tile[k], boards.start[k], boards.slots[k], boards.free[k], boards.forbidden[k],
        boards.cluster_tile[k],
    )  # fmt: skip


@hot
def game_of(games: Games, number: int) -> Game:
    """Return one game that is not over."""
    pack, episodes = games.pack, games.episodes
    k, step = episodes.problem[number], episodes.step[number]
    return Game(
        _tables_of(pack, k), _board_of(games.boards, number), pack.num_nodes[k], pack.bound[k],
        pack.head[k], episodes.bound[number], episodes.anchor[number], step,
        episodes.order[number, step], games.is_unordered,
    )  # fmt: skip


@hot_loop
def reset_games(games: Games, rng: RngState, noise: FloatArray, kind: int) -> None:
    """Empty the boards and draw new orders; `kind` counts through `Order`."""
    pack, episodes = games.pack, games.episodes
    for game in range(len(episodes.problem)):
        k = episodes.problem[game]
        tables = _tables_of(pack, k)
        clear(tables, _board_of(games.boards, game))
        _fill_order(games, tables, game, rng, noise, kind)
        episodes.step[game] = 0
        episodes.bound[game] = pack.bound[k]
        episodes.anchor[game] = tables.num_tiles // 2
        episodes.is_alive[game] = True
        episodes.cycles[game] = UNLIMITED


@hot
def _fill_order(games: Games, tables: Tables, game: int, rng: RngState, noise: FloatArray, kind: int) -> None:
    """Put the ready instruction with the highest priority next; id order asks for no more."""
    k, order = games.episodes.problem[game], games.episodes.order[game]
    size, head = games.pack.num_nodes[k], games.pack.head[k]
    waiting, is_done = games.scratch[0], games.scratch[1]
    for node in range(size):
        is_done[node] = 0
        waiting[node] = tables.pred_first[node + 1] - tables.pred_first[node]
        tie = 0.5 * uniform(rng)
        if kind == 0:
            noise[node] = tie - head[node]
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
        for other in tables.succ[tables.succ_first[chosen] : tables.succ_first[chosen + 1]]:
            waiting[other] -= 1


@hot
def meeting_bound(game: Game, tile: int, start: int) -> int:
    """Return the largest LB that successors give, with the node started there, 0 if there is none."""
    tables, board = game.tables, game.board
    largest = 0
    for child in tables.succ[tables.succ_first[game.node] : tables.succ_first[game.node + 1]]:
        if board.tile[child] != ILLEGAL:  # only when the order is by id
            apart = abs(board.tile[child] - tile)
            largest = max(largest, start + tables.depth + apart + tables.tail[child])
            continue
        for other in tables.pred[tables.pred_first[child] : tables.pred_first[child + 1]]:
            if other == game.node or board.tile[other] == ILLEGAL:
                continue
            apart = abs(board.tile[other] - tile)
            sum_ready = start + board.start[other] + 2 * tables.depth + apart
            largest = max(largest, (sum_ready + 1) // 2 + tables.tail[child])
    return largest


@hot
def start_on(game: Game, tile: int) -> int:
    """Return the start of the node on `tile`, or ILLEGAL; for id order by what is placed."""
    tables, board, node = game.tables, game.board, game.node
    if not game.is_unordered:
        return start_at(tables, board, node, tile, 0)
    if not is_open(tables, board, node, tile):
        return ILLEGAL
    start = int(game.head[node])
    for other in tables.pred[tables.pred_first[node] : tables.pred_first[node + 1]]:
        if board.tile[other] != ILLEGAL:
            hop = abs(board.tile[other] - tile)
            start = max(start, board.start[other] + tables.depth + hop)
    return start


@hot_loop
def step_games(games: Games, actions: LongArray, rewards: SingleArray) -> None:
    """Place one instruction in every game that is not over."""
    episodes = games.episodes
    for number in range(len(actions)):
        rewards[number] = 0.0
        if not episodes.is_alive[number]:
            continue
        game = game_of(games, number)
        tables, board, tile = game.tables, game.board, actions[number]
        start = start_on(game, tile) if 0 <= tile < tables.num_tiles else ILLEGAL
        if start == ILLEGAL:
            rewards[number] = -(tables.depth + tables.num_tiles) * (game.num_nodes - game.step)
            episodes.is_alive[number] = False
            continue
        if game.step == 0:
            episodes.anchor[number] = tile
        after = max(start + tables.tail[game.node], meeting_bound(game, tile, start))
        after = max(after, game.bound)
        place(tables, board, game.node, tile, start)
        episodes.step[number] += 1
        if episodes.step[number] == game.num_nodes:
            episodes.is_alive[number] = False
            if game.is_unordered and not _settle(game, games.scratch):
                rewards[number] = -(tables.depth + tables.num_tiles) * game.num_nodes
                continue
            after = cycles_of(tables, board, game.num_nodes)
            episodes.cycles[number] = after
        rewards[number] = game.bound - after
        episodes.bound[number] = after


@hot
def _settle(game: Game, scratch: LongArray) -> bool:
    """Find slots for tiles chosen in any order: decode, earliest possible start first."""
    wish, order, delay = scratch[0], scratch[1], scratch[2]
    for node in range(game.num_nodes):
        delay[node] = 0
        wish[game.tables.cluster[node]] = game.board.tile[node]
        at = node
        while at > 0 and game.head[order[at - 1]] > game.head[node]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = node
    plan = Plan(wish, order[: game.num_nodes], delay)
    return decode(game.tables, game.board, plan, 0) < FAILED
