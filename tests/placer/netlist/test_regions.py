"""Regions: cuts and reads through views cover exactly the right elements."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from placer.graph import DataflowGraph, Op, OpAttributes, OpKind, Shape, output_shape
from placer.netlist.lowering.regions import Read, Region, grid, split, stored_reads, whole


@given(total=st.integers(1, 200), parts=st.integers(1, 40), multiple=st.integers(1, 20))
def test_split_covers_everything_once(total: int, parts: int, multiple: int) -> None:
    spans = split(total, parts, multiple)
    assert [element for start, end in spans for element in range(start, end)] == [*range(total)]
    assert 1 <= len(spans) <= parts
    assert len(spans) == min(parts, -(-total // multiple))
    assert all(start % multiple == 0 for start, _ in spans)
    sizes = [-(-(end - start) // multiple) for start, end in spans]
    assert max(sizes) - min(sizes) <= 1


@given(st.tuples(*[st.integers(1, 12)] * 3), st.tuples(*[st.integers(1, 5)] * 3), st.integers(1, 4))
def test_grid_covers_everything_once(shape: tuple[int, int, int], parts: tuple[int, int, int], multiple: int) -> None:
    counts = np.zeros(shape, int)
    everything = Region(*((0, size) for size in shape))
    for region in grid(everything, *parts, multiple):
        assert region.elements > 0
        counts[box(region)] += 1
    assert (counts == 1).all()


@given(*[st.tuples(*[st.tuples(st.integers(0, 6), st.integers(0, 6))] * 3)] * 2)
def test_intersection_has_the_common_elements(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> None:
    in_a, in_b = np.zeros((6, 6, 6), bool), np.zeros((6, 6, 6), bool)
    in_a[box(Region(*a))] = True
    in_b[box(Region(*b))] = True
    assert Region(*a).intersect(Region(*b)).elements == (in_a & in_b).sum()


def box(region: Region) -> tuple[slice, slice, slice]:
    heads, rows, columns = (slice(*span) for span in (region.heads, region.rows, region.columns))
    return heads, rows, columns


@st.composite
def view_graphs(draw: st.DrawFn) -> DataflowGraph:
    """Loads, a chain of views that starts at the first of them, and a store."""
    shape: Shape = tuple(draw(st.lists(st.integers(1, 8), min_size=2, max_size=3)))
    ops = [Op("x", OpKind.LOAD, (), OpAttributes(shape=shape))]
    shapes = {"x": shape}
    last = "x"
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(possible_views(shapes[last])))
        inputs, columns = [last], shapes[last][-1]
        attributes = OpAttributes()
        if kind == OpKind.SPLIT_HEADS:
            divisors = [heads for heads in range(1, columns + 1) if columns % heads == 0]
            attributes = OpAttributes(heads=draw(st.sampled_from(divisors)))
        elif kind == OpKind.SLICE:
            start = draw(st.integers(0, columns - 1))
            attributes = OpAttributes(start=start, stop=draw(st.integers(start + 1, columns)))
        elif kind == OpKind.CONCAT:
            other = f"y{number}"
            shapes[other] = (*shapes[last][:-1], draw(st.integers(1, 5)))
            ops.append(Op(other, OpKind.LOAD, (), OpAttributes(shape=shapes[other])))
            inputs = draw(st.permutations([last, other]))
        last = f"view{number}"
        ops.append(Op(last, kind, tuple(inputs), attributes))
        shapes[last] = output_shape(ops[-1], [shapes[name] for name in inputs])
    return DataflowGraph("views", "views", (*ops, Op("y", OpKind.STORE, (last,))))


def possible_views(shape: Shape) -> list[OpKind]:
    heads = OpKind.MERGE_HEADS if len(shape) == 3 else OpKind.SPLIT_HEADS
    return [OpKind.TRANSPOSE, OpKind.SLICE, OpKind.CONCAT, heads]


def evaluate(graph: DataflowGraph) -> dict[str, NDArray[np.int64]]:
    """Every tensor as an array [heads, rows, columns]; each loaded element has its own number."""
    values: dict[str, NDArray[np.int64]] = {}
    count = 0
    for op in graph.ops:
        shape = graph.tensors[op.name]
        inputs = [values[name] for name in op.inputs]
        if op.kind == OpKind.LOAD:
            value = count + np.arange(shape.elements)
            count += shape.elements
        elif op.kind == OpKind.TRANSPOSE:
            value = inputs[0].swapaxes(1, 2)
        elif op.kind == OpKind.SPLIT_HEADS:
            value = inputs[0][0].reshape(shape.rows, shape.heads, shape.columns).swapaxes(0, 1)
        elif op.kind == OpKind.MERGE_HEADS:
            value = inputs[0].swapaxes(0, 1)
        elif op.kind == OpKind.SLICE:
            value = inputs[0][:, :, op.attributes.start : op.attributes.stop]
        else:
            value = np.concatenate(inputs, axis=2) if op.kind == OpKind.CONCAT else inputs[0]
        values[op.name] = value.reshape(shape.heads, shape.rows, shape.columns)
    return values


def random_region(data: st.DataObject, everything: Region) -> Region:
    """A region inside another one that starts at the origin."""
    spans = []
    for _, size in (everything.heads, everything.rows, everything.columns):
        start = data.draw(st.integers(0, size - 1))
        spans.append((start, data.draw(st.integers(start + 1, size))))
    return Region(*spans)


@given(view_graphs(), st.data())
def test_reads_through_views_cover_exactly_the_right_elements(graph: DataflowGraph, data: st.DataObject) -> None:
    values = evaluate(graph)
    last = graph.op("y").inputs[0]
    region = random_region(data, whole(graph.tensors[last]))
    reads = list(stored_reads(graph, last, region))
    elements = [values[read.tensor][box(read.region)].ravel() for read in reads]
    assert sorted(np.concatenate(elements)) == sorted(values[last][box(region)].ravel())
    assert all(graph.op(read.tensor).kind == OpKind.LOAD for read in reads)
    assert all(read.strided == is_turned(graph, last, read) for read in reads)


def is_turned(graph: DataflowGraph, tensor: str, read: Read) -> bool:
    """Whether an odd number of transposes lies between a stored tensor and a view of it."""
    turned = False
    while tensor != read.tensor:
        op = graph.op(tensor)
        turned ^= op.kind == OpKind.TRANSPOSE
        views = [name for name in op.inputs if name.startswith("view") or name == "x"]
        tensor = read.tensor if read.tensor in op.inputs else views[0]
    return turned
