"""What a policy sees of the mapping game: features of tiles, instructions and the whole state."""

from __future__ import annotations

from typing import NamedTuple

from placer.hot import hot, hot_loop
from placer.streaming.board import ILLEGAL, Board, start_at
from placer.streaming.bounds import UNLIMITED, IntArray
from placer.streaming.problem import Tables
from placer.streaming.rl.game import (
    BoolArray,
    Episodes,
    FloatArray,
    estimate_start,
    meeting_bound,
)
from placer.streaming.rl.pack import Pack, board_of, tables_of

TILE_FEATURES = 16
NODE_FEATURES = 7
STATE_FEATURES = 8
CLIP = 4.0  # no feature is farther from 0


class Observation(NamedTuple):
    """What a policy sees of the next instruction of each game."""

    node: IntArray  # [batch]
    mask: BoolArray  # [batch, num_tiles] legal tiles; all False once a game is over
    tiles: FloatArray  # [batch, num_tiles, TILE_FEATURES]
    nodes: FloatArray  # [batch, num_nodes, NODE_FEATURES]
    state: FloatArray  # [batch, STATE_FEATURES]


@hot_loop
def observe_games(
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
                start = estimate_start(tables, pack, k, board, node, tile)
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
            else:
                _observe_illegal(tables, board, tile, episodes.anchor[game], seen.tiles[game, tile])
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
    meeting = meeting_bound(tables, board, node, tile, start) - bound
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
    out[10] = _clipped(farthest / 4)
    out[11] = is_near
    out[12] = _clipped(hops / (4.0 * partners)) if partners else 0.0
    out[13] = _clipped(better / 4)
    _observe_place(tables, board, tile, anchor, out)


@hot
def _observe_place(tables: Tables, board: Board, tile: int, anchor: int, out: FloatArray) -> None:
    """What does not depend on the instruction."""
    out[6] = board.free[tile] / tables.ii
    out[7] = board.free[tile] == tables.ii
    out[8] = _clipped((tile - anchor) / 8)
    out[9] = _clipped(abs(tile - anchor) / 8)
    out[14] = _clipped(min(tile, tables.num_tiles - 1 - tile) / 8)


@hot
def _observe_illegal(tables: Tables, board: Board, tile: int, anchor: int, out: FloatArray) -> None:
    """A tile that must not be chosen: flagged, and as late as can be. A mask hides it anyway."""
    out[0] = CLIP
    out[1] = 1.0
    out[13] = CLIP
    out[15] = 1.0
    _observe_place(tables, board, tile, anchor, out)


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
