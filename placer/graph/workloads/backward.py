"""The backward pass: from any forward graph to the graph of one training step.

The step starts from the gradient of every output, loaded from DRAM, and ends in one `weight_grad`
per linear op. It makes the gradient of a tensor only where a linear op lies at or before it, so
graph inputs and embedding tables get none, and every gradient has a reader. The gradients of bias
and gain vectors and the gamma and beta of norms are row sums that are no ops (see `placer.graph.ops`).

Convolutions, routing to experts and decoding have no backward pass: training of them is refused.
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
    for op in graph.ops:
        if op.kind == OpKind.DEPTHWISE or op.attributes.stacked:
            raise _untrainable(op, "weights of windows and of stacks get no gradient")
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


def _untrainable(op: Op, reason: str) -> InputError:
    return InputError(
        f"op {op.name!r}: training of {op.kind} is not supported, {reason}; "
        "build the forward pass (training=false) or leave the op out"
    )


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
        case OpKind.MULTIPLY:
            return _multiply_gradient(b, graph, op, index, dy)
        case OpKind.GAIN:
            return b.add_op(OpKind.GAIN, dy, name=name, weight=at.weight)
        case OpKind.LINEAR:
            columns = graph.tensors[x].columns
            return b.linear(dy, columns, name, at.weight, not at.transposed_weight)
        case OpKind.MATMUL:
            return _matmul_gradient(b, op, index, dy, name)
        case OpKind.SCALE:
            return b.scale(dy, at.factor, name=name)
        case _ if f"{op.kind}_grad" in GRADIENT_KINDS:
            kind = OpKind(f"{op.kind}_grad")
            held = {attribute: getattr(at, attribute) for attribute in ATTRIBUTES.get(kind, ())}
            operand = op.name if op.kind == OpKind.SOFTMAX else x
            return b.add_op(kind, dy, operand, name=name, **held)
        case _:
            return _view_gradient(b, graph, op, index, dy)


def _view_gradient(b: GraphBuilder, graph: DataflowGraph, op: Op, index: int, dy: str) -> str:
    """Add the gradient of an input of an op that moves numbers: they go back the same way."""
    name, x, at = f"{op.name}.grad_{index}", op.inputs[index], op.attributes
    match op.kind:
        case OpKind.TRANSPOSE:
            return b.transpose(dy, name=name)
        case OpKind.SPLIT_HEADS:
            return b.merge_heads(dy, name=name)
        case OpKind.MERGE_HEADS:
            return b.split_heads(dy, graph.tensors[x].heads, name=name)
        case OpKind.REPEAT_HEADS:
            return b.sum_heads(dy, at.repeats, name=name)
        case OpKind.SUM_HEADS:
            return b.repeat_heads(dy, at.repeats, name=name)
        case OpKind.CONCAT_ROWS:
            start = sum(graph.tensors[part].rows for part in op.inputs[:index])
            return b.slice_rows(dy, start, start + graph.tensors[x].rows, name=name)
        case OpKind.SLICE_ROWS:
            return _between_zeros(b, graph, op, dy)
        case OpKind.ROTARY if index == 0:
            cos, sin = op.inputs[1:]
            return b.rotary(dy, cos, sin, inverse=not at.inverse, name=name)
        case _:
            raise _untrainable(op, f"and {x!r}, which it reads, depends on trained weights")


def _between_zeros(b: GraphBuilder, graph: DataflowGraph, op: Op, dy: str) -> str:
    """Add the gradient of a tensor of which only some rows are read: the other rows get zeros."""
    x, start, stop = op.inputs[0], op.attributes.start, op.attributes.stop
    rows = graph.tensors[x].rows
    parts = [dy]
    if start:
        parts.insert(0, b.scale(b.slice_rows(x, 0, start), 0.0))
    if stop < rows:
        parts.append(b.scale(b.slice_rows(x, stop, rows), 0.0))
    return b.concat_rows(*parts, name=f"{op.name}.grad_0") if len(parts) > 1 else dy


def _multiply_gradient(b: GraphBuilder, graph: DataflowGraph, op: Op, index: int, dy: str) -> str:
    """Add dy times the other factor; a factor that several numbers share gets no gradient."""
    first, second = op.inputs
    if index == 1 and graph.tensors[first].shape != graph.tensors[second].shape:
        raise _untrainable(
            op, f"for its second input {second!r} is shared by several numbers of the first and depends on weights"
        )
    return b.multiply(dy, second if index == 0 else first, name=f"{op.name}.grad_{index}")


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
