"""What each shard must read per sample, as regions of the tensors that are stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from placer.fabric import Fabric
from placer.graph import DataflowGraph, OpKind
from placer.lowering.groups import PRODUCT_KINDS, Group
from placer.lowering.regions import Read, Region, stored_reads, whole


@dataclass(frozen=True, slots=True)
class Need:
    """One region that one or more units read in step (the same words at the same time)."""

    read: Read
    repeats: int  # times that the region passes per sample
    targets: tuple[int, ...]  # unit ids


@dataclass(frozen=True, slots=True)
class _Operand:
    """One input of one shard."""

    tensor: str
    region: Region
    strided: bool
    repeats: int


def group_needs(
    fabric: Fabric, graph: DataflowGraph, group: Group, shards: list[tuple[int, Region]]
) -> list[Need]:
    """Activations that the shards (unit id, output region) of a group read."""
    readers: dict[tuple[int, Read, int], list[int]] = {}
    for unit, region in shards:
        for position, operand in enumerate(_operands(fabric, graph, group, region)):
            for read in stored_reads(graph, operand.tensor, operand.region):
                turned = Read(read.tensor, read.region, read.strided != operand.strided)
                readers.setdefault((position, turned, operand.repeats), []).append(unit)
    return [Need(read, repeats, tuple(units)) for (_, read, repeats), units in readers.items()]


def _operands(
    fabric: Fabric, graph: DataflowGraph, group: Group, region: Region
) -> Iterator[_Operand]:
    """Regions of the inputs behind a region of the output.

    Vectors lie along the columns of a tensor. A product wants vectors along the inner dimension, so
    a left operand that is transposed, or a right operand that is not, is read with a stride.
    """
    if group.main.kind not in PRODUCT_KINDS:
        for tensor in group.main.inputs:
            yield _Operand(tensor, region, strided=False, repeats=1)
        return
    left_repeats = -(-(region.columns[1] - region.columns[0]) // fabric.compute.block_columns)
    right_repeats = -(-(region.rows[1] - region.rows[0]) // fabric.compute.block_rows)
    left = whole(graph.tensors[group.main.inputs[0]])
    if group.main.kind == OpKind.WEIGHT_GRAD:
        right = whole(graph.tensors[group.main.inputs[1]])
        x_part = Region(left.heads, left.rows, region.rows)
        dy_part = Region(right.heads, right.rows, region.columns)
        yield _Operand(group.main.inputs[0], x_part, True, left_repeats)
        yield _Operand(group.main.inputs[1], dy_part, True, right_repeats)
        return
    is_turned = group.main.attributes.transpose_a
    rows = (left.rows, region.rows) if is_turned else (region.rows, left.columns)
    yield _Operand(group.main.inputs[0], Region(region.heads, *rows), is_turned, left_repeats)
    if group.main.kind == OpKind.MATMUL:
        right = whole(graph.tensors[group.main.inputs[1]])
        is_ready = group.main.attributes.transpose_b
        spans = (region.columns, right.columns) if is_ready else (right.rows, region.columns)
        yield _Operand(
            group.main.inputs[1], Region(region.heads, *spans), not is_ready, right_repeats
        )
