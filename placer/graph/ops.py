"""The operations of a dataflow graph: kinds, attributes, and what each makes of its inputs.

Every op makes one tensor, which carries the op's name. A tensor is a matrix (rows, columns) or a
stack of matrices (heads, rows, columns). Weights are not tensors: an op names the ones it holds.

The row sums that give the gradients of bias vectors and of layernorm's gamma and beta are no ops:
they are cheap, their operands are at hand where the gradient passes, and nothing waits for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum

from placer.base import InputError

Shape = tuple[int, ...]
Weights = dict[str, Shape]  # shape by name

MAX_ELEMENTS = 2**31  # of one tensor or weight; more is a typing error, not a model


class OpKind(StrEnum):
    """What an op does."""

    LOAD = "load"  # graph input from DRAM
    STORE = "store"  # graph output to DRAM; its tensor is the copy in DRAM and has no readers
    EMBEDDING = "embedding"  # rows gathered from a table in DRAM; the indices are a graph input
    LINEAR = "linear"  # x[..., rows, K] times a resident weight[K, columns]
    MATMUL = "matmul"  # product of two activations, per head if they have heads
    ADD = "add"  # sum of two tensors of one shape
    BIAS = "bias"  # plus a resident vector
    SCALE = "scale"  # times a constant factor
    RELU = "relu"
    GELU = "gelu"
    SOFTMAX = "softmax"  # over the last axis
    LAYERNORM = "layernorm"  # over the last axis, then resident gamma and beta
    TRANSPOSE = "transpose"  # of the last two axes
    SPLIT_HEADS = "split_heads"  # [rows, heads * d] -> [heads, rows, d]
    MERGE_HEADS = "merge_heads"  # [heads, rows, d] -> [rows, heads * d]
    CONCAT = "concat"  # two or more tensors side by side on the last axis
    SLICE = "slice"  # columns start:stop of the last axis
    RELU_GRAD = "relu_grad"  # (dy, x) -> dx
    GELU_GRAD = "gelu_grad"  # (dy, x) -> dx
    SOFTMAX_GRAD = "softmax_grad"  # (dy, y) -> dx
    LAYERNORM_GRAD = "layernorm_grad"  # (dy, x) -> dx, with the resident gamma
    WEIGHT_GRAD = "weight_grad"  # (x, dy) -> x^T dy, accumulated on chip: has no readers


PRODUCT_KINDS = frozenset({OpKind.LINEAR, OpKind.MATMUL, OpKind.WEIGHT_GRAD})
SOURCE_KINDS = frozenset({OpKind.LOAD, OpKind.EMBEDDING})  # no tensor inputs
SINK_KINDS = frozenset({OpKind.STORE, OpKind.WEIGHT_GRAD})  # nobody reads their tensor
GRADIENT_KINDS = frozenset(kind for kind in OpKind if kind.endswith("_grad"))
_TWO_INPUTS = GRADIENT_KINDS | {OpKind.MATMUL, OpKind.ADD}


@dataclass(frozen=True, slots=True)
class OpAttributes:
    """Constants of an op. Those that its kind does not have keep their default."""

    shape: Shape = ()  # load, embedding: shape of the tensor
    weight: str = ""  # name of the weight; layernorm holds `<weight>.gamma` and `<weight>.beta`
    columns: int = 0  # linear: columns of the output
    transposed_weight: bool = False  # linear: multiply by the transpose of weight[columns, K]
    table_rows: int = 0  # embedding: rows of the table
    transpose_a: bool = False  # matmul: left operand
    transpose_b: bool = False  # matmul: right operand
    factor: float = 1.0  # scale
    causal: bool = False  # softmax: row i sees columns 0..i only
    epsilon: float = 1e-5  # layernorm: added to the variance
    tanh: bool = False  # gelu: in the approximation by tanh
    heads: int = 0  # split_heads
    start: int = 0  # slice: first column
    stop: int = 0  # slice: column after the last


ATTRIBUTES: dict[OpKind, tuple[str, ...]] = {
    OpKind.LOAD: ("shape",),
    OpKind.EMBEDDING: ("shape", "weight", "table_rows"),
    OpKind.LINEAR: ("weight", "columns", "transposed_weight"),
    OpKind.MATMUL: ("transpose_a", "transpose_b"),
    OpKind.BIAS: ("weight",),
    OpKind.SCALE: ("factor",),
    OpKind.SOFTMAX: ("causal",),
    OpKind.GELU: ("tanh",),
    OpKind.GELU_GRAD: ("tanh",),
    OpKind.LAYERNORM: ("weight", "epsilon"),
    OpKind.LAYERNORM_GRAD: ("weight", "epsilon"),
    OpKind.WEIGHT_GRAD: ("weight",),
    OpKind.SPLIT_HEADS: ("heads",),
    OpKind.SLICE: ("start", "stop"),
}

# Attributes whose default is no usable value.
_NEEDED = frozenset({"shape", "weight", "columns", "table_rows", "heads", "stop"})
_DEFAULTS = OpAttributes()


@dataclass(frozen=True, slots=True)
class Op:
    """One operation; its output tensor has the same name. Raises InputError if malformed."""

    name: str
    kind: OpKind
    inputs: tuple[str, ...] = ()  # names of tensors
    attributes: OpAttributes = field(default=_DEFAULTS)

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable():
            raise InputError(f"op name {self.name!r} must be printable text, not empty")
        if not isinstance(self.kind, OpKind):
            raise InputError(f"op {self.name!r}: unknown kind {self.kind!r}; known kinds: {', '.join(OpKind)}")
        _check_attributes(self)
        _check_input_count(self)


def _check_attributes(op: Op) -> None:
    allowed = ATTRIBUTES.get(op.kind, ())
    for item in fields(OpAttributes):
        is_given = getattr(op.attributes, item.name) != item.default
        if is_given and item.name not in allowed:
            raise InputError(
                f"op {op.name!r}: {op.kind} has no attribute {item.name!r}; it has: {', '.join(allowed) or 'none'}"
            )
        if not is_given and item.name in allowed and item.name in _NEEDED:
            raise InputError(f"op {op.name!r}: {op.kind} needs the attribute {item.name!r}")
    if not math.isfinite(op.attributes.factor):
        raise InputError(f"op {op.name!r}: factor={op.attributes.factor} must be finite")
    if not 0 <= op.attributes.epsilon < math.inf:
        raise InputError(f"op {op.name!r}: epsilon={op.attributes.epsilon} must be 0 or more")


def _check_input_count(op: Op) -> None:
    seen = len(op.inputs)
    if op.kind == OpKind.CONCAT:
        is_right, rule = seen >= 2, "two or more"
    else:
        count = 0 if op.kind in SOURCE_KINDS else 2 if op.kind in _TWO_INPUTS else 1
        is_right, rule = seen == count, str(count)
    if not is_right:
        raise InputError(f"op {op.name!r}: {op.kind} takes {rule} input tensors, got {seen}")


def output_shape(op: Op, inputs: Sequence[Shape]) -> Shape:
    """Return the shape of the tensor that `op` makes; InputError when its inputs do not suit it."""
    shape = _shape_of(op, inputs)
    _check_size(op, shape, ranks=(2, 3))
    return shape


def held_weights(op: Op, inputs: Sequence[Shape]) -> Weights:
    """Return the shapes of the weights of `op`: resident, but for an embedding's table."""
    weight = op.attributes.weight
    weights: Weights = {}
    match op.kind:
        case OpKind.EMBEDDING:
            weights = {weight: (op.attributes.table_rows, op.attributes.shape[-1])}
        case OpKind.LINEAR:
            matrix = (inputs[0][-1], op.attributes.columns)
            weights = {weight: matrix[::-1] if op.attributes.transposed_weight else matrix}
        case OpKind.BIAS:
            weights = {weight: inputs[0][-1:]}
        case OpKind.LAYERNORM:
            weights = {f"{weight}.{part}": inputs[0][-1:] for part in ("gamma", "beta")}
        case OpKind.LAYERNORM_GRAD:
            weights = {f"{weight}.gamma": inputs[0][-1:]}
    for shape in weights.values():
        _check_size(op, shape, ranks=(1, 2))
    return weights


