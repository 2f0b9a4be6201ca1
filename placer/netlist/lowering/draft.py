"""A section with its groups cut into parts: who makes what, who reads what, in which stage.

Buffers and weights are not chosen yet; what is known here is all that they depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from placer.base import InputError
from placer.fabric import Fabric
from placer.graph import SOURCE_KINDS, DataflowGraph, OpKind
from placer.netlist.lowering.groups import Group, form_groups, stored
from placer.netlist.lowering.needs import Cells, Need, cells_of, group_needs
from placer.netlist.lowering.regions import Region, Span, stored_reads, whole
from placer.netlist.lowering.work import GroupSize, Work, rates_of, size_of, work_of
from placer.netlist.plan import BufferPlan, GroupPlan, SectionPlan, TileAxis

P = TypeVar("P", GroupPlan, BufferPlan)

WAIT_BLOCKS = 3  # register blocks of partial sums that a product waits for before it begins


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of a group, on one compute unit."""

    unit: int
    group: int
    number: int  # in its group
    region: Region  # of the output
    inner: Span  # of the sums
    stage: int
    work: Work
    partial_from: int  # the unit whose partial sums it continues, -1 if none
    is_last: bool  # it has the output; else it hands its partial sums on


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor that buffers hold, with its writers and readers."""

    name: str
    stage: int  # in which it is written
    producers: list[tuple[int, Region]] = field(default_factory=list)  # none: loaded from DRAM
    needs: list[Need] = field(default_factory=list)

    @property
    def least_slots(self) -> int:
        """Return the samples that it must hold: each stays until the last stage has read it."""
        return 1 + max((need.stage - self.stage for need in self.needs), default=0)


@dataclass(frozen=True, slots=True)
class WeightSpan:
    """The resident weights of one column part and one inner part of a group."""

    columns: int
    vectors: int  # along the inner dimension, of each column
    matrices: int  # of a stacked weight
    tokens: int  # vectors that pass per sample
    targets: tuple[int, ...]  # unit ids
    stage: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A section with its groups cut."""

    graph: DataflowGraph
    groups: list[Group]
    shards: list[Shard]
    tensors: list[StoredTensor]  # what is loaded, then what the groups make
    weights: list[tuple[Group, list[WeightSpan]]]  # of the groups that hold a matrix
    pace: int  # work of the slowest shard


def make_draft(fabric: Fabric, graph: DataflowGraph, plans: Sequence[GroupPlan]) -> Draft:
    """Cut the groups of a graph as planned. Raises InputError for cuts that cannot be made."""
    groups = form_groups(graph)
    if len(plans) != len(groups):
        raise InputError(f"the plan has {len(plans)} groups, but {graph.name!r} has {len(groups)}")
    rates = rates_of(fabric)
    shards: list[Shard] = []
    ends: dict[str, int] = {}  # stage in which a stored tensor is complete
    cells: list[Cells] = []
    for number, (group, plan) in enumerate(zip(groups, plans, strict=True)):
        cut = cells_of(fabric, graph, group, plan)
        size = size_of(fabric, graph, group)
        _require_cut(graph, group, plan, cut, size)
        cells.append(cut)
        begin = 1 + max(ends.get(name, 0) for tensor in group.main.inputs for name in stored(graph, tensor))
        stages = _stages(fabric, cut, begin)
        ends[group.output] = stages[-1]
        first = len(shards)
        for region in cut.regions():
            for k, span in enumerate(cut.inner):
                work = work_of(rates, size, *region.sizes, span[1] - span[0])
                unit = len(shards)
                previous = unit - 1 if k else -1
                is_last = k + 1 == len(cut.inner)
                shards.append(
                    Shard(unit, number, unit - first, region, span, stages[k], Work(*work), previous, is_last)
                )
    tensors = _stored_tensors(fabric, graph, groups, cells, shards, ends)
    weights = [
        (group, _weight_spans(fabric, graph, group, cells[k], [shard for shard in shards if shard.group == k]))
        for k, group in enumerate(groups)
        if group.main.kind == OpKind.LINEAR
    ]
    return Draft(graph, groups, shards, tensors, weights, max(shard.work.cycles for shard in shards))


def _require_cut(graph: DataflowGraph, group: Group, plan: GroupPlan, cells: Cells, size: GroupSize) -> None:
    """Raise InputError when an axis has fewer pieces than the plan wants parts of, or must stay whole."""
    if plan.columns > 1 and not size.can_split_columns:
        raise InputError(
            f"the plan cuts {group.output!r} into {plan.columns} parts along its columns, but a {group.main.kind} "
            "needs whole rows; use 1"
        )
    for axis in ("heads", "rows", "columns", "inner"):
        wanted, found = getattr(plan, axis), len(getattr(cells, axis))
        if wanted > found:
            raise InputError(
                f"the plan cuts {group.output!r} into {wanted} parts along its {axis}, but it has {found} there "
                f"(shape {list(graph.tensors[group.output].shape)}, sums of {graph.inner_length(group.main)}); "
                "use fewer parts"
            )


