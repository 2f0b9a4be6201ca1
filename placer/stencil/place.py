"""Places for tiles and adapters: the best of many layouts, then annealing while wires bind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from placer.annealing.random import rng_state
from placer.stencil.bisect import Layout, lay_out
from placer.stencil.leaves import Netlist
from placer.stencil.problem import IntArray, Solution
from placer.stencil.wires import anneal_wires, board_of, graph_of, wire_cost

BLOCK_PES = (9, 16, 30, 60)  # sizes of folded blocks
MOVES_PER_NODE = 4  # in a round of annealing
FIRST_ROUNDS = 16  # of the first anneal; the next ones take twice as many each
HOT, COLD = 4.0, 0.02  # temperatures, in average costs of a wire
WARM = 0.3  # of the anneals after the first
REACH = 3  # from the middle of the neighbours, at the start


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where every node is, and what the wires cost."""

    places: IntArray  # [nodes, 2]
    cost: float  # S


def layouts(dimension: int) -> list[Layout]:
    """All ways to lay out that are tried."""
    return [
        Layout(across, along, 3 - across - along, pes)
        for across, along in permutations(range(dimension), 2)
        for pes in (BLOCK_PES if dimension == 3 else (1,))
    ]


def best_layout(netlist: Netlist, fabric: tuple[int, int]) -> Placed:
    """Try the axes at one size of block, then all sizes for the best axes."""
    if netlist.num_nodes == 0:
        return Placed(np.zeros((0, 2), np.int32), 0.0)
    options = layouts(netlist.dimension)
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
    return Placed(places, wire_cost(netlist.wires, places))


def refine(netlist: Netlist, fabric: tuple[int, int], start: Placed, seed: int) -> Iterator[Placed]:
    """Anneal for ever, round after round; each yields the best so far.

    The first anneal is short; each later one is warm, starts from the last result and takes twice
    the rounds.
    """
    graph, board = graph_of(netlist.wires, netlist.num_nodes), board_of(start.places, fabric)
    rng = rng_state(seed)
    best, cost = start, start.cost
    rounds, hot = FIRST_ROUNDS, HOT
    while len(netlist.wires):
        average = cost / len(netlist.wires)
        for number in range(rounds):
            share = number / (rounds - 1)
            temperature = average * hot * (COLD / hot) ** share
            reach = max(1, round(REACH * (1 - share)))
            moves = MOVES_PER_NODE * netlist.num_nodes
            cost += anneal_wires(graph, board, rng, moves, temperature, reach)
            if cost < best.cost:
                best = Placed(board.places.copy(), cost)
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
