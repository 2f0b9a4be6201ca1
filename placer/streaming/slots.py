"""Annealing over (tile, spoke) itself, for comparison: no decoder, broken rules cost cycles."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from placer.annealing.random import RngState, below, rng_state, uniform
from placer.hot import hot, hot_loop
from placer.streaming.annealing import start_mapping
from placer.streaming.board import copy_values
from placer.streaming.bounds import IntArray
from placer.streaming.mapping import Budget, Found, Mapping
from placer.streaming.problem import Problem, Tables

_HOT, _COLD = 3.0, 0.1  # temperatures in cycles
_ROUND = 200_000  # moves from hot to cold
_MOVES_PER_CALL = 2_000
_PENALTY = 6.0  # cycles per broken rule


def anneal_slots(problem: Problem, budget: Budget, seed: int) -> Found:
    """Rounds of annealing from a list schedule; only legal mappings count."""
    start = start_mapping(problem, budget, seed)
    if start is None:
        return Found(None, problem.bounds.total, 0)
    state = np.stack([start.tile, start.spoke, start.start])
    best, cycles = state.copy(), np.array([start.cycles])
    order = np.array(problem.program.order)
    energy = np.array([float(start.cycles)])
    rng, tries, per_call = rng_state(seed), 0, problem.tries_per_call(_MOVES_PER_CALL)
    while cycles[0] > problem.bounds.total and not budget.is_spent(tries):
        temperature = _HOT * (_COLD / _HOT) ** (tries % _ROUND / _ROUND)
        _anneal_moves(
            problem.tables, order, state, best, cycles, energy, rng, temperature, per_call
        )
        tries += per_call
    mapping = Mapping(best[0], best[2], problem.device.ii, problem.device.depth)
    return Found(mapping, problem.bounds.total, tries)


@hot
def _evaluate(tables: Tables, order: IntArray, state: IntArray) -> tuple[int, int]:
    """Fill the starts; cycles and the number of broken rules."""
    tile, spoke, start = state[0], state[1], state[2]
    broken, last = 0, 0
    for k in range(len(order)):
        node = order[k]
        arrival = 0
        for e in range(tables.pred_first[node], tables.pred_first[node + 1]):
            other = tables.pred[e]
            hop = abs(tile[other] - tile[node])
            broken += hop > tables.max_hop
            arrival = max(arrival, start[other] + tables.depth + hop)
        wait = (spoke[node] - arrival) % tables.ii
        start[node] = arrival + wait
        is_source = tables.pred_first[node] == tables.pred_first[node + 1]
        broken += tables.is_exact and wait > 0 and not is_source
        last = max(last, start[node])
        for other in range(node):
            if tile[other] == tile[node]:
                broken += spoke[other] == spoke[node] or _are_rivals(tables, node, other)
    return last + tables.depth, broken


@hot
def _are_rivals(tables: Tables, node: int, other: int) -> bool:
    cluster, wanted = tables.cluster[node], tables.cluster[other]
    for k in range(tables.rival_first[cluster], tables.rival_first[cluster + 1]):
        if tables.rival[k] == wanted:
            return True
    return False


@hot_loop
def _anneal_moves(
    tables: Tables,
    order: IntArray,
    state: IntArray,
    best: IntArray,
    cycles: IntArray,
    energy: NDArray[np.float64],
    rng: RngState,
    temperature: float,
    count: int,
) -> None:
    for _ in range(count):
        node = below(rng, len(order))
        old_tile, old_spoke = state[0, node], state[1, node]
        if below(rng, 2):
            new_tile = old_tile + below(rng, 7) - 3
            if 0 <= new_tile < tables.num_tiles:
                _move(tables, state, node, new_tile)
        state[1, node] = below(rng, tables.ii)
        total, broken = _evaluate(tables, order, state)
        now = total + _PENALTY * broken
        if now - energy[0] > -temperature * math.log(1.0 - uniform(rng)):
            _move(tables, state, node, old_tile)
            state[1, node] = old_spoke
            continue
        energy[0] = now
        if not broken and total < cycles[0]:
            cycles[0] = total
            for row in range(3):
                copy_values(state[row], best[row])


@hot
def _move(tables: Tables, state: IntArray, node: int, tile: int) -> None:
    """The whole memory cluster goes along."""
    for other in range(state.shape[1]):
        if tables.cluster[other] == tables.cluster[node]:
            state[0, other] = tile
