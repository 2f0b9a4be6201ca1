"""The mapping game, many at once: place one instruction per step, an action is a tile.

An instruction takes the first free slot at or after its arrival. The reward of a step is
-(LB_after - LB_before) cycles with

    LB = max(bound of the problem, start_n + tail_n of what is placed,
             ceil((ready_p + ready_q + |x_p - x_q|) / 2) + tail_v)

where p and q are placed predecessors of an instruction v that is not. Over an episode it adds up to
-(cycles - bound). Where no tile is legal, or an illegal one is chosen, the episode ends with
-(depth + tiles) for each instruction that is left.

With `order=id` predecessors may come later. Start times are then estimates until all tiles are
chosen, and the decoder of `placer.streaming.decode` finds the slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.annealing.random import RngState, rng_state, uniform
from placer.hot import hot, hot_loop
from placer.streaming.board import (
    ILLEGAL,
    Board,
    clear,
    last_start,
    place,
    start_at,
)
from placer.streaming.bounds import UNLIMITED, IntArray
from placer.streaming.decode import FAILED, Plan, decode
from placer.streaming.mapping import Mapping
from placer.streaming.problem import Problem, Tables
from placer.streaming.rl.pack import Pack, board_of, make_boards, pack_problems, tables_of

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
Order = Literal["level", "tail", "random", "id"]

TILE_FEATURES = 15
NODE_FEATURES = 7
STATE_FEATURES = 8
CLIP = 4.0  # no feature is farther from 0


class Episodes(NamedTuple):
    """State of all games beside their boards."""

    problem: IntArray  # [batch] index into the pack
    order: IntArray  # [batch, num_nodes]
    step: IntArray  # [batch] instructions placed
    bound: IntArray  # [batch] LB
    anchor: IntArray  # [batch] tile of the first instruction; positions are relative to it
    is_alive: BoolArray  # [batch]
    cycles: IntArray  # [batch] UNLIMITED until the game is won


class Observation(NamedTuple):
    """What a policy sees of the next instruction of each game."""

    node: IntArray  # [batch]
    mask: BoolArray  # [batch, num_tiles] legal tiles; all False once a game is over
    tiles: FloatArray  # [batch, num_tiles, TILE_FEATURES]
    nodes: FloatArray  # [batch, num_nodes, NODE_FEATURES]
    state: FloatArray  # [batch, STATE_FEATURES]


class BatchEnv:
    """`reset`, then `step` until nobody `is_alive`; finished games ignore their actions."""

    def __init__(
        self,
        problems: Sequence[Problem],
        games: Sequence[int] | IntArray,  # [batch] which problem each game plays
        order: Order = "tail",
        seed: int = 0,
    ) -> None:
        self.problems = list(problems)
        self.pack = pack_problems(problems)
        self._order, self._rng = order, rng_state(seed)
        batch, num_nodes = len(games), self.pack.tail.shape[1]
        num_tiles = int(self.pack.num_tiles.max())
        self.boards = make_boards(self.pack, batch)
        self.episodes = Episodes(
            np.asarray(games, np.int64),
            np.zeros((batch, num_nodes), np.int64),
            np.zeros(batch, np.int64),
            np.zeros(batch, np.int64),
            np.zeros(batch, np.int64),
            np.zeros(batch, np.bool_),
            np.zeros(batch, np.int64),
        )
        self.rewards = np.zeros(batch, np.float32)
        self._scratch = np.zeros((3, max(num_nodes, num_tiles)), np.int64)
        self._noise = np.zeros(num_nodes)
        self._shape = (batch, num_nodes, num_tiles)

    @property
    def is_alive(self) -> BoolArray:
        return self.episodes.is_alive

    @property
    def cycles(self) -> IntArray:
        """[batch] of finished games; UNLIMITED: came to a dead end."""
        return self.episodes.cycles

    def reset(self) -> Observation:
        _reset(
            self.pack, self.boards, self.episodes, self._rng, self._scratch, self._noise,
            ("level", "tail", "random", "id").index(self._order),
        )  # fmt: skip
        return self._observe()

    def step(self, actions: IntArray) -> Observation:
        """Take one step in every game; `rewards` then holds what each got."""
        _step(
            self.pack, self.boards, self.episodes, actions, self.rewards, self._scratch,
            self._order == "id",
        )  # fmt: skip
        return self._observe()

    def copy_games(self, sources: IntArray) -> Observation:
        """Game k goes on where game `sources[k]`, of the same problem, is now."""
        for array in (*self.boards, *self.episodes):
            array[:] = array[sources]
        return self._observe()

    def mapping(self, game: int) -> Mapping | None:
        """What a finished game ended with; None: a dead end."""
        if self.cycles[game] >= UNLIMITED:
            return None
        problem = self.problems[int(self.episodes.problem[game])]
        size = problem.num_nodes
        tile, start = (a[game, :size].copy() for a in (self.boards.tile, self.boards.start))
        return Mapping(tile, start, problem.device.ii, problem.device.depth)

    def _observe(self) -> Observation:
        batch, num_nodes, num_tiles = self._shape
        seen = Observation(
            np.zeros(batch, np.int64),
            np.zeros((batch, num_tiles), np.bool_),
            np.zeros((batch, num_tiles, TILE_FEATURES), np.float32),
            np.zeros((batch, num_nodes, NODE_FEATURES), np.float32),
            np.zeros((batch, STATE_FEATURES), np.float32),
        )
        _observe_all(
            self.pack, self.boards, self.episodes, seen, self._scratch, self._order == "id"
        )
        return seen


@hot_loop
def _reset(
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
def _meeting(tables: Tables, board: Board, node: int, tile: int, start: int) -> int:
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
def _estimate(tables: Tables, pack: Pack, k: int, board: Board, node: int, tile: int) -> int:
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
def _step(
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
                start = _estimate(tables, pack, k, board, node, tile)
            else:
                start = start_at(tables, board, node, tile, 0)
        if start == ILLEGAL:
            rewards[game] = -(tables.depth + tables.num_tiles) * (size - episodes.step[game])
            episodes.is_alive[game] = False
            continue
        if episodes.step[game] == 0:
            episodes.anchor[game] = tile
        after = max(start + tables.tail[node], _meeting(tables, board, node, tile, start))
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


@hot_loop
def _observe_all(
    pack: Pack,
    boards: Board,
    episodes: Episodes,
    seen: Observation,
    scratch: IntArray,
    is_unordered: bool,
) -> None:
    for game in range(len(episodes.problem)):
        if not episodes.is_alive[game]:
            continue
        k = episodes.problem[game]
        tables, board = tables_of(pack, k), board_of(boards, game)
        node = episodes.order[game, episodes.step[game]]
        seen.node[game] = node
        starts = scratch[2]
        earliest, num_legal = UNLIMITED, 0
        for tile in range(tables.num_tiles):
            # The line looks the same from everywhere: the first instruction goes to its middle.
            if episodes.step[game] == 0 and tile != tables.num_tiles // 2:
                start = ILLEGAL
            elif is_unordered:
                start = _estimate(tables, pack, k, board, node, tile)
            else:
                start = start_at(tables, board, node, tile, 0)
            starts[tile] = start
            seen.mask[game, tile] = start != ILLEGAL
            if start != ILLEGAL:
                num_legal += 1
                earliest = min(earliest, start)
        if not num_legal:
            earliest = 0
        for tile in range(tables.num_tiles):
            if starts[tile] != ILLEGAL:
                _observe_tile(
                    tables, board, node, tile, starts, earliest, episodes.bound[game],
                    episodes.anchor[game], seen.tiles[game, tile],
                )  # fmt: skip
        _observe_nodes(
            tables, board, pack, k, node, earliest, episodes.bound[game], episodes.anchor[game],
            seen.nodes[game],
        )  # fmt: skip
        _observe_state(
            tables, board, pack, k, node, earliest, num_legal, episodes.step[game],
            episodes.bound[game], seen.state[game],
        )  # fmt: skip


@hot
def _clipped(value: float) -> float:
    return min(max(value, -CLIP), CLIP)


@hot
def _observe_tile(
    tables: Tables,
    board: Board,
    node: int,
    tile: int,
    starts: IntArray,
    earliest: int,
    bound: int,
    anchor: int,
    out: FloatArray,
) -> None:
    start = starts[tile]
    own = start + tables.tail[node] - bound
    meeting = _meeting(tables, board, node, tile, start) - bound
    farthest, is_near = 0, 0
    arrival = 0
    for e in range(tables.pred_first[node], tables.pred_first[node + 1]):
        other = tables.pred[e]
        if board.tile[other] != ILLEGAL:
            hop = abs(board.tile[other] - tile)
            farthest = max(farthest, hop)
            is_near |= hop == 0
            arrival = max(arrival, board.start[other] + tables.depth + hop)
    partners, hops = 0, 0
    for e in range(tables.succ_first[node], tables.succ_first[node + 1]):
        child = tables.succ[e]
        for f in range(tables.pred_first[child], tables.pred_first[child + 1]):
            other = tables.pred[f]
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
    out[4] = _clipped(meeting / 8) if meeting > -bound else -CLIP
    out[5] = _clipped(max(meeting, 0) / 2)
    out[6] = board.free[tile] / tables.ii
    out[7] = board.free[tile] == tables.ii
    out[8] = _clipped((tile - anchor) / 8)
    out[9] = _clipped(abs(tile - anchor) / 8)
    out[10] = _clipped(farthest / 4)
    out[11] = is_near
    out[12] = _clipped(hops / (4.0 * partners)) if partners else 0.0
    out[13] = _clipped(better / 4)
    out[14] = _clipped(min(tile, tables.num_tiles - 1 - tile) / 8)


@hot
def _observe_nodes(
    tables: Tables,
    board: Board,
    pack: Pack,
    k: int,
    node: int,
    earliest: int,
    bound: int,
    anchor: int,
    out: FloatArray,
) -> None:
    for other in range(pack.num_nodes[k]):
        if board.tile[other] != ILLEGAL:
            out[other, 0] = 1.0
            out[other, 1] = _clipped((board.tile[other] - anchor) / 8)
            out[other, 2] = _clipped((board.start[other] + tables.tail[other] - bound) / 8)
            out[other, 3] = _clipped((board.start[other] - earliest) / 8)
        else:
            out[other, 2] = _clipped((pack.head[k, other] + tables.tail[other] - bound) / 8)
    for e in range(tables.pred_first[node], tables.pred_first[node + 1]):
        parent = tables.pred[e]
        out[parent, 4] = 1.0
        for f in range(tables.succ_first[parent], tables.succ_first[parent + 1]):
            out[tables.succ[f], 5] = 1.0
    for e in range(tables.succ_first[node], tables.succ_first[node + 1]):
        child = tables.succ[e]
        for f in range(tables.pred_first[child], tables.pred_first[child + 1]):
            out[tables.pred[f], 6] = 1.0


@hot
def _observe_state(
    tables: Tables,
    board: Board,
    pack: Pack,
    k: int,
    node: int,
    earliest: int,
    num_legal: int,
    step: int,
    bound: int,
    out: FloatArray,
) -> None:
    cluster = tables.cluster[node]
    rivals = 0
    for r in range(tables.rival_first[cluster], tables.rival_first[cluster + 1]):
        rivals += board.cluster_tile[tables.rival[r]] == ILLEGAL
    out[0] = _clipped((bound - pack.bound[k]) / 8)
    out[1] = 1.0 - step / pack.num_nodes[k]
    out[2] = _clipped((pack.num_nodes[k] - step) / 16)
    out[3] = _clipped(num_legal / 16)
    out[4] = _clipped((earliest + tables.tail[node] - bound) / 8)
    out[5] = _clipped(rivals / 8)
    out[6] = _clipped(tables.ii / 8)
    out[7] = _clipped(tables.tail[node] / 16)
