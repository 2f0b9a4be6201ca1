"""Lower a graph that fits to one netlist: shards, buffers, weights, ports and their flows."""

from __future__ import annotations

from dataclasses import dataclass, field

from placer.errors import DoesNotFitError, InputError
from placer.fabric import Fabric, SiteKind
from placer.graph import DataflowGraph, OpKind
from placer.lowering.buffers import PORT_SHARE, BufferPlan, part_bytes, plan_buffer, vectors
from placer.lowering.groups import PRODUCT_KINDS, ROW_KINDS, Group, form_groups
from placer.lowering.needs import Need, group_needs
from placer.lowering.regions import Region, split, stored_reads, whole
from placer.lowering.sharding import (
    DEFAULT_FILL,
    Split,
    balance,
    inner_length,
    shard_regions,
    shard_work,
)
from placer.netlist import Flow, Netlist, Unit
from placer.ops import SOURCE_KINDS

MAX_SHARED_WEIGHTS = 0.5  # of a memory unit that column spans which share it may take together


@dataclass(slots=True)
class _Draft:
    """A netlist in the making."""

    units: list[Unit | None] = field(default_factory=list)  # None: a shard, completed at the end
    flows: list[Flow] = field(default_factory=list)

    def add(self, unit: Unit | None) -> int:
        self.units.append(unit)
        return len(self.units) - 1

    def count(self, kind: SiteKind) -> int:
        return sum(unit is not None and unit.kind == kind for unit in self.units)


@dataclass(frozen=True, slots=True)
class _Shard:
    unit: int
    group: Group
    number: int
    region: Region


@dataclass(slots=True)
class _StoredTensor:
    """A tensor that buffers hold, with its writers and readers."""

    name: str
    stage: int  # in which it is made
    producers: list[tuple[int, Region]] = field(default_factory=list)  # none: loaded from DRAM
    needs: list[Need] = field(default_factory=list)  # no targets: a store, whose port comes later
    last_stage: int = field(init=False)  # in which it is read

    def __post_init__(self) -> None:
        self.last_stage = self.stage

    def add_reader(self, need: Need, stage: int) -> None:
        self.needs.append(need)
        self.last_stage = max(self.last_stage, stage)


def lower(fabric: Fabric, graph: DataflowGraph, fill: float = DEFAULT_FILL) -> Netlist:
    """Netlist of a graph that fits the fabric as a whole. Raises DoesNotFitError otherwise."""
    if not 0 < fill <= 1:
        raise InputError(f"fill={fill} is out of range; allowed: above 0 up to 1")
    groups = form_groups(graph)
    if not groups:
        raise InputError(f"graph {graph.name!r} has no op that computes; nothing to place")
    budget = max(1, int(fill * fabric.num_sites(SiteKind.COMPUTE)))
    splits = balance(fabric, graph, groups, budget)
    draft = _Draft()
    shards = [shard for group in groups for shard in _shards(fabric, graph, group, splits, draft)]
    bound = max(shard_work(fabric, graph, s.group, s.region).cycles for s in shards)
    for group in groups:
        if group.main.kind == OpKind.LINEAR:
            _add_weights(
                fabric, graph, group, [s for s in shards if s.group == group], draft, bound
            )
    tensors = _stored_tensors(fabric, graph, groups, shards)
    _add_buffers(fabric, graph, tensors, draft, bound)
    units = _complete(fabric, graph, shards, draft)
    netlist = Netlist(graph.name, graph.family, fabric.name, units, tuple(draft.flows))
    _check_fit(fabric, netlist)
    return netlist


def _shards(
    fabric: Fabric,
    graph: DataflowGraph,
    group: Group,
    splits: dict[Group, Split],
    draft: _Draft,
) -> list[_Shard]:
    regions = shard_regions(fabric, graph, group, splits[group])
    return [_Shard(draft.add(None), group, k, region) for k, region in enumerate(regions)]


