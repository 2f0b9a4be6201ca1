"""Sweep fabric settings for one network: ask a cost model about all of them, place and simulate the best.

    1. Every fabric of the sweep: the network is lowered by rules, and the cost model says what good
       placements of its netlists will reach (`potential`); filling of pipelines is not counted.
    2. Fabrics near the front of expected throughput against area: placed as `placer.place` does, and
       simulated.
    3. The front of those.

Both steps are jobs whose results are kept as files: the same command goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from placer.base import DoesNotFitError, InputError, Positive, source_key
from placer.base.workers import ExecutorKind, Workers, digest_of, run_jobs
from placer.cost import HeuristicCost, PotentialCost, file_hashes
from placer.explore.front import front_of, hopeful
from placer.explore.sweep import Point, points_of
from placer.fabric import Fabric, area_mm2
from placer.graph import DataflowGraph, to_json
from placer.netlist import full_bound
from placer.netlist.lowering import Section, default_plan, lower_plan
from placer.pipeline import (
    NetworkTime,
    PlaceConfig,
    SearchProgress,
    SectionRun,
    expected_run,
    network_time,
    place_sections,
    run_of,
)

KIND, SCHEMA_VERSION = "explored fabric", 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreConfig(PlaceConfig):
    """What `conf/explore.yaml` holds."""

    sweep: dict[str, Any]
    margin: Positive
    executor: ExecutorKind
    ray_address: str | None

    def check(self) -> None:
        PlaceConfig.check(self)
        if self.plan is not None:
            raise InputError(f"plan={self.plan}: a plan is for one fabric; leave it out")
        if not self.fabric.clock_mhz or self.fabric.area is None:
            raise InputError(f"fabric {self.fabric.name!r} has no clock or no area; state both to compare designs")
        points_of(self.fabric, self.sweep)


@dataclass(frozen=True, slots=True)
class Explored:
    """One fabric of a sweep, and what the network makes of it."""

    number: int  # in the sweep
    point: Point
    areas: dict[str, float]  # mm^2 by kind of part
    expected: float | None  # inputs per second by the cost model; None: the network does not fit
    reason: str  # why it does not fit
    time: NetworkTime | None = None  # simulated; None: not near the front

    @property
    def area(self) -> float:
        return sum(self.areas.values())

    @property
    def simulated(self) -> float | None:
        """Return the inputs per second."""
        return None if self.time is None else self.time.inputs_per_second


@dataclass(frozen=True, slots=True)
class Exploration:
    """A network on all fabrics of a sweep."""

    network: str
    fabrics: tuple[Explored, ...]

    @property
    def front(self) -> list[Explored]:
        """Return the simulated fabrics that none beats in area and throughput, by area."""
        known = [one for one in self.fabrics if one.time is not None]
        return [known[k] for k in front_of([one.area for one in known], [one.simulated or 0.0 for one in known])]


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of a fabric before anything is placed."""

    inputs_per_second: float | None  # None: the network does not fit
    reason: str


@dataclass(frozen=True, slots=True)
class Measured:
    """The sections of a network, placed and simulated."""

    runs: list[SectionRun]

    @staticmethod
    def of(values: dict[str, Any]) -> Measured:
        return Measured([SectionRun(**run) for run in values["runs"]])


@dataclass(frozen=True, slots=True)
class FabricJob:
    """A network on one fabric of a sweep; `is_placed`: it is placed and simulated, not only expected."""

    config: PlaceConfig
    graph: DataflowGraph
    is_placed: bool

    def __str__(self) -> str:
        return f"fabric of {self.config.fabric.columns} x {self.config.fabric.rows} tiles"

    def origin(self) -> dict[str, Any]:
        """Return what the result depends on, besides the speed of the machine."""
        settings = asdict(self.config)
        for name in ("output", "timeline", "workers"):
            del settings[name]
        return {
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "code": source_key(Path(__file__)),
            "graph": digest_of(to_json(self.graph)),
            "settings": digest_of(settings),
            "files": file_hashes(self.config.cost),
            "is_placed": self.is_placed,
        }

    def sections(self) -> tuple[Section, ...]:
        config = self.config
        plan = default_plan(config.fabric, self.graph, config.fill, config.batch)
        return lower_plan(config.fabric, self.graph, plan)


