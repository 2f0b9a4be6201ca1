"""The inner loop of the annealer for the heuristic: no Python work between moves."""

from __future__ import annotations

import math

from placer.annealing.board import Board, State
from placer.annealing.moves import LEGAL, Change, Refusal, propose, reseat
from placer.annealing.pressure import FloatArray, Pressure
from placer.annealing.pricing import keep, price, take_back
from placer.annealing.random import RngState, uniform
from placer.heuristic import Tables
from placer.hot import hot, hot_loop
from placer.routing.arrays import IntArray, LongArray
from placer.routing.trees import copy_entries

_COST = int(Refusal.COST)


@hot
def pick_move(rng: RngState, mix: FloatArray) -> int:
    """A kind of move; `mix` holds cumulated shares."""
    draw, move = uniform(rng), 0
    while draw >= mix[move]:
        move += 1
    return move


@hot_loop
def anneal_moves(
    board: Board,
    tables: Tables,
    state: State,
    pressure: Pressure,
    change: Change,
    rng: RngState,
    mix: FloatArray,
    num_moves: int,
    temperature: float,
    reach: int,
    best_total: FloatArray,
    best_sites: IntArray,
    best_class: IntArray,
    accepted: LongArray,
    refused: LongArray,
    spread: FloatArray,
) -> None:
    """Try moves at one temperature.

    `accepted` [num kinds] and `refused` [num kinds, num reasons] count on; `spread` [2] sums the
    energies after each move and their squares; the best state so far is kept up to date.
    """
    exponent = float(1 << tables.doublings)
    for _ in range(num_moves):
        move = pick_move(rng, mix)
        reason = propose(board, state, change, rng, move, reach)
        if reason != LEGAL:
            refused[move, reason] += 1
            continue
        # Metropolis: the energy is log(total) / exponent.
        rise = -exponent * temperature * math.log(1.0 - uniform(rng))
        allowed = pressure.total[0] * math.expm1(rise)
        growth = price(board, tables, state, pressure, change, allowed)
        if growth > allowed:
            take_back(board, tables, state, pressure, change)
            refused[move, _COST] += 1
            continue
        keep(tables, pressure, growth)
        reseat(board, state, change)
        accepted[move] += 1
        energy = math.log(pressure.total[0]) / exponent
        spread[0] += energy
        spread[1] += energy * energy
        if pressure.total[0] < best_total[0]:
            best_total[0] = pressure.total[0]
            copy_entries(state.sites, 0, best_sites, 0, len(best_sites))
            copy_entries(state.flow_class, 0, best_class, 0, len(best_class))