def _add_weights(
    fabric: Fabric,
    graph: DataflowGraph,
    group: Group,
    shards: list[_Shard],
    draft: _Draft,
    bound: int,
) -> None:
    """Resident weights: column spans share a memory unit while capacity and read port allow."""
    inner_vectors = -(-inner_length(graph, group) // fabric.elements_per_vector)
    readers: dict[tuple[int, int], list[_Shard]] = {}
    for shard in shards:
        readers.setdefault(shard.region.columns, []).append(shard)
    units: list[tuple[int, int, list[tuple[list[_Shard], int]]]] = []  # bytes, load, flows
    for (start, end), members in readers.items():
        work = max(shard_work(fabric, graph, group, s.region).right_vectors for s in members)
        slice_bytes = (end - start) * fabric.vector_bytes  # one inner vector of every column
        most_slices = max(1, fabric.memory.capacity_bytes // slice_bytes)
        pieces = max(-(-inner_vectors // most_slices), -(-work // max(1, int(PORT_SHARE * bound))))
        for first, last in split(inner_vectors, pieces):
            tokens = work // inner_vectors * (last - first)
            part = slice_bytes * (last - first)
            if (
                units
                and units[-1][0] + part <= MAX_SHARED_WEIGHTS * fabric.memory.capacity_bytes
                and units[-1][1] + tokens <= PORT_SHARE * bound
            ):
                held, load, flows = units[-1]
                units[-1] = (held + part, load + tokens, [*flows, (members, tokens)])
            else:
                units.append((part, tokens, [(members, tokens)]))
    for number, (size, _, flows) in enumerate(units):
        name = f"{group.output}.w{number}"
        unit = draft.add(Unit(name, SiteKind.MEMORY, "weights", group.stage, bytes=size, slots=1))
        for k, (members, tokens) in enumerate(flows):
            targets = tuple(s.unit for s in members)
            draft.flows.append(Flow(f"{name}>{k}", unit, targets, tokens))


def _stored_tensors(
    fabric: Fabric, graph: DataflowGraph, groups: list[Group], shards: list[_Shard]
) -> list[_StoredTensor]:
    """All tensors that buffers hold: sources, then the outputs of the groups."""
    tensors = {op.name: _StoredTensor(op.name, 0) for op in graph.ops if op.kind in SOURCE_KINDS}
    for group in groups:
        producers = [(s.unit, s.region) for s in shards if s.group == group]
        tensors[group.output] = _StoredTensor(group.output, group.stage, producers)
    for group in groups:
        for need in group_needs(fabric, graph, group, tensors[group.output].producers):
            tensors[need.read.tensor].add_reader(need, group.stage)
    for op in graph.ops:
        if op.kind == OpKind.STORE:
            source = op.inputs[0]
            for read in stored_reads(graph, source, whole(graph.tensors[source])):
                tensor = tensors[read.tensor]
                tensor.add_reader(Need(read, 1, ()), tensor.stage + 1)
    return list(tensors.values())


def _add_buffers(
    fabric: Fabric, graph: DataflowGraph, tensors: list[_StoredTensor], draft: _Draft, bound: int
) -> None:
    """Buffers of all tensors; each leaves at least one to every tensor after it."""
    room = fabric.memory.max_buffers * fabric.num_sites(SiteKind.MEMORY)
    for number, tensor in enumerate(tensors):
        max_parts = room - draft.count(SiteKind.MEMORY) - (len(tensors) - number - 1)
        _add_tensor(fabric, graph, tensor, draft, bound, max_parts)


def _add_tensor(
    fabric: Fabric,
    graph: DataflowGraph,
    tensor: _StoredTensor,
    draft: _Draft,
    bound: int,
    max_parts: int,
) -> None:
    """Buffers of one tensor, its loads or producers, and its readers."""
    name, stage = tensor.name, tensor.stage
    distance = tensor.last_stage - stage  # a sample stays until the last stage has read it
    slots = distance + 1 if distance else 1
    plan = plan_buffer(
        fabric, graph.tensors[name], slots, tensor.producers, tensor.needs, bound, max_parts
    )
    op = "buffer" if distance else "gradient"  # nobody reads an accumulated weight gradient
    parts = [
        draft.add(
            Unit(f"{name}.b{k}", SiteKind.MEMORY, op, stage,
                 bytes=slots * part_bytes(fabric, region), slots=slots)
        )
        for k, region in enumerate(plan.parts)
    ]  # fmt: skip
    if not tensor.producers:
        for k, region in enumerate(plan.parts):
            load = draft.add(Unit(f"{name}.l{k}", SiteKind.PORT, "load", stage))
            draft.flows.append(Flow(f"{name}.l{k}>", load, (parts[k],), vectors(fabric, region)))
    _add_transfers(name, stage, plan, parts, draft)


def _add_transfers(
    name: str, stage: int, plan: BufferPlan, parts: list[int], draft: _Draft
) -> None:
    for k, write in enumerate(plan.writes):
        draft.flows.append(
            Flow(f"{name}.b{write.part}<{k}", write.units[0], (parts[write.part],), write.tokens)
        )
    num_stores = 0
    for k, read in enumerate(plan.reads):
        targets = read.units
        if not targets:
            unit = Unit(f"{name}.s{num_stores}", SiteKind.PORT, "store", stage + 1)
            targets = (draft.add(unit),)
            num_stores += 1
        draft.flows.append(
            Flow(
                f"{name}.b{read.part}>{k}", parts[read.part], targets, read.tokens, read.read_cycles
            )
        )


def _complete(
    fabric: Fabric, graph: DataflowGraph, shards: list[_Shard], draft: _Draft
) -> tuple[Unit, ...]:
    """Fill in the compute units now that their flows are known."""
    most_tokens = [1] * len(draft.units)
    for flow in draft.flows:
        for target in flow.targets:
            most_tokens[target] = max(most_tokens[target], flow.tokens)
    for shard in shards:
        work = shard_work(fabric, graph, shard.group, shard.region)
        firings = most_tokens[shard.unit]
        draft.units[shard.unit] = Unit(
            f"{shard.group.output}.{shard.number}",
            SiteKind.COMPUTE,
            str(shard.group.main.kind),
            shard.group.stage,
            firings=firings,
            cycles=max(work.cycles, firings),
            releases=min(firings, _releases(fabric, shard, firings)),
            depth_cycles=sum(fabric.op_spec(op.kind).depth_cycles for op in shard.group.ops),
            waits_for_operands=shard.group.main.kind in PRODUCT_KINDS,
        )
    return tuple(unit for unit in draft.units if unit is not None)


def _releases(fabric: Fabric, shard: _Shard, firings: int) -> int:
    """How often per sample results come out: per register block, per row, or as they are made."""
    region = shard.region
    heads, rows = region.heads[1] - region.heads[0], region.rows[1] - region.rows[0]
    columns = region.columns[1] - region.columns[0]
    if shard.group.main.kind in PRODUCT_KINDS:
        row_blocks = -(-rows // fabric.compute.block_rows)
        return heads * row_blocks * -(-columns // fabric.compute.block_columns)
    return heads * rows if shard.group.main.kind in ROW_KINDS else firings


def _check_fit(fabric: Fabric, netlist: Netlist) -> None:
    advice = "cut the graph into sections, use smaller samples or a larger fabric"
    for kind, name in ((SiteKind.MEMORY, "buffers"), (SiteKind.PORT, "DRAM streams")):
        room = fabric.max_units(kind) * fabric.num_sites(kind)
        if netlist.count(kind) > room:
            raise DoesNotFitError(name, netlist.count(kind), room, advice)
    capacity = fabric.memory.capacity_bytes
    largest = max(netlist.units, key=lambda unit: unit.bytes)
    if largest.bytes > capacity:
        raise DoesNotFitError(
            f"bytes in one memory unit for {largest.name!r}", largest.bytes, capacity, advice
        )
    held = sum(unit.bytes for unit in netlist.units)
    room = fabric.num_sites(SiteKind.MEMORY) * capacity
    if held > room:
        raise DoesNotFitError("bytes of on-chip memory", held, room, advice)
