"""Evolution over the same plans as annealing: tournaments, crossover of wishes, mutation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placer.annealing.random import RngState, below, rng_state
from placer.hot import hot, hot_loop
from placer.streaming.annealing import start_mapping
from placer.streaming.board import Board, copy_values, last_start, make_board
from placer.streaming.bounds import IntArray
from placer.streaming.decode import FAILED, Plan, copy_plan, decode, mutate, plan_of
from placer.streaming.mapping import Budget, Found, Mapping
from placer.streaming.problem import Problem, Tables

_POPULATION = 64
_TOURNAMENT = 3
_CHILDREN_PER_CALL = 1_000


def evolve(problem: Problem, budget: Budget, seed: int) -> Found:
    """Steady state: each child replaces the loser of a tournament unless it is worse."""
    start = start_mapping(problem, budget, seed)
    if start is None:
        return Found(None, problem.bounds.total, 0)
    tables, goal = problem.tables, problem.bounds.total
    first = plan_of(tables, start.tile, start.start)
    everyone = Plan(*(np.repeat(part[None], _POPULATION, axis=0) for part in first))
    energies = np.full(_POPULATION, FAILED)
    best, cycles = make_board(problem), np.array([start.cycles])
    best.tile[:], best.start[:] = start.tile, start.start
    child = Plan(*(part.copy() for part in first))
    rng, board, tries = rng_state(seed), make_board(problem), 0
    per_call = problem.tries_per_call(_CHILDREN_PER_CALL)
    while cycles[0] > goal and not budget.is_spent(tries):
        _evolve_children(
            tables, board, rng, everyone, energies, child, goal, per_call, best, cycles
        )  # fmt: skip
        tries += per_call
    mapping = Mapping(best.tile, best.start, problem.device.ii, problem.device.depth)
    return Found(mapping, goal, tries)


@hot
def _member(everyone: Plan, k: int) -> Plan:
    return Plan(everyone.wish[k], everyone.order[k], everyone.delay[k])


@hot_loop
def _evolve_children(
    tables: Tables,
    board: Board,
    rng: RngState,
    everyone: Plan,
    energies: NDArray[np.float64],
    child: Plan,
    goal: int,
    count: int,
    best: Board,
    cycles: IntArray,
) -> None:
    size = len(energies)
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
            mutate(tables, rng, child)
        energy = decode(tables, board, child, goal)
        if energy <= energies[loser]:
            energies[loser] = energy
            copy_plan(child, _member(everyone, loser))
        if energy < FAILED:
            ready = last_start(board, len(board.start)) + tables.depth
            if ready < cycles[0]:
                cycles[0] = ready
                copy_values(board.tile, best.tile)
                copy_values(board.start, best.start)
