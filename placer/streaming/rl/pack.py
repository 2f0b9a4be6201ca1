"""Several problems side by side in padded arrays, for compiled code that steps through them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.hot import hot
from placer.streaming.board import ILLEGAL, Board
from placer.streaming.bounds import IntArray
from placer.streaming.problem import Problem, Tables

STATIC_FEATURES = 9
_LISTS = (
    "pred_first", "pred", "succ_first", "succ", "cluster", "cluster_size", "rival_first", "rival",
    "clique_first", "clique", "tail",
)  # fmt: skip


class Pack(NamedTuple):
    """`Tables` with a leading axis; lists of positions are padded by their last value."""

    num_tiles: IntArray  # [num_problems]
    num_nodes: IntArray
    ii: IntArray
    depth: IntArray
    max_hop: IntArray
    is_exact: NDArray[np.bool_]
    largest_cluster: IntArray
    bound: IntArray
    head: IntArray  # [num_problems, num_nodes]
    pred_first: IntArray
    pred: IntArray
    succ_first: IntArray
    succ: IntArray
    cluster: IntArray
    cluster_size: IntArray
    rival_first: IntArray
    rival: IntArray
    clique_first: IntArray
    clique: IntArray
    tail: IntArray


def pack_problems(problems: Sequence[Problem]) -> Pack:
    columns = {}
    for name in _LISTS:
        rows = [getattr(problem.tables, name) for problem in problems]
        width = max(1, *(len(row) for row in rows))
        padded = np.zeros((len(rows), width), np.int64)
        for k, row in enumerate(rows):
            padded[k, : len(row)] = row
            if name.endswith("first"):
                padded[k, len(row) :] = row[-1]
        columns[name] = padded
    head = np.zeros_like(columns["tail"])
    for k, problem in enumerate(problems):
        head[k, : problem.num_nodes] = problem.bounds.head
    tables = [problem.tables for problem in problems]
    return Pack(
        np.array([t.num_tiles for t in tables]),
        np.array([problem.num_nodes for problem in problems]),
        np.array([t.ii for t in tables]),
        np.array([t.depth for t in tables]),
        np.array([t.max_hop for t in tables]),
        np.array([t.is_exact for t in tables]),
        np.array([t.largest_cluster for t in tables]),
        np.array([problem.bounds.total for problem in problems]),
        head,
        **columns,
    )


@hot
def tables_of(pack: Pack, k: int) -> Tables:
    """Problem number `k`; padding is never reached through the lists."""
    return Tables(
        pack.num_tiles[k], pack.ii[k], pack.depth[k], pack.max_hop[k], pack.is_exact[k],
        pack.largest_cluster[k], pack.pred_first[k], pack.pred[k], pack.succ_first[k],
        pack.succ[k], pack.cluster[k], pack.cluster_size[k], pack.rival_first[k], pack.rival[k],
        pack.clique_first[k], pack.clique[k], pack.tail[k],
    )  # fmt: skip


def make_boards(pack: Pack, num: int) -> Board:
    """`Board` with a leading axis."""
    num_nodes, num_tiles = pack.tail.shape[1], int(pack.num_tiles.max())
    num_clusters = pack.cluster_size.shape[1]
    return Board(
        np.full((num, num_nodes), ILLEGAL),
        np.zeros((num, num_nodes), np.int64),
        np.zeros((num, num_tiles, int(pack.ii.max())), np.int8),
        np.zeros((num, num_tiles), np.int64),
        np.zeros((num, num_clusters, num_tiles), np.int16),
        np.full((num, num_clusters), ILLEGAL),
    )


@hot
def board_of(boards: Board, k: int) -> Board:
    return Board(
        boards.tile[k], boards.start[k], boards.slots[k], boards.free[k], boards.forbidden[k],
        boards.cluster_tile[k],
    )  # fmt: skip


def static_features(problem: Problem) -> NDArray[np.float32]:
    """[num_nodes, STATIC_FEATURES] what is known of each instruction before anything is placed."""
    tables, bounds, program = problem.tables, problem.bounds, problem.program
    in_degree = np.diff(tables.pred_first)
    out_degree = np.diff(tables.succ_first)
    rivals = np.diff(tables.rival_first)[tables.cluster]
    columns = (
        bounds.head / 16,
        bounds.tail / 16,
        (bounds.head + bounds.tail - bounds.total) / 8,
        in_degree / 4,
        np.minimum(out_degree, 16) / 4,
        in_degree == 0,
        out_degree == 0,
        tables.cluster_size[tables.cluster] / tables.ii,
        rivals / 16,
    )
    features = np.stack(columns, axis=1).astype(np.float32)
    assert features.shape == (program.num_nodes, STATIC_FEATURES)
    return features
