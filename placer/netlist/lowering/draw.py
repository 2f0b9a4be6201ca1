"""Random netlists: different sizes, depths and shares of the fabric, for studies and datasets.

A *segment* is a part of a random network that runs on the whole fabric for a while. It can be laid
out in many ways: its plan by rules, and others with more or fewer units, larger or smaller samples,
copies of the pipeline, and buffers cut otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from placer.base import DoesNotFitError, InputError
from placer.fabric import Fabric
from placer.graph import DataflowGraph
from placer.graph.workloads import FAMILIES, FamilySpec, build, sample_network, sample_spec
from placer.netlist import Netlist
from placer.netlist.lowering.groups import Group, form_groups
from placer.netlist.lowering.lower import lower
from placer.netlist.lowering.rules import macs_for_cycles, plan_section
from placer.netlist.lowering.sections import default_plan
from placer.netlist.lowering.slicing import sliced
from placer.netlist.lowering.tiling import find_tiles, section_graph, stored_readers
from placer.netlist.plan import BufferPlan, SectionPlan, TileAxis, Tiling

CYCLES_RANGE = (0.6, 1.7)  # cycles per sample of a random netlist over those asked for
FILL_RANGE = (0.65, 0.95)  # share of the compute units that it may use
OTHER_FILL_RANGE = (0.3, 1.0)  # the same for further plans of a segment
MAX_TRIES = 12  # to find one more plan of a segment


@dataclass(frozen=True, slots=True)
class DrawnPlan:
    """A segment, laid out in one way."""

    netlist: Netlist
    samples: int  # per input of the network
    plan: SectionPlan


@dataclass(frozen=True, slots=True)
class DrawnSegment:
    """A part of a random network."""

    graph: DataflowGraph  # of the whole network
    groups: tuple[Group, ...]  # that the segment is made of
    plan: SectionPlan  # by rules
    about: dict[str, Any]  # what was drawn

    def lowered(self, fabric: Fabric, plan: SectionPlan) -> DrawnPlan:
        """Build what a plan says. Raises InputError when it is not legal, or does not fit."""
        netlist = lower(fabric, self.part(plan.sample), plan)
        return DrawnPlan(netlist, plan.sample.samples, plan)

    def part(self, sample: Tiling) -> DataflowGraph:
        """Return the graph of one sample."""
        return section_graph(self.graph, self.groups, sample, stored_readers(self.graph), self.graph.name)


def draw_spec(fabric: Fabric, family: str, sample_cycles: int, rng: np.random.Generator) -> tuple[FamilySpec, float]:
    """Draw a workload for about `sample_cycles`, and the share of the fabric that it may fill."""
    low, high = CYCLES_RANGE
    cycles = round(sample_cycles * math.exp(rng.uniform(math.log(low), math.log(high))))
    fill = float(rng.uniform(*FILL_RANGE))
    budget = macs_for_cycles(fabric, cycles, fill)
    return sample_spec(family, budget, rng, sample_cycles=cycles), fill


def draw_netlist(fabric: Fabric, family: str, sample_cycles: int, seed: int, index: int) -> Netlist:
    """Draw netlist number `index` of a family."""
    rng = np.random.default_rng([seed, FAMILIES.index(family), index])
    spec, fill = draw_spec(fabric, family, sample_cycles, rng)
    graph = build(spec)
    return lower(fabric, graph, plan_section(fabric, graph, fill))


def draw_segment(
    fabric: Fabric, family: str, sample_cycles: int, max_cycles: int, rng: np.random.Generator
) -> DrawnSegment:
    """Draw a whole workload of one of `FAMILIES`, or a section of a random or published network.

    Workloads are drawn for about `sample_cycles`; of networks, only sections of at most `max_cycles`
    per sample are taken. Raises DoesNotFitError when what was drawn does not fit, or has none.
    """
    if family in FAMILIES:
        spec, fill = draw_spec(fabric, family, sample_cycles, rng)
        graph = build(spec)
        about = {"family": family, **asdict(spec), "fill": fill}
        return DrawnSegment(graph, tuple(form_groups(graph)), plan_section(fabric, graph, fill), about)
    graph, about = sample_network(family, rng)
    fill = float(rng.uniform(*FILL_RANGE))
    segments = list(_segments(fabric, graph, fill))
    cycles = [segment.lowered(fabric, segment.plan).netlist.bound_cycles for segment in segments]
    short = [number for number, bound in enumerate(cycles) if bound <= max_cycles]
    if not short:
        raise DoesNotFitError(
            f"cycles per sample of any section of {graph.name!r}", min(cycles), max_cycles, "draw another network"
        )
    chosen = int(rng.choice(short))
    drawn = {"family": family, **about, "fill": fill, "section": chosen}
    return replace(segments[chosen], about=drawn)


def _segments(fabric: Fabric, graph: DataflowGraph, fill: float) -> Iterator[DrawnSegment]:
    """Yield the distinct sections of a network by its default plan, in the order of their first use."""
    plan = default_plan(fabric, graph, fill)
    work = sliced(graph, plan.slices)
    groups = {group.output: group for group in form_groups(work)}
    for number, layout in enumerate(plan.layouts):
        cut = next(cut for cut in plan.sections if cut.layout == number)
        yield DrawnSegment(work, tuple(groups[name] for name in cut.groups), layout, {})


def draw_plans(
    fabric: Fabric, segment: DrawnSegment, number: int, max_cycles: int, rng: np.random.Generator
) -> list[DrawnPlan]:
    """Return so many different ways to lay out a segment, that by rules first.

    Raises DoesNotFitError when not as many are found.
    """
    plans = [segment.lowered(fabric, segment.plan)]
    for _ in range(MAX_TRIES * (number - 1)):
        if len(plans) == number:
            break
        try:
            drawn = segment.lowered(fabric, _other_plan(fabric, segment, rng))
        except InputError:
            continue
        is_new = all(drawn.netlist.fingerprint != known.netlist.fingerprint for known in plans)
        if is_new and drawn.netlist.bound_cycles <= max_cycles:
            plans.append(drawn)
    if len(plans) < number:
        raise DoesNotFitError(f"plans of a segment of {segment.graph.name!r}", number, len(plans), "draw another one")
    return plans


def _other_plan(fabric: Fabric, segment: DrawnSegment, rng: np.random.Generator) -> SectionPlan:
    """Draw a plan of a segment. Raises InputError when it does not fit."""
    tiles, usual = find_tiles(segment.graph, segment.groups), segment.plan.tiling
    tiling, copies = usual, 1
    if usual.axis != TileAxis.NONE:
        size = usual.size // tiles.step
        size = int(np.clip(round(size * rng.choice([0.5, 1, 1, 2])), 1, tiles.extent))
        tiling = tiles.tiling(size)
        copies = int(rng.choice([1, 1, 1, 2])) if tiling.samples > 1 else 1
    fill = float(rng.uniform(*OTHER_FILL_RANGE)) / copies
    plan = plan_section(fabric, segment.part(tiling), fill, tiling)
    if rng.random() < 0.5:
        chosen = int(rng.integers(len(plan.buffers)))
        plan = replace(
            plan, buffers=(*plan.buffers[:chosen], _cut(plan.buffers[chosen], rng), *plan.buffers[chosen + 1 :])
        )
    return replace(plan, copies=copies)


def _cut(buffer: BufferPlan, rng: np.random.Generator) -> BufferPlan:
    """Return a buffer with twice as many rows, columns or copies, or one more slot."""
    name = str(rng.choice(["rows", "columns", "copies", "slots"]))
    value = getattr(buffer, name)
    return replace(buffer, **{name: value + 1 if name == "slots" else 2 * value})
