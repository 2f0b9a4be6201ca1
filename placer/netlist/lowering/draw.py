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
from placer.netlist.lowering.cutting import tile_sizes
from placer.netlist.lowering.groups import Group, form_groups
from placer.netlist.lowering.lower import lower
from placer.netlist.lowering.rules import macs_for_cycles, plan_section
from placer.netlist.lowering.sections import NearSegment, default_plan
from placer.netlist.lowering.slicing import sliced
from placer.netlist.lowering.tiling import find_tiles, section_graph, stored_readers
from placer.netlist.lowering.work import USUAL, Style
from placer.netlist.plan import BufferPlan, SectionPlan, TileAxis, Tiling

CYCLES_RANGE = (0.6, 1.7)  # cycles per sample of a random netlist over those asked for
FILL_RANGE = (0.65, 0.95)  # share of the compute units that it may use
OTHER_FILL_RANGE = (0.3, 1.0)  # the same for further plans of a segment
FULL_SHARE = 0.6  # of the further plans may use all of them, as searches over plans do
MAX_TRIES = 12  # to find one more plan of a segment
MOST_CHANGES = 4  # of the usual recipe in one draw
STYLES: dict[str, tuple[float, ...]] = {  # what is tried instead of the usual value, with the least and the most
    "flow_rate": (0.4, 0.5, 0.6, 0.75, 0.9, 1.0),
    "port_share": (0.25, 0.35, 0.5, 0.65, 0.8, 0.95),
    "flow_share": (0.15, 0.25, 0.35, 0.5, 0.7),
    "reach_share": (0.3, 0.4, 0.5, 0.7, 0.9),
    "extra_slots": (0, 1, 2, 3),
    "max_inner": (1, 2, 3, 4, 6, 8),
    "inner_cost": (0.0, 0.001, 0.01, 0.03),
    "rate_cost": (0.0, 0.3, 0.7, 1.5),
    "traffic_cost": (0.0, 0.03, 0.1, 0.3, 1.0),
    "vector_slack": (1.0, 1.1, 1.25, 1.5, 2.0),
}
FILLS = (0.8, 0.85, 0.9, 0.95, 1.0)
COPIES = (1, 2, 3, 4)
PARTS = ("rows", "columns", "copies", "slots")  # of a buffer that are made more
KNOBS = ("size", "size", "size", "copies", "copies", "copies", "fill", "buffer", "buffer", *STYLES)  # equally often


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a plan of a segment is made: what the rules are told, and what is changed of their plan."""

    size: int  # of a tile, in rows, rows of pixels or heads; 0: a sample is the whole input
    copies: int = 1
    fill: float = 1.0
    style: Style = USUAL
    more: tuple[tuple[int, str], ...] = ()  # number of a buffer, and what of it is doubled; one slot is added


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

    def usual_recipe(self) -> Recipe:
        """Return how the rules make a plan of the tiles that the segment's plan has."""
        return Recipe(self.plan.tiling.size // find_tiles(self.graph, self.groups).step)

    def plan_by(self, fabric: Fabric, recipe: Recipe) -> SectionPlan:
        """Return the plan that a recipe makes. Raises InputError when there is none that fits."""
        tiling = Tiling() if recipe.size == 0 else find_tiles(self.graph, self.groups).tiling(recipe.size)
        if recipe.copies > 1 and (tiling.samples < recipe.copies or tiling.axis == TileAxis.NONE):
            raise InputError(f"{recipe.copies} copies for {tiling.samples} samples; allowed: as many as samples")
        plan = plan_section(fabric, self.part(tiling), recipe.fill / recipe.copies, tiling, recipe.style)
        for number, what in recipe.more:
            if number < len(plan.buffers):
                buffers = (*plan.buffers[:number], _more(plan.buffers[number], what), *plan.buffers[number + 1 :])
                plan = replace(plan, buffers=buffers)
        return replace(plan, copies=recipe.copies)

    def vary(self, recipe: Recipe, rng: np.random.Generator, changes: int) -> Recipe:
        """Return a recipe with so many random changes."""
        for _ in range(changes):
            recipe = self._changed(recipe, str(rng.choice(KNOBS)), rng)
        return recipe

    def _changed(self, recipe: Recipe, knob: str, rng: np.random.Generator) -> Recipe:
        if knob == "size":
            return replace(recipe, size=_neighbour(tile_sizes(find_tiles(self.graph, self.groups)), recipe.size, rng))
        if knob == "copies":  # of smaller tiles, so that a sample stays about as large
            copies = int(rng.choice(COPIES))
            sizes = tile_sizes(find_tiles(self.graph, self.groups))
            whole = recipe.size * recipe.copies or sizes[-1]
            return replace(recipe, copies=copies, size=min(sizes, key=lambda size: abs(size - whole // copies)))
        if knob == "fill":
            return replace(recipe, fill=float(rng.choice(FILLS)))
        if knob == "buffer":
            number = int(rng.integers(len(self.plan.buffers)))
            return replace(recipe, more=(*recipe.more, (number, str(rng.choice(PARTS)))))
        value = rng.choice(STYLES[knob])
        kind = type(getattr(USUAL, knob))
        return replace(recipe, style=recipe.style._replace(**{knob: kind(value)}))


def _neighbour(sizes: list[int], size: int, rng: np.random.Generator) -> int:
    """Return another size, most often one of the next ones."""
    place = int(np.searchsorted(sizes, size)) if size else len(sizes)
    step = int(rng.choice([-2, -1, 1, 2], p=[0.15, 0.35, 0.35, 0.15]))
    return sizes[int(np.clip(place + step, 0, len(sizes) - 1))]


def _more(buffer: BufferPlan, what: str) -> BufferPlan:
    """Return a buffer with twice as many rows, columns or copies, or one more slot."""
    value = getattr(buffer, what)
    return replace(buffer, **{what: value + 1 if what == "slots" else 2 * value})


def segment_of(fabric: Fabric, near: NearSegment, layout: SectionPlan | None = None) -> DrawnSegment:
    """Return a segment of a network; without a layout, by rules. Raises DoesNotFitError when that does not fit."""
    groups = tuple(form_groups(near.graph))
    if layout is None:
        part = section_graph(near.graph, groups, near.tiling, stored_readers(near.graph), near.graph.name)
        layout = plan_section(fabric, part, tiling=near.tiling)
    return DrawnSegment(near.graph, groups, layout, {})


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
    fill = 1.0 if rng.random() < FULL_SHARE else float(rng.uniform(*OTHER_FILL_RANGE))
    usual = replace(segment.usual_recipe(), fill=fill)
    return segment.plan_by(fabric, segment.vary(usual, rng, int(rng.integers(0, MOST_CHANGES + 1))))
