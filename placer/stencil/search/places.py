"""Places for tiles and adapters: a layout first, then shorter wires, round after round.

For the layout, volume and fabric are halved together until a block of the fabric holds a column.
Nodes are split at a quantile of one coordinate whenever the fabric rectangle is cut across; two
axes of the volume so become the two axes of the fabric. The third is folded: the nodes of a final
block, ordered by it, fill the block row by row, to and fro.

Wires are then shortened by smoothing, over long distances, and by annealing: nodes swap places,
with exact differences of the sum of 2 L^1.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from placer.base import FloatArray, IntArray, LongArray, RngState, below, hot, hot_loop, rng_state, uniform
from placer.stencil.model import Solution
from placer.stencil.search.netlist import Netlist

MIDDLE_PES = 16  # size of folded blocks at which the axes are chosen
OTHER_PES = (9, 30, 60)  # sizes that are tried then
MAX_SMOOTHINGS = 16
SMOOTHING_SWEEPS = 16
LEAST_SMOOTHING = 0.003  # share of the cost that a round of smoothing must gain
FIRST_ROUNDS = 64  # of the first anneal; the next ones take twice as many each
HOT, COLD = 1.0, 0.02  # temperatures, in average costs of a wire
WARM = 0.3  # of the anneals after the first
REACH = 3  # from the middle of the neighbours, at the start
FREE = -1  # on the board: no node there


class Layout(NamedTuple):
    """One way to lay the volume out."""

    across: int  # axis of the volume that becomes fabric x
    along: int  # axis that becomes fabric y
    folded: int  # axis that is folded inside blocks
    block_pes: int  # rectangles of at most this many PEs are blocks


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where every node is, and what the wires cost."""

    places: IntArray  # [nodes, 2]
    cost: float  # S
    fabric: tuple[int, int]  # the part of it that is used at first
    layout: Layout


def best_layout(netlist: Netlist, fabric: tuple[int, int]) -> Placed:
    """Try the axes at one size of block, then all sizes for the best axes."""
    is_flat = netlist.dimension == 2
    axes = [(a, b, 3 - a - b) for a, b in permutations(range(netlist.dimension), 2)]
    first = [Layout(*axis, 1 if is_flat else MIDDLE_PES) for axis in axes]
    if netlist.num_nodes == 0:
        return Placed(np.zeros((0, 2), np.int32), 0.0, fabric, first[0])
    cost = attrgetter("cost")
    best = min((_place(netlist, fabric, layout) for layout in first), key=cost)
    others = [best.layout._replace(block_pes=pes) for pes in (() if is_flat else OTHER_PES)]
    return min([best, *(_place(netlist, fabric, layout) for layout in others)], key=cost)


def _place(netlist: Netlist, fabric: tuple[int, int], layout: Layout) -> Placed:
    """Give every node a place by its position in the volume."""
    scale = np.maximum(np.ptp(netlist.position, axis=0), 1e-9)
    unit = (netlist.position - netlist.position.min(axis=0)) / scale
    # Ties along the cut axis are broken by the others, so that cuts through a layer stay straight.
    a, b, c = unit[:, layout.across], unit[:, layout.along], unit[:, layout.folded]
    keys = np.stack([a + 1e-5 * b + 1e-9 * c, b + 1e-5 * a + 1e-9 * c, c], axis=0)
    places = spread(keys, fabric, layout.block_pes)
    return Placed(places, wire_cost(netlist.wires, places), fabric, layout)


def wire_cost(wires: IntArray, places: IntArray) -> float:
    """Return S: the sum over wires of 2 L^1.5, with L the Manhattan distance."""
    lengths = np.abs(places[wires[:, 0]] - places[wires[:, 1]]).sum(axis=1)
    return float(2.0 * (np.bincount(lengths) * np.arange(lengths.max(initial=0) + 1) ** 1.5).sum())


def solution_of(netlist: Netlist, placed: Placed) -> Solution:
    """Return the solution with these places; each connection of an adapter repeats its place."""
    tiles, adapters = np.split(placed.places, [netlist.num_tiles])
    fan = 2 ** (netlist.dimension - 1)
    return Solution(netlist.dimension, netlist.sampling, netlist.prisms, tiles, np.repeat(adapters, fan, axis=0))


def spread(keys: FloatArray, fabric: tuple[int, int], block_pes: int) -> IntArray:
    """Return a place [nodes, 2] for every node, all different, in the order of `keys` [3, nodes].

    The first two keys become the axes of the fabric, the third is folded inside blocks.
    """
    num = keys.shape[1]
    places = np.zeros((num, 2), np.int32)
    bisect(keys, np.arange(num, dtype=np.int32), 0, num, 0, 0, *fabric, block_pes, places)
    return places


