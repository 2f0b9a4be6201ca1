"""Place every section of a configured graph: problems, searches, final routes, judgements."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from placer.annealing import (
    AnnealOptions,
    FinalRouting,
    MoveMix,
    MultiStartResult,
    Schedule,
    Snapshot,
    StartKind,
    Strategy,
    Task,
    load_start,
    random_start,
    reroute,
    search_starts,
)
from placer.base import Count, InputError, Interrupt, Positive, Whole
from placer.base.tracking import NOWHERE, TrackingConfig
from placer.cost import CostChoice, Rules, UncertainCost, energy_of, sigma_of
from placer.decision import Decisions, allowed_sites, check, load_constraints, require_known_units
from placer.netlist.lowering import Section
from placer.pipeline.progress import SearchProgress
from placer.pipeline.source import SectionResult, Source
from placer.simulation import Measurement, label_limits, simulate

MAX_STEPS = 5  # between start and result that are simulated
STEP_SECONDS = 1.0  # that this may take,
STEP_SHARE = 0.05  # or this share of the search
WARM_TEMPERATURE = 0.01  # at which a warm start is annealed: hotter would forget it
INTERVAL, INTERVAL_SIGMAS = 0.8, 1.2816  # share of intervals of predictions that hold, and their half width


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceConfig(Source):
    """What `conf/place.yaml` holds."""

    cost: CostChoice
    effort: Positive
    time_limit: Positive | None
    max_moves: Count | None
    starts: Count
    workers: Count
    start: StartKind
    pool: Count
    finalists: Whole
    start_temperature: Positive | None
    constraints: Path | None
    warm_start: Path | None
    final_routing: FinalRouting
    moves: MoveMix
    schedule: Schedule
    rules: Rules
    tracking: TrackingConfig = NOWHERE

    def to_options(self, sections: int = 1) -> AnnealOptions:
        """Return how one start is searched; sections, and starts that wait for a process, share the time limit."""
        turns = sections * math.ceil(self.starts / self.workers)
        temperature = self.start_temperature
        if temperature is None and self.warm_start is not None:
            temperature = WARM_TEMPERATURE
        return AnnealOptions(
            effort=self.effort,
            time_limit=None if self.time_limit is None else self.time_limit / turns,
            max_moves=self.max_moves,
            start_temperature=temperature,
            schedule=self.schedule,
            moves=self.moves,
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """A placement that the search passed, judged in three ways."""

    name: str  # start, after so many moves, or result
    energy: float  # what the search descends
    predicted: float  # normalised throughput, by the cost model
    measurement: Measurement  # by a simulation, a long one of start and result
    sigma: float | None = None  # deviation of the logarithm of `predicted`; None: the cost model does not tell

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return between which throughputs `INTERVAL` of such predictions lie; None: nobody knows."""
        if self.sigma is None:
            return None
        factor = math.exp(INTERVAL_SIGMAS * self.sigma)
        return self.predicted / factor, min(1.0, self.predicted * factor)


@dataclass(frozen=True, slots=True)
class PlacedSection(SectionResult):
    """One section, placed by a search."""

    search: MultiStartResult
    seconds: float  # of the whole search: pool, walks and simulations of finalists
    routing: FinalRouting
    judged: tuple[Judged, ...]  # where the best search began, some on its way, the result
    remarks: tuple[str, ...] = ()  # what is far from all that the cost model has learned from
    is_last: bool = False  # Ctrl-C while it was simulated, or the next section was searched

    @property
    def start(self) -> Judged:
        return self.judged[0]

    @property
    def result(self) -> Judged:
        return self.judged[-1]

    @property
    def is_interrupted(self) -> bool:
        """Return whether the search or those after it did not come to their end."""
        return self.is_last or self.search.is_interrupted


def place_sections(config: PlaceConfig, sections: Sequence[Section], progress: SearchProgress) -> list[PlacedSection]:
    """Place every section of the configured graph.

    After Ctrl-C the sections so far are returned, the last one with the best that was found.
    """
    tasks = _tasks(config, sections)
    placed: list[PlacedSection] = []
    for number, (section, (task, strategy)) in enumerate(zip(sections, tasks, strict=True)):
        progress.begin(f"{section.netlist.name} ({number + 1} of {len(sections)})")
        try:
            placed.append(_place(config, section, task, strategy, number, progress))
        except KeyboardInterrupt:
            if not placed:
                raise
            placed[-1] = replace(placed[-1], is_last=True)
            break
        if placed[-1].is_interrupted:
            break
    return placed