def _check_size(op: Op, shape: Shape, ranks: tuple[int, int]) -> None:
    if len(shape) not in ranks or min(shape) < 1 or math.prod(shape) > MAX_ELEMENTS:
        raise InputError(
            f"op {op.name!r}: {op.kind} makes or holds shape {list(shape)}; allowed are rank "
            f"{ranks[0]} or {ranks[1]}, sizes from 1, at most {MAX_ELEMENTS} elements"
        )


def _require(is_right: bool, op: Op, inputs: Sequence[Shape], rule: str) -> None:
    if not is_right:
        seen = ", ".join(str(list(shape)) for shape in inputs)
        raise InputError(f"op {op.name!r}: {op.kind} of {seen} does not work; rule: {rule}")


def _shape_of(op: Op, inputs: Sequence[Shape]) -> Shape:
    at, first = op.attributes, inputs[0] if inputs else op.attributes.shape
    match op.kind:
        case OpKind.LOAD:
            return first
        case OpKind.EMBEDDING:
            _require(len(first) == 2, op, [first], "an embedding makes [rows, columns]")
            return first
        case OpKind.LINEAR:
            return (*first[:-1], at.columns)
        case OpKind.MATMUL:
            return _matmul_shape(op, *inputs)
        case OpKind.SOFTMAX:
            is_right = not at.causal or first[-2] == first[-1]
            _require(is_right, op, inputs, "a causal softmax has as many rows as columns")
            return first
        case OpKind.TRANSPOSE:
            return (*first[:-2], first[-1], first[-2])
        case OpKind.SPLIT_HEADS:
            is_right = len(first) == 2 and at.heads > 0 and first[-1] % at.heads == 0
            rule = f"input [rows, columns], columns a multiple of heads={at.heads}"
            _require(is_right, op, inputs, rule)
            return (at.heads, first[0], first[1] // at.heads)
        case OpKind.MERGE_HEADS:
            _require(len(first) == 3, op, inputs, "input [heads, rows, columns]")
            return (first[1], first[0] * first[2])
        case OpKind.CONCAT:
            is_right = len({shape[:-1] for shape in inputs}) == 1
            _require(is_right, op, inputs, "all inputs agree in all axes but the last")
            return (*first[:-1], sum(shape[-1] for shape in inputs))
        case OpKind.SLICE:
            rule = f"0 <= start={at.start} < stop={at.stop} <= {first[-1]} columns"
            _require(0 <= at.start < at.stop <= first[-1], op, inputs, rule)
            return (*first[:-1], at.stop - at.start)
        case OpKind.WEIGHT_GRAD:
            is_right = first[:-1] == inputs[1][:-1]
            _require(is_right, op, inputs, "inputs agree in all axes but the last")
            return (first[-1], inputs[1][-1])
        case _:
            _require(len(set(inputs)) == 1, op, inputs, "all inputs have one shape")
            return first


def _matmul_shape(op: Op, left: Shape, right: Shape) -> Shape:
    rule = "equal rank, equal heads, columns of the left = rows of the right (after transposes)"
    is_alike = len(left) == len(right) and left[:-2] == right[:-2]
    rows, inner = left[-2:][::-1] if op.attributes.transpose_a else left[-2:]
    inner_right, columns = right[-2:][::-1] if op.attributes.transpose_b else right[-2:]
    _require(is_alike and inner == inner_right, op, [left, right], rule)
    return (*left[:-2], rows, columns)
