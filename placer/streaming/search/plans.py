"""Annealing and evolution over plans: a tile wished for each cluster, an order, and delays.

Decoding follows the order; an instruction goes to the tile wished for, or to the nearest legal one,
and takes the first free slot after its delay. The wishes are then what was done, so a wish is never
out of reach. Delays are mostly 0, but without them some optima cannot be reached: it can pay to
leave an early slot to another instruction.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from placer.base import FloatArray, LongArray, RngState, below, hot, hot_loop, uniform
from placer.streaming.model import Budget, Found, Mapping
from placer.streaming.search.bounds import Tables
from placer.streaming.search.construct import (
    ILLEGAL,
    Board,
    Search,
    begin_search,
    clear,
    copy_values,
    cycles_of,
    found_by,
    keep_board,
    place,
    start_at,
    start_mapping,
)
from placer.streaming.search.problem import Problem

FAILED = 1e9  # energy of a dead end
_HOT, _COLD = 1.5, 0.08  # temperatures in cycles
_FIRST_ROUND = 20_000  # decodes from hot to cold; each further round is twice as long
_POPULATION, _TOURNAMENT = 64, 3
_DECODES_PER_CALL = 1_000


class Plan(NamedTuple):
    """A point of the search space."""

    wish: LongArray  # [num_clusters] tile
    order: LongArray  # [num_nodes] predecessors first
    delay: LongArray  # [num_nodes] cycles


def plan_of(problem: Problem, mapping: Mapping) -> Plan:
    """Return the plan that leads to a known mapping: its tiles, in the order of its starts."""
    wish = np.zeros(len(problem.tables.cluster_size), np.int64)
    wish[problem.tables.cluster] = mapping.tile
    return Plan(wish, np.argsort(mapping.start, kind="stable"), np.zeros(problem.num_nodes, np.int64))


@hot
def copy_plan(source: Plan, target: Plan) -> None:
    copy_values(source.wish, target.wish)
    copy_values(source.order, target.order)
    copy_values(source.delay, target.delay)


@hot
def decode(tables: Tables, board: Board, plan: Plan, goal: int) -> float:
    """Fill `board` after `plan`; return cycles + mean lateness of instructions over `goal`.

    Lateness of n: max(0, start_n + tail_n - goal), the cycles by which n alone misses the goal. The
    number of cycles is flat almost everywhere; the lateness shows the way down.
    """
    clear(tables, board)
    cycles, lateness = 0, 0
    for k in range(len(plan.order)):
        node = plan.order[k]
        cluster = tables.cluster[node]
        wish = plan.wish[cluster]
        tile = start = ILLEGAL
        for off in range(2 * tables.num_tiles):
            tile = wish + (off + 1) // 2 * (1 - 2 * (off % 2))  # wish, -1, +1, -2, +2, ...
            if 0 <= tile < tables.num_tiles:
                start = start_at(tables, board, node, tile, plan.delay[node])
                if start != ILLEGAL:
                    break
        if start == ILLEGAL:
            return FAILED
        place(tables, board, node, tile, start)
        plan.wish[cluster] = tile
        cycles = max(cycles, start + tables.depth)
        lateness += max(0, start + tables.tail[node] - goal)
    return cycles + lateness / len(plan.order)


@hot
def try_plan(search: Search, plan: Plan) -> float:
    """Decode a plan and keep its mapping if it is the best; return the energy.

    A mapping of fewer cycles may have the higher energy.
    """
    energy = decode(search.tables, search.board, plan, search.goal)
    if energy < FAILED:
        keep_board(search, cycles_of(search.tables, search.board, len(plan.order)))
    return energy


@hot
def mutate(tables: Tables, rng: RngState, plan: Plan) -> None:
    """Change one thing: shift a cluster, swap two, join a neighbour, reorder, or delay."""
    kind = below(rng, 9)
    num_clusters = len(plan.wish)
    node = below(rng, len(plan.order))
    cluster = tables.cluster[node]
    if kind < 2:
        step = 1 + below(rng, 3)
        _send(tables, plan, cluster, plan.wish[cluster] + (step if below(rng, 2) else -step))
    elif kind < 4:
        other = below(rng, num_clusters)
        plan.wish[cluster], plan.wish[other] = plan.wish[other], plan.wish[cluster]
    elif kind < 6:
        preds = tables.pred_first[node + 1] - tables.pred_first[node]
        succs = tables.succ_first[node + 1] - tables.succ_first[node]
        if preds + succs:
            k = below(rng, preds + succs)
            if k < preds:
                near = tables.pred[tables.pred_first[node] + k]
            else:
                near = tables.succ[tables.succ_first[node] + k - preds]
            _send(tables, plan, cluster, plan.wish[tables.cluster[near]] + below(rng, 3) - 1)
    elif kind < 8:
        _reorder(tables, rng, plan)
    else:
        is_idle = plan.delay[node] == 0 and not tables.is_exact
        plan.delay[node] = below(rng, min(4, tables.ii)) if is_idle else 0


@hot
def _send(tables: Tables, plan: Plan, cluster: int, tile: int) -> None:
    plan.wish[cluster] = min(max(tile, 0), tables.num_tiles - 1)


@hot
def _is_edge(tables: Tables, start: int, end: int) -> bool:
    for other in tables.succ[tables.succ_first[start] : tables.succ_first[start + 1]]:
        if other == end:
            return True
    return False


@hot
def _reorder(tables: Tables, rng: RngState, plan: Plan) -> None:
    """Move one instruction some places forward or back, as far as its neighbours let it."""
    size = len(plan.order)
    position = below(rng, size)
    step = 1 if below(rng, 2) else -1
    node = plan.order[position]
    for _ in range(1 + below(rng, size)):
        following = position + step
        if not 0 <= following < size:
            break
        other = plan.order[following]
        if _is_edge(tables, node, other) or _is_edge(tables, other, node):
            break
        plan.order[position], plan.order[following] = other, node
        position = following


def anneal(problem: Problem, budget: Budget, seed: int, start: Mapping | None = None) -> Found:
    """Anneal in rounds, each from the best so far, until the budget or the bound is reached."""
    start = start or start_mapping(problem, budget, seed)
    search = begin_search(problem, seed, start)
    if start is None:
        return found_by(problem, search, 0)
    plan, trial, best = (plan_of(problem, start) for _ in range(3))
    energy = decode(search.tables, search.board, plan, search.goal)
    energies = np.full(2, energy)  # of the plan, of the best
    tries, length, step = 0, _FIRST_ROUND, 0
    per_call = problem.tries_per_call(_DECODES_PER_CALL)
    while search.cycles[0] > search.goal and not budget.is_spent(tries):
        temperature = _HOT * (_COLD / _HOT) ** (step / length)
        _anneal_moves(search, plan, trial, best, energies, temperature, per_call)
        tries, step = tries + per_call, step + per_call
        if step >= length:
            step, length = 0, 2 * length
            energies[0] = energies[1]
            copy_plan(best, plan)
    return found_by(problem, search, tries)


@hot_loop
def _anneal_moves(
    search: Search, plan: Plan, trial: Plan, best: Plan, energies: FloatArray, temperature: float, count: int
) -> None:
    for _ in range(count):
        copy_plan(plan, trial)
        mutate(search.tables, search.rng, trial)
        energy = try_plan(search, trial)
        if energy - energies[0] > -temperature * math.log(1.0 - uniform(search.rng)):
            continue
        copy_plan(trial, plan)
        energies[0] = energy
        if energy < energies[1]:
            energies[1] = energy
            copy_plan(trial, best)


def evolve(problem: Problem, budget: Budget, seed: int) -> Found:
    """Evolve steadily: each child replaces the loser of a tournament unless it is worse."""
    start = start_mapping(problem, budget, seed)
    search = begin_search(problem, seed, start)
    if start is None:
        return found_by(problem, search, 0)
    child = plan_of(problem, start)
    everyone = Plan(*(np.repeat(part[None], _POPULATION, axis=0) for part in child))
    energies = np.full(_POPULATION, FAILED)
    tries, per_call = 0, problem.tries_per_call(_DECODES_PER_CALL)
    while search.cycles[0] > search.goal and not budget.is_spent(tries):
        _evolve_children(search, everyone, energies, child, per_call)
        tries += per_call
    return found_by(problem, search, tries)


@hot
def _member(everyone: Plan, k: int) -> Plan:
    return Plan(everyone.wish[k], everyone.order[k], everyone.delay[k])


@hot_loop
def _evolve_children(search: Search, everyone: Plan, energies: FloatArray, child: Plan, count: int) -> None:
    rng, size = search.rng, len(energies)
    for _ in range(count):
        mother, father, loser = below(rng, size), below(rng, size), below(rng, size)
        for _ in range(_TOURNAMENT - 1):
            other = below(rng, size)
            mother = other if energies[other] < energies[mother] else mother
            other = below(rng, size)
            father = other if energies[other] < energies[father] else father
            other = below(rng, size)
            loser = other if energies[other] > energies[loser] else loser
        copy_plan(_member(everyone, mother), child)
        if below(rng, 2):
            for cluster in range(len(child.wish)):
                if below(rng, 2):
                    child.wish[cluster] = everyone.wish[father, cluster]
        for _ in range(1 + below(rng, 3)):
            mutate(search.tables, rng, child)
        energy = try_plan(search, child)
        if energy <= energies[loser]:
            energies[loser] = energy
            copy_plan(child, _member(everyone, loser))
