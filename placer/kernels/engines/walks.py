"""Annealing of mappings by any cost: variants of kernels, rows and places at once.

This is how a cost other than the contest's score steers the mapper (docs/wafer_model.md). Rows come
from the engines, which know the contest's score only. From there walks change how kernels are
unrolled and where they stand, at several temperatures, and go on from the best. A search climbs
where its cost errs on the high side; so what a walk likes best is simulated, and the next ones go
on from what is best in simulation.

Unlike the engines of the contest's score, which keep one target time for all kernels, a change may
unroll every kernel in its own way and give it a time of its own. What then is too wide or too high
is mended by slower or flatter kernels, so that one kernel can grow at the cost of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import FloatArray, LongArray, RngState, below, rng_state, uniform
from placer.kernels.engines.floorplan import Floorplan
from placer.kernels.engines.search import Schedule, Search
from placer.kernels.engines.shelf_search import change
from placer.kernels.engines.shelves import Shelves, place_sized, row_end, row_start
from placer.kernels.model import MAX_CONVS, ROTATED, C, H, K, Placed, W, X, Y, extents_of, layout_of, table_of
from placer.kernels.sizing import Loops, Problem, Sized, Target, least_channels, loops_of, ticks_per_pass
from placer.kernels.truth import MappingCost, simulated_throughput

STEPS = 600  # changes that are tried per walk
HEATS = (0.03, 0.01, 0.003)  # of log throughput, where walks begin; they end at a tenth
MENDS = 24  # kernels that one change may make slower or flatter
MOST_SLOWER = 0.15  # share by which the time of such a kernel rises
TIME_REACH = 0.5  # times change by up to exp(+- this / 2)


class State(NamedTuple):
    """A mapping with the rows that it stands in; heights of rows are those of their kernels."""

    shelves: Shelves
    table: LongArray  # see model/layout.py


@njit(cache=True)
def place(state: State, width: int, height: int) -> tuple[int, int]:
    """Give every kernel its place; returns what `place_sized` does."""
    s, table = state
    plan = Floorplan(table[:, X], table[:, Y], np.empty_like(s.order), np.empty_like(s.order))
    for kernel in range(len(table)):
        plan.extent_x[kernel], plan.extent_y[kernel] = extents_of(table[kernel])
    return place_sized(s, plan, width, height)


class Frame(NamedTuple):
    """What does not change."""

    loops: Loops
    kind: LongArray  # [num_kernels] equal kernels have the same
    edges: LongArray  # [num_edges, 2]
    width: int
    height: int
    limit: int  # memory per tile
    scale: int  # ticks per unit of time


def frame_of(problem: Problem) -> Frame:
    """Return what walks over mappings of a problem need to know."""
    graph, tables = problem.graph, problem.tables
    limit, scale = graph.wafer.memory_limit, graph.time_scale
    loops = loops_of(graph)
    return Frame(loops, tables.kind, tables.edges, tables.width, tables.height, limit, scale)


@njit(cache=True)
def contest_ticks(frame: Frame, table: LongArray, kernel: int) -> int:
    """Return the contest's time of a kernel."""
    slowest, row = 0, table[kernel]
    for i in range(frame.loops.num_convs[kernel]):
        conv = frame.loops.convs[kernel, i]
        passes = -(-conv[4] // row[K + i])
        ticks = ticks_per_pass(conv, row[H], row[W], row[C + i], frame.scale)
        slowest = max(slowest, passes * ticks)
    return slowest


@njit(cache=True)
def unroll(frame: Frame, table: LongArray, kernel: int, h: int, w: int, c: int, ticks: int) -> bool:
    """Unroll a kernel by h, w, c with the fewest k for the time; False: there are none.

    Convolutions with fewer than c channels take all they have.
    """
    convs, target = frame.loops.convs[kernel], Target(ticks, frame.limit, frame.scale)
    if h < 1 or w < 1 or c < 1:
        return False
    for i in range(frame.loops.num_convs[kernel]):
        if h > convs[i, 0] or w > convs[i, 1]:
            return False
        if least_channels(convs[i], h, w, min(c, convs[i, 3]), target) == 0:
            return False
    row = table[kernel]
    row[H], row[W] = h, w
    for i in range(frame.loops.num_convs[kernel]):
        row[C + i] = min(c, convs[i, 3])
        row[K + i] = least_channels(convs[i], h, w, row[C + i], target)
    return True


@njit(cache=True)
def _most_channels(row: LongArray) -> int:
    most = 1
    for i in range(MAX_CONVS):
        most = max(most, row[C + i])
    return most


@njit(cache=True)
def _step(number: int, rng: RngState) -> int:
    """Return a number near by, or twice or half as large."""
    kind = below(rng, 4)
    if kind == 0:
        return number + 1
    if kind == 1:
        return number - 1
    return 2 * number if kind == 2 else (number + 1) // 2


@njit(cache=True)
def _reshape(frame: Frame, table: LongArray, kernel: int, rng: RngState) -> None:
    """Choose other loops for a kernel, or for all that are equal to it."""
    row = table[kernel]
    h, w, c = row[H], row[W], _most_channels(row)
    ticks = contest_ticks(frame, table, kernel)
    kind = below(rng, 10)
    if kind < 4:
        ticks = int(ticks * np.exp(TIME_REACH * (uniform(rng) - 0.7)))
    elif kind < 7:
        which = below(rng, 3)
        h = _step(h, rng) if which == 0 else h
        w = _step(w, rng) if which == 1 else w
        c = _step(c, rng) if which == 2 else c
        if below(rng, 2):  # the rectangle keeps its size, about
            rows = int(row[H] * row[W] * (_most_channels(row) + 1))
            c = max(1, rows // max(1, h * w) - 1)
    elif kind < 9 and len(frame.edges) > 0:
        h, w, c = _neighbours_loops(frame, table, kernel, h, w, c, rng)
    turns = 1 if kind == 9 or below(rng, 8) == 0 else 0
    everywhere = below(rng, 3) > 0
    for other in range(len(table)):
        is_meant = other == kernel or (everywhere and frame.kind[other] == frame.kind[kernel])
        if is_meant and unroll(frame, table, other, h, w, c, ticks):
            table[other, ROTATED] ^= turns


@njit(cache=True)
def _neighbours_loops(
    frame: Frame, table: LongArray, kernel: int, h: int, w: int, c: int, rng: RngState
) -> tuple[int, int, int]:
    """Return the loops of a kernel at the other end of an edge: equal ones need no adapter."""
    first = below(rng, len(frame.edges))
    for i in range(len(frame.edges)):
        edge = frame.edges[(first + i) % len(frame.edges)]
        if edge[0] == kernel or edge[1] == kernel:
            other = table[edge[0] + edge[1] - kernel]
            return other[H], other[W], _most_channels(other)
    return h, w, c


@njit(cache=True)
def _balance(frame: Frame, table: LongArray, busy: FloatArray, rng: RngState) -> None:
    """Give all kernels times at which they would be busy for the same share of the time."""
    share = 0.8 + 0.2 * uniform(rng)
    strength = uniform(rng)
    for kernel in range(len(table)):
        row, ticks = table[kernel], contest_ticks(frame, table, kernel)
        factor = (share / max(busy[kernel], 0.1)) ** strength
        unroll(frame, table, kernel, row[H], row[W], _most_channels(row), int(ticks * factor))


@njit(cache=True)
def _stretch(frame: Frame, state: State, p: int, factor: float) -> None:
    """Make a row higher and narrower, or the other way round, at the same times."""
    s, table = state
    first, end = row_start(s, p), row_end(s, p)
    for q in range(first, end):
        kernel = s.order[q]
        row, ticks = table[kernel], contest_ticks(frame, table, kernel)
        c = _most_channels(row)
        if row[ROTATED] == 0:
            c = max(1, int((c + 1) * factor) - 1)
        else:  # shorter along x, and as fast with more channels out along y
            c = max(1, int((c + 1) / factor) - 1)
        unroll(frame, table, kernel, row[H], row[W], c, ticks)


@njit(cache=True)
def _least_busy(s: Shelves, first: int, end: int, busy: FloatArray, rng: RngState) -> int:
    """Return the one that waits most of a few kernels between two places of the order."""
    chosen = int(s.order[first + below(rng, end - first)])
    for _ in range(2):
        other = int(s.order[first + below(rng, end - first)])
        chosen = other if busy[other] < busy[chosen] else chosen
    return chosen


@njit(cache=True)
def _mend(frame: Frame, state: State, wide_row: int, busy: FloatArray, rng: RngState) -> None:
    """Make a kernel of a row that is too wide (or of any row, if all are too high) smaller."""
    s, table = state
    first, end = (0, len(s.order)) if wide_row < 0 else (wide_row, row_end(s, wide_row))
    kernel = _least_busy(s, first, end, busy, rng)
    row = table[kernel]
    c, ticks = _most_channels(row), contest_ticks(frame, table, kernel)
    # Channels out lie along x if it is upright: fewer of them make it narrower.
    if (row[ROTATED] == 0) == (wide_row >= 0):
        ticks = int(ticks * (1 + MOST_SLOWER * uniform(rng))) + 1
    else:
        c = max(1, c - 1 - below(rng, 1 + c // 8))
    unroll(frame, table, kernel, row[H], row[W], c, ticks)


@njit(cache=True)
def propose(frame: Frame, state: State, busy: FloatArray, rng: RngState) -> bool:
    """Make one random change, mended and placed; returns whether the mapping lies on the wafer.

    `busy` [num_kernels]: share of the time that kernels work, as far as it is known.
    """
    s, num, kind = state.shelves, len(state.table), below(rng, 20)
    p, q = below(rng, num), below(rng, num)
    if kind < 4:
        q = q if below(rng, 2) else min(max(p + below(rng, 9) - 4, 0), num - 1)
        change(s, p, q, frame.height, rng)
    elif kind < 6:
        _balance(frame, state.table, busy, rng)
    elif kind < 9:
        factor = np.exp(0.3 * (uniform(rng) - 0.5))
        _stretch(frame, state, p, factor)
        if below(rng, 2):
            _stretch(frame, state, q, 1 / factor)
    else:
        kernel = p if busy[p] > busy[q] or below(rng, 4) == 0 else q
        _reshape(frame, state.table, kernel, rng)
    for _ in range(MENDS):
        beyond, wide_row = place(state, frame.width, frame.height)
        if beyond == 0:
            return True
        _mend(frame, state, wide_row, busy, rng)
    return place(state, frame.width, frame.height)[0] == 0


class Step(NamedTuple):
    """A mapping that was scored, and whether the walk goes on from there."""

    state: State
    throughput: float
    is_accepted: bool


def start_state(problem: Problem, shelves: Shelves, sized: Sized) -> State | None:
    """Put sized kernels in rows; None if they do not fit."""
    kernels = zip(sized.executions, sized.is_rotated, strict=True)
    table = table_of(tuple(Placed(e, 0, 0, is_rotated) for e, is_rotated in kernels))
    state = State(Shelves(*np.array(shelves)), table)
    wafer = problem.graph.wafer
    return state if place(state, wafer.width, wafer.height)[0] == 0 else None


def walk(problem: Problem, start: State, cost: MappingCost, schedule: Schedule, seed: int) -> Iterator[Step]:
    """Yield the start, then every mapping that is scored; the receiver must not change them.

    Steps that lead off the wafer or change nothing are not scored. Temperatures are those of log
    throughput.
    """
    frame, rng, state = frame_of(problem), rng_state(seed), start
    current, busy = score_one(problem, cost, state.table)
    yield Step(state, current, True)
    for step in range(schedule.steps):
        trial = State(Shelves(*np.array(state.shelves)), state.table.copy())
        if not propose(frame, trial, busy, rng) or np.array_equal(trial.table, state.table):
            continue
        value, trial_busy = score_one(problem, cost, trial.table)
        temperature = schedule.hot * (schedule.cold / schedule.hot) ** (step / schedule.steps)
        # Accept with min(1, exp(change of log throughput / temperature)).
        is_accepted = value / current >= uniform(rng) ** temperature
        if is_accepted:
            state, current, busy = trial, value, trial_busy
        yield Step(trial, value, is_accepted)


def score_one(problem: Problem, cost: MappingCost, table: LongArray) -> tuple[float, FloatArray]:
    """Return the throughput, and the busy share of each kernel."""
    scores = cost.score(problem, table[None])
    return float(scores.throughput[0]), scores.busy[0]


class Steering:
    """Offers what its walks find to the search."""

    def __init__(self, search: Search, cost: MappingCost) -> None:
        self._search, self._cost = search, cost
        self.best: State | None = None  # in simulation
        self._highest = 0.0

    def walk_from(self, start: State, number: int) -> None:
        """Take one walk; `number` counts them and chooses temperature and random numbers."""
        search, problem, hot = self._search, self._search.problem, HEATS[number % len(HEATS)]
        seed, schedule = (search.seed << 20) + number, Schedule(STEPS, hot, hot / 10)
        liked, likes = start, 0.0
        for step in walk(problem, start, self._cost, schedule, seed):
            if step.throughput > likes:
                liked, likes = step.state, step.throughput
            if search.is_over():
                if self.best is not None:  # with more time this walk would offer something else
                    return
                break
        throughput = simulated_throughput(problem, liked.table, self._cost, likes)
        if throughput > self._highest:
            self.best, self._highest = liked, throughput
            mapping = search.judged(layout_of(liked.table))
            search.take(replace(mapping, throughput=throughput, predicted=likes))
