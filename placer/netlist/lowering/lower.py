"""Lower a graph that fits to one netlist: shards, buffers, weights, ports and their flows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from placer.base import DoesNotFitError, InputError
from placer.fabric import Fabric, SiteKind
from placer.graph import PRODUCT_KINDS, SOURCE_KINDS, DataflowGraph, OpKind
from placer.netlist import Flow, Netlist, Unit
from placer.netlist.lowering.buffers import PORT_SHARE, Need, group_needs, part_bytes, plan_buffer, vectors
from placer.netlist.lowering.groups import ROW_KINDS, Group, form_groups
from placer.netlist.lowering.regions import Region, Span, split, stored_reads, whole
from placer.netlist.lowering.sharding import DEFAULT_FILL, Split, Work, balance, shard_regions, shard_work

MAX_SHARED_WEIGHTS = 0.5  # of a memory unit that column spans which share it may take together


@dataclass(frozen=True, slots=True)
class _Shard:
    unit: int
    group: Group
    number: int
    region: Region
    work: Work


@dataclass(frozen=True, slots=True)
class _StoredTensor:
    """A tensor that buffers hold, with its writers and readers."""

    name: str
    stage: int  # in which it is made
    producers: list[tuple[int, Region]] = field(default_factory=list)  # none: loaded from DRAM
    needs: list[Need] = field(default_factory=list)


def lower(fabric: Fabric, graph: DataflowGraph, fill: float = DEFAULT_FILL) -> Netlist:
    """Lower a graph that fits the fabric as a whole. Raises DoesNotFitError otherwise."""
    if not 0 < fill <= 1:
        raise InputError(f"fill={fill} is out of range; allowed: above 0 up to 1")
    groups = form_groups(graph)
    if not groups:
        raise InputError(f"graph {graph.name!r} has no op that computes; nothing to place")
    budget = max(1, int(fill * fabric.num_sites(SiteKind.COMPUTE)))
    draft = _Draft(fabric, graph, balance(fabric, graph, groups, budget))
    for group in groups:
        if group.main.kind == OpKind.LINEAR:
            draft.add_weights(group)
    draft.add_buffers(_stored_tensors(fabric, graph, draft.shards))
    units, flows = draft.complete_units(), tuple(draft.flows)
    netlist = Netlist(graph.name, graph.family, fabric.name, units, flows)
    _check_fit(fabric, netlist)
    return netlist


class _Draft:
    """A netlist in the making: first shards, then weights, buffers and ports with their flows."""

    def __init__(self, fabric: Fabric, graph: DataflowGraph, splits: dict[Group, Split]) -> None:
        self.fabric, self.graph = fabric, graph
        self.units: list[Unit | None] = []  # None: a shard, completed at the end
        self.flows: list[Flow] = []
        self.shards = {
            group: [
                _Shard(self.add(None), group, k, region, shard_work(fabric, graph, group, region))
                for k, region in enumerate(shard_regions(fabric, graph, group, split))
            ]
            for group, split in splits.items()
        }
        self.bound = max(shard.work.cycles for shard in self.all_shards())

    def all_shards(self) -> Iterator[_Shard]:
        return chain.from_iterable(self.shards.values())

    def add(self, unit: Unit | None) -> int:
        self.units.append(unit)
        return len(self.units) - 1

    def add_weights(self, group: Group) -> None:
        """Add resident weights: column spans share a memory while capacity and port allow."""
        memory_bytes = self.fabric.memory.capacity_bytes
        inner_vectors = -(-self.graph.inner_length(group.main) // self.fabric.elements_per_vector)
        readers: dict[Span, list[_Shard]] = {}
        for shard in self.shards[group]:
            readers.setdefault(shard.region.columns, []).append(shard)
        units: list[tuple[int, int, list[tuple[list[_Shard], int]]]] = []  # bytes, load, flows
        for (start, end), members in readers.items():
            work = max(shard.work.right_vectors for shard in members)
            slice_bytes = (end - start) * self.fabric.vector_bytes  # a vector of every column
            most_slices = max(1, memory_bytes // slice_bytes)
            most_vectors = max(1, int(PORT_SHARE * self.bound))
            pieces = max(-(-inner_vectors // most_slices), -(-work // most_vectors))
            for first, last in split(inner_vectors, pieces):
                tokens = work // inner_vectors * (last - first)
                part = slice_bytes * (last - first)
                if (
                    units
                    and units[-1][0] + part <= MAX_SHARED_WEIGHTS * memory_bytes
                    and units[-1][1] + tokens <= PORT_SHARE * self.bound
                ):
                    held, load, flows = units[-1]
                    units[-1] = (held + part, load + tokens, [*flows, (members, tokens)])
                else:
                    units.append((part, tokens, [(members, tokens)]))
        for number, (size, _, flows) in enumerate(units):
            name = f"{group.output}.w{number}"
            unit = self.add(Unit(name, SiteKind.MEMORY, "weights", group.stage, bytes=size, slots=1))
            for k, (members, tokens) in enumerate(flows):
                targets = tuple(shard.unit for shard in members)
                self.flows.append(Flow(f"{name}>{k}", unit, targets, tokens))

    def add_buffers(self, tensors: list[_StoredTensor]) -> None:
        """Add the buffers of all tensors; each leaves at least one to every tensor after it."""
        room = self.fabric.memory.max_buffers * self.fabric.num_sites(SiteKind.MEMORY)
        for number, tensor in enumerate(tensors):
            used = sum(unit is not None and unit.kind == SiteKind.MEMORY for unit in self.units)
            self._add_tensor(tensor, room - used - (len(tensors) - number - 1))

    def _add_tensor(self, tensor: _StoredTensor, max_parts: int) -> None:
        """Add the buffers of one tensor, its loads or producers, and its readers."""
        name, stage = tensor.name, tensor.stage
        # A sample stays until the last stage has read it.
        distance = max((need.stage for need in tensor.needs), default=stage) - stage
        slots = distance + 1 if distance else 1
        plan = plan_buffer(
            self.fabric, self.graph.tensors[name], slots, tensor.producers, tensor.needs,
            self.bound, max_parts,
        )  # fmt: skip
        op = "buffer" if distance else "gradient"  # nobody reads an accumulated weight gradient
        parts = []
        for k, region in enumerate(plan.parts):
            size = slots * part_bytes(self.fabric, region)
            unit = Unit(f"{name}.b{k}", SiteKind.MEMORY, op, stage, bytes=size, slots=slots)
            parts.append(self.add(unit))
        if not tensor.producers:
            for k, region in enumerate(plan.parts):
                load = self.add(Unit(f"{name}.l{k}", SiteKind.PORT, "load", stage))
                tokens = vectors(self.fabric, region)
                self.flows.append(Flow(f"{name}.l{k}>", load, (parts[k],), tokens))
        for k, write in enumerate(plan.writes):
            flow_name, target = f"{name}.b{write.part}<{k}", parts[write.part]
            self.flows.append(Flow(flow_name, write.units[0], (target,), write.tokens))
        num_stores = 0
        for k, read in enumerate(plan.reads):
            targets = read.units
            if not targets:
                unit = Unit(f"{name}.s{num_stores}", SiteKind.PORT, "store", stage + 1)
                targets = (self.add(unit),)
                num_stores += 1
            flow_name, source = f"{name}.b{read.part}>{k}", parts[read.part]
            self.flows.append(Flow(flow_name, source, targets, read.tokens, read.read_cycles))

    def complete_units(self) -> tuple[Unit, ...]:
        """Fill in the compute units now that their flows are known."""
        most_tokens = [1] * len(self.units)
        for flow in self.flows:
            for target in flow.targets:
                most_tokens[target] = max(most_tokens[target], flow.tokens)
        for shard in self.all_shards():
            group, firings = shard.group, most_tokens[shard.unit]
            self.units[shard.unit] = Unit(
                f"{group.output}.{shard.number}",
                SiteKind.COMPUTE,
                str(group.main.kind),
                group.stage,
                firings=firings,
                cycles=max(shard.work.cycles, firings),
                releases=min(firings, _releases(self.fabric, shard, firings)),
                depth_cycles=sum(self.fabric.op_spec(op.kind).depth_cycles for op in group.ops),
                waits_for_operands=group.main.kind in PRODUCT_KINDS,
            )
        return tuple(unit for unit in self.units if unit is not None)


def _stored_tensors(fabric: Fabric, graph: DataflowGraph, shards: dict[Group, list[_Shard]]) -> list[_StoredTensor]:
    """Return all tensors that buffers hold: sources, then the outputs of the groups."""
    tensors = {op.name: _StoredTensor(op.name, 0) for op in graph.ops if op.kind in SOURCE_KINDS}
    for group, members in shards.items():
        producers = [(shard.unit, shard.region) for shard in members]
        tensors[group.output] = _StoredTensor(group.output, group.stage, producers)
    for group in shards:
        for need in group_needs(fabric, graph, group, tensors[group.output].producers):
            tensors[need.read.tensor].needs.append(need)
    for op in graph.ops:
        if op.kind == OpKind.STORE:
            source = op.inputs[0]
            for read in stored_reads(graph, source, whole(graph.tensors[source])):
                tensor = tensors[read.tensor]
                tensor.needs.append(Need(read, 1, (), tensor.stage + 1))
    return list(tensors.values())


def _releases(fabric: Fabric, shard: _Shard, firings: int) -> int:
    """Say how often per sample results come out: per register block, per row, or as made."""
    heads, rows, columns = shard.region.sizes
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
        raise DoesNotFitError(f"bytes in one memory unit for {largest.name!r}", largest.bytes, capacity, advice)
    held = sum(unit.bytes for unit in netlist.units)
    room = fabric.num_sites(SiteKind.MEMORY) * capacity
    if held > room:
        raise DoesNotFitError("bytes of on-chip memory", held, room, advice)
