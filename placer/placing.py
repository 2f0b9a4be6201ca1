"""Place every section of a configured graph: problems, searches, final routes, figures."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from placer.annealing import AnnealOptions, MoveMix, Schedule
from placer.annealing.constraints import allowed_sites, load_constraints, require_known_units
from placer.annealing.interrupt import Interrupt
from placer.annealing.multistart import MultiStartResult, search_starts
from placer.annealing.problem import Problem, StartKind
from placer.annealing.replay import Snapshot
from placer.annealing.rerouting import FinalRouting, energy_of, reroute
from placer.annealing.starts import load_start, random_start
from placer.check import check
from placer.cost_choice import CostChoice
from placer.decision import Decisions
from placer.errors import InputError
from placer.fabric import Fabric
from placer.heuristic import Rules
from placer.importing import InputKind
from placer.lowering import Section, lower_sections
from placer.place_progress import SearchProgress
from placer.routing import RoutingMethod
from placer.simulate import SimulateConfig, make_graph
from placer.simulation import PRECISE_LIMITS, Measurement, simulate
from placer.workloads import WorkloadConfig

MAX_STEPS = 5  # between start and result that are simulated
STEP_SECONDS = 1.0  # that this may take,
STEP_SHARE = 0.05  # or this share of the search
WARM_TEMPERATURE = 0.01  # at which a warm start is annealed: hotter would forget it


@dataclass(frozen=True, slots=True)
class PlaceConfig:
    """What `conf/place.yaml` holds."""

    fabric: Fabric
    workload: WorkloadConfig
    graph: Path | None
    fill: float
    sample_cycles: int
    cost: CostChoice
    effort: float
    seed: int
    time_limit: float | None
    max_moves: int | None
    starts: int
    workers: int
    start: StartKind
    pool: int
    finalists: int
    start_temperature: float | None
    constraints: Path | None
    warm_start: Path | None
    final_routing: FinalRouting
    moves: MoveMix
    schedule: Schedule
    rules: Rules
    output: Path
    model: str | None = None
    model_arguments: dict[str, Any] | None = None
    input_shape: tuple[int, ...] | None = None
    input_kind: InputKind = InputKind.NUMBERS

    def __post_init__(self) -> None:
        for name in ("starts", "workers"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"{name}={getattr(self, name)} is out of range; allowed: 1 or more"
                )
        self.to_options()
        self.to_simulate()

    def to_options(self) -> AnnealOptions:
        """How one start is searched; starts that wait for a process share the time limit."""
        AnnealOptions(effort=self.effort, time_limit=self.time_limit)  # refused as given
        turns = math.ceil(self.starts / self.workers)
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

    def to_simulate(self) -> SimulateConfig:
        """The part that says which graph to lower."""
        return SimulateConfig(
            self.fabric, self.workload, self.graph, "random", RoutingMethod.XY, self.fill,
            self.sample_cycles, self.seed, self.output,
            self.model, self.model_arguments, self.input_shape, self.input_kind,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figures:
    """A placement, judged in three ways."""

    energy: float  # what the search descends
    predicted: float  # normalised throughput, by the cost model
    measurement: Measurement  # by a long simulation


@dataclass(frozen=True, slots=True)
class Step:
    """A placement that the search passed, judged as it looked then and by a short simulation."""

    snapshot: Snapshot
    predicted: float
    simulated: float  # throughput; nan when it was not measured


@dataclass(frozen=True, slots=True)
class PlacedSection:
    """One section, placed."""

    section: Section
    search: MultiStartResult
    decision: Decisions
    routing: FinalRouting
    start: Figures  # where the best search began
    result: Figures
    steps: tuple[Step, ...] = ()  # some from start to result
    is_last: bool = False  # Ctrl-C while it was simulated, or the next section was searched

    @property
    def is_interrupted(self) -> bool:
        """The search or those after it did not come to their end."""
        return self.is_last or self.search.is_interrupted

    @property
    def cycles_per_input(self) -> float:
        """Cycles per input of the graph that all sections of this kind take."""
        period = self.result.measurement.cycles_per_sample
        return self.section.repeats * self.section.samples * period


def run(config: PlaceConfig, progress: SearchProgress) -> list[PlacedSection]:
    """Place every distinct section of the configured graph.

    After Ctrl-C the sections so far are returned, the last one with the best that was found.
    """
    sections = lower_sections(config.fabric, make_graph(config.to_simulate()), config.fill)
    problems = _problems(config, sections)
    placed: list[PlacedSection] = []
    for number, (section, problem) in enumerate(zip(sections, problems, strict=True)):
        progress.begin(f"{section.netlist.name} ({number + 1} of {len(sections)})")
        try:
            placed.append(_place(config, section, problem, number, progress))
        except KeyboardInterrupt:
            if not placed:
                raise
            placed[-1] = replace(placed[-1], is_last=True)
            break
        if placed[-1].is_interrupted:
            break
    return placed


def _problems(config: PlaceConfig, sections: Sequence[Section]) -> list[Problem]:
    """What to search; wrong constraints and files are found here, before any search."""
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
    options, problems = config.to_options(), []
    for netlist in netlists:
        is_allowed = allowed_sites(fabric, netlist, constraints)
        warm_start = None
        if config.warm_start is not None:
            warm_start = load_start(config.warm_start, fabric, netlist, is_allowed)
        else:
            random_start(fabric, netlist, is_allowed, config.seed)  # can it be done?
        problems.append(
            Problem(
                fabric,
                netlist,
                cost,
                is_allowed,
                options,
                config.start,
                config.rules,
                warm_start,
                config.pool,
                config.finalists,
            )
        )
    return problems


def _place(
    config: PlaceConfig, section: Section, problem: Problem, number: int, progress: SearchProgress
) -> PlacedSection:
    fabric, netlist = config.fabric, section.netlist
    search = search_starts(
        problem, (config.seed, number), config.starts, config.workers,
        progress.on_round, progress.on_finish,
    )  # fmt: skip
    best, routing = search.best, FinalRouting.DIMENSION_ORDERED
    decision = best.result.decision
    if config.final_routing is FinalRouting.NEGOTIATED:
        decision, routing = reroute(fabric, netlist, problem.cost, decision)
    check(fabric, netlist, decision)
    with Interrupt() as interrupt:  # what was found is measured all the same
        begin = time.perf_counter()
        start, result = _judge(problem, best.start, decision)
        num_steps = affordable_steps(best.result.seconds, time.perf_counter() - begin)
        steps = _judge_steps(problem, best.replay, num_steps)
    is_last = interrupt.is_asked
    return PlacedSection(section, search, decision, routing, start, result, steps, is_last)


def affordable_steps(search_seconds: float, judge_seconds: float) -> int:
    """How many placements on the way are simulated: none where one takes long, as on `large`.

    `judge_seconds` is what start and result took, which are simulated for longer than they are.
    """
    budget = max(STEP_SECONDS, STEP_SHARE * search_seconds)
    return min(MAX_STEPS, int(budget / judge_seconds))


def _judge(problem: Problem, *decisions: Decisions) -> list[Figures]:
    """Long simulations, one thread each: most of the time that a section takes on `large`."""
    fabric, netlist, cost = problem.fabric, problem.netlist, problem.cost
    with ThreadPoolExecutor(len(decisions)) as pool:
        measured = [pool.submit(simulate, fabric, netlist, d, PRECISE_LIMITS) for d in decisions]
    return [
        Figures(
            energy=energy_of(cost, netlist, decision),
            predicted=float(cost.score(netlist, decision)[0]),
            measurement=future.result()[0],
        )
        for decision, future in zip(decisions, measured, strict=True)
    ]


def _judge_steps(problem: Problem, replay: Sequence[Snapshot], number: int) -> tuple[Step, ...]:
    """Of so many placements, evenly spread from the first to the last; two or more, or none."""
    if not replay or number < 2:
        return ()
    fabric, netlist = problem.fabric, problem.netlist
    chosen = np.unique(np.linspace(0, len(replay) - 1, number).round().astype(int))
    replay = [replay[k] for k in chosen]
    decisions = Decisions.concatenate(snapshot.decision for snapshot in replay)
    predicted = problem.cost.score(netlist, decisions)
    measured = simulate(fabric, netlist, decisions)
    return tuple(
        Step(snapshot, float(score), measurement.throughput)
        for snapshot, score, measurement in zip(replay, predicted, measured, strict=True)
    )