def _stages(fabric: Fabric, cells: Cells, begin: int) -> list[int]:
    """Return the stage of each inner part: partial sums reach the next one some blocks later."""
    first = next(cells.regions())
    heads, rows, columns = first.sizes
    blocks = heads * -(-rows // fabric.compute.block_rows) * -(-columns // fabric.compute.block_columns)
    lag = min(1.0, WAIT_BLOCKS / blocks)
    return [begin + -int(-k * lag // 1) for k in range(len(cells.inner))]


def _stored_tensors(
    fabric: Fabric,
    graph: DataflowGraph,
    groups: list[Group],
    cells: list[Cells],
    shards: list[Shard],
    ends: dict[str, int],
) -> list[StoredTensor]:
    """Return all tensors that buffers hold: sources, then the outputs of the groups."""
    tensors = {op.name: StoredTensor(op.name, 0) for op in graph.ops if op.kind in SOURCE_KINDS}
    for group in groups:
        tensors[group.output] = StoredTensor(group.output, ends[group.output])
    by_group: list[list[Shard]] = [[] for _ in groups]
    for shard in shards:
        by_group[shard.group].append(shard)
        if shard.is_last:
            tensors[groups[shard.group].output].producers.append((shard.unit, shard.region))
    for group, cut, members in zip(groups, cells, by_group, strict=True):
        length = len(cut.inner)
        units = [[shard.unit for shard in members[k : k + length]] for k in range(0, len(members), length)]
        stages = [shard.stage for shard in members[:length]]
        for need in group_needs(fabric, graph, group, cut, units, stages):
            tensors[need.read.tensor].needs.append(need)
    for op in graph.ops:
        if op.kind == OpKind.STORE:
            source = op.inputs[0]
            for read in stored_reads(graph, source, whole(graph.tensors[source]), fabric.elements_per_vector):
                tensor = tensors[read.tensor]
                tensor.needs.append(Need(read, 1, (), tensor.stage + 1))
    return list(tensors.values())


def _weight_spans(
    fabric: Fabric, graph: DataflowGraph, group: Group, cells: Cells, shards: list[Shard]
) -> list[WeightSpan]:
    """Return the weights of each column part and inner part, and per head if they are stacked."""
    is_stacked = group.main.attributes.stacked
    readers: dict[tuple[Span, Span, Span], list[Shard]] = {}
    for shard in shards:
        heads = shard.region.heads if is_stacked else (0, 1)
        readers.setdefault((shard.inner, heads, shard.region.columns), []).append(shard)
    spans = []
    for (inner, heads, columns), members in readers.items():
        spans.append(
            WeightSpan(
                columns=columns[1] - columns[0],
                vectors=-(-(inner[1] - inner[0]) // fabric.elements_per_vector),
                matrices=heads[1] - heads[0],
                tokens=max(shard.work.right_vectors for shard in members),
                targets=tuple(shard.unit for shard in members),
                stage=members[0].stage,
            )
        )
    return spans


def with_copies(graph: DataflowGraph, plan: SectionPlan) -> tuple[tuple[GroupPlan, ...], tuple[BufferPlan, ...]]:
    """Return the plans of groups and buffers with all pipelines that stand side by side."""
    if plan.copies == 1:
        return plan.groups, plan.buffers
    if plan.tiling.axis == TileAxis.NONE:
        raise InputError(f"the plan has {plan.copies} copies of the pipeline, but its samples are no tiles")
    groups = form_groups(graph)
    names = [op.name for op in graph.ops if op.kind in SOURCE_KINDS] + [group.output for group in groups]

    def axis_of(name: str) -> str:
        if plan.tiling.axis == TileAxis.ROWS:
            return "rows"
        return "heads" if len(graph.tensors[name].shape) == 3 else "columns"

    def multiplied(one: P, axis: str) -> P:
        return replace(one, **{axis: getattr(one, axis) * plan.copies})

    return (
        tuple(
            multiplied(one, "inner" if group.main.kind == OpKind.WEIGHT_GRAD else axis_of(group.output))
            for one, group in zip(plan.groups, groups, strict=True)
        ),
        tuple(
            one if graph.op(name).kind == OpKind.WEIGHT_GRAD else multiplied(one, axis_of(name))
            for one, name in zip(plan.buffers, names, strict=True)
        ),
    )