def _tasks(config: PlaceConfig, sections: Sequence[Section]) -> list[tuple[Task, Strategy]]:
    """Return what to search and how; wrong constraints and files are found before any search."""
    fabric, netlists = config.fabric, [section.netlist for section in sections]
    if config.warm_start is not None and len(sections) > 1:
        raise InputError(
            f"warm_start={config.warm_start}: the graph has {len(sections)} sections, a decision "
            "file places one; leave it out"
        )
    constraints = None
    if config.constraints is not None:
        constraints = load_constraints(config.constraints, fabric)
        require_known_units(constraints, netlists)
    cost = config.cost.model(fabric, config.rules, config.seed)
    options, tasks = config.to_options(len(sections)), []
    for netlist in netlists:
        is_allowed = allowed_sites(fabric, netlist, constraints)
        warm_start = None
        if config.warm_start is not None:
            warm_start = load_start(config.warm_start, fabric, netlist, is_allowed)
        else:
            random_start(fabric, netlist, is_allowed, config.seed)  # can it be done?
        strategy = Strategy(options, config.start, config.rules, warm_start, config.pool, config.finalists)
        tasks.append((Task(fabric, netlist, cost, is_allowed), strategy))
    return tasks


def _place(
    config: PlaceConfig, section: Section, task: Task, strategy: Strategy, number: int, progress: SearchProgress
) -> PlacedSection:
    fabric, netlist = config.fabric, section.netlist
    begin = time.perf_counter()
    search = search_starts(
        task, strategy, (config.seed, number), config.starts, config.workers,
        progress.on_round, progress.on_finish,
    )  # fmt: skip
    best, routing = search.best, FinalRouting.DIMENSION_ORDERED
    decision = best.result.decision
    if config.final_routing is FinalRouting.NEGOTIATED:
        decision, routing = reroute(fabric, netlist, task.cost, decision)
    check(fabric, netlist, decision)
    seconds = time.perf_counter() - begin
    progress.note("the search is over; a long simulation measures the result")
    with Interrupt() as interrupt:  # what was found is measured all the same
        begin = time.perf_counter()
        start, result = _judge(task, best.start, decision)
        num_steps = affordable_steps(best.result.seconds, time.perf_counter() - begin)
        judged = (start, *_judge_steps(task, best.replay, num_steps), result)
    remarks = tuple(task.cost.remarks(netlist)) if isinstance(task.cost, UncertainCost) else ()
    return PlacedSection(
        section, decision, result.measurement, search, seconds, routing, judged, remarks, interrupt.is_asked
    )


def affordable_steps(search_seconds: float, judge_seconds: float) -> int:
    """Return how many placements on the way are simulated: none where one takes long.

    `judge_seconds` is what start and result took, which are simulated for longer than they are.
    """
    budget = max(STEP_SECONDS, STEP_SHARE * search_seconds)
    return min(MAX_STEPS, int(budget / judge_seconds))


def _judge(task: Task, start: Decisions, result: Decisions) -> list[Judged]:
    """Simulate for long, one thread each: most of the time that a section takes on `large`."""
    fabric, netlist, cost = task.fabric, task.netlist, task.cost
    decisions, limits = {"start": start, "result": result}, label_limits(netlist.bound_cycles)
    with ThreadPoolExecutor(len(decisions)) as pool:
        measured = pool.map(lambda decision: simulate(fabric, netlist, decision, limits)[0], decisions.values())
    return [
        Judged(
            name, energy_of(cost, netlist, decision), float(cost.score(netlist, decision)[0]), found,
            sigma_of(cost, netlist, decision),
        )
        for (name, decision), found in zip(decisions.items(), measured, strict=True)
    ]  # fmt: skip


def _judge_steps(task: Task, replay: Sequence[Snapshot], number: int) -> list[Judged]:
    """Judge so many placements, evenly spread from the first to the last; two or more, or none."""
    if not replay or number < 2:
        return []
    chosen = np.unique(np.linspace(0, len(replay) - 1, number).round().astype(int))
    replay = [replay[k] for k in chosen]
    decisions = Decisions.concatenate(snapshot.decision for snapshot in replay)
    predicted = task.cost.score(task.netlist, decisions)
    measured = simulate(task.fabric, task.netlist, decisions)
    return [
        Judged(f"after {snapshot.moves:,} moves", snapshot.energy, float(score), found)
        for snapshot, score, found in zip(replay, predicted, measured, strict=True)
    ]
