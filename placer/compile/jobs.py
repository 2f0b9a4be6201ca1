"""What workers do for a compilation: lower and judge plans of a segment, or place one and simulate it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placer.annealing import AnnealOptions, Strategy, Task, search_starts
from placer.base import FloatArray, InputError
from placer.cost import USUAL_SHARE, CostChoice, CostModel, HeuristicCost, PotentialCost, Rules
from placer.decision import Decisions, allowed_sites
from placer.fabric import Fabric
from placer.netlist import Netlist, full_bound
from placer.netlist.lowering import DrawnSegment, Recipe, Section, SectionPlan, build_section
from placer.pipeline import SectionResult, SectionRun, expected_run, run_of
from placer.simulation import LONG_SAMPLE_CYCLES, Measurement, label_limits, simulate, simulate_short

EFFORT = 0.3  # of an anneal: several short ones and a look at the best end higher than a long one
FILL_STAGES = 0.75  # of a period that a sample is taken to spend in each stage while the pipeline fills
RACE_MARGIN = 0.01  # how much too slow by a short simulation is too slow for a full one


@dataclass(frozen=True, slots=True)
class Setting:
    """What all jobs of a compilation have in common."""

    fabric: Fabric
    cost: CostChoice
    rules: Rules  # of the anneals
    seed: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan of a segment that fits, and what is expected of it before it is placed."""

    recipe: Recipe
    plan: SectionPlan
    fingerprint: str  # of the netlist
    units: int
    flows: int
    run: SectionRun  # with the period that plans usually reach, and the first sample
    predicted_cycles: float  # period by the cost model; nan if it was not asked


@dataclass(frozen=True, slots=True)
class EstimateJob:
    """Judge plans of one segment without placing them."""

    setting: Setting
    segment: DrawnSegment
    recipes: tuple[Recipe, ...]

    def __str__(self) -> str:
        return f"plans of {self.segment.groups[0].main.name!r} to {self.segment.groups[-1].output!r}"

    def run(self) -> list[Candidate]:
        """Return the candidates among the recipes: those that fit."""
        fabric, segment = self.setting.fabric, self.segment
        built: list[tuple[Recipe, Section]] = []
        for recipe in self.recipes:
            try:
                built.append((recipe, section_of(fabric, segment, segment.plan_by(fabric, recipe))))
            except InputError:
                continue
        reached = potentials(_cost_of(self.setting), fabric, [section.netlist for _, section in built])
        return [
            candidate_of(fabric, recipe, section, float(potential))
            for (recipe, section), potential in zip(built, reached, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Placed:
    """A placement of a candidate; simulated in full only if it can be of use."""

    period: float  # cycles per sample, by the longest simulation that was made; nan if it has none
    decision: Decisions
    measurement: Measurement | None = None
    run: SectionRun | None = None  # of a full simulation


@dataclass(frozen=True, slots=True)
class PlaceJob:
    """Place a plan of one segment by one anneal, and simulate what came out."""

    setting: Setting
    segment: DrawnSegment
    plan: SectionPlan
    number: tuple[int, ...]  # of kind, candidate and anneal: a child seed of its own
    limit_cycles: float  # a period above it is of no use

    def __str__(self) -> str:
        return f"a plan of {self.segment.groups[0].main.name!r} to {self.segment.groups[-1].output!r}"

    def run(self) -> Placed:
        setting, fabric = self.setting, self.setting.fabric
        section = section_of(fabric, self.segment, self.plan)
        netlist = section.netlist
        task = Task(fabric, netlist, HeuristicCost(fabric, setting.rules), allowed_sites(fabric, netlist, None))
        seed = (setting.seed, *self.number)
        decision = search_starts(task, Strategy(AnnealOptions(effort=EFFORT)), seed).best.result.decision
        if math.isfinite(self.limit_cycles) and netlist.bound_cycles >= LONG_SAMPLE_CYCLES:
            period = float(simulate_short(fabric, netlist, decision).cycles_per_sample[0])
            if not period * (1 - RACE_MARGIN) <= self.limit_cycles:
                return Placed(period, decision)
        measured = simulate(fabric, netlist, decision, label_limits(netlist.bound_cycles))[0]
        run = run_of(fabric, SectionResult(section, decision, measured))
        return Placed(measured.cycles_per_sample, decision, measured, run)


Job = EstimateJob | PlaceJob


def do(job: Job) -> list[Candidate] | Placed:
    """Do a job; this runs in a worker."""
    return job.run()


def section_of(fabric: Fabric, segment: DrawnSegment, plan: SectionPlan) -> Section:
    """Lower a segment as planned. Raises InputError when that cannot be."""
    return build_section(fabric, segment.graph, segment.groups, plan, segment.graph.name)


def candidate_of(fabric: Fabric, recipe: Recipe, section: Section, potential: float | None = None) -> Candidate:
    """Return a plan with what is usually reached, and with what is predicted if a placement reaches `potential`."""
    netlist = section.netlist
    bound = full_bound(fabric, netlist).cycles
    period = bound / USUAL_SHARE
    run = expected_run(fabric, section, period, (FILL_STAGES * netlist.num_stages + 1) * period)
    size = netlist.num_units, netlist.num_flows
    predicted = math.nan if potential is None else max(netlist.bound_cycles / potential, bound)
    return Candidate(recipe, section.plan, netlist.fingerprint, *size, run, predicted)


def potentials(cost: CostModel, fabric: Fabric, netlists: Sequence[Netlist]) -> FloatArray:
    """Return what good placements will reach: by the cost model if it knows, else by rules."""
    if not netlists:
        return np.empty(0)
    knows = cost if isinstance(cost, PotentialCost) else HeuristicCost(fabric)
    return knows.potential(netlists)


_costs: list[tuple[Setting, CostModel]] = []  # the last one of this process


def _cost_of(setting: Setting) -> CostModel:
    """Return the cost model of a setting; a process loads it once."""
    if not _costs or _costs[0][0] != setting:
        _costs[:] = [(setting, setting.cost.model(setting.fabric, setting.rules, setting.seed))]
    return _costs[0][1]
