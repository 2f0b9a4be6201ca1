"""Simulated annealing over tiles and order with the list-scheduling decoder, or over slots."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from placer.annealing.random import RngState, rng_state, uniform
from placer.hot import hot_loop
from placer.streaming.board import Board, copy_values, last_start, make_board
from placer.streaming.bounds import IntArray
from placer.streaming.construct import list_schedule, random_mapping
from placer.streaming.decode import FAILED, Plan, copy_plan, decode, decode_once, mutate, plan_of
from placer.streaming.mapping import Budget, Found, Mapping
from placer.streaming.problem import Problem, Tables

FloatArray = NDArray[np.float64]

_HOT, _COLD = 1.5, 0.08  # temperatures in cycles
_FIRST_ROUND = 20_000  # decodes from hot to cold; each further round is twice as long
_DECODES_PER_CALL = 1_000
_LIST_TRIES, _RANDOM_TRIES = 64, 4096  # for a mapping to begin with


def start_mapping(problem: Problem, budget: Budget, seed: int) -> Mapping | None:
    """Where searches begin: the best of a few list schedules, or a random mapping."""
    seconds = budget.seconds / 4
    found = list_schedule(problem, budget.part(seconds, _LIST_TRIES), seed).mapping
    return found or random_mapping(problem, budget.part(seconds, _RANDOM_TRIES), seed).mapping


def anneal(problem: Problem, budget: Budget, seed: int, start: Mapping | None = None) -> Found:
    """Rounds of annealing, each from the best so far, until the budget or the bound is reached."""
    start = start or start_mapping(problem, budget, seed)
    if start is None:
        return Found(None, problem.bounds.total, 0)
    tables, goal = problem.tables, problem.bounds.total
    board, best_board = make_board(problem), make_board(problem)
    plan = plan_of(tables, start.tile, start.start)
    trial, best = (Plan(*(part.copy() for part in plan)) for _ in range(2))
    energies = np.full(2, decode_once(tables, board, plan, goal))  # of the plan, of the best
    best_board.tile[:], best_board.start[:] = start.tile, start.start
    cycles = np.array([start.cycles])
    rng, tries, length, step = rng_state(seed), 0, _FIRST_ROUND, 0
    per_call = problem.tries_per_call(_DECODES_PER_CALL)
    while cycles[0] > goal and not budget.is_spent(tries):
        temperature = _HOT * (_COLD / _HOT) ** (step / length)
        _anneal_moves(
            tables, board, rng, plan, trial, best, energies, goal, temperature,
            per_call, best_board, cycles,
        )  # fmt: skip
        tries, step = tries + per_call, step + per_call
        if step >= length:
            step, length = 0, 2 * length
            energies[0] = energies[1]
            for part, kept in zip(plan, best, strict=True):
                part[:] = kept
    mapping = Mapping(best_board.tile, best_board.start, problem.device.ii, problem.device.depth)
    return Found(mapping, goal, tries)


@hot_loop
def _anneal_moves(
    tables: Tables,
    board: Board,
    rng: RngState,
    plan: Plan,
    trial: Plan,
    best: Plan,
    energies: FloatArray,
    goal: int,
    temperature: float,
    count: int,
    best_board: Board,
    cycles: IntArray,
) -> None:
    for _ in range(count):
        copy_plan(plan, trial)
        mutate(tables, rng, trial)
        energy = decode(tables, board, trial, goal)
        if energy < FAILED:  # a mapping of fewer cycles may have the higher energy
            ready = last_start(board, len(board.start)) + tables.depth
            if ready < cycles[0]:
                cycles[0] = ready
                copy_values(board.tile, best_board.tile)
                copy_values(board.start, best_board.start)
        if energy - energies[0] > -temperature * math.log(1.0 - uniform(rng)):
            continue
        copy_plan(trial, plan)
        energies[0] = energy
        if energy < energies[1]:
            energies[1] = energy
            copy_plan(trial, best)
