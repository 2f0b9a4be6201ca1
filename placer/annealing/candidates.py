"""Candidate moves for cost models that score whole decisions."""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.annealing.board import Board, State, seat, unseat
from placer.annealing.compiled import pick_move
from placer.annealing.moves import LEGAL, Change, apply, propose, undo
from placer.annealing.pressure import FloatArray
from placer.annealing.random import RngState
from placer.routing.arrays import IntArray, LongArray


@njit(cache=True)
def propose_candidates(
    board: Board,
    state: State,
    change: Change,
    rng: RngState,
    mix: FloatArray,
    num_moves: int,
    reach: int,
    refused: LongArray,
) -> tuple[IntArray, IntArray, IntArray]:
    """Try `num_moves` moves from one state.

    Kinds [n], sites [n, num_units] and turn classes [n, num_flows] after each of the n legal ones;
    the others are counted in `refused`.
    """
    kinds = np.zeros(num_moves, np.int32)
    sites = np.zeros((num_moves, len(state.sites)), np.int32)
    flow_class = np.zeros((num_moves, len(state.flow_class)), np.int32)
    number = 0
    for _ in range(num_moves):
        move = pick_move(rng, mix)
        reason = propose(board, state, change, rng, move, reach)
        if reason != LEGAL:
            refused[move, reason] += 1
            continue
        apply(state, change)
        kinds[number] = move
        sites[number], flow_class[number] = state.sites, state.flow_class
        undo(state, change)
        number += 1
    return kinds[:number], sites[:number], flow_class[:number]


@njit(cache=True)
def take_candidate(board: Board, state: State, sites: IntArray, flow_class: IntArray) -> None:
    """Go to a candidate."""
    for unit in range(len(sites)):
        if sites[unit] != state.sites[unit]:
            unseat(board, state, unit, state.sites[unit])
    for unit in range(len(sites)):
        if sites[unit] != state.sites[unit]:
            seat(board, state, unit, sites[unit])
            state.sites[unit] = sites[unit]
    state.flow_class[:] = flow_class
