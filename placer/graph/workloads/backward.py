"""The backward pass: from any forward graph to the graph of one training step.

The step starts from the gradient of every output, loaded from DRAM, and ends in one `weight_grad`
per linear op. It makes the gradient of a tensor only where a linear op lies at or before it, so
graph inputs and embedding tables get none, and every gradient has a reader. The gradients of bias
vectors and layernorm's gamma and beta are row sums that are no ops (see `placer.graph.ops`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from placer.base import InputError
from placer.graph import ATTRIBUTES, GRADIENT_KINDS, DataflowGraph, Op, OpKind
from placer.graph.workloads.builder import GraphBuilder


@dataclass(frozen=True, slots=True)
class _Piece:
    """Gradient of the columns start:stop of a tensor, from one of its readers."""

    tensor: str  # the forward tensor
    gradient: str
    start: int
    stop: int


def with_backward(graph: DataflowGraph) -> DataflowGraph:
    """Return the graph with its backward pass; InputError when there is nothing to train."""
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
    """Return the tensors behind the weight of a linear op; only they need a gradient."""
    trained: set[str] = set()
    for op in graph.ops:
        if op.kind == OpKind.LINEAR or not trained.isdisjoint(op.inputs):
            trained.add(op.name)
    return trained


def _backward(b: GraphBuilder, graph: DataflowGraph, op: Op, gradient: str, trained: set[str]) -> Iterator[_Piece]:
    """Add what `op` needs backwards; `gradient` is that of its output. Yields its inputs' part."""
    if op.kind == OpKind.LINEAR:
        _add_weight_grad(b, op, gradient)
    offset = 0
    for index, name in enumerate(op.inputs):
        columns = graph.tensors[name].columns
        if name in trained and op.kind == OpKind.SLICE:
            yield _Piece(name, gradient, op.attributes.start, op.attributes.stop)
        elif name in trained and op.kind == OpKind.CONCAT:
            part = b.slice(gradient, offset, offset + columns, name=f"{op.name}.grad_{index}")
            yield _Piece(name, part, 0, columns)
        elif name in trained:
            yield _Piece(name, _input_gradient(b, graph, op, index, gradient), 0, columns)
        offset += columns


def _add_weight_grad(b: GraphBuilder, op: Op, gradient: str) -> None:
    """Add dW: x^T dy for y = x W, dy^T x for y = x W^T."""
    operands = (op.inputs[0], gradient)
    if op.attributes.transposed_weight:
        operands = operands[::-1]
    name, weight = f"{op.name}.weight_grad", op.attributes.weight
    b.add_op(OpKind.WEIGHT_GRAD, *operands, name=name, weight=weight)


def _input_gradient(b: GraphBuilder, graph: DataflowGraph, op: Op, index: int, dy: str) -> str:
    """Add the gradient of input number `index` of `op`, given that of its output, `dy`."""
    name = f"{op.name}.grad_{index}"
    x, at = op.inputs[index], op.attributes
    match op.kind:
        case OpKind.STORE:
            return b.load(graph.tensors[x].shape, name=name)
        case OpKind.ADD | OpKind.BIAS:
            return dy
        case OpKind.LINEAR:
            columns = graph.tensors[x].columns
            return b.linear(dy, columns, name, at.weight, not at.transposed_weight)
        case OpKind.MATMUL:
            return _matmul_gradient(b, op, index, dy, name)
        case OpKind.SCALE:
            return b.scale(dy, at.factor, name=name)
        case OpKind.RELU | OpKind.GELU | OpKind.SOFTMAX | OpKind.LAYERNORM:
            kind = OpKind(f"{op.kind}_grad")
            held = {attribute: getattr(at, attribute) for attribute in ATTRIBUTES.get(kind, ())}
            operand = op.name if op.kind == OpKind.SOFTMAX else x
            return b.add_op(kind, dy, operand, name=name, **held)
        case OpKind.TRANSPOSE:
            return b.transpose(dy, name=name)
        case OpKind.SPLIT_HEADS:
            return b.merge_heads(dy, name=name)
        case OpKind.MERGE_HEADS:
            return b.split_heads(dy, graph.tensors[x].heads, name=name)
        case _:
            raise AssertionError(f"op {op.name!r}: no backward rule for {op.kind}")


def _matmul_gradient(b: GraphBuilder, op: Op, index: int, dy: str, name: str) -> str:
    """Add dA = dC B^T or dB = A^T dC for C = A B; of transposed operands the transpose."""
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
    """Add up the gradient of a tensor over its readers."""
    rows = [_full_width(b, graph, row) for row in _disjoint_rows(pieces)]
    total = rows[0]
    for number, row in enumerate(rows[1:]):
        total = b.add(total, row, name=f"{pieces[0].tensor}.grad_sum_{number}")
    return total


def _disjoint_rows(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Put pieces side by side where they do not overlap, so that slices cost no additions."""
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
    """Make one gradient of disjoint pieces; columns that no reader took get zeros."""
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
