"""Cut a network into sections that run one after the other, and lower each of them.

Tensors that cross a cut go through DRAM. Within a section the pipeline works on small samples
(`tiling`). The time of a network: `placer.pipeline.network_time`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from placer.base import DoesNotFitError, InputError
from placer.fabric import Fabric, SiteKind
from placer.graph import DataflowGraph, OpKind
from placer.netlist import Netlist
from placer.netlist.lowering.check import check_plan
from placer.netlist.lowering.cutting import DEFAULT_BATCH, MAX_SAMPLE_CYCLES, Cutter, Key, Segment, nameless
from placer.netlist.lowering.groups import Group, form_groups
from placer.netlist.lowering.lower import lower
from placer.netlist.lowering.rules import DEFAULT_FILL, plan_section
from placer.netlist.lowering.slicing import Slices, choose_slices, sliced, unsliced
from placer.netlist.lowering.tiling import section_graph, stored_readers
from placer.netlist.plan import Cut, Plan, SectionPlan, Tiling, fabric_key, graph_fingerprint

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 60  # ways to cut a graph that are tried
MAX_MORE_SLICES = 64  # of all ops together, beyond those that the size of the weights asks for


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a graph that runs on the whole fabric for a while."""

    netlist: Netlist
    samples: int  # per input of the graph: row tiles or groups of heads
    repeats: int  # how many sections of the graph are alike
    ops: tuple[str, ...]  # of the first of them
    weight_bytes: int  # of the weights that stay on chip while it runs
    free_bytes: int  # of on-chip memory that its units leave; the next section's weights may go there
    macs: int  # multiply-accumulates per sample
    plan: SectionPlan


class _RefusedError(Exception):
    """A segment that does not fit after all: the graph must be cut or tiled in another way."""

    def __init__(self, segment: Segment, reason: DoesNotFitError) -> None:
        super().__init__(str(reason))
        self.segment = segment
        self.reason = reason


class _TooLargeError(Exception):
    """A linear op that no section can hold as it is."""

    def __init__(self, op: str, reason: DoesNotFitError) -> None:
        super().__init__(str(reason))
        self.op = op
        self.reason = reason


def default_plan(fabric: Fabric, graph: DataflowGraph, fill: float = DEFAULT_FILL, batch: int = DEFAULT_BATCH) -> Plan:
    """Return a good plan of a network by rules.

    One section if the graph fits whole and its sample is not too long to pipeline well. Raises
    DoesNotFitError with the last reason when no way to cut the graph was found.
    """
    if not 0 < fill <= 1:
        raise InputError(f"fill={fill} is out of range; allowed: above 0 up to 1")
    slices, added = dict(choose_slices(fabric, graph)), 0
    while True:
        try:
            return _plan_sliced(fabric, graph, tuple(slices.items()), fill, batch)
        except _TooLargeError as error:
            slices[error.op] = slices.get(error.op, 1) + 1
            added += 1
            if added > MAX_MORE_SLICES or slices[error.op] > graph.tensors[error.op].columns:
                raise error.reason from error
            log.info("%s is cut into %d slices", error.op, slices[error.op])


def _plan_sliced(fabric: Fabric, graph: DataflowGraph, slices: Slices, fill: float, batch: int) -> Plan:
    """Return a plan in which these products are sliced. Raises _TooLargeError if one more should be."""
    work = sliced(graph, slices)
    groups = form_groups(work)
    if not groups:
        raise InputError(f"graph {graph.name!r} has no op that computes; nothing to place")
    single = _single_section(fabric, work, fill)
    if single is not None:
        names = tuple(group.output for group in groups)
        return Plan(graph_fingerprint(graph), fabric_key(fabric), slices, (single,), (Cut(names, 0),))
    cutter = Cutter(fabric, work, groups, fill, batch)
    drawer = _Drawer(fabric, work, cutter.readers, fill)
    while True:
        segments = cutter.find_segments()
        try:
            alike = [drawer.lay_out(segment) for segment in segments]
        except _RefusedError as refusal:
            _refuse(cutter, graph, refusal)
            continue
        order = list(dict.fromkeys(alike))
        layouts = tuple(drawer.layouts[one] for one in order)
        cuts = tuple(
            Cut(tuple(group.output for group in segment.groups), order.index(one))
            for segment, one in zip(segments, alike, strict=True)
        )
        return Plan(graph_fingerprint(graph), fabric_key(fabric), slices, layouts, cuts)


