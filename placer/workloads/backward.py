"""The backward pass: from any forward graph to the graph of one training step.

The step starts from the gradient of every output, loaded from DRAM, and ends in one `weight_grad`
per linear op. It makes the gradient of a tensor only where a linear op lies at or before it, so
graph inputs and embedding tables get none, and every gradient has a reader. The gradients of bias
vectors and layernorm's gamma and beta are row sums that are no ops (see `placer.ops`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from placer.errors import InputError
from placer.graph import DataflowGraph
from placer.ops import GRADIENT_KINDS, Op, OpAttributes, OpKind
from placer.workloads.builder import GraphBuilder


@dataclass(frozen=True, slots=True)
class _Piece:
    """Gradient of the columns start:stop of a tensor, from one of its readers."""

    tensor: str  # the forward tensor
    gradient: str
    start: int
    stop: int


def with_backward(graph: DataflowGraph) -> DataflowGraph:
    """The graph with its backward pass; InputError when there is nothing to train."""
    if any(op.kind in GRADIENT_KINDS for op in graph.ops):
        raise InputError(f"graph {graph.name!r} has gradient ops already; give the forward graph")
    trained = _trained(graph)
    if not trained:
        raise InputError(f"graph {graph.name!r} has no linear op, so there is nothing to train")
    builder = GraphBuilder(graph.ops)
    pieces: defaultdict[str, list[_Piece]] = defaultdict(list)
    for op in reversed(graph.ops):
        if op.name in trained:
            gradient = "" if op.kind == OpKind.STORE else _sum(builder, graph, pieces[op.name])
            for piece in _backward(builder, graph, op, gradient, trained):
                pieces[piece.tensor].append(piece)
    return builder.build(f"{graph.name}-training", graph.family)


def _trained(graph: DataflowGraph) -> set[str]:
    """Tensors that depend on the weight of a linear op; only they need a gradient."""
    trained: set[str] = set()
    for op in graph.ops:
        if op.kind == OpKind.LINEAR or not trained.isdisjoint(op.inputs):
            trained.add(op.name)
    return trained


def _backward(
    b: GraphBuilder, graph: DataflowGraph, op: Op, gradient: str, trained: set[str]
) -> Iterator[_Piece]:
    """Add what `op` needs backwards; `gradient` is that of its output. Yields its inputs' part."""
    if op.kind == OpKind.LINEAR:
        _add_weight_grad(b, op, gradient)
    if op.kind == OpKind.CONCAT:
        yield from _concat_backward(b, graph, op, gradient, trained)
        return
    for index, name in enumerate(op.inputs):
        if name in trained:
            start, stop = 0, graph.tensors[name].columns
            if op.kind == OpKind.SLICE:
                start, stop = op.attributes.start, op.attributes.stop
            yield _Piece(name, _input_gradient(b, graph, op, index, gradient), start, stop)


def _add_weight_grad(b: GraphBuilder, op: Op, gradient: str) -> None:
    """For y = x W: dW = x^T dy. For y = x W^T: dW = dy^T x."""
    operands = (op.inputs[0], gradient)
    if op.attributes.transposed_weight:
        operands = operands[::-1]
    attributes = OpAttributes(weight=op.attributes.weight)
    b.add_op(OpKind.WEIGHT_GRAD, *operands, name=f"{op.name}.weight_grad", attributes=attributes)


def _concat_backward(
    b: GraphBuilder, graph: DataflowGraph, op: Op, gradient: str, trained: set[str]
) -> Iterator[_Piece]:
    offset = 0
    for index, name in enumerate(op.inputs):
        columns = graph.tensors[name].columns
        if name in trained:
            part = b.slice(gradient, offset, offset + columns, name=f"{op.name}.grad_{index}")
            yield _Piece(name, part, 0, columns)
        offset += columns