def explore(config: ExploreConfig, on_progress: Callable[[int, int], None] = lambda done, total: None) -> Exploration:
    """Return all fabrics of the sweep; those near the front are simulated.

    `on_progress` is told of (finished fabrics, all fabrics), first of those expected, then of those simulated.
    Raises InputError when the network fits none of them.
    """
    points, graph = points_of(config.fabric, config.sweep), config.make_graph()
    workers = Workers(executor=config.executor, workers=config.workers, ray_address=config.ray_address)
    base = place_config(config)
    expected = run_jobs(
        [FabricJob(replace(base, fabric=point.fabric), graph, is_placed=False) for point in points],
        expect, config.output / "jobs", decode=lambda values: Expected(**values), workers=workers,
        on_progress=on_progress,
    )  # fmt: skip
    explored = [
        Explored(number, point, area_mm2(point.fabric) or {}, found.inputs_per_second, found.reason)
        for number, (point, found) in enumerate(zip(points, expected, strict=True))
    ]
    fit = [k for k, one in enumerate(explored) if one.expected is not None]
    if not fit:
        raise InputError(f"{graph.name!r} fits none of the {len(points)} fabrics; the last one: {explored[-1].reason}")
    chosen = hopeful([explored[k].area for k in fit], [explored[k].expected or 0.0 for k in fit], config.margin)
    near = [fit[k] for k in chosen]
    measured = run_jobs(
        [FabricJob(replace(base, fabric=points[k].fabric), graph, is_placed=True) for k in near],
        measure, config.output / "jobs", decode=Measured.of, workers=workers,
        on_progress=on_progress,
    )  # fmt: skip
    for k, found in zip(near, measured, strict=True):
        explored[k] = replace(explored[k], time=network_time(points[k].fabric, found.runs, config.batch))
    return Exploration(graph.name, tuple(explored))


def place_config(config: ExploreConfig) -> PlaceConfig:
    """Return how one fabric is placed: the same settings without the sweep, in one process."""
    names = [name for name in PlaceConfig.__dataclass_fields__ if name != "workers"]
    return PlaceConfig(**{name: getattr(config, name) for name in names}, workers=1)


def expect(job: FabricJob) -> Expected:
    """Lower the network and ask the cost model what its sections will reach. Runs in a worker."""
    config, fabric = job.config, job.config.fabric
    try:
        sections = job.sections()
    except DoesNotFitError as error:
        return Expected(None, str(error))
    cost = config.cost.model(fabric, config.rules, config.seed)
    knows = cost if isinstance(cost, PotentialCost) else HeuristicCost(fabric, config.rules)
    reached = knows.potential([section.netlist for section in sections])
    runs = [_expected_run(fabric, one, float(share)) for one, share in zip(sections, reached, strict=True)]
    return Expected(network_time(fabric, runs, config.batch).inputs_per_second, "")


def _expected_run(fabric: Fabric, section: Section, potential: float) -> SectionRun:
    """Return a section that reaches its potential; the pipeline needs no time to fill."""
    netlist = section.netlist
    period = max(netlist.bound_cycles / potential, full_bound(fabric, netlist).cycles)
    return expected_run(fabric, section, period, period)


def measure(job: FabricJob) -> Measured:
    """Place and simulate every section of the network. Runs in a worker."""
    config, sections = job.config, job.sections()
    placed = place_sections(config, sections, SearchProgress(config.to_options(), config.starts))
    if placed[-1].is_interrupted:
        raise KeyboardInterrupt  # half a network is no result
    return Measured([run_of(config.fabric, one) for one in placed])
