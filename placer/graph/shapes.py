"""The shapes that ops make of the shapes of their inputs, and those of the weights that they hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from placer.base import InputError
from placer.graph.ops import MAX_ELEMENTS, Op, OpKind, Shape, Weights
from placer.graph.windows import window_of

Shapes = Sequence[Shape]


def output_shape(op: Op, inputs: Shapes) -> Shape:
    """Return the shape of the tensor that `op` makes; InputError when its inputs do not suit it."""
    shape = _RULES.get(op.kind, _alike)(op, inputs)
    _check_size(op, shape, ranks=(2, 3))
    return shape


def held_weights(op: Op, inputs: Shapes) -> Weights:
    """Return the shapes of the weights of `op`: resident, but for embeddings and constants."""
    at, weight = op.attributes, op.attributes.weight
    weights: Weights = {}
    match op.kind:
        case OpKind.EMBEDDING:
            weights = {weight: (at.table_rows, at.shape[-1])}
        case OpKind.CONSTANT:
            weights = {weight: at.shape}
        case OpKind.LINEAR:
            matrix = (inputs[0][-1], _weight_columns(op, at.columns))
            stack = inputs[0][:1] if at.stacked else ()
            weights = {weight: (*stack, *(matrix[::-1] if at.transposed_weight else matrix))}
        case OpKind.DEPTHWISE:
            weights = {weight: (window_of(op).taps, inputs[0][-1])}
        case OpKind.BIAS | OpKind.GAIN:
            weights = {weight: (_weight_columns(op, inputs[0][-1]),)}
        case OpKind.LAYERNORM:
            weights = {f"{weight}.{part}": inputs[0][-1:] for part in ("gamma", "beta")}
        case OpKind.RMSNORM | OpKind.LAYERNORM_GRAD | OpKind.RMSNORM_GRAD:
            weights = {f"{weight}.gamma": inputs[0][-1:]}
    for shape in weights.values():
        _check_size(op, shape, ranks=(1, 3))
    return weights


def _weight_columns(op: Op, columns: int) -> int:
    """Return the columns of a whole weight of which an op may use a slice."""
    at = op.attributes
    if not at.weight_columns:
        return columns
    if not 0 <= at.first_column <= at.weight_columns - columns:
        raise InputError(
            f"op {op.name!r}: columns {at.first_column} to {at.first_column + columns} are no slice of a weight "
            f"of {at.weight_columns} columns"
        )
    return at.weight_columns


def _check_size(op: Op, shape: Shape, ranks: tuple[int, int]) -> None:
    is_right = ranks[0] <= len(shape) <= ranks[1] and min(shape) >= 1
    if not is_right or math.prod(shape) > MAX_ELEMENTS:
        raise InputError(
            f"op {op.name!r}: {op.kind} makes or holds shape {list(shape)}; allowed are rank "
            f"{ranks[0]} {'or' if ranks[1] - ranks[0] == 1 else 'to'} {ranks[1]}, sizes from 1, "
            f"at most {MAX_ELEMENTS} elements"
        )


def _require(is_right: bool, op: Op, inputs: Shapes, rule: str) -> None:
    if not is_right:
        seen = ", ".join(str(list(shape)) for shape in inputs)
        raise InputError(f"op {op.name!r}: {op.kind} of {seen} does not work; rule: {rule}")


def _alike(op: Op, inputs: Shapes) -> Shape:
    _require(len(set(inputs)) == 1, op, inputs, "all inputs have one shape")
    return inputs[0]


def _embedding(op: Op, inputs: Shapes) -> Shape:
    shape = op.attributes.shape
    _require(len(shape) == 2, op, [shape], "an embedding makes [rows, columns]")
    return shape


def _linear(op: Op, inputs: Shapes) -> Shape:
    is_right = len(inputs[0]) == 3 or not op.attributes.stacked
    _require(is_right, op, inputs, "a stacked linear takes [heads, rows, columns], one weight per head")
    return (*inputs[0][:-1], op.attributes.columns)


def _matmul(op: Op, inputs: Shapes) -> Shape:
    left, right = inputs
    rule = "equal rank, equal heads, columns of the left = rows of the right (after transposes)"
    is_alike = len(left) == len(right) and left[:-2] == right[:-2]
    rows, inner = left[-2:][::-1] if op.attributes.transpose_a else left[-2:]
    inner_right, columns = right[-2:][::-1] if op.attributes.transpose_b else right[-2:]
    _require(is_alike and inner == inner_right, op, inputs, rule)
    return (*left[:-2], rows, columns)


def _multiply(op: Op, inputs: Shapes) -> Shape:
    first, second = inputs
    allowed = (first, (*first[:-1], 1), first[-2:])
    rule = "the second has the shape of the first, or 1 column, or is one matrix for all heads"
    _require(second in allowed, op, inputs, rule)
    return first


def _softmax(op: Op, inputs: Shapes) -> Shape:
    is_right = not op.attributes.causal or inputs[0][-2] == inputs[0][-1]
    _require(is_right, op, inputs, "a causal softmax has as many rows as columns")
    return inputs[0]


def _rotary(op: Op, inputs: Shapes) -> Shape:
    x, cos, sin = inputs
    is_right = x[-1] % 2 == 0 and cos == sin == x[-2:]
    _require(is_right, op, inputs, "x[..., rows, d], d even, cosines [rows, d], sines [rows, d]")
    return x


def _transpose(op: Op, inputs: Shapes) -> Shape:
    return (*inputs[0][:-2], inputs[0][-1], inputs[0][-2])


def _split_heads(op: Op, inputs: Shapes) -> Shape:
    first, heads = inputs[0], op.attributes.heads
    is_right = len(first) == 2 and heads > 0 and first[-1] % heads == 0
    _require(is_right, op, inputs, f"input [rows, columns], columns a multiple of heads={heads}")
    rows, columns = first
    return (heads, rows, columns // heads) if op.kind == OpKind.SPLIT_HEADS else (rows * heads, 1, columns // heads)


def _merge_heads(op: Op, inputs: Shapes) -> Shape:
    _require(len(inputs[0]) == 3, op, inputs, "input [heads, rows, columns]")
    return (inputs[0][1], inputs[0][0] * inputs[0][2])


def _heads_to_rows(op: Op, inputs: Shapes) -> Shape:
    first, heads = inputs[0], op.attributes.heads
    is_right = len(first) == 3 and first[1] == 1 and heads > 0 and first[0] % heads == 0
    _require(is_right, op, inputs, f"input [rows * heads, 1, columns], heads={heads}")
    return (first[0] // heads, heads * first[2])


def _repeat_heads(op: Op, inputs: Shapes) -> Shape:
    first, repeats = inputs[0], op.attributes.repeats
    _require(len(first) == 3 and repeats > 0, op, inputs, f"input [heads, rows, columns], repeats={repeats} from 1")
    if op.kind == OpKind.REPEAT_HEADS:
        return (first[0] * repeats, *first[1:])
    _require(first[0] % repeats == 0, op, inputs, f"heads are a multiple of repeats={repeats}")
    return (first[0] // repeats, *first[1:])


def _concat(op: Op, inputs: Shapes) -> Shape:
    is_right = len({shape[:-1] for shape in inputs}) == 1
    _require(is_right, op, inputs, "all inputs agree in all axes but the last")
    return (*inputs[0][:-1], sum(shape[-1] for shape in inputs))


def _concat_rows(op: Op, inputs: Shapes) -> Shape:
    is_right = len({(*shape[:-2], shape[-1]) for shape in inputs}) == 1
    _require(is_right, op, inputs, "all inputs agree in heads and columns")
    return (*inputs[0][:-2], sum(shape[-2] for shape in inputs), inputs[0][-1])


def _slice(op: Op, inputs: Shapes) -> Shape:
    first, start, stop = inputs[0], op.attributes.start, op.attributes.stop
    axis, what = (-1, "columns") if op.kind == OpKind.SLICE else (-2, "rows")
    rule = f"0 <= start={start} < stop={stop} <= {first[axis]} {what}"
    _require(0 <= start < stop <= first[axis], op, inputs, rule)
    return (*first[:-1], stop - start) if axis == -1 else (*first[:-2], stop - start, first[-1])


def _weight_grad(op: Op, inputs: Shapes) -> Shape:
    _require(inputs[0][:-1] == inputs[1][:-1], op, inputs, "inputs agree in all axes but the last")
    return (inputs[0][-1], inputs[1][-1])


def _top_k(op: Op, inputs: Shapes) -> Shape:
    first, top = inputs[0], op.attributes.top
    _require(len(first) == 2 and 1 <= top <= first[-1], op, inputs, f"[rows, experts], 1 <= top={top} <= experts")
    return first


def _dispatch(op: Op, inputs: Shapes) -> Shape:
    (x, gates), expert, capacity = inputs, op.attributes.expert, op.attributes.capacity
    is_right = len(x) == len(gates) == 2 and x[0] == gates[0]
    is_right = is_right and 0 <= expert < gates[1] and 1 <= capacity <= x[0]
    rule = f"x [rows, columns], gates [rows, experts], 0 <= expert={expert} < experts, 1 <= capacity={capacity} <= rows"
    _require(is_right, op, inputs, rule)
    return (capacity, x[1])


def _combine(op: Op, inputs: Shapes) -> Shape:
    gates, results = inputs[0], inputs[1:]
    is_right = all(len(shape) == 2 and shape[0] <= gates[0] for shape in inputs)
    is_right = is_right and len({shape[1] for shape in results}) == 1 and len(gates) == 2 and gates[1] == len(results)
    rule = "gates [rows, experts], then for each expert [capacity, columns] with at most as many rows"
    _require(is_right, op, inputs, rule)
    return (gates[0], results[0][1])


def _windows(op: Op, inputs: Shapes) -> Shape:
    window, groups, first = window_of(op), op.attributes.groups, inputs[0]
    is_right = len(first) == 2 and first[0] == math.prod(window.image)
    _require(is_right, op, inputs, f"an image [height * width, channels] of {list(window.image)} pixels")
    outputs = math.prod(window.output)
    if op.kind == OpKind.PATCHES:
        is_right = groups >= 1 and first[1] % groups == 0
        _require(is_right, op, inputs, f"channels are a multiple of groups={groups}, from 1")
        stack = (groups,) if groups > 1 else ()
        return (*stack, outputs, window.taps * first[1] // groups)
    is_right = window.is_inside or op.kind == OpKind.DEPTHWISE
    _require(is_right, op, inputs, f"every window of a pool touches the image; padding={list(window.padding)}")
    return (outputs, first[1])


_RULES: dict[OpKind, Callable[[Op, Shapes], Shape]] = {
    OpKind.LOAD: lambda op, inputs: op.attributes.shape,
    OpKind.CONSTANT: lambda op, inputs: op.attributes.shape,
    OpKind.EMBEDDING: _embedding,
    OpKind.LINEAR: _linear,
    OpKind.MATMUL: _matmul,
    OpKind.MULTIPLY: _multiply,
    OpKind.SOFTMAX: _softmax,
    OpKind.ROTARY: _rotary,
    OpKind.TRANSPOSE: _transpose,
    OpKind.SPLIT_HEADS: _split_heads,
    OpKind.ROWS_TO_HEADS: _split_heads,
    OpKind.MERGE_HEADS: _merge_heads,
    OpKind.HEADS_TO_ROWS: _heads_to_rows,
    OpKind.REPEAT_HEADS: _repeat_heads,
    OpKind.SUM_HEADS: _repeat_heads,
    OpKind.CONCAT: _concat,
    OpKind.CONCAT_ROWS: _concat_rows,
    OpKind.SLICE: _slice,
    OpKind.SLICE_ROWS: _slice,
    OpKind.WEIGHT_GRAD: _weight_grad,
    OpKind.TOP_K: _top_k,
    OpKind.DISPATCH: _dispatch,
    OpKind.COMBINE: _combine,
    OpKind.PATCHES: _windows,
    OpKind.DEPTHWISE: _windows,
    OpKind.MAX_POOL: _windows,
    OpKind.AVERAGE_POOL: _windows,
}
