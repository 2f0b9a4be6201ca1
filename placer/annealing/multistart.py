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

from placer.annealing.annealer import AnnealOptions, AnnealResult, AnnealStatus, Round, anneal
from placer.annealing.finalists import Elite, Judge
from placer.annealing.loop import Start
from placer.annealing.pool import search_pool
from placer.annealing.replay import Replay, Snapshot
from placer.annealing.search import Search
from placer.annealing.starts import random_start, start_of
from placer.annealing.task import Strategy, Task
from placer.base import InputError
from placer.base.workers import WorkerCrashError, run_local
from placer.cost import HeuristicCost, energy_of
from placer.decision import Decisions
from placer.decision.routing import route_turns
from placer.simulation import Limits, ShortLimits, simulate_short, simulate_stack


@dataclass(frozen=True, slots=True)
class StartJob:
    """One start of a task."""

    task: Task
    strategy: Strategy
    number: int
    run_seed: int | tuple[int, ...]

    def __str__(self) -> str:
        return f"start {self.number} of netlist {self.task.netlist.name!r}"

    def seeds(self) -> tuple[int, list[tuple[int, int]]]:
        """Return the seed of the search, and those of placement and search of each pool member.

        The first are the same for a pool of any size.
        """
        sequence = np.random.SeedSequence(self.run_seed, spawn_key=(self.number,))
        words = sequence.generate_state(1 + 2 * self.strategy.pool, np.uint64).tolist()
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
        """Return the fastest that was simulated, else the lowest energy; then the lowest number."""
        return min(self.starts, key=lambda start: (-(start.simulated or 0), start.result.energy))


Watch = Callable[[str, Round], None]  # name of the phase, and its last round


def search_starts(
    task: Task,
    strategy: Strategy,
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
        only = search_once(StartJob(task, strategy, 0, seed), watch)
        is_interrupted = only.result.status is AnnealStatus.INTERRUPTED
        return MultiStartResult((only,), KeyboardInterrupt() if is_interrupted else None)
    _load_compiled(task, strategy, random_start(task.fabric, task.netlist, task.is_allowed, 0))
    jobs = [StartJob(task, strategy, number, seed) for number in range(starts)]
    done: dict[int, StartResult] = {}
    ending: KeyboardInterrupt | WorkerCrashError | None = None
    try:
        for number, result in run_local(search_once, jobs, workers, has_last_words=True):
            done[number] = result
            if on_finish is not None:
                on_finish(result)
    except (KeyboardInterrupt, WorkerCrashError) as error:
        if not done:
            raise
        ending = error
    return MultiStartResult(tuple(done[number] for number in sorted(done)), ending)


def search_once(job: StartJob, watch: Watch | None = None, elite: Elite | None = None) -> StartResult:
    """Run one start to its end; `elite` takes what the pool and each round found best."""
    task, strategy, elite = job.task, job.strategy, Elite() if elite is None else elite
    fabric, netlist, cost = task.fabric, task.netlist, task.cost
    options = fit_schedule(strategy.options, netlist.num_units)
    seed, start_seeds = job.seeds()
    start = strategy.warm_start
    if start is None:
        start = random_start(fabric, netlist, task.is_allowed, start_seeds[0][0])
    _load_compiled(task, strategy, start)
    begin = time.monotonic()
    judge = Judge(fabric, netlist) if strategy.finalists else None
    if strategy.has_pool:
        after_round = _phase("heuristic", watch)
        first = search_pool(task, strategy, start_seeds, elite, judge, after_round)
        if first.status is AnnealStatus.INTERRUPTED:
            return _interrupted(job, judge, first)
        start = start_of(fabric, first.decision, task.is_allowed)
    beginning = route_turns(fabric, netlist, start.sites[None], start.flow_class[None])
    end = math.inf if options.time_limit is None else begin + options.time_limit
    if judge is not None:
        first_judged = elite.favourite if strategy.warm_start is None else beginning
        if first_judged is not None and time.monotonic() + judge.seconds <= end:
            judge.simulate(first_judged)
        if judge.is_interrupted:
            options = replace(options, max_moves=1)
    if options.time_limit is not None:
        left = end - time.monotonic()
        if judge is not None:  # where simulations are slow, they get all that is left
            left -= strategy.finalists * judge.seconds
        options = replace(options, time_limit=max(left, 1e-3))
    replay = Replay()
    after_round = _phase("search", watch, (elite, replay))
    result = anneal(fabric, netlist, cost, start, options, seed, after_round)
    elite.add(result.decision)
    done = StartResult(job.number, beginning, result, result.decision, replay=tuple(replay.snapshots))
    if judge is None:
        return done
    if judge.is_interrupted or result.status is AnnealStatus.INTERRUPTED:
        return replace(_interrupted(job, judge, result), start=beginning, replay=done.replay)
    number = strategy.finalists
    if judge.best is None:
        judge.simulate(result.decision)
        number -= 1
    favourite = judge.judge(cost, elite, number, end - time.monotonic())
    return replace(_judged(done, task, judge), favourite=favourite)


def _judged(start: StartResult, task: Task, judge: Judge) -> StartResult:
    """Return it with the fastest that was simulated as its result, if any was."""
    if judge.best is None:
        return start
    energy = energy_of(task.cost, task.netlist, judge.best)
    status = AnnealStatus.INTERRUPTED if judge.is_interrupted else start.result.status
    result = replace(start.result, decision=judge.best, energy=energy, status=status)
    return replace(start, result=result, simulated=judge.throughput)


def _interrupted(job: StartJob, judge: Judge | None, last: AnnealResult) -> StartResult:
    """Return what there is after Ctrl-C: nothing more is simulated."""
    energy = energy_of(job.task.cost, job.task.netlist, last.decision)
    ended = replace(last, energy=energy, status=AnnealStatus.INTERRUPTED)
    start = StartResult(job.number, last.decision, ended, last.decision)
    return start if judge is None else _judged(start, job.task, judge)


def fit_schedule(options: AnnealOptions, num_units: int) -> AnnealOptions:
    """Shorten rounds where a limit of moves would end the search before it has cooled.

    This is done only when the start temperature is given: a measured one is not known beforehand.
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


def _load_compiled(task: Task, strategy: Strategy, start: Start) -> None:
    """Use each engine once, so that no limit of time is spent on compilation."""
    fabric, netlist, costs = task.fabric, task.netlist, [task.cost]
    if strategy.has_pool:
        costs.append(HeuristicCost(fabric, strategy.rules))
    if strategy.finalists:
        decision = route_turns(fabric, netlist, start.sites[None], start.flow_class[None])
        simulate_stack(fabric, netlist, decision, Limits(max_cycles=1))
        simulate_short(fabric, netlist, decision, ShortLimits(least=0.01, most=0.01))
    options = AnnealOptions(max_moves=1, start_temperature=1.0)
    for cost in costs:
        result = anneal(fabric, netlist, cost, start, options, seed=0)
        if result.status is AnnealStatus.INTERRUPTED:
            raise KeyboardInterrupt


def _phase(name: str, watch: Watch | None, keep: tuple[Elite, Replay] | None = None) -> Callable[[Round, Search], None]:
    """Return what follows each round: tell `watch`, and keep the best so far."""

    def after_round(point: Round, search: Search) -> None:
        if watch is not None:
            watch(name, point)
        if keep is not None:
            elite, replay = keep
            best = search.best()
            elite.add(best)
            replay.add(point, best)

    return after_round