def _single_section(fabric: Fabric, graph: DataflowGraph, fill: float) -> SectionPlan | None:
    """Return the plan of the whole graph as one section whose sample is the input; None if it is too much."""
    try:
        plan = plan_section(fabric, graph, fill)
        netlist = lower(fabric, graph, plan)
    except DoesNotFitError as error:
        log.info("%s: %s", graph.name, error)
        return None
    return plan if netlist.bound_cycles <= MAX_SAMPLE_CYCLES else None


def _refuse(cutter: Cutter, graph: DataflowGraph, refusal: _RefusedError) -> None:
    """Note a segment that does not fit. Raises DoesNotFitError when there is nothing left to try."""
    segment, reason = refusal.segment, refusal.reason
    first, last = segment.groups[0].main.name, segment.groups[-1].output
    log.info("section of %s to %s: %s", first, last, reason)
    resource = reason.resource.rstrip(",")
    if segment.key in cutter.refused:  # a single group, in its last tiling
        alone = DoesNotFitError(
            f"{resource}, for op {first!r} alone:",
            reason.demand, reason.limit, "use a larger fabric, a narrower layer or a shorter sequence",
        )  # fmt: skip
        if segment.groups[0].main.kind == OpKind.LINEAR:
            raise _TooLargeError(unsliced(first), alone) from reason
        raise alone from reason
    cutter.refuse(segment.key)
    if len(cutter.refused) == MAX_ATTEMPTS:
        raise DoesNotFitError(
            f"{resource}, in the section of {first!r} to {last!r}, the last of {MAX_ATTEMPTS} tries to cut "
            f"{graph.name!r},",
            reason.demand, reason.limit, "use a larger fabric",
        ) from reason  # fmt: skip


class _Drawer:
    """Lays out segments; those that are alike get one layout."""

    def __init__(self, fabric: Fabric, graph: DataflowGraph, readers: dict[str, frozenset[str]], fill: float) -> None:
        self.fabric, self.graph, self.readers, self.fill = fabric, graph, readers, fill
        self.layouts: dict[object, SectionPlan] = {}  # by what segments that are alike have in common
        self._known: dict[Key, object] = {}

    def lay_out(self, segment: Segment) -> object:
        """Return what a segment has in common with those alike. Raises _RefusedError if it does not fit."""
        if segment.key not in self._known:
            part = section_graph(self.graph, segment.groups, segment.tiling, self.readers, self.graph.name)
            alike = (segment.tiling, _nameless(part))
            if alike not in self.layouts:
                try:
                    plan = plan_section(self.fabric, part, self.fill, segment.tiling)
                    lower(self.fabric, part, plan)
                except DoesNotFitError as error:
                    raise _RefusedError(segment, error) from error
                self.layouts[alike] = plan
            self._known[segment.key] = alike
        return self._known[segment.key]


@dataclass(frozen=True, slots=True)
class NearSegment:
    """Consecutive groups that are a section in a good cut of a network, standing alone."""

    start: int  # number of its first group,
    end: int  # and of the one behind its last
    names: tuple[str, ...]  # of what its groups make
    graph: DataflowGraph  # of the whole input
    tiling: Tiling  # by rules
    kind: int  # equal for segments that are alike


