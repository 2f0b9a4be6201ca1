"""What shards read, and the buffers of a stored tensor that keep up with them.

A tensor is cut so that neither the capacity nor the ports of memory units hold things up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from placer.base import DoesNotFitError
from placer.fabric import Fabric
from placer.graph import PRODUCT_KINDS, DataflowGraph, OpKind, Tensor
from placer.netlist.lowering.groups import Group
from placer.netlist.lowering.regions import Read, Region, cuts, grid, stored_reads, whole

PORT_SHARE = 0.5  # of the bound that the port of a buffer may be needed for
FLOW_SHARE = 0.35  # of the bound that one flow into or out of a buffer may need at one per cycle
EXTRA_PARTS = 24  # more parts than the capacity asks for that are tried


@dataclass(frozen=True, slots=True)
class Need:
    """One region that one or more units read in step (the same words at the same time)."""

    read: Read
    repeats: int  # times that the region passes per sample
    targets: tuple[int, ...]  # unit ids; none: a store, whose port comes later
    stage: int  # in which it is read


def group_needs(fabric: Fabric, graph: DataflowGraph, group: Group, shards: list[tuple[int, Region]]) -> list[Need]:
    """Return the activations that the shards (unit id, output region) of a group read."""
    readers: dict[tuple[int, Read, int], list[int]] = {}
    for unit, region in shards:
        for position, (operand, repeats) in enumerate(_operands(fabric, graph, group, region)):
            for read in stored_reads(graph, operand.tensor, operand.region):
                turned = replace(read, strided=read.strided != operand.strided)
                readers.setdefault((position, turned, repeats), []).append(unit)
    return [Need(read, repeats, tuple(units), group.stage) for (_, read, repeats), units in readers.items()]


def _operands(fabric: Fabric, graph: DataflowGraph, group: Group, region: Region) -> Iterator[tuple[Read, int]]:
    """Yield the regions of the inputs behind a region of the output, and how often each passes.

    Vectors lie along the columns of a tensor. A product wants vectors along the inner dimension, so
    a left operand that is transposed, or a right operand that is not, is read with a stride.
    """
    kind, inputs, attributes = group.main.kind, group.main.inputs, group.main.attributes
    if kind not in PRODUCT_KINDS:
        for tensor in inputs:
            yield Read(tensor, region, strided=False), 1
        return
    _, rows, columns = region.sizes
    left_repeats = -(-columns // fabric.compute.block_columns)
    right_repeats = -(-rows // fabric.compute.block_rows)
    left, right = (whole(graph.tensors[tensor]) for tensor in (inputs[0], inputs[-1]))
    if kind == OpKind.WEIGHT_GRAD:
        yield Read(inputs[0], left._replace(columns=region.rows), strided=True), left_repeats
        yield Read(inputs[1], right._replace(columns=region.columns), strided=True), right_repeats
        return
    is_turned = attributes.transpose_a
    spans = (left.rows, region.rows) if is_turned else (region.rows, left.columns)
    yield Read(inputs[0], Region(region.heads, *spans), is_turned), left_repeats
    if kind == OpKind.MATMUL:
        is_ready = attributes.transpose_b
        spans = (region.columns, right.columns) if is_ready else (right.rows, region.columns)
        yield Read(inputs[1], Region(region.heads, *spans), not is_ready), right_repeats


@dataclass(frozen=True, slots=True)
class Transfer:
    """A flow between a buffer part and units."""

    part: int
    units: tuple[int, ...]
    tokens: int
    read_cycles: int


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """Parts of one tensor and the flows at them."""

    parts: list[Region]
    writes: list[Transfer]  # one per producer and part
    reads: list[Transfer]  # one per need and part


def plan_buffer(
    fabric: Fabric,
    tensor: Tensor,
    slots: int,
    producers: list[tuple[int, Region]],  # unit id, region; empty: loaded from DRAM
    needs: list[Need],
    bound_cycles: int,
    max_parts: int,
) -> BufferPlan:
    """Cut a tensor into the fewest parts whose ports and flows keep up with the bound.

    More than `max_parts` only if the capacity of a memory unit asks for them.
    """
    best: tuple[float, int, BufferPlan] | None = None
    least_bytes = slots * part_bytes(fabric, whole(tensor))  # of the largest part, over all cuts
    for heads, rows, columns in _cuts(fabric, tensor, slots):
        num_parts = heads * rows * columns
        is_beaten = best and best[0] <= 1.0 and num_parts >= best[1]  # by its parts alone
        if best and (num_parts > max_parts or is_beaten):
            break
        parts = grid(whole(tensor), heads, rows, columns, fabric.elements_per_vector)
        largest = slots * max(part_bytes(fabric, part) for part in parts)
        least_bytes = min(least_bytes, largest)
        if largest > fabric.memory.capacity_bytes:
            continue
        plan = _plan(fabric, parts, producers, needs)
        excess = max(1.0, _pressure(fabric, plan, bound_cycles))
        key = (excess, len(parts) + len(plan.reads) + len(plan.writes))
        if best is None or key < best[:2]:
            best = (*key, plan)
    if best is None:
        raise DoesNotFitError(
            f"bytes in one memory unit for {slots} slots of tensor {tensor.name!r}",
            least_bytes,
            fabric.memory.capacity_bytes,
            "use smaller samples (fewer rows) or a fabric with larger memory units",
        )
    return best[2]


def part_bytes(fabric: Fabric, part: Region) -> int:
    """Return the bytes of one slot; rows are padded to whole vectors."""
    return vectors(fabric, part) * fabric.vector_bytes


def vectors(fabric: Fabric, region: Region) -> int:
    """Return the vectors of a region: rows of whole vectors."""
    columns = region.sizes[2]
    return region.elements // columns * -(-columns // fabric.elements_per_vector) if columns else 0


def _cuts(fabric: Fabric, tensor: Tensor, slots: int) -> list[tuple[int, int, int]]:
    """Return numbers of parts along heads, rows and columns, fewest parts first."""
    max_columns = -(-tensor.columns // fabric.elements_per_vector)
    fewest = -(-slots * part_bytes(fabric, whole(tensor)) // fabric.memory.capacity_bytes)
    limits = (tensor.heads, tensor.rows, max_columns)
    return sorted(cuts(limits, fewest, fewest + EXTRA_PARTS), key=lambda cut: (math.prod(cut), cut))


def _plan(fabric: Fabric, parts: list[Region], producers: list[tuple[int, Region]], needs: list[Need]) -> BufferPlan:
    writes, reads = [], []
    for number, part in enumerate(parts):
        for unit, region in producers:
            overlap = part.intersect(region)
            if overlap.elements:
                writes.append(Transfer(number, (unit,), vectors(fabric, overlap), 1))
        for need in needs:
            overlap = part.intersect(need.read.region)
            if overlap.elements:
                cycles = fabric.memory.strided_read_cycles if need.read.strided else 1
                tokens = vectors(fabric, overlap) * need.repeats
                reads.append(Transfer(number, need.targets, tokens, cycles))
    return BufferPlan(parts, writes, reads)


def _pressure(fabric: Fabric, plan: BufferPlan, bound_cycles: int) -> float:
    """Return the largest load of a port or flow over what it may have; up to 1 is good."""
    reads, writes = [0] * len(plan.parts), [0] * len(plan.parts)
    for transfer in plan.reads:
        reads[transfer.part] += transfer.tokens * transfer.read_cycles
    for transfer in plan.writes:
        writes[transfer.part] += transfer.tokens
    flows = [transfer.tokens for transfer in (*plan.reads, *plan.writes)]
    for number, part in enumerate(plan.parts):
        if not writes[number]:  # loaded from DRAM in one flow
            writes[number] = vectors(fabric, part)
            flows.append(writes[number])
    port = max(*reads, *writes)
    return max(port / (PORT_SHARE * bound_cycles), max(flows) / (FLOW_SHARE * bound_cycles))
