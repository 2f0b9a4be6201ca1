"""The mapping game, many at once: place one instruction per step, an action is a tile.

An instruction takes the first free slot at or after its arrival. The reward of a step is
-(LB_after - LB_before) cycles with

    LB = max(bound of the problem, start_n + tail_n of what is placed,
             ceil((ready_p + ready_q + |x_p - x_q|) / 2) + tail_v)

where p and q are placed predecessors of an instruction v that is not. Over an episode it adds up to
-(cycles - bound). Where no tile is legal, or an illegal one is chosen, the episode ends with
-(depth + tiles) for each instruction that is left.

With `order=id` predecessors may come later. Start times are then estimates until all tiles are
chosen, and the decoder of `placer/streaming/search/plans.py` finds the slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Literal, NamedTuple

import numpy as np

from placer.base import BoolArray, LongArray, SingleArray, hot, hot_loop, rng_state
from placer.streaming.game.game import (
    Episodes,
    Game,
    Games,
    game_of,
    meeting_bound,
    pack_problems,
    reset_games,
    start_on,
    step_games,
)
from placer.streaming.model import Mapping
from placer.streaming.search import ILLEGAL, UNLIMITED, Problem, make_board

Order = Literal["level", "tail", "random", "id"]

CLIP = 4.0  # no feature is farther from 0


class Features(IntEnum):
    """How many numbers a policy sees."""

    STATIC = 9  # of an instruction, before the game
    NODE = 7  # of an instruction, now
    TILE = 16
    STATE = 8  # of the whole game


class Observation(NamedTuple):
    """What a policy sees of the next instruction of each game."""

    node: LongArray  # [batch]
    mask: BoolArray  # [batch, num_tiles] legal tiles; all False once a game is over
    tiles: SingleArray  # [batch, num_tiles, Features.TILE]
    nodes: SingleArray  # [batch, num_nodes, Features.NODE]
    state: SingleArray  # [batch, Features.STATE]


def static_features(problem: Problem) -> SingleArray:
    """Return what is known of each node before the game [num_nodes, Features.STATIC]."""
    tables, bounds = problem.tables, problem.bounds
    in_degree, out_degree = np.diff(tables.pred_first), np.diff(tables.succ_first)
    columns = (
        bounds.head / 16,
        bounds.tail / 16,
        (bounds.head + bounds.tail - bounds.total) / 8,
        in_degree / 4,
        np.minimum(out_degree, 16) / 4,
        in_degree == 0,
        out_degree == 0,
        tables.cluster_size[tables.cluster] / tables.ii,
        np.diff(tables.rival_first)[tables.cluster] / 16,
    )
    return np.stack(columns, axis=1).astype(np.float32)


class BatchEnv:
    """`reset`, then `step` until nobody `is_alive`; finished games ignore their actions."""

    def __init__(
        self,
        problems: Sequence[Problem],
        games: Sequence[int] | LongArray,  # [batch] which problem each game plays
        order: Order = "tail",
        seed: int = 0,
    ) -> None:
        self.problems = list(problems)
        self.pack = pack_problems(problems)
        self._order, self._rng = order, rng_state(seed)
        tables, batch, num_nodes = self.pack.tables, len(games), self.pack.head.shape[1]
        num_tiles = int(tables.num_tiles.max())
        self.boards = make_board(num_nodes, tables.cluster_size.shape[1], num_tiles, int(tables.ii.max()), (batch,))
        step, bound, anchor, cycles = np.zeros((4, batch), np.int64)
        order_of = np.zeros((batch, num_nodes), np.int64)
        self.episodes = Episodes(np.array(games), order_of, step, bound, anchor, np.zeros(batch, np.bool_), cycles)
        self.rewards = np.zeros(batch, np.float32)
        scratch = np.zeros((3, max(num_nodes, num_tiles)), np.int64)
        self._games = Games(self.pack, self.boards, self.episodes, scratch, order == "id")
        self._shape = (batch, num_nodes, num_tiles)

    @property
    def is_alive(self) -> BoolArray:
        return self.episodes.is_alive

    @property
    def cycles(self) -> LongArray:
        """Return the cycles [batch] of finished games, UNLIMITED for those that came to a dead end."""
        return self.episodes.cycles

    def reset(self) -> Observation:
        kind = ("level", "tail", "random", "id").index(self._order)
        reset_games(self._games, self._rng, np.zeros(self._shape[1]), kind)
        return self._observe()

    def step(self, actions: LongArray) -> Observation:
        """Take one step in every game; `rewards` then holds what each got."""
        step_games(self._games, actions, self.rewards)
        return self._observe()

    def copy_games(self, sources: LongArray) -> Observation:
        """Let game k go on where game `sources[k]`, of the same problem, is now."""
        for array in (*self.boards, *self.episodes):
            array[:] = array[sources]
        return self._observe()

    def mapping(self, game: int) -> Mapping | None:
        """Return what a finished game ended with, None for a dead end."""
        if self.cycles[game] >= UNLIMITED:
            return None
        problem = self.problems[int(self.episodes.problem[game])]
        size = problem.num_nodes
        tile, start = (a[game, :size].copy() for a in (self.boards.tile, self.boards.start))
        return problem.mapping(tile, start)

    def _observe(self) -> Observation:
        batch, num_nodes, num_tiles = self._shape
        seen = Observation(
            np.zeros(batch, np.int64),
            np.zeros((batch, num_tiles), np.bool_),
            np.zeros((batch, num_tiles, Features.TILE), np.float32),
            np.zeros((batch, num_nodes, Features.NODE), np.float32),
            np.zeros((batch, Features.STATE), np.float32),
        )
        _observe_games(self._games, seen)
        return seen


@hot_loop
def _observe_games(games: Games, seen: Observation) -> None:
    """Fill `seen` for every game that is not over."""
    for number in range(len(games.episodes.problem)):
        if not games.episodes.is_alive[number]:
            continue
        game, starts = game_of(games, number), games.scratch[2]
        num_tiles = game.tables.num_tiles
        seen.node[number] = game.node
        earliest, num_legal = UNLIMITED, 0
        for tile in range(num_tiles):
            # The line looks the same from everywhere: the first instruction goes to its middle.
            is_aside = game.step == 0 and tile != num_tiles // 2
            start = ILLEGAL if is_aside else start_on(game, tile)
            starts[tile] = start
            seen.mask[number, tile] = start != ILLEGAL
            if start != ILLEGAL:
                num_legal += 1
                earliest = min(earliest, start)
        if not num_legal:
            earliest = 0
        for tile in range(num_tiles):
            _observe_tile(game, tile, starts, earliest, seen.tiles[number, tile])
        _observe_nodes(game, earliest, seen.nodes[number])
        _observe_state(game, earliest, num_legal, seen.state[number])


@hot
def _clipped(value: float) -> float:
    return min(max(value, -CLIP), CLIP)


@hot
def _observe_tile(game: Game, tile: int, starts: LongArray, earliest: int, out: SingleArray) -> None:
    tables, board = game.tables, game.board
    out[6] = board.free[tile] / tables.ii
    out[7] = board.free[tile] == tables.ii
    out[8] = _clipped((tile - game.anchor) / 8)
    out[9] = _clipped(abs(tile - game.anchor) / 8)
    out[14] = _clipped(min(tile, tables.num_tiles - 1 - tile) / 8)
    if starts[tile] != ILLEGAL:
        _observe_start(game, tile, starts, earliest, out)
    else:  # flagged, and as late as can be; a mask hides it anyway
        out[0] = CLIP
        out[1] = 1.0
        out[13] = CLIP
        out[15] = 1.0


@hot
def _observe_start(game: Game, tile: int, starts: LongArray, earliest: int, out: SingleArray) -> None:
    """Fill the features that depend on when the node would start."""
    tables, board, node, start = game.tables, game.board, game.node, starts[tile]
    own = start + tables.tail[node] - game.bound
    meeting = meeting_bound(game, tile, start) - game.bound
    farthest, is_near = 0, 0
    arrival = 0
    for other in tables.pred[tables.pred_first[node] : tables.pred_first[node + 1]]:
        if board.tile[other] != ILLEGAL:
            hop = abs(board.tile[other] - tile)
            farthest = max(farthest, hop)
            is_near |= hop == 0
            arrival = max(arrival, board.start[other] + tables.depth + hop)
    partners, hops = 0, 0
    for child in tables.succ[tables.succ_first[node] : tables.succ_first[node + 1]]:
        for other in tables.pred[tables.pred_first[child] : tables.pred_first[child + 1]]:
            if other != node and board.tile[other] != ILLEGAL:
                partners += 1
                hops += abs(board.tile[other] - tile)
    better = 0
    for other in range(tables.num_tiles):
        better += starts[other] != ILLEGAL and starts[other] < start
    out[0] = _clipped((start - earliest) / 4)
    out[1] = (start - arrival) / tables.ii
    out[2] = _clipped(own / 8)
    out[3] = _clipped(max(own, 0) / 2)
    out[4] = _clipped(meeting / 8) if meeting > -game.bound else -CLIP
    out[5] = _clipped(max(meeting, 0) / 2)
    out[10] = _clipped(farthest / 4)
    out[11] = is_near
    out[12] = _clipped(hops / (4.0 * partners)) if partners else 0.0
    out[13] = _clipped(better / 4)


@hot
def _observe_nodes(game: Game, earliest: int, out: SingleArray) -> None:
    tables, board, node = game.tables, game.board, game.node
    for other in range(game.num_nodes):
        if board.tile[other] != ILLEGAL:
            out[other, 0] = 1.0
            out[other, 1] = _clipped((board.tile[other] - game.anchor) / 8)
            out[other, 2] = _clipped((board.start[other] + tables.tail[other] - game.bound) / 8)
            out[other, 3] = _clipped((board.start[other] - earliest) / 8)
        else:
            out[other, 2] = _clipped((game.head[other] + tables.tail[other] - game.bound) / 8)
    for parent in tables.pred[tables.pred_first[node] : tables.pred_first[node + 1]]:
        out[parent, 4] = 1.0
        for other in tables.succ[tables.succ_first[parent] : tables.succ_first[parent + 1]]:
            out[other, 5] = 1.0
    for child in tables.succ[tables.succ_first[node] : tables.succ_first[node + 1]]:
        for other in tables.pred[tables.pred_first[child] : tables.pred_first[child + 1]]:
            out[other, 6] = 1.0


@hot
def _observe_state(game: Game, earliest: int, num_legal: int, out: SingleArray) -> None:
    tables, left = game.tables, game.num_nodes - game.step
    cluster = tables.cluster[game.node]
    rivals = 0
    for other in tables.rival[tables.rival_first[cluster] : tables.rival_first[cluster + 1]]:
        rivals += game.board.cluster_tile[other] == ILLEGAL
    out[0] = _clipped((game.bound - game.least) / 8)
    out[1] = 1.0 - game.step / game.num_nodes
    out[2] = _clipped(left / 16)
    out[3] = _clipped(num_legal / 16)
    out[4] = _clipped((earliest + tables.tail[game.node] - game.bound) / 8)
    out[5] = _clipped(rivals / 8)
    out[6] = _clipped(tables.ii / 8)
    out[7] = _clipped(tables.tail[game.node] / 16)