@hot_loop
def bisect(
    keys: FloatArray, order: IntArray, first: int, last: int,
    x: int, y: int, w: int, h: int, block_pes: int, places: IntArray,
) -> None:  # fmt: skip
    """Halve nodes and rectangle until it is a small block; fill that row by row, to and fro."""
    count = last - first
    if count == 0:
        return
    if w * h <= block_pes or count == 1:
        _sort(keys[2], order, first, last)
        for k in range(count):
            row, column = k // w, k % w
            places[order[first + k], 0] = x + (column if row % 2 == 0 else w - 1 - column)
            places[order[first + k], 1] = y + row
        return
    cuts_x = h == 1 or (w > 1 and w > h)
    size, other = (w, h) if cuts_x else (h, w)
    half = size // 2
    low = (count * half + size // 2) // size
    middle = first + max(count - (size - half) * other, min(low, half * other))
    select(keys[0 if cuts_x else 1], order, first, last - 1, middle)
    if cuts_x:
        bisect(keys, order, first, middle, x, y, half, h, block_pes, places)
        bisect(keys, order, middle, last, x + half, y, w - half, h, block_pes, places)
    else:
        bisect(keys, order, first, middle, x, y, w, half, block_pes, places)
        bisect(keys, order, middle, last, x, y + half, w, h - half, block_pes, places)


@hot_loop
def _sort(key: FloatArray, order: IntArray, first: int, last: int) -> None:
    """Sort by insertion: blocks are small."""
    for k in range(first + 1, last):
        node = order[k]
        at = k
        while at > first and key[order[at - 1]] > key[node]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = node


@hot_loop
def select(key: FloatArray, order: IntArray, low: int, high: int, nth: int) -> None:
    """Reorder order[low .. high] so that what stands before `nth` is not above what follows."""
    while low < high:
        pivot = key[order[(low + high) // 2]]
        i, j = low, high
        while i <= j:
            while key[order[i]] < pivot:
                i += 1
            while key[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if nth <= j:
            high = j
        elif nth >= i:
            low = i
        else:
            return


def refine(netlist: Netlist, fabric: tuple[int, int], start: Placed, seed: int) -> Iterator[Placed]:
    """Shorten wires for ever, round after round; each yields the best so far."""
    if not len(netlist.wires):
        return
    graph = graph_of(netlist.wires, netlist.num_nodes)
    for placed in _smoothed(netlist, graph, start):
        yield placed
        start = placed
    yield from _annealed(netlist, graph, fabric, start, seed)


def _smoothed(netlist: Netlist, graph: Graph, start: Placed) -> Iterator[Placed]:
    """Pull nodes to their neighbours, then spread them over the fabric again in the same order.

    A layout along axes of the volume tears bent shapes apart; this mends it over long distances,
    where annealing is slow. Ends when a round no longer pays.
    """
    folded = netlist.position[:, start.layout.folded]
    places = start.places
    for _ in range(MAX_SMOOTHINGS):
        position = places.astype(np.float64)
        smooth(graph, position, SMOOTHING_SWEEPS)
        x, y = position[:, 0], position[:, 1]
        keys = np.stack([x + 1e-6 * y, y + 1e-6 * x, folded])
        places = spread(keys, start.fabric, start.layout.block_pes)
        cost = wire_cost(netlist.wires, places)
        if cost >= start.cost * (1 - LEAST_SMOOTHING):
            return
        start = replace(start, places=places, cost=cost)
        yield start


def _annealed(netlist: Netlist, graph: Graph, fabric: tuple[int, int], start: Placed, seed: int) -> Iterator[Placed]:
    """Anneal a short time, then again and again, warm and with twice the rounds each."""
    board, rng = board_of(start.places, fabric), rng_state(seed)
    best, cost = start, start.cost
    rounds, hot = FIRST_ROUNDS, HOT
    while True:
        average = cost / len(netlist.wires)
        for number in range(rounds):
            share = number / (rounds - 1)
            temperature = average * hot * (COLD / hot) ** share
            reach = max(1, round(REACH * (1 - share)))
            cost += anneal_wires(graph, board, rng, netlist.num_nodes, temperature, reach)
            if cost < best.cost:
                best = replace(start, places=board.places.copy(), cost=cost)
            yield best
        rounds, hot = 2 * rounds, WARM


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
    """Return the graph in which both ends of every wire know the other."""
    ends = np.concatenate([wires[:, 0], wires[:, 1]])
    others = np.concatenate([wires[:, 1], wires[:, 0]])
    order = np.argsort(ends, kind="stable")
    start = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(ends, minlength=num_nodes), out=start[1:])
    return Graph(start, others[order])


def board_of(places: IntArray, fabric: tuple[int, int]) -> Board:
    """Return the board with these places (copied)."""
    nodes = np.full((fabric[1], fabric[0]), FREE, np.int32)
    nodes[places[:, 1], places[:, 0]] = np.arange(len(places), dtype=np.int32)
    costs = (2.0 * np.arange(fabric[0] + fabric[1]) ** 1.5).astype(np.float64)
    return Board(places.copy(), nodes, costs)


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
    """Return the cost of the wires of a node at (x, y), without that to the node `but`."""
    total = 0.0
    for k in range(graph.start[node], graph.start[node + 1]):
        other = graph.other[k]
        if other != but:
            total += board.costs[abs(board.places[other, 0] - x) + abs(board.places[other, 1] - y)]
    return total


@hot_loop
def anneal_wires(graph: Graph, board: Board, rng: RngState, num_moves: int, temperature: float, reach: int) -> float:
    """Try swaps at one temperature; return the change of S.

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
