"""Several searches for one netlist from different starts; the best one counts.

Every start has seeds of its own, made from the seed of the run and its number, so the number of
processes does not change the result (a time limit does: then speed decides).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from placer.annealing.annealer import (
    AnnealOptions,
    AnnealResult,
    AnnealStatus,
    Round,
    anneal,
)
from placer.annealing.board import BoolArray
from placer.annealing.finalists import Elite, best_of, fastest_of, seconds_to_judge
from placer.annealing.rerouting import energy_of
from placer.annealing.search import Search, Start
from placer.annealing.starts import random_start, start_of
from placer.cost import CostModel
from placer.decision import Decisions
from placer.errors import InputError
from placer.executor import WorkerCrashError
from placer.executor.local import run_local
from placer.fabric import Fabric
from placer.heuristic import HeuristicCost, Rules
from placer.netlist import Netlist
from placer.routing import route_turns


class StartKind(Enum):
    """Where a search begins when no placement is given."""

    RANDOM = "random"  # a random placement
    HEURISTIC = "heuristic"  # the end of a search with the heuristic, at the same effort


@dataclass(frozen=True, slots=True)
class Problem:
    """What to place, and how to search."""

    fabric: Fabric
    netlist: Netlist
    cost: CostModel
    is_allowed: BoolArray  # [num_units, num_sites] see `allowed_sites`
    options: AnnealOptions  # the limits hold for one start
    start: StartKind = StartKind.RANDOM
    rules: Rules = field(default_factory=Rules)  # of the heuristic that makes starts
    warm_start: Start | None = None  # begin here, whatever `start` says
    pool: int = 1  # searches with the heuristic, of which the cost model chooses the start
    finalists: int = 0  # placements that are simulated, of which the fastest is the result

    def __post_init__(self) -> None:
        if self.pool < 1 or self.finalists < 0:
            raise InputError(
                f"pool={self.pool}, finalists={self.finalists}; allowed: 1 or more, 0 or more"
            )


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
    simulated: float | None = None  # throughput of the result, when finalists were simulated


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
    if problem.warm_start is None and problem.start is StartKind.HEURISTIC:
        first = _search_by_heuristic(problem, start_seeds, elite, watch)
        if first.status is AnnealStatus.INTERRUPTED:
            ended = replace(first, energy=energy_of(cost, netlist, first.decision))
            return StartResult(task.number, first.decision, ended)
        start = start_of(fabric, first.decision, problem.is_allowed)
    if options.time_limit is not None:
        reserved = seconds_to_judge(fabric, netlist, start, problem.finalists)
        left = options.time_limit - (time.monotonic() - begin) - reserved
        options = replace(options, time_limit=max(left, 1e-3))
    result = anneal(fabric, netlist, cost, start, options, seed, _phase("search", watch, elite))
    beginning = route_turns(fabric, netlist, start.sites[None], start.flow_class[None])
    done = StartResult(task.number, beginning, result)
    return done if not problem.finalists else _choose_by_simulation(problem, done, elite)


def _choose_by_simulation(problem: Problem, done: StartResult, elite: Elite) -> StartResult:
    elite.add(done.result.decision)
    decision, simulated = fastest_of(
        problem.fabric, problem.netlist, problem.cost, elite, problem.finalists
    )
    energy = energy_of(problem.cost, problem.netlist, decision)
    result = replace(done.result, decision=decision, energy=energy)
    return replace(done, result=result, simulated=simulated)


def fit_schedule(options: AnnealOptions, num_units: int) -> AnnealOptions:
    """Shorter rounds where a limit of moves would end the search before it has cooled.

    Only when the start temperature is given: a measured one is not known beforehand.
    """
    schedule, temperature = options.schedule, options.start_temperature
    if options.max_moves is None or temperature is None or temperature <= schedule.end:
        return options
    num_rounds = math.ceil(schedule.rounds_left(temperature))
    share = options.max_moves / num_rounds / schedule.round_moves(num_units, options.effort)
    if share >= 1:
        return options
    shorter = replace(schedule, moves_per_round=schedule.moves_per_round * share)
    return replace(options, schedule=shorter)


def _search_by_heuristic(
    problem: Problem, seeds: list[tuple[int, int]], elite: Elite, watch: Watch | None
) -> AnnealResult:
    """Good starts for a slow cost model, and of these the one that it likes best.

    They take half of the time limit at most: none is begun after that, and the last is cut off.
    Ctrl-C ends them; what was found is returned.
    """
    fabric, netlist, limit = problem.fabric, problem.netlist, problem.options.time_limit
    options = AnnealOptions(effort=problem.options.effort, moves=problem.options.moves)
    end = math.inf if limit is None else time.monotonic() + limit / 2
    cost, found = HeuristicCost(fabric, problem.rules), list[AnnealResult]()
    for placement_seed, seed in seeds:
        if limit is not None:
            left = end - time.monotonic()
            if left <= 0 and found:
                break
            options = replace(options, time_limit=max(left, 1e-3))
        start = random_start(fabric, netlist, problem.is_allowed, placement_seed)
        found.append(
            anneal(fabric, netlist, cost, start, options, seed, _phase("heuristic", watch))
        )
        elite.add(found[-1].decision)
        if found[-1].status is AnnealStatus.INTERRUPTED:
            break
    elite.favourite = min(found, key=lambda result: result.energy).decision
    if len(found) == 1:
        return found[0]
    best = best_of(problem.cost, netlist, [result.decision for result in found])
    return replace(found[-1], decision=best)


def _load_compiled(problem: Problem, start: Start) -> None:
    """Try one move with each engine, so that no limit of time is spent on compilation."""
    costs = [problem.cost]
    if problem.warm_start is None and problem.start is StartKind.HEURISTIC:
        costs.append(HeuristicCost(problem.fabric, problem.rules))
    options = AnnealOptions(max_moves=1, start_temperature=1.0)
    for cost in costs:
        result = anneal(problem.fabric, problem.netlist, cost, start, options, seed=0)
        if result.status is AnnealStatus.INTERRUPTED:
            raise KeyboardInterrupt


def _phase(
    name: str, watch: Watch | None, elite: Elite | None = None
) -> Callable[[Round, Search], None]:
    def after_round(point: Round, search: Search) -> None:
        if watch is not None:
            watch(name, point)
        if elite is not None:
            elite.add_best(search)

    return after_round
