"""What the parts of a group read, and how often it passes.

Parts that need the same region of an input at the same time share one read (multicast). Where the
parts differ in size, the largest sets how often a shared region passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from placer.fabric import Fabric
from placer.graph import PRODUCT_KINDS, WINDOW_KINDS, DataflowGraph, OpKind, window_of
from placer.netlist.lowering.groups import Group
from placer.netlist.lowering.regions import Read, Region, Span, split, stored_reads, turned, vectors, whole, window_rows
from placer.netlist.plan import GroupPlan


@dataclass(frozen=True, slots=True)
class Cells:
    """The spans into which a group is cut along each axis."""

    heads: list[Span]
    rows: list[Span]
    columns: list[Span]
    inner: list[Span]  # of the sums of a product; one empty span for other ops

    def regions(self) -> Iterator[Region]:
        """Yield the regions of the output, head by head, row by row."""
        for heads in self.heads:
            for rows in self.rows:
                for columns in self.columns:
                    yield Region(heads, rows, columns)


def cells_of(fabric: Fabric, graph: DataflowGraph, group: Group, plan: GroupPlan) -> Cells:
    """Return the spans that a plan cuts a group into."""
    output, per_vector = graph.tensors[group.output], fabric.elements_per_vector
    inner = graph.inner_length(group.main)
    return Cells(
        split(output.heads, plan.heads),
        split(output.rows, plan.rows),
        split(output.columns, plan.columns, per_vector),
        split(inner, plan.inner, per_vector) if inner else [(0, 0)],
    )


@dataclass(frozen=True, slots=True)
class Need:
    """One region that one or more units read in step (the same words at the same time)."""

    read: Read
    passes: int  # times that the region passes per sample
    targets: tuple[int, ...]  # unit ids; none: a store, whose port comes later
    stage: int  # in which it is read

    @property
    def tokens(self) -> int:
        return self.read.vectors * self.passes


def group_needs(
    fabric: Fabric, graph: DataflowGraph, group: Group, cells: Cells, units: list[list[int]], stages: list[int]
) -> Iterator[Need]:
    """Yield the activations that the parts of a group read.

    `units` has the unit ids of each region of `cells.regions()`, one for each inner span; `stages`
    the pipeline stage of each inner span.
    """
    per_vector = fabric.elements_per_vector
    readers: dict[tuple[int, Operand, int], list[int]] = {}
    passes: dict[int, int] = {}
    for region, row in zip(cells.regions(), units, strict=True):
        for inner, (span, unit) in enumerate(zip(cells.inner, row, strict=True)):
            for position, operand in enumerate(operands(fabric, graph, group, region, span)):
                readers.setdefault((position, operand._replace(passes=1), inner), []).append(unit)
                passes[position] = max(passes.get(position, 1), operand.passes)
    for (position, operand, inner), targets in readers.items():
        for read in stored_reads(graph, operand.tensor, operand.region, per_vector):
            seen = turned(read) if operand.is_turned else read
            if operand.vectors:
                share = -(-operand.vectors * read.region.elements // operand.region.elements)
                seen = seen._replace(vectors=share)
            yield Need(seen, passes[position], tuple(targets), stages[inner])


class Operand(NamedTuple):
    """What a part of a group needs of one input, which may be a view."""

    tensor: str
    region: Region
    is_turned: bool  # vectors along the rows are wanted
    passes: int  # per sample
    vectors: int = 0  # of one pass; 0: those of the region


def operands(fabric: Fabric, graph: DataflowGraph, group: Group, region: Region, inner: Span) -> Iterator[Operand]:
    """Yield what a part of a group needs of each input for a region of its output.

    Vectors lie along the columns of a tensor. A product wants vectors along the inner dimension, so
    a left operand that is transposed, or a right operand that is not, is read with a stride.
    """
    kind, inputs, at = group.main.kind, group.main.inputs, group.main.attributes
    if kind not in PRODUCT_KINDS:
        taps = window_of(group.main).taps if kind in WINDOW_KINDS else 0
        passing = taps * vectors(region, fabric.elements_per_vector)
        for position, tensor in enumerate(inputs):
            yield Operand(tensor, _plain_operand(graph, group, position, region), False, 1, passing)
        return
    _, rows, columns = region.sizes
    left_passes = -(-columns // fabric.compute.block_columns)
    right_passes = -(-rows // fabric.compute.block_rows)
    if kind == OpKind.WEIGHT_GRAD:
        heads, span = _summed_rows(graph, inputs[0], inner)
        yield Operand(inputs[0], Region(heads, span, region.rows), True, left_passes)
        yield Operand(inputs[1], Region(heads, span, region.columns), True, right_passes)
        return
    spans = (inner, region.rows) if at.transpose_a else (region.rows, inner)
    yield Operand(inputs[0], Region(region.heads, *spans), at.transpose_a, left_passes)
    if kind == OpKind.MATMUL:
        spans = (region.columns, inner) if at.transpose_b else (inner, region.columns)
        yield Operand(inputs[1], Region(region.heads, *spans), not at.transpose_b, right_passes)


def _summed_rows(graph: DataflowGraph, tensor: str, inner: Span) -> tuple[Span, Span]:
    """Return heads and rows of a part of the sum over all rows of all heads.

    A part that does not end with a head takes all rows of the heads that it touches.
    """
    rows = graph.tensors[tensor].rows
    heads = inner[0] // rows, -(-inner[1] // rows)
    if heads[1] - heads[0] == 1:
        return heads, (inner[0] - heads[0] * rows, inner[1] - heads[0] * rows)
    return heads, (0, rows)


def _plain_operand(graph: DataflowGraph, group: Group, position: int, region: Region) -> Region:
    """Return the region of an input that an op other than a product needs."""
    main, tensor = group.main, graph.tensors[group.main.inputs[position]]
    if main.kind in WINDOW_KINDS:
        return region._replace(rows=window_rows(window_of(main), region.rows))
    if main.kind == OpKind.SUM_HEADS:
        repeats = main.attributes.repeats
        return region._replace(heads=(region.heads[0] * repeats, region.heads[1] * repeats))
    everything = whole(tensor)
    if main.kind == OpKind.DISPATCH:
        return everything if position else everything._replace(columns=region.columns)
    if main.kind == OpKind.COMBINE:
        return everything._replace(columns=region.columns) if position else everything
    output = graph.tensors[main.name]
    heads = region.heads if tensor.heads == output.heads else (0, 1)  # one matrix for all heads
    columns = region.columns if tensor.columns == output.columns else (0, 1)  # one factor per row
    return Region(heads, region.rows, columns)
