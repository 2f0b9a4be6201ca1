"""Shorter wires by annealing: nodes swap places, with exact differences of the sum of 2 L^1.5."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from placer.annealing.random import RngState, below, uniform
from placer.hot import hot, hot_loop
from placer.stencil.problem import IntArray, LongArray
from placer.stencil.pyramid import FloatArray

FREE = -1  # on the board: no node there


class Graph(NamedTuple):
    """Neighbours of every node."""

    start: LongArray  # [nodes + 1]
    other: IntArray  # [2 * wires]


class Board(NamedTuple):
    """Where the nodes are."""

    places: IntArray  # [nodes, 2]
    nodes: IntArray  # [height, width]: node at the place, or FREE
    costs: FloatArray  # [width + height]: 2 L^1.5


def graph_of(wires: IntArray, num_nodes: int) -> Graph:
    """Both ends of every wire know the other."""
    ends = np.concatenate([wires[:, 0], wires[:, 1]])
    others = np.concatenate([wires[:, 1], wires[:, 0]])
    order = np.argsort(ends, kind="stable")
    start = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(ends, minlength=num_nodes), out=start[1:])
    return Graph(start, others[order])


def board_of(places: IntArray, fabric: tuple[int, int]) -> Board:
    """The board with these places (copied)."""
    nodes = np.full((fabric[1], fabric[0]), FREE, np.int32)
    nodes[places[:, 1], places[:, 0]] = np.arange(len(places), dtype=np.int32)
    costs = (2.0 * np.arange(fabric[0] + fabric[1]) ** 1.5).astype(np.float64)
    return Board(places.copy(), nodes, costs)


def wire_cost(wires: IntArray, places: IntArray) -> float:
    """S: sum over wires of 2 L^1.5, with L the Manhattan distance."""
    lengths = np.abs(places[wires[:, 0]] - places[wires[:, 1]]).sum(axis=1)
    return float(2.0 * (np.bincount(lengths) * np.arange(lengths.max(initial=0) + 1) ** 1.5).sum())


@hot_loop
def smooth(graph: Graph, position: FloatArray, sweeps: int) -> None:
    """Move every node half way to the middle of its neighbours, again and again.

    `position` is [nodes, 2]. Nodes see the new positions of those before them (Gauss-Seidel).
    """
    for _ in range(sweeps):
        for node in range(position.shape[0]):
            degree = graph.start[node + 1] - graph.start[node]
            if degree == 0:
                continue
            x, y = 0.0, 0.0
            for k in range(graph.start[node], graph.start[node + 1]):
                x += position[graph.other[k], 0]
                y += position[graph.other[k], 1]
            position[node, 0] = 0.5 * (position[node, 0] + x / degree)
            position[node, 1] = 0.5 * (position[node, 1] + y / degree)


@hot
def _node_cost(graph: Graph, board: Board, node: int, x: int, y: int, but: int) -> float:
    """Cost of the wires of a node if it were at (x, y), without that to the node `but`."""
    total = 0.0
    for k in range(graph.start[node], graph.start[node + 1]):
        other = graph.other[k]
        if other != but:
            total += board.costs[abs(board.places[other, 0] - x) + abs(board.places[other, 1] - y)]
    return total


@hot_loop
def anneal_wires(
    graph: Graph,
    board: Board,
    rng: RngState,
    num_moves: int,
    temperature: float,
    reach: int,
) -> float:
    """Try swaps at one temperature; returns the change of S.

    A node is sent near one of its neighbours or near their middle, at most `reach` away from it.
    """
    num_nodes = board.places.shape[0]
    height, width = board.nodes.shape
    change = 0.0
    for _ in range(num_moves):
        node = below(rng, num_nodes)
        degree = graph.start[node + 1] - graph.start[node]
        if degree == 0:
            continue
        x, y = board.places[node, 0], board.places[node, 1]
        tx, ty = 0, 0
        for k in range(graph.start[node], graph.start[node + 1]):
            tx += board.places[graph.other[k], 0]
            ty += board.places[graph.other[k], 1]
        tx = tx // degree - reach + below(rng, 2 * reach + 1)
        ty = ty // degree - reach + below(rng, 2 * reach + 1)
        tx = min(max(tx, 0), width - 1)
        ty = min(max(ty, 0), height - 1)
        there = board.nodes[ty, tx]
        if there == node:
            continue
        delta = _node_cost(graph, board, node, tx, ty, there)
        delta -= _node_cost(graph, board, node, x, y, there)
        if there != FREE:
            delta += _node_cost(graph, board, there, x, y, node)
            delta -= _node_cost(graph, board, there, tx, ty, node)
        if delta > 0.0 and (temperature <= 0.0 or uniform(rng) >= math.exp(-delta / temperature)):
            continue
        board.nodes[y, x] = there
        board.nodes[ty, tx] = node
        board.places[node, 0], board.places[node, 1] = tx, ty
        if there != FREE:
            board.places[there, 0], board.places[there, 1] = x, y
        change += delta
    return change
