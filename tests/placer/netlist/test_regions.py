"""Regions: cuts and reads through views cover exactly the right elements."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from placer.graph import DataflowGraph, Op, OpAttributes, OpKind, Shape, output_shape
from placer.graph.rules import apply_op
from placer.netlist.lowering.regions import Read, Region, split, stored_reads, whole

PER_VECTOR = 4


@given(total=st.integers(1, 200), parts=st.integers(1, 40), multiple=st.integers(1, 20))
def test_split_covers_everything_once(total: int, parts: int, multiple: int) -> None:
    spans = split(total, parts, multiple)
    assert [element for start, end in spans for element in range(start, end)] == [*range(total)]
    assert 1 <= len(spans) <= parts
    assert len(spans) == min(parts, -(-total // multiple))
    assert all(start % multiple == 0 for start, _ in spans)
    sizes = [-(-(end - start) // multiple) for start, end in spans]
    assert max(sizes) - min(sizes) <= 1


@given(*[st.tuples(*[st.tuples(st.integers(0, 6), st.integers(0, 6))] * 3)] * 2)
def test_intersection_has_the_common_elements(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> None:
    in_a, in_b = np.zeros((6, 6, 6), bool), np.zeros((6, 6, 6), bool)
    in_a[box(Region(*a))] = True
    in_b[box(Region(*b))] = True
    assert Region(*a).intersect(Region(*b)).elements == (in_a & in_b).sum()


def box(region: Region) -> tuple[slice, slice, slice]:
    heads, rows, columns = (slice(*span) for span in (region.heads, region.rows, region.columns))
    return heads, rows, columns


VIEWS = [
    OpKind.TRANSPOSE, OpKind.SLICE, OpKind.SLICE_ROWS, OpKind.CONCAT, OpKind.CONCAT_ROWS, OpKind.SPLIT_HEADS,
    OpKind.MERGE_HEADS, OpKind.REPEAT_HEADS, OpKind.ROWS_TO_HEADS, OpKind.HEADS_TO_ROWS, OpKind.PATCHES,
]  # fmt: skip


@st.composite
def view_graphs(draw: st.DrawFn) -> DataflowGraph:
    """Loads, a chain of views that starts at the first of them, and a store."""
    shape: Shape = tuple(draw(st.lists(st.integers(1, 8), min_size=2, max_size=3)))
    ops = [Op("x", OpKind.LOAD, (), OpAttributes(shape=shape))]
    shapes = {"x": shape}
    last = "x"
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from([view for view in VIEWS if is_possible(view, shapes[last])]))
        inputs = [last]
        if kind in (OpKind.CONCAT, OpKind.CONCAT_ROWS):
            other, axis = f"y{number}", -1 if kind == OpKind.CONCAT else -2
            sizes = list(shapes[last])
            sizes[axis] = draw(st.integers(1, 5))
            shapes[other] = tuple(sizes)
            ops.append(Op(other, OpKind.LOAD, (), OpAttributes(shape=shapes[other])))
            inputs = draw(st.permutations([last, other]))
        attributes = draw(attributes_of(kind, shapes[last]))
        last = f"view{number}"
        ops.append(Op(last, kind, tuple(inputs), attributes))
        shapes[last] = output_shape(ops[-1], [shapes[name] for name in inputs])
    return DataflowGraph("views", "views", (*ops, Op("y", OpKind.STORE, (last,))))


def is_possible(kind: OpKind, shape: Shape) -> bool:
    if kind in (OpKind.SPLIT_HEADS, OpKind.ROWS_TO_HEADS, OpKind.PATCHES):
        return len(shape) == 2 and prod(shape) <= 200
    if kind in (OpKind.MERGE_HEADS, OpKind.REPEAT_HEADS):
        return len(shape) == 3 and prod(shape) <= 200
    return kind != OpKind.HEADS_TO_ROWS or (len(shape) == 3 and shape[1] == 1)


@st.composite
def attributes_of(draw: st.DrawFn, kind: OpKind, shape: Shape) -> OpAttributes:
    def divisor(total: int) -> int:
        return draw(st.sampled_from([size for size in range(1, total + 1) if total % size == 0]))

    if kind in (OpKind.SLICE, OpKind.SLICE_ROWS):
        total = shape[-1 if kind == OpKind.SLICE else -2]
        start = draw(st.integers(0, total - 1))
        return OpAttributes(start=start, stop=draw(st.integers(start + 1, total)))
    if kind in (OpKind.SPLIT_HEADS, OpKind.ROWS_TO_HEADS):
        return OpAttributes(heads=divisor(shape[-1]))
    if kind == OpKind.HEADS_TO_ROWS:
        return OpAttributes(heads=divisor(shape[0]))
    if kind == OpKind.REPEAT_HEADS:
        return OpAttributes(repeats=draw(st.integers(1, 3)))
    if kind == OpKind.PATCHES:
        height = divisor(shape[0])
        kernel = draw(st.integers(1, min(2, height))), draw(st.integers(1, min(2, shape[0] // height)))
        padding = tuple(draw(st.integers(0, size - 1)) for size in (*kernel, *kernel))
        image, stride = (height, shape[0] // height), (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
        return OpAttributes(image=image, kernel=kernel, stride=stride, padding=padding, groups=divisor(shape[1]))
    return OpAttributes()


def evaluate(graph: DataflowGraph) -> dict[str, NDArray[np.float64]]:
    """Every tensor as an array [heads, rows, columns]; each loaded element has its own number, padding has 0."""
    values: dict[str, NDArray[np.float64]] = {}
    count = 1
    for op in graph.ops:
        shape = graph.tensors[op.name].shape
        if op.kind == OpKind.LOAD:
            values[op.name] = count + np.arange(prod(shape), dtype=np.float64).reshape(shape)
            count += prod(shape)
        else:
            values[op.name] = apply_op(op, {}, *(values[name] for name in op.inputs))
    return {name: value.reshape((-1, *value.shape[-2:])) for name, value in values.items()}


def random_region(data: st.DataObject, everything: Region) -> Region:
    """A region inside another one that starts at the origin."""
    spans = []
    for _, size in (everything.heads, everything.rows, everything.columns):
        start = data.draw(st.integers(0, size - 1))
        spans.append((start, data.draw(st.integers(start + 1, size))))
    return Region(*spans)


@given(view_graphs(), st.data())
def test_reads_through_views_cover_the_right_elements(graph: DataflowGraph, data: st.DataObject) -> None:
    values = evaluate(graph)
    last = graph.op("y").inputs[0]
    region = random_region(data, whole(graph.tensors[last]))
    reads = list(stored_reads(graph, last, region, PER_VECTOR))
    elements = np.concatenate([values[read.tensor][box(read.region)].ravel() for read in reads])
    wanted = values[last][box(region)].ravel()
    assert set(wanted[wanted > 0]) <= set(elements)
    kinds = {op.kind for op in graph.ops}
    if OpKind.PATCHES not in kinds:  # which take whole rows of pixels
        assert set(elements) == set(wanted)
        if OpKind.REPEAT_HEADS not in kinds:  # which pass once
            assert sorted(elements) == sorted(wanted)
    assert all(graph.op(read.tensor).kind == OpKind.LOAD for read in reads)
    assert all(read.strided == is_turned(graph, last, read) for read in reads)
    assert all(read.vectors >= 1 for read in reads)


def is_turned(graph: DataflowGraph, tensor: str, read: Read) -> bool:
    """Whether an odd number of transposes lies between a stored tensor and a view of it."""
    turned = False
    while tensor != read.tensor:
        op = graph.op(tensor)
        turned ^= op.kind == OpKind.TRANSPOSE
        views = [name for name in op.inputs if name.startswith("view") or name == "x"]
        tensor = read.tensor if read.tensor in op.inputs else views[0]
    return turned