def near_segments(
    fabric: Fabric, graph: DataflowGraph, plan: Plan, batch: int, slack: float, most: int
) -> list[NearSegment]:
    """Return the sections of a plan, then others in cuts at most 1 + `slack` slower by rules, best first.

    There are at most `most` kinds of others.
    """
    work = sliced(graph, plan.slices)
    groups = form_groups(work)
    position = {group.output: number for number, group in enumerate(groups)}
    cutter = Cutter(fabric, work, groups, DEFAULT_FILL, batch)
    tilings: dict[tuple[int, int], Tiling] = {}
    for number, cut in enumerate(plan.sections):
        start, end = position[cut.groups[0]], position[cut.groups[-1]] + 1
        if tuple(group.output for group in groups[start:end]) != cut.groups:
            raise InputError(f"section {number} of the plan makes groups of ops that do not follow each other")
        tilings[start, end] = plan.layouts[cut.layout].tiling
    for _, start, end in cutter.near_best(slack):
        tilings.setdefault((start, end), cutter.tiling(start, end))
    kinds: dict[object, int] = {}
    found = []
    for number, ((start, end), tiling) in enumerate(tilings.items()):
        part = tuple(groups[start:end])
        alone = section_graph(work, part, Tiling(), cutter.readers, graph.name)
        kind = _nameless(alone)
        if kind not in kinds and number >= len(plan.sections) and len(kinds) >= most + len(plan.layouts):
            continue
        names = tuple(group.output for group in part)
        found.append(NearSegment(start, end, names, alone, tiling, kinds.setdefault(kind, len(kinds))))
    return found


def _nameless(graph: DataflowGraph) -> object:
    """Return what a graph computes, without names: equal for sections that are alike."""
    number = {op.name: k for k, op in enumerate(graph.ops)}
    return tuple((op.kind, nameless(op.attributes), tuple(number[name] for name in op.inputs)) for op in graph.ops)


def lower_plan(fabric: Fabric, graph: DataflowGraph, plan: Plan) -> tuple[Section, ...]:
    """Build what a plan says: the distinct sections of a network in the order of their first use.

    Raises InputError for a plan of another network or fabric, or one that leaves something out,
    computes it twice or before its inputs, and DoesNotFitError for one that does not fit.
    """
    check_plan(fabric, graph, plan)
    work = sliced(graph, plan.slices)
    groups = {group.output: group for group in form_groups(work)}
    sections: dict[object, Section] = {}
    for cut in plan.sections:
        part = tuple(groups[name] for name in cut.groups)
        layout = plan.layouts[cut.layout]
        known = sections.get(cut.layout)
        if known is not None:
            sections[cut.layout] = replace(known, repeats=known.repeats + 1)
            continue
        sections[cut.layout] = build_section(fabric, work, part, layout, f"{graph.name}.{len(sections)}")
    if len(plan.sections) == 1 and len(sections) == 1:
        (only,) = sections.values()
        return (replace(only, netlist=replace(only.netlist, name=graph.name)),)
    return tuple(sections.values())


def build_section(
    fabric: Fabric, graph: DataflowGraph, groups: tuple[Group, ...], plan: SectionPlan, name: str
) -> Section:
    """Lower some groups of a graph as one section. Raises InputError for a plan that is not theirs or does not fit."""
    part = section_graph(graph, groups, plan.sample, stored_readers(graph), name)
    netlist = lower(fabric, part, plan)
    weights = sum(unit.bytes for unit in netlist.units if unit.op == "weights")
    room = fabric.num_sites(SiteKind.MEMORY) * fabric.memory.capacity_bytes
    free = room - sum(unit.bytes for unit in netlist.units)
    samples = plan.sample.samples
    macs = sum(graph.macs(group.main) for group in groups) // samples
    return Section(netlist, samples, 1, tuple(op.name for op in part.ops), weights, free, macs, plan)


def lower_sections(
    fabric: Fabric, graph: DataflowGraph, fill: float = DEFAULT_FILL, batch: int = DEFAULT_BATCH
) -> tuple[Section, ...]:
    """Return the distinct sections of a graph by its default plan, in the order of their first use."""
    return lower_plan(fabric, graph, default_plan(fabric, graph, fill, batch))
