"""The annealing loop, and the protocol of a move that every compiled cost model follows.

A move is a transaction. What it works on: a `Board` (fixed), a `State` (who sits where, and how the
flows turn), a `Change` (the move under way) and a *pricer*: the named tuple in which a cost model
keeps what it knows of the state. `pricer.level` [2] holds the energy, or a number that rises with
it, of the state and of the last change that was priced. One turn of the loop:

1. `propose` (moves.py) draws a move and lists in the change which units would go where, or says why
   the move cannot be done. Nothing else has changed yet.
2. `apply` (moves.py) writes sites and turns to the state, and lists the flows that need new routes.
3. `price` routes these flows, brings the pricer up to the new state, and says whether the energy
   rises by at most `rise`, which Metropolis allows. It may stop half-way once that is exceeded.
4. Then exactly one of two follows:
   - `commit`: the pricer makes the change its own and returns the energy; `reseat` (moves.py) makes
     it final in the state;
   - `revert`: the pricer is as before `price`, to the bit; `undo` (moves.py) does it to the state.

The expert's rules (pressure.py) and the learned model (costmodel/inference) bring `price`, `commit`
and `revert` for their pricers. Other cost models score whole decisions: `BatchedSearch` proposes
several moves from one state, routes and scores them at once, and decides them in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from placer.annealing.board import Board, State, board_of, state_of
from placer.annealing.moves import LEGAL, Change, Refusal, apply, empty_change, propose, reseat, undo
from placer.base import BoolArray, FloatArray, IntArray, LongArray, RngState, generic, hot, rng_state, uniform
from placer.decision.routing import copy_entries
from placer.fabric import Fabric
from placer.netlist import Netlist

_COST = int(Refusal.COST)


@dataclass(frozen=True, slots=True)
class Start:
    """Where a walk begins."""

    sites: IntArray  # [num_units] legal
    flow_class: IntArray  # [num_flows] 0: XY, 1: YX
    is_allowed: BoolArray  # [num_units, num_sites] the user's constraints


class Walk(NamedTuple):
    """A walk through placements: where it is, how it draws moves, and the best it has seen."""

    board: Board
    state: State
    change: Change
    rng: RngState
    mix: FloatArray  # [num kinds] cumulated shares of the kinds of moves
    best_level: FloatArray  # [1]
    best_sites: IntArray  # [num_units]
    best_class: IntArray  # [num_flows]


def begin_walk(fabric: Fabric, netlist: Netlist, start: Start, mix: FloatArray, seed: int) -> Walk:
    """Return a walk that stands at its start."""
    board = board_of(fabric, netlist, start.is_allowed)
    return Walk(
        board=board,
        state=state_of(board, start.sites, start.flow_class),
        change=empty_change(netlist.num_units, fabric.topology.num_sites, netlist.num_flows),
        rng=rng_state(seed),
        mix=mix,
        best_level=np.full(1, np.inf),
        best_sites=start.sites.copy(),
        best_class=start.flow_class.copy(),
    )


@hot
def pick_move(rng: RngState, mix: FloatArray) -> int:
    """Draw a kind of move; `mix` holds cumulated shares."""
    draw, move = uniform(rng), 0
    while draw >= mix[move]:
        move += 1
    return move


@hot
def note_best(walk: Walk, level: float) -> None:
    """Remember the state if it is the best so far."""
    if level < walk.best_level[0]:
        walk.best_level[0] = level
        copy_entries(walk.state.sites, 0, walk.best_sites, 0, len(walk.best_sites))
        copy_entries(walk.state.flow_class, 0, walk.best_class, 0, len(walk.best_class))


@generic
def anneal_moves(
    price: Callable[..., bool],
    commit: Callable[..., float],
    revert: Callable[..., None],
    pricer: Any,
    walk: Walk,
    num_moves: int,
    temperature: float,
    reach: int,
    accepted: LongArray,
    refused: LongArray,
    spread: FloatArray,
) -> None:
    """Try moves at one temperature.

    `accepted` [num kinds] and `refused` [num kinds, num reasons] count on; `spread` [2] sums the
    energies after each move and their squares; the best state so far is kept up to date.
    """
    board, state, change, rng = walk.board, walk.state, walk.change, walk.rng
    for _ in range(num_moves):
        move = pick_move(rng, walk.mix)
        reason = propose(board, state, change, rng, move, reach)
        if reason != LEGAL:
            refused[move, reason] += 1
            continue
        rise = -temperature * math.log(1.0 - uniform(rng))  # Metropolis
        apply(board, state, change)
        if not price(pricer, board, state, change, rise):
            revert(pricer, board, change)
            undo(state, change)
            refused[move, _COST] += 1
            continue
        energy = commit(pricer, change)
        reseat(board, state, change)
        accepted[move] += 1
        spread[0] += energy
        spread[1] += energy * energy
        note_best(walk, pricer.level[0])
