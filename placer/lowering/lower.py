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


@dataclass(slots=True)
class _Draft:
    """A netlist in the making."""

    units: list[Unit | None] = field(default_factory=list)  # None: a shard, completed at the end
    flows: list[Flow] = field(default_factory=list)

    def add(self, unit: Unit | None) -> int:
        self.units.append(unit)
        return len(self.units) - 1


@dataclass(frozen=True, slots=True)
class _Shard:
    unit: int
    group: Group
    number: int
    region: Region


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
    _add_buffers(fabric, graph, groups, shards, draft, bound)
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
                and units[-1][0] + part <= fabric.memory.capacity_bytes // 2
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


def _add_buffers(
    fabric: Fabric,
    graph: DataflowGraph,
    groups: list[Group],
    shards: list[_Shard],
    draft: _Draft,
    bound: int,
) -> None:
    needs: dict[str, list[Need]] = {}
    last_stage: dict[str, int] = {}
    for group in groups:
        members = [(s.unit, s.region) for s in shards if s.group == group]
        for need in group_needs(fabric, graph, group, members):
            needs.setdefault(need.read.tensor, []).append(need)
            last_stage[need.read.tensor] = max(last_stage.get(need.read.tensor, 0), group.stage)
    stores = _stores(graph)
    for op in graph.ops:
        if op.kind in SOURCE_KINDS:
            _add_tensor(fabric, graph, op.name, 0, [], needs, last_stage, stores, draft, bound)
    for group in groups:
        members = [(s.unit, s.region) for s in shards if s.group == group]
        _add_tensor(
            fabric,
            graph,
            group.output,
            group.stage,
            members,
            needs,
            last_stage,
            stores,
            draft,
            bound,
        )


def _stores(graph: DataflowGraph) -> dict[str, list[Need]]:
    """What goes to DRAM, by stored tensor; targets are filled in when the ports exist."""
    stores: dict[str, list[Need]] = {}
    for op in graph.ops:
        if op.kind == OpKind.STORE:
            source = op.inputs[0]
            for read in stored_reads(graph, source, whole(graph.tensors[source])):
                stores.setdefault(read.tensor, []).append(Need(read, 1, ()))
    return stores


def _add_tensor(
    fabric: Fabric,
    graph: DataflowGraph,
    name: str,
    stage: int,
    producers: list[tuple[int, Region]],
    needs: dict[str, list[Need]],
    last_stage: dict[str, int],
    stores: dict[str, list[Need]],
    draft: _Draft,
    bound: int,
) -> None:
    """Buffers of one tensor, its loads or producers, and its readers."""
    is_stored = name in stores
    # A sample stays until the last stage has read it; a store reads one stage after the producer.
    distance = max(last_stage.get(name, stage), stage + 1 if is_stored else stage) - stage
    plan = plan_buffer(
        fabric,
        graph.tensors[name],
        distance + 2 if distance else 1,
        producers,
        needs.get(name, []) + stores.get(name, []),
        bound,
    )
    op = "buffer" if distance else "gradient"  # nobody reads an accumulated weight gradient
    parts = [
        draft.add(
            Unit(f"{name}.b{k}", SiteKind.MEMORY, op, stage,
                 bytes=plan.slots * part_bytes(fabric, region), slots=plan.slots)
        )
        for k, region in enumerate(plan.parts)
    ]  # fmt: skip
    if not producers:
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
    limits = (
        (SiteKind.MEMORY, fabric.memory.max_buffers, "buffers"),
        (SiteKind.PORT, fabric.dram.max_streams, "DRAM streams"),
    )
    advice = "cut the graph into sections, use smaller samples or a larger fabric"
    for kind, per_site, name in limits:
        room = per_site * fabric.num_sites(kind)
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
