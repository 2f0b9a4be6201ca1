"""Annealing over (tile, spoke) itself, for comparison: no decoder, broken rules cost cycles."""

from __future__ import annotations

import math

import numpy as np

from placer.base import FloatArray, LongArray, below, hot, hot_loop, uniform
from placer.streaming.model import Budget, Found
from placer.streaming.search.bounds import Tables
from placer.streaming.search.construct import Search, are_rivals, begin_search, copy_values, found_by, start_mapping
from placer.streaming.search.problem import Problem

_HOT, _COLD = 3.0, 0.1  # temperatures in cycles
_ROUND = 200_000  # moves from hot to cold
_MOVES_PER_CALL = 2_000
_PENALTY = 6.0  # cycles per broken rule


def anneal_slots(problem: Problem, budget: Budget, seed: int) -> Found:
    """Anneal in rounds from a list schedule; only legal mappings count."""
    start = start_mapping(problem, budget, seed)
    search = begin_search(problem, seed, start)
    if start is None:
        return found_by(problem, search, 0)
    state = np.stack([start.tile, start.spoke, start.start])
    order, energy = np.array(problem.program.order), np.array([float(start.cycles)])
    tries, per_call = 0, problem.tries_per_call(_MOVES_PER_CALL)
    while search.cycles[0] > search.goal and not budget.is_spent(tries):
        temperature = _HOT * (_COLD / _HOT) ** (tries % _ROUND / _ROUND)
        _anneal_moves(search, order, state, energy, temperature, per_call)
        tries += per_call
    return found_by(problem, search, tries)


@hot
def _evaluate(tables: Tables, order: LongArray, state: LongArray) -> tuple[int, int]:
    """Fill the starts; return cycles and the number of broken rules."""
    tile, spoke, start = state[0], state[1], state[2]
    broken, last = 0, 0
    for k in range(len(order)):
        node = order[k]
        arrival = 0
        for other in tables.pred[tables.pred_first[node] : tables.pred_first[node + 1]]:
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
                broken += spoke[other] == spoke[node] or are_rivals(tables, tables.cluster[node], tables.cluster[other])
    return last + tables.depth, broken


@hot_loop
def _anneal_moves(
    search: Search, order: LongArray, state: LongArray, energy: FloatArray, temperature: float, count: int
) -> None:
    tables, rng = search.tables, search.rng
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
        if not broken and total < search.cycles[0]:
            search.cycles[0] = total
            copy_values(state[0], search.best[0])
            copy_values(state[2], search.best[1])


@hot
def _move(tables: Tables, state: LongArray, node: int, tile: int) -> None:
    """Move an instruction; the whole memory cluster goes along."""
    for other in range(state.shape[1]):
        if tables.cluster[other] == tables.cluster[node]:
            state[0, other] = tile