def _input_gradient(b: GraphBuilder, graph: DataflowGraph, op: Op, index: int, dy: str) -> str:
    """Gradient of input number `index` of `op`, given the gradient `dy` of its output."""
    name = f"{op.name}.grad_{index}"
    x, attributes = op.inputs[index], op.attributes
    match op.kind:
        case OpKind.STORE:
            return b.load(graph.tensors[x].shape, name=name)
        case OpKind.ADD | OpKind.BIAS | OpKind.SLICE:
            return dy
        case OpKind.LINEAR:
            transposed = not attributes.transposed_weight
            columns = graph.tensors[x].columns
            return b.linear(dy, columns, name, attributes.weight, transposed)
        case OpKind.MATMUL:
            return _matmul_gradient(b, op, index, dy, name)
        case OpKind.SCALE:
            return b.scale(dy, attributes.factor, name=name)
        case OpKind.RELU:
            return b.add_op(OpKind.RELU_GRAD, dy, x, name=name)
        case OpKind.GELU:
            return b.add_op(OpKind.GELU_GRAD, dy, x, name=name, attributes=attributes)
        case OpKind.SOFTMAX:
            return b.add_op(OpKind.SOFTMAX_GRAD, dy, op.name, name=name)
        case OpKind.LAYERNORM:
            return b.add_op(OpKind.LAYERNORM_GRAD, dy, x, name=name, attributes=attributes)
        case OpKind.TRANSPOSE:
            return b.transpose(dy, name=name)
        case OpKind.SPLIT_HEADS:
            return b.merge_heads(dy, name=name)
        case OpKind.MERGE_HEADS:
            return b.split_heads(dy, graph.tensors[x].heads, name=name)
        case _:
            raise AssertionError(f"op {op.name!r}: no backward rule for {op.kind}")


def _matmul_gradient(b: GraphBuilder, op: Op, index: int, dy: str, name: str) -> str:
    """For C = A B: dA = dC B^T and dB = A^T dC; transposed operands give the transpose of that."""
    left, right = op.inputs
    transpose_a, transpose_b = op.attributes.transpose_a, op.attributes.transpose_b
    match index, transpose_a, transpose_b:
        case 0, False, _:
            return b.matmul(dy, right, transpose_b=not transpose_b, name=name)
        case 0, True, _:
            return b.matmul(right, dy, transpose_a=transpose_b, transpose_b=True, name=name)
        case _, _, False:
            return b.matmul(left, dy, transpose_a=not transpose_a, name=name)
        case _:
            return b.matmul(dy, left, transpose_a=True, transpose_b=transpose_a, name=name)


def _sum(b: GraphBuilder, graph: DataflowGraph, pieces: list[_Piece]) -> str:
    """Gradient of a tensor: the sum over its readers."""
    rows = [_full_width(b, graph, row) for row in _disjoint_rows(pieces)]
    total = rows[0]
    for number, row in enumerate(rows[1:]):
        total = b.add(total, row, name=f"{pieces[0].tensor}.grad_sum_{number}")
    return total


def _disjoint_rows(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Pieces side by side where they do not overlap, so that slices cost no additions."""
    rows: list[list[_Piece]] = []
    for piece in sorted(pieces, key=lambda piece: piece.start):
        for row in rows:
            if row[-1].stop <= piece.start:
                row.append(piece)
                break
        else:
            rows.append([piece])
    return rows


def _full_width(b: GraphBuilder, graph: DataflowGraph, row: list[_Piece]) -> str:
    """One gradient from disjoint pieces; columns that no reader took get zeros."""
    tensor, parts, column = row[0].tensor, [], 0
    end = graph.tensors[tensor].columns
    for piece in [*row, _Piece(tensor, "", end, end)]:
        if column < piece.start:
            unread = b.slice(tensor, column, piece.start)
            parts.append(b.scale(unread, 0.0))
        if piece.gradient:
            parts.append(piece.gradient)
        column = piece.stop
    return b.concat(*parts) if len(parts) > 1 else parts[0]
