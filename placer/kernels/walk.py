"""Annealing of mappings by any cost: variants of kernels, rows and places at once.

This is how a cost other than the contest's score steers the mapper (docs/wafer_model.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from placer.annealing.random import rng_state, uniform
from placer.kernels.joint import Sized
from placer.kernels.layout import Layout, Placed
from placer.kernels.mapping_cost import MappingCost
from placer.kernels.mapping_table import loops_of, table_of
from placer.kernels.problem import Problem
from placer.kernels.shapes import FloatArray, LongArray
from placer.kernels.shelves import Shelves
from placer.kernels.walk_moves import frame_of, propose
from placer.kernels.walk_state import State, copy_state, place


class Heat(NamedTuple):
    """How long to anneal, and from which to which temperature of log throughput."""

    steps: int
    hot: float
    cold: float


class Step(NamedTuple):
    """A mapping that was scored, and whether the walk goes on from there."""

    state: State
    throughput: float
    is_accepted: bool


def start_state(problem: Problem, shelves: Shelves, sized: Sized) -> State | None:
    """Sized kernels in rows; None if they do not fit."""
    kernels = zip(sized.executions, sized.is_rotated, strict=True)
    table = table_of(Layout(tuple(Placed(e, 0, 0, is_rotated) for e, is_rotated in kernels)))
    state = State(Shelves(*(array.copy() for array in shelves)), table)
    wafer = problem.graph.wafer
    return state if place(state, wafer.width, wafer.height)[0] == 0 else None


def walk(
    problem: Problem, start: State, cost: MappingCost, heat: Heat, seed: int
) -> Iterator[Step]:
    """The start, then every mapping that is scored; states belong to the receiver.

    Steps that lead off the wafer or change nothing are not scored.
    """
    frame, rng = frame_of(problem, loops_of(problem.graph)), rng_state(seed)
    state, trial = copied(start), copied(start)
    current, busy = score_one(problem, cost, state.table)
    yield Step(copied(state), current, True)
    for step in range(heat.steps):
        copy_state(state, trial)
        if not propose(frame, trial, busy, rng) or np.array_equal(trial.table, state.table):
            continue
        value, trial_busy = score_one(problem, cost, trial.table)
        temperature = heat.hot * (heat.cold / heat.hot) ** (step / heat.steps)
        # Accept with min(1, exp(change of log throughput / temperature)).
        is_accepted = value / current >= uniform(rng) ** temperature
        if is_accepted:
            copy_state(trial, state)
            current, busy = value, trial_busy
        yield Step(copied(trial), value, is_accepted)


def score_one(problem: Problem, cost: MappingCost, table: LongArray) -> tuple[float, FloatArray]:
    """Throughput, and the busy share of each kernel."""
    scores = cost.score(problem, table[None])
    return float(scores.throughput[0]), scores.busy[0]


def copied(state: State) -> State:
    return State(Shelves(*(array.copy() for array in state.shelves)), state.table.copy())
