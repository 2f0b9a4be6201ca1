"""Several searches for one netlist from different starts; the best one counts.

Every start has seeds of its own, made from the seed of the run and its number, so the number of
processes does not change the result (a time limit does: then speed decides).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from placer.annealing.annealer import (
    AnnealOptions,
    AnnealResult,
    AnnealStatus,
    Round,
    anneal,
)
from placer.annealing.finalists import Elite, Judge
from placer.annealing.pool import search_pool
from placer.annealing.problem import Problem, StartKind
from placer.annealing.replay import Replay, Snapshot
from placer.annealing.rerouting import energy_of
from placer.annealing.search import Search, Start
from placer.annealing.starts import random_start, start_of
from placer.decision import Decisions
from placer.errors import InputError
from placer.executor import WorkerCrashError
from placer.executor.local import run_local
from placer.heuristic import HeuristicCost
from placer.routing import route_turns
from placer.simulation import Limits, simulate_stack


@dataclass(frozen=True, slots=True)
class SearchTask:
    """One start of a problem."""

    problem: Problem
    number: int
    run_seed: int | tuple[int, ...]

    def __str__(self) -> str:
        return f"start {self.number} of netlist {self.problem.netlist.name!r}"

    def seeds(self) -> tuple[int, list[tuple[int, int]]]:
        """Of the search; of the random placement and the search with the heuristic of each start.

        The first are the same for a pool of any size.
        """
        sequence = np.random.SeedSequence(self.run_seed, spawn_key=(self.number,))
        words = sequence.generate_state(1 + 2 * self.problem.pool, np.uint64).tolist()
        placement, heuristic, search, *more = words
        return search, [(placement, heuristic), *zip(more[::2], more[1::2], strict=True)]


@dataclass(frozen=True, slots=True)
class StartResult:
    """One start and how far its search came."""

    number: int
    start: Decisions  # where the search with the cost model began
    result: AnnealResult
    favourite: Decisions  # what the cost model likes best; finalists may be faster
    simulated: float | None = None  # throughput of the result, when finalists were simulated
    replay: tuple[Snapshot, ...] = ()  # how the search with the cost model got there


@dataclass(frozen=True, slots=True)
class MultiStartResult:
    """All starts with a result, in order of their numbers."""

    starts: tuple[StartResult, ...]  # one or more
    ending: KeyboardInterrupt | WorkerCrashError | None = None  # what ended the search early

    @property
    def is_interrupted(self) -> bool:
        return self.ending is not None

    @property
    def best(self) -> StartResult:
        """The fastest that were simulated, else the lowest energy; then lowest number."""
        return min(self.starts, key=lambda start: (-(start.simulated or 0), start.result.energy))


Watch = Callable[[str, Round], None]  # name of the phase, and its last round


def search_starts(
    problem: Problem,
    seed: int | tuple[int, ...],
    starts: int = 1,
    workers: int = 1,
    watch: Watch | None = None,
    on_finish: Callable[[StartResult], None] | None = None,
) -> MultiStartResult:
    """Search from `starts` starts; a single one runs in this process, several in `workers` others.

    Ctrl-C ends the search; the starts under way return their best placement so far. A start that
    kills its worker leaves those that were finished. The error is raised when there is none yet.
    `watch` is told about every round of a single start, `on_finish` about every finished start.
    """
    if starts < 1:
        raise InputError(f"starts={starts} is out of range; allowed: 1 or more")
    if starts == 1:
        only = search_once(SearchTask(problem, 0, seed), watch)
        is_interrupted = only.result.status is AnnealStatus.INTERRUPTED
        return MultiStartResult((only,), KeyboardInterrupt() if is_interrupted else None)
    _load_compiled(problem, random_start(problem.fabric, problem.netlist, problem.is_allowed, 0))
    tasks = [SearchTask(problem, number, seed) for number in range(starts)]
    done: dict[int, StartResult] = {}
    ending: KeyboardInterrupt | WorkerCrashError | None = None
    try:
        for number, result in run_local(search_once, tasks, workers, has_last_words=True):
            done[number] = result
            if on_finish is not None:
                on_finish(result)
    except (KeyboardInterrupt, WorkerCrashError) as error:
        if not done:
            raise
        ending = error
    return MultiStartResult(tuple(done[number] for number in sorted(done)), ending)


def search_once(
    task: SearchTask, watch: Watch | None = None, elite: Elite | None = None
) -> StartResult:
    """Run one start to its end; `elite` takes what the pool and each round found best."""
    problem, elite = task.problem, Elite() if elite is None else elite
    fabric, netlist, cost = problem.fabric, problem.netlist, problem.cost
    options = fit_schedule(problem.options, netlist.num_units)
    seed, start_seeds = task.seeds()
    start = problem.warm_start
    if start is None:
        start = random_start(fabric, netlist, problem.is_allowed, start_seeds[0][0])
    _load_compiled(problem, start)
    begin = time.monotonic()
    judge = Judge(fabric, netlist) if problem.finalists else None
    if problem.warm_start is None and problem.start is StartKind.HEURISTIC:
        first = search_pool(problem, start_seeds, elite, judge, _phase("heuristic", watch))
        if first.status is AnnealStatus.INTERRUPTED:
            return _interrupted(task, judge, first)
        start = start_of(fabric, first.decision, problem.is_allowed)
    beginning = route_turns(fabric, netlist, start.sites[None], start.flow_class[None])
    end = math.inf if options.time_limit is None else begin + options.time_limit
    if judge is not None:
        first_judged = elite.favourite if problem.warm_start is None else beginning
        if first_judged is not None and time.monotonic() + judge.seconds <= end:
            judge.simulate(first_judged)
        if judge.is_interrupted:
            options = replace(options, max_moves=1)
    if options.time_limit is not None:
        left = end - time.monotonic()
        if judge is not None:  # where simulations are slow, they get all that is left
            left -= problem.finalists * judge.seconds
        options = replace(options, time_limit=max(left, 1e-3))
    replay = Replay()
    after_round = _phase("search", watch, (elite, replay))
    result = anneal(fabric, netlist, cost, start, options, seed, after_round)
    elite.add(result.decision)
    done = StartResult(
        task.number, beginning, result, result.decision, replay=tuple(replay.snapshots)
    )
    if judge is None:
        return done
    if judge.is_interrupted or result.status is AnnealStatus.INTERRUPTED:
        return replace(_interrupted(task, judge, result), start=beginning, replay=done.replay)
    number = problem.finalists
    if judge.best is None:
        judge.simulate(result.decision)
        number -= 1
    favourite = judge.judge(cost, elite, number, end - time.monotonic())
    return replace(_judged(done, problem, judge), favourite=favourite)


def _judged(start: StartResult, problem: Problem, judge: Judge) -> StartResult:
    """With the fastest that was simulated as its result, if any was."""
    if judge.best is None:
        return start
    energy = energy_of(problem.cost, problem.netlist, judge.best)
    status = AnnealStatus.INTERRUPTED if judge.is_interrupted else start.result.status
    result = replace(start.result, decision=judge.best, energy=energy, status=status)
    return replace(start, result=result, simulated=judge.throughput)


def _interrupted(task: SearchTask, judge: Judge | None, last: AnnealResult) -> StartResult:
    """After Ctrl-C nothing more is simulated."""
    problem = task.problem
    energy = energy_of(problem.cost, problem.netlist, last.decision)
    ended = replace(last, energy=energy, status=AnnealStatus.INTERRUPTED)
    start = StartResult(task.number, last.decision, ended, last.decision)
    return start if judge is None else _judged(start, problem, judge)


def fit_schedule(options: AnnealOptions, num_units: int) -> AnnealOptions:
    """Shorter rounds where a limit of moves would end the search before it has cooled.

    Only when the start temperature is given: a measured one is not known beforehand.
    """
    schedule, temperature = options.schedule, options.start_temperature
    if options.max_moves is None or temperature is None or temperature <= schedule.end:
        return options
    num_rounds = math.ceil(schedule.rounds_left(temperature, is_polishing=True))
    share = options.max_moves / num_rounds / schedule.round_moves(num_units, options.effort)
    if share >= 1:
        return options
    shorter = replace(schedule, moves_per_round=schedule.moves_per_round * share)
    return replace(options, schedule=shorter)


def _load_compiled(problem: Problem, start: Start) -> None:
    """Use each engine once, so that no limit of time is spent on compilation."""
    costs = [problem.cost]
    if problem.warm_start is None and problem.start is StartKind.HEURISTIC:
        costs.append(HeuristicCost(problem.fabric, problem.rules))
    if problem.finalists:
        decision = route_turns(
            problem.fabric, problem.netlist, start.sites[None], start.flow_class[None]
        )
        simulate_stack(problem.fabric, problem.netlist, decision, Limits(max_cycles=1))
    options = AnnealOptions(max_moves=1, start_temperature=1.0)
    for cost in costs:
        result = anneal(problem.fabric, problem.netlist, cost, start, options, seed=0)
        if result.status is AnnealStatus.INTERRUPTED:
            raise KeyboardInterrupt


def _phase(
    name: str,
    watch: Watch | None,
    keep: tuple[Elite, Replay] | None = None,
) -> Callable[[Round, Search], None]:
    def after_round(point: Round, search: Search) -> None:
        if watch is not None:
            watch(name, point)
        if keep is not None:
            elite, replay = keep
            best = search.best()
            elite.add(best)
            replay.add(point, best)

    return after_round
