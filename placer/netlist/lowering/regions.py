"""Regions of tensors: which part of its inputs an op needs for a part of its output.

A region is a box over (heads, rows, columns); a matrix has one head. Ops that only rearrange data
(transpose, heads, slices, patches of an image) are no units: they are *views*, and a read through
them becomes a read of the tensors that really exist, strided where rows and columns change places.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from placer.graph import VIEW_KINDS, DataflowGraph, Op, OpKind, Tensor, Window, window_of

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


class Read(NamedTuple):
    """A region of a stored tensor that must be read."""

    tensor: str
    region: Region
    strided: bool
    vectors: int  # that one pass over the region takes


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


def vectors(region: Region, per_vector: int) -> int:
    """Return the vectors of a region: rows of whole vectors."""
    heads, rows, columns = region.sizes
    return heads * rows * -(-columns // per_vector)


def stored_reads(graph: DataflowGraph, tensor: str, region: Region, per_vector: int) -> Iterator[Read]:
    """Yield what must be read of the stored tensors behind a region of a tensor that may be a view."""
    op = graph.op(tensor)
    if op.kind not in VIEW_KINDS:
        yield Read(tensor, region, False, vectors(region, per_vector))
        return
    if op.kind == OpKind.PATCHES:
        yield from _patch_reads(graph, op, region, per_vector)
        return
    is_turned = op.kind == OpKind.TRANSPOSE
    for name, part in _through_view(graph, op, region):
        again = region.sizes[0] // part.sizes[0] if op.kind == OpKind.REPEAT_HEADS else 1
        for read in stored_reads(graph, name, part, per_vector):
            passing = read._replace(vectors=max(1, again) * read.vectors)  # once for each head that shares it
            yield turned(passing) if is_turned else passing


def turned(read: Read) -> Read:
    """Return the read whose vectors are wanted along the other axis."""
    return read._replace(strided=not read.strided)


def _through_view(graph: DataflowGraph, op: Op, region: Region) -> Iterator[tuple[str, Region]]:
    """Yield the regions of the inputs of a view that make up a region of it."""
    source, at = op.inputs[0], op.attributes
    match op.kind:
        case OpKind.TRANSPOSE:
            yield source, Region(region.heads, region.columns, region.rows)
        case OpKind.SLICE:
            yield source, region._replace(columns=_moved(region.columns, at.start))
        case OpKind.SLICE_ROWS:
            yield source, region._replace(rows=_moved(region.rows, at.start))
        case OpKind.CONCAT | OpKind.CONCAT_ROWS:
            yield from _of_concat(graph, op, region)
        case OpKind.REPEAT_HEADS:
            first, last = region.heads
            yield source, region._replace(heads=(first // at.repeats, -(-last // at.repeats)))
        case OpKind.SPLIT_HEADS:
            yield from _of_split_heads(source, graph.tensors[op.name].columns, region)
        case OpKind.MERGE_HEADS:
            yield from _of_merge_heads(source, graph.tensors[source].columns, region)
        case OpKind.ROWS_TO_HEADS:
            yield from _of_rows_to_heads(source, at.heads, graph.tensors[op.name].columns, region)
        case _:
            yield from _of_heads_to_rows(source, at.heads, graph.tensors[source].columns, region)


def _moved(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by


def _of_concat(graph: DataflowGraph, op: Op, region: Region) -> Iterator[tuple[str, Region]]:
    is_rows = op.kind == OpKind.CONCAT_ROWS
    offset = 0
    for name in op.inputs:
        tensor = graph.tensors[name]
        if is_rows:
            shifted = region._replace(rows=_moved(region.rows, -offset))
        else:
            shifted = region._replace(columns=_moved(region.columns, -offset))
        part = shifted.intersect(whole(tensor))
        if part.elements:
            yield name, part
        offset += tensor.rows if is_rows else tensor.columns


def _of_split_heads(source: str, width: int, region: Region) -> Iterator[tuple[str, Region]]:
    """Head h of [heads, rows, width] is columns h * width .. of the matrix below."""
    first, last = region.heads
    if region.columns == (0, width):
        yield source, Region((0, 1), region.rows, (first * width, last * width))
        return
    for head in range(first, last):
        yield source, Region((0, 1), region.rows, _moved(region.columns, head * width))


def _of_merge_heads(source: str, width: int, region: Region) -> Iterator[tuple[str, Region]]:
    """Columns of the merged matrix are heads of the stack below."""
    for heads, columns in _heads_in_columns(region.columns, width):
        yield source, Region(heads, region.rows, columns)


def _heads_in_columns(columns: Span, width: int) -> Iterator[tuple[Span, Span]]:
    """Yield (heads, columns of each) that lie side by side in a span of columns."""
    start, end = columns
    first, last = -(-start // width), end // width
    if first < last:
        yield (first, last), (0, width)
    for head in sorted({start // width, end // width} - set(range(first, last))):
        part = _overlap((start - head * width, end - head * width), (0, width))
        if part[0] < part[1]:
            yield (head, head + 1), part


def _of_rows_to_heads(source: str, heads: int, width: int, region: Region) -> Iterator[tuple[str, Region]]:
    """Head r * heads + h of [rows * heads, 1, width] is columns h * width .. of row r."""
    first, last = region.heads
    for row in range(first // heads, -(-last // heads)):
        low, high = max(first - row * heads, 0), min(last - row * heads, heads)
        for head in [None] if region.columns == (0, width) else range(low, high):
            span = (low * width, high * width) if head is None else _moved(region.columns, head * width)
            yield source, Region((0, 1), (row, row + 1), span)


def _of_heads_to_rows(source: str, heads: int, width: int, region: Region) -> Iterator[tuple[str, Region]]:
    for row in range(*region.rows):
        for span, columns in _heads_in_columns(region.columns, width):
            yield source, Region(_moved(span, row * heads), (0, 1), columns)


def _patch_reads(graph: DataflowGraph, op: Op, region: Region, per_vector: int) -> Iterator[Read]:
    """Yield the pixels behind some windows; each vector of a window passes by itself."""
    channels = graph.tensors[op.inputs[0]].columns
    in_group = channels // op.attributes.groups
    (first, last), (start, end) = region.heads, region.columns
    taps = start // in_group, -(-end // in_group)
    if taps[1] - taps[0] == 1:
        low, high = start - taps[0] * in_group, end - taps[0] * in_group
    else:
        low, high = 0, in_group
    for group in range(first, last) if (low, high) != (0, in_group) else [None]:
        columns = (first * in_group, last * in_group) if group is None else _moved((low, high), group * in_group)
        box = Region((0, 1), window_rows(window_of(op), region.rows), columns)
        share = 1 if group is None else 1 / (last - first)
        number = max(1, round(share * vectors(region, per_vector)))
        for read in stored_reads(graph, op.inputs[0], box, per_vector):
            part = -(-number * read.region.elements // box.elements)
            yield read._replace(vectors=max(1, part))


def window_rows(window: Window, rows: Span) -> Span:
    """Return the rows of the image, from the first to the last pixel, that some windows touch."""
    height, width = window.image
    across = window.output[1]
    top = (rows[0] // across) * window.stride[0] - window.padding[0]
    bottom = ((rows[1] - 1) // across) * window.stride[0] - window.padding[0]
    bottom += window.dilation[0] * (window.kernel[0] - 1)
    return max(0, top) * width, min(height, bottom + 1) * width
