"""Places for tiles and adapters: the best of many layouts, then annealing while wires bind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from placer.annealing.random import rng_state
from placer.stencil.bisect import Layout, lay_out, spread
from placer.stencil.leaves import Netlist
from placer.stencil.problem import IntArray, Solution
from placer.stencil.wires import Graph, anneal_wires, board_of, graph_of, smooth, wire_cost

BLOCK_PES = (9, 16, 30, 60)  # sizes of folded blocks
MAX_SMOOTHINGS = 16
SMOOTHING_SWEEPS = 16
LEAST_SMOOTHING = 0.003  # share of the cost that a round of smoothing must gain
MOVES_PER_NODE = 1  # in a round of annealing
FIRST_ROUNDS = 64  # of the first anneal; the next ones take twice as many each
HOT, COLD = 1.0, 0.02  # temperatures, in average costs of a wire
WARM = 0.3  # of the anneals after the first
REACH = 3  # from the middle of the neighbours, at the start


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where every node is, and what the wires cost."""

    places: IntArray  # [nodes, 2]
    cost: float  # S
    fabric: tuple[int, int]  # the part of it that is used at first
    layout: Layout


def layouts(dimension: int) -> list[Layout]:
    """All ways to lay out that are tried."""
    return [
        Layout(across, along, 3 - across - along, pes)
        for across, along in permutations(range(dimension), 2)
        for pes in (BLOCK_PES if dimension == 3 else (1,))
    ]


def best_layout(netlist: Netlist, fabric: tuple[int, int]) -> Placed:
    """Try the axes at one size of block, then all sizes for the best axes."""
    options = layouts(netlist.dimension)
    if netlist.num_nodes == 0:
        return Placed(np.zeros((0, 2), np.int32), 0.0, fabric, options[0])
    middle = BLOCK_PES[1] if netlist.dimension == 3 else 1
    tried = {
        option: _place(netlist, fabric, option) for option in options if option.block_pes == middle
    }
    best = min(tried, key=lambda option: tried[option].cost)
    for option in options:
        if option not in tried and option.folded == best.folded and option.across == best.across:
            tried[option] = _place(netlist, fabric, option)
    return min(tried.values(), key=lambda placed: placed.cost)


def _place(netlist: Netlist, fabric: tuple[int, int], layout: Layout) -> Placed:
    places = lay_out(netlist.position, fabric, layout)
    return Placed(places, wire_cost(netlist.wires, places), fabric, layout)


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


def _annealed(
    netlist: Netlist, graph: Graph, fabric: tuple[int, int], start: Placed, seed: int
) -> Iterator[Placed]:
    """The first anneal is short; each later one is warm, starts from the last result and takes
    twice the rounds.
    """
    board, rng = board_of(start.places, fabric), rng_state(seed)
    best, cost = start, start.cost
    rounds, hot = FIRST_ROUNDS, HOT
    while True:
        average = cost / len(netlist.wires)
        for number in range(rounds):
            share = number / (rounds - 1)
            temperature = average * hot * (COLD / hot) ** share
            reach = max(1, round(REACH * (1 - share)))
            moves = MOVES_PER_NODE * netlist.num_nodes
            cost += anneal_wires(graph, board, rng, moves, temperature, reach)
            if cost < best.cost:
                best = replace(start, places=board.places.copy(), cost=cost)
            yield best
        rounds, hot = 2 * rounds, WARM


def solution_of(netlist: Netlist, placed: Placed) -> Solution:
    """The solution with these places; each connection of an adapter repeats its place."""
    fan = 2 ** (netlist.dimension - 1)
    tiles, adapters = placed.places[: netlist.num_tiles], placed.places[netlist.num_tiles :]
    return Solution(
        netlist.dimension,
        netlist.sampling,
        netlist.prisms,
        np.ascontiguousarray(tiles),
        np.repeat(adapters, fan, axis=0),
    )
