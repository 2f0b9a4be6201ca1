"""Build the netlist that a section plan says: shards, weights, buffers, ports and their flows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placer.base import DoesNotFitError, InputError
from placer.fabric import Fabric, SiteKind
from placer.graph import PRODUCT_KINDS, DataflowGraph
from placer.netlist import Flow, Netlist, Unit, first_fit_decreasing
from placer.netlist.lowering.buffers import tensor_traffic, transfers
from placer.netlist.lowering.draft import Draft, Shard, StoredTensor, make_draft, with_copies
from placer.netlist.lowering.groups import ROW_KINDS, form_groups
from placer.netlist.lowering.regions import Region, split, vectors
from placer.netlist.lowering.rules import plan_section
from placer.netlist.plan import BufferPlan, SectionPlan, WeightsPlan


def lower(fabric: Fabric, graph: DataflowGraph, plan: SectionPlan | None = None) -> Netlist:
    """Lower the graph of one sample as planned, or by rules (`plan_section`) if there is no plan.

    Raises DoesNotFitError for a plan that needs more than the fabric has, and InputError for one
    that cannot be carried out on this graph.
    """
    if not form_groups(graph):
        raise InputError(f"graph {graph.name!r} has no op that computes; nothing to place")
    plan = plan or plan_section(fabric, graph)
    if plan.copies > 1:
        _require_lengths(make_draft(fabric, graph, plan.groups), plan)
    groups, buffers = with_copies(graph, plan)
    draft = make_draft(fabric, graph, groups)
    _require_lengths(draft, plan)
    netlist = _Builder(fabric, draft).build(buffers, plan.weights)
    require_fit(fabric, netlist)
    return netlist


def _require_lengths(draft: Draft, plan: SectionPlan) -> None:
    for name, wanted, found in (
        ("buffers", len(draft.tensors), len(plan.buffers)),
        ("weights", len(draft.weights), len(plan.weights)),
    ):
        if wanted != found:
            raise InputError(f"the plan has {found} {name}, but {draft.graph.name!r} has {wanted}")


@dataclass(frozen=True, slots=True)
class _Part:
    """The buffers of one part of a tensor, a unit for each copy."""

    units: list[int]
    region: Region


class _Builder:
    """A netlist in the making: first shards, then weights, buffers and ports with their flows."""

    def __init__(self, fabric: Fabric, draft: Draft) -> None:
        self.fabric, self.draft = fabric, draft
        self.units: list[Unit | None] = [None] * len(draft.shards)  # completed at the end
        self.flows: list[Flow] = []

    def build(self, buffers: tuple[BufferPlan, ...], weights: tuple[WeightsPlan, ...]) -> Netlist:
        draft = self.draft
        for shard in draft.shards:
            if shard.partial_from >= 0:
                name = f"{draft.groups[shard.group].output}.{shard.number}<"
                self.flows.append(Flow(name, shard.partial_from, (shard.unit,), shard.work.output_vectors))
        for number, plan in enumerate(weights):
            self._add_weights(number, plan)
        for tensor, buffer in zip(draft.tensors, buffers, strict=True):
            self._add_tensor(tensor, buffer)
        graph = draft.graph
        return Netlist(graph.name, graph.family, self.fabric.name, self._complete_units(), tuple(self.flows))

    def _add(self, unit: Unit) -> int:
        self.units.append(unit)
        return len(self.units) - 1

    def _add_weights(self, number: int, plan: WeightsPlan) -> None:
        """Add the resident weights of one group: each span in pieces, or several spans in one buffer."""
        group, spans = self.draft.weights[number]
        pieces = []  # (bytes, tokens, targets, stage)
        for span in spans:
            if plan.pieces > span.vectors:
                raise InputError(
                    f"the plan cuts the weights of {group.output!r} into {plan.pieces} pieces, but a span has "
                    f"{span.vectors} vectors of each column"
                )
            for first, last in split(span.vectors, plan.pieces):
                size = span.matrices * span.columns * (last - first) * self.fabric.vector_bytes
                tokens = -(-span.tokens * (last - first) // span.vectors)
                pieces.append((size, tokens, span.targets, span.stage))
        for k, first in enumerate(range(0, len(pieces), plan.shared)):
            held = pieces[first : first + plan.shared]
            name = f"{group.output}.w{k}"
            size = sum(piece[0] for piece in held)
            stage = min(piece[3] for piece in held)
            unit = self._add(Unit(name, SiteKind.MEMORY, "weights", stage, bytes=size, slots=1))
            for j, (_, tokens, targets, _) in enumerate(held):
                self.flows.append(Flow(f"{name}>{j}", unit, targets, tokens))

    def _add_tensor(self, tensor: StoredTensor, plan: BufferPlan) -> None:
        """Add the buffers of one tensor, its loads or producers, and its readers."""
        self._require_buffer(tensor, plan)
        cut = np.array([plan.heads, plan.rows, plan.columns], np.int64)
        traffic = tensor_traffic(self.fabric, self.draft, tensor)
        parts = self._add_parts(tensor, plan)
        pairs, tokens = transfers(traffic, cut, traffic.writes, traffic.write_tokens)
        for k, ((write, part), number) in enumerate(zip(pairs.tolist(), tokens.tolist(), strict=True)):
            if tensor.producers:
                source, name = tensor.producers[write][0], f"{tensor.name}.b{part}<{k}"
            else:
                source = self._add(Unit(f"{tensor.name}.l{part}", SiteKind.PORT, "load", tensor.stage))
                name = f"{tensor.name}.l{part}>"
            self.flows.append(Flow(name, source, tuple(parts[part].units), number))
        pairs, tokens = transfers(traffic, cut, traffic.reads, traffic.read_tokens)
        num_stores = 0
        for k, ((read, part), number) in enumerate(zip(pairs.tolist(), tokens.tolist(), strict=True)):
            need, cycles = tensor.needs[read], int(traffic.read_cycles[read])
            targets = need.targets
            if not targets:
                store = Unit(f"{tensor.name}.s{num_stores}", SiteKind.PORT, "store", tensor.stage + 1)
                targets = (self._add(store),)
                num_stores += 1
            self._add_reads(f"{tensor.name}.b{part}>{k}", parts[part], targets, number, cycles)

    def _add_reads(self, name: str, part: _Part, targets: tuple[int, ...], tokens: int, cycles: int) -> None:
        """Add one flow for each copy that serves some of the targets."""
        for copy, (first, last) in enumerate(split(len(targets), len(part.units))):
            flow = Flow(f"{name}.{copy}" if copy else name, part.units[copy], targets[first:last], tokens, cycles)
            self.flows.append(flow)

    def _require_buffer(self, tensor: StoredTensor, plan: BufferPlan) -> None:
        whole = self.draft.graph.tensors[tensor.name]
        limits = {
            "heads": whole.heads,
            "rows": whole.rows,
            "columns": -(-whole.columns // self.fabric.elements_per_vector),
            "copies": max((len(need.targets) for need in tensor.needs), default=1) or 1,
        }
        for axis, limit in limits.items():
            if getattr(plan, axis) > limit:
                raise InputError(
                    f"the plan cuts the buffers of {tensor.name!r} into {getattr(plan, axis)} {axis}; at most {limit}"
                )
        if plan.slots < tensor.least_slots:
            raise InputError(
                f"the plan gives the buffers of {tensor.name!r} {plan.slots} slots; its readers are "
                f"{tensor.least_slots - 1} stages behind, so it needs {tensor.least_slots} or they wait forever"
            )

    def _add_parts(self, tensor: StoredTensor, plan: BufferPlan) -> list[_Part]:
        whole, per_vector = self.draft.graph.tensors[tensor.name], self.fabric.elements_per_vector
        # Nobody reads an accumulated weight gradient.
        op = "buffer" if tensor.needs else "gradient"
        parts: list[_Part] = []
        for heads in split(whole.heads, plan.heads):
            for rows in split(whole.rows, plan.rows):
                for columns in split(whole.columns, plan.columns, per_vector):
                    region = Region(heads, rows, columns)
                    size = plan.slots * vectors(region, per_vector) * self.fabric.vector_bytes
                    name = f"{tensor.name}.b{len(parts)}"
                    units = [
                        self._add(
                            Unit(f"{name}.{copy}" if copy else name, SiteKind.MEMORY, op, tensor.stage,
                                 bytes=size, slots=plan.slots)
                        )
                        for copy in range(plan.copies)
                    ]  # fmt: skip
                    parts.append(_Part(units, region))
        return parts

    def _complete_units(self) -> tuple[Unit, ...]:
        """Fill in the compute units now that their flows are known."""
        most_tokens = [1] * len(self.units)
        for flow in self.flows:
            for target in flow.targets:
                most_tokens[target] = max(most_tokens[target], flow.tokens)
        for shard in self.draft.shards:
            group, firings = self.draft.groups[shard.group], most_tokens[shard.unit]
            self.units[shard.unit] = Unit(
                f"{group.output}.{shard.number}",
                SiteKind.COMPUTE,
                str(group.main.kind),
                shard.stage,
                firings=firings,
                cycles=max(shard.work.cycles, firings),
                releases=min(firings, self._releases(shard, firings)),
                depth_cycles=sum(self.fabric.op_spec(op.kind).depth_cycles for op in group.ops),
                waits_for_operands=group.main.kind in PRODUCT_KINDS,
            )
        return tuple(unit for unit in self.units if unit is not None)

    def _releases(self, shard: Shard, firings: int) -> int:
        """Say how often per sample results come out: per register block, per row, or as made."""
        heads, rows, columns = shard.region.sizes
        kind = self.draft.groups[shard.group].main.kind
        if kind in PRODUCT_KINDS:
            row_blocks = -(-rows // self.fabric.compute.block_rows)
            return heads * row_blocks * -(-columns // self.fabric.compute.block_columns)
        return heads * rows if kind in ROW_KINDS else firings


def require_fit(fabric: Fabric, netlist: Netlist) -> None:
    """Raise DoesNotFitError when a netlist needs more units or bytes than the fabric has."""
    advice = "cut the graph into sections, use smaller samples or a larger fabric"
    for kind, name in (
        (SiteKind.COMPUTE, "compute units"),
        (SiteKind.MEMORY, "buffers"),
        (SiteKind.PORT, "DRAM streams"),
    ):
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
    sizes = tuple(unit.bytes for unit in netlist.units if unit.kind == SiteKind.MEMORY)
    sites = 1 + max(first_fit_decreasing(sizes, capacity, fabric.memory.max_buffers), default=-1)
    if sites > fabric.num_sites(SiteKind.MEMORY):
        raise DoesNotFitError(
            "memory units, as the buffers can be packed,", sites, fabric.num_sites(SiteKind.MEMORY), advice
        )
