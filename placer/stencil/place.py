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
from placer.stencil.pyramid import FloatArray
from placer.stencil.wires import anneal_wires, board_of, distances, graph_of, wire_cost

BLOCK_PES = (9, 16, 30, 60, 120)  # sizes of folded blocks
MOVES_PER_NODE = 4  # in a round of annealing
FIRST_ROUNDS = 16  # of the first anneal; the next ones take twice as many each
HOT, COLD = 0.5, 0.005  # temperatures, in average costs of a wire
WARM = 0.12  # of the anneals after the first
REACH = 6  # from the middle of the neighbours, at the start


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where every node is, and what the wires cost."""

    places: IntArray  # [nodes, 2]
    cost: float  # S


def layouts(dimension: int) -> list[Layout]:
    """All ways to lay out that are tried: axes of the volume, and ways along it in their place.

    Axis 3 + a is the distance along wires from the far end of axis a. It unrolls what is bent.
    """
    found = []
    for across, along in permutations(range(dimension), 2):
        folded = 3 - across - along
        for pes in BLOCK_PES if dimension == 3 else (1,):
            found.append(Layout(across, along, folded, pes, 1.0))
            if dimension == 3:
                found.append(Layout(across, 3 + along, folded, pes, 1.0))
                found.append(Layout(3 + across, along, folded, pes, 1.0))
    return found


def best_layout(netlist: Netlist, fabric: tuple[int, int]) -> Placed:
    """Try the axes at one size of block, then all sizes for the best axes."""
    if netlist.num_nodes == 0:
        return Placed(np.zeros((0, 2), np.int32), 0.0)
    axes = _axes(netlist)
    options = layouts(netlist.dimension)
    middle = BLOCK_PES[2] if netlist.dimension == 3 else 1
    tried = {
        option: _place(netlist, axes, fabric, option)
        for option in options
        if option.block_pes == middle
    }
    best = min(tried, key=lambda option: tried[option].cost)
    for option in options:
        if option not in tried and option[:2] == best[:2]:
            tried[option] = _place(netlist, axes, fabric, option)
    return min(tried.values(), key=lambda placed: placed.cost)


def _axes(netlist: Netlist) -> FloatArray:
    """Coordinates [nodes, 6] of the nodes: x, y, z and the ways along these axes."""
    axes = np.zeros((netlist.num_nodes, 6))
    axes[:, :3] = netlist.position
    if netlist.dimension == 3:
        graph = graph_of(netlist.wires, netlist.num_nodes)
        queue, distance = np.zeros(netlist.num_nodes, np.int32), np.zeros(netlist.num_nodes)
        for axis in range(3):
            far = distances(graph, int(np.argmin(axes[:, axis])), queue, distance)
            distances(graph, far, queue, distance)
            axes[:, 3 + axis] = distance
    return axes


def _place(netlist: Netlist, axes: FloatArray, fabric: tuple[int, int], layout: Layout) -> Placed:
    places = lay_out(axes, fabric, layout)
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
