"""Regions of tensors: which part of its inputs an op needs for a part of its output.

A region is a box over (heads, rows, columns); a matrix has one head. Ops that only rearrange data
(transpose, heads, slice, concat) are no units: they are *views*, and a read through them becomes a
read of the tensors that really exist, strided where rows and columns change places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from placer.graph import VIEW_KINDS as VIEW_KINDS
from placer.graph import DataflowGraph, Op, OpKind, Tensor

Span = tuple[int, int]


class Region(NamedTuple):
    """A box of a tensor; spans are half open."""

    heads: Span
    rows: Span
    columns: Span

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Return the numbers of heads, rows and columns."""
        (head, heads), (row, rows), (column, columns) = self
        return heads - head, rows - row, columns - column

    @property
    def elements(self) -> int:
        heads, rows, columns = self.sizes
        return heads * rows * columns if min(heads, rows, columns) > 0 else 0

    def intersect(self, other: Region) -> Region:
        return Region(*map(_overlap, self, other))


@dataclass(frozen=True, slots=True)
class Read:
    """A region of a stored tensor that must be read."""

    tensor: str
    region: Region
    strided: bool


def _overlap(a: Span, b: Span) -> Span:
    return max(a[0], b[0]), min(a[1], b[1])


def whole(tensor: Tensor) -> Region:
    """Return the region of all of a tensor."""
    return Region((0, tensor.heads), (0, tensor.rows), (0, tensor.columns))


def split(total: int, parts: int, multiple: int = 1) -> list[Span]:
    """Cut 0..total into at most `parts` spans, equal up to `multiple`."""
    chunks = -(-total // multiple)
    parts = min(parts, chunks)
    bounds = [min(total, chunks * i // parts * multiple) for i in range(parts + 1)]
    return list(pairwise(bounds))


def cuts(limits: tuple[int, int, int], fewest: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Yield parts along heads, rows and columns up to their limits, `fewest` to `most` in all."""
    for heads in range(1, min(limits[0], most) + 1):
        for rows in range(1, min(limits[1], most // heads) + 1):
            number = heads * rows
            for columns in range(-(-fewest // number), min(limits[2], most // number) + 1):
                yield heads, rows, columns


def grid(region: Region, heads: int, rows: int, columns: int, column_multiple: int) -> list[Region]:
    """Cut a region that starts at the origin into heads x rows x columns parts."""
    return [
        Region(h, r, c)
        for h in split(region.heads[1], heads)
        for r in split(region.rows[1], rows)
        for c in split(region.columns[1], columns, column_multiple)
    ]


def stored_reads(graph: DataflowGraph, tensor: str, region: Region) -> Iterator[Read]:
    """Follow views down to the tensors that exist."""
    op = graph.op(tensor)
    if op.kind not in VIEW_KINDS:
        yield Read(tensor, region, strided=False)
        return
    for name, part in _through_view(graph, op, region):
        for read in stored_reads(graph, name, part):
            strided = read.strided != (op.kind == OpKind.TRANSPOSE)
            yield Read(read.tensor, read.region, strided)


def _through_view(graph: DataflowGraph, op: Op, region: Region) -> Iterator[tuple[str, Region]]:
    source = op.inputs[0]
    if op.kind == OpKind.TRANSPOSE:
        yield source, Region(region.heads, region.columns, region.rows)
    elif op.kind == OpKind.SLICE:
        yield source, _shift_columns(region, op.attributes.start)
    elif op.kind == OpKind.CONCAT:
        offset = 0
        for name in op.inputs:
            tensor = graph.tensors[name]
            part = _shift_columns(region, -offset).intersect(whole(tensor))
            if part.elements:
                yield name, part
            offset += tensor.columns
    elif op.kind == OpKind.SPLIT_HEADS:
        yield from _split_heads(source, graph.tensors[op.name].columns, region)
    else:
        yield from _merge_heads(source, graph.tensors[source].columns, region)


def _shift_columns(region: Region, by: int) -> Region:
    start, end = region.columns
    return region._replace(columns=(start + by, end + by))


def _split_heads(source: str, width: int, region: Region) -> Iterator[tuple[str, Region]]:
    """Head h of [heads, rows, width] is columns h * width .. of the matrix below."""
    first, last = region.heads
    if region.columns == (0, width):
        yield source, Region((0, 1), region.rows, (first * width, last * width))
        return
    for head in range(first, last):
        start, end = region.columns
        yield source, Region((0, 1), region.rows, (head * width + start, head * width + end))


def _merge_heads(source: str, width: int, region: Region) -> Iterator[tuple[str, Region]]:
    """Columns of the merged matrix are heads of the stack below."""
    start, end = region.columns
    first, last = -(-start // width), end // width
    if first < last:
        yield source, Region((first, last), region.rows, (0, width))
    for head in sorted({start // width, end // width} - set(range(first, last))):
        part = _overlap((start - head * width, end - head * width), (0, width))
        if part[0] < part[1]:
            yield source, Region((head, head + 1), region.rows, part)
