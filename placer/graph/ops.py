"""The operations of a dataflow graph: kinds and attributes.

Every op makes one tensor, which carries the op's name. A tensor is a matrix (rows, columns) or a
stack of matrices (heads, rows, columns). Weights are not tensors: an op names the ones it holds.
`shapes` says what shape an op makes of its inputs, `values` which numbers.

The row sums that give the gradients of bias and gain vectors and of the gamma and beta of norms are
no ops: they are cheap, their operands are at hand where the gradient passes, and nothing waits for
them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from enum import StrEnum

from placer.base import InputError

Shape = tuple[int, ...]
Weights = dict[str, Shape]  # shape by name

MAX_ELEMENTS = 2**31  # of one tensor or weight; more is a typing error, not a model


class OpKind(StrEnum):
    """What an op does."""

    LOAD = "load"  # graph input from DRAM
    CONSTANT = "constant"  # a weight that stays in DRAM, read as a tensor: tables of rotary positions
    STORE = "store"  # graph output to DRAM; its tensor is the copy in DRAM and has no readers
    EMBEDDING = "embedding"  # rows gathered from a table in DRAM; the indices are a graph input
    LINEAR = "linear"  # x[..., rows, K] times a resident weight[K, columns], or one such weight per head
    MATMUL = "matmul"  # product of two activations, per head if they have heads
    ADD = "add"  # sum of two tensors of one shape
    MULTIPLY = "multiply"  # element-wise; the second may be one factor per row, or one matrix for all heads
    BIAS = "bias"  # plus a resident vector
    GAIN = "gain"  # times a resident vector
    SCALE = "scale"  # times a constant factor
    RELU = "relu"
    GELU = "gelu"
    SILU = "silu"  # x times sigmoid(x)
    SIGMOID = "sigmoid"
    TANH = "tanh"
    SOFTMAX = "softmax"  # over the last axis
    LAYERNORM = "layernorm"  # over the last axis, then resident gamma and beta
    RMSNORM = "rmsnorm"  # by the root mean square of the last axis, then a resident gamma
    ROTARY = "rotary"  # (x, cos, sin): turns the pairs (x[i], x[i + d/2]) of each row by the row's angles
    TRANSPOSE = "transpose"  # of the last two axes
    SPLIT_HEADS = "split_heads"  # [rows, heads * d] -> [heads, rows, d]
    MERGE_HEADS = "merge_heads"  # [heads, rows, d] -> [rows, heads * d]
    CONCAT = "concat"  # two or more tensors side by side on the last axis
    SLICE = "slice"  # columns start:stop of the last axis
    CONCAT_ROWS = "concat_rows"  # two or more tensors one below the other
    SLICE_ROWS = "slice_rows"  # rows start:stop
    REPEAT_HEADS = "repeat_heads"  # [h, rows, d] -> [h * repeats, rows, d]: head i is head i // repeats
    SUM_HEADS = "sum_heads"  # [h * repeats, rows, d] -> [h, rows, d]: sums of neighbours, the transpose of it
    ROWS_TO_HEADS = "rows_to_heads"  # [rows, heads * d] -> [rows * heads, 1, d]: each row is its own sequence
    HEADS_TO_ROWS = "heads_to_rows"  # [rows * heads, 1, d] -> [rows, heads * d]
    TOP_K = "top_k"  # router: softmax over the `top` largest of each row, zeros elsewhere
    DISPATCH = "dispatch"  # (x, gates) -> the rows of x that an expert gets, see `routing`
    COMBINE = "combine"  # (gates, y of each expert) -> rows, each y times its gate, see `routing`
    PATCHES = "patches"  # image [h * w, channels] -> windows [oh * ow, kh * kw * channels], see `windows`
    DEPTHWISE = "depthwise"  # image times a resident weight[kh * kw, channels], each channel by itself
    MAX_POOL = "max_pool"  # largest of each window of an image, by channel
    AVERAGE_POOL = "average_pool"  # mean of each window of an image, by channel
    RELU_GRAD = "relu_grad"  # (dy, x) -> dx
    GELU_GRAD = "gelu_grad"  # (dy, x) -> dx
    SILU_GRAD = "silu_grad"  # (dy, x) -> dx
    SIGMOID_GRAD = "sigmoid_grad"  # (dy, x) -> dx
    TANH_GRAD = "tanh_grad"  # (dy, x) -> dx
    SOFTMAX_GRAD = "softmax_grad"  # (dy, y) -> dx
    LAYERNORM_GRAD = "layernorm_grad"  # (dy, x) -> dx, with the resident gamma
    RMSNORM_GRAD = "rmsnorm_grad"  # (dy, x) -> dx, with the resident gamma
    WEIGHT_GRAD = "weight_grad"  # (x, dy) -> x^T dy, accumulated on chip: has no readers


PRODUCT_KINDS = frozenset({OpKind.LINEAR, OpKind.MATMUL, OpKind.WEIGHT_GRAD})
SOURCE_KINDS = frozenset({OpKind.LOAD, OpKind.CONSTANT, OpKind.EMBEDDING})  # no tensor inputs
SINK_KINDS = frozenset({OpKind.STORE, OpKind.WEIGHT_GRAD})  # nobody reads their tensor
GRADIENT_KINDS = frozenset(kind for kind in OpKind if kind.endswith("_grad"))
WINDOW_KINDS = frozenset({OpKind.DEPTHWISE, OpKind.MAX_POOL, OpKind.AVERAGE_POOL})  # work on windows of an image
VIEW_KINDS = frozenset(  # rearrange numbers and make none
    {
        OpKind.TRANSPOSE, OpKind.SPLIT_HEADS, OpKind.MERGE_HEADS, OpKind.SLICE, OpKind.CONCAT,
        OpKind.REPEAT_HEADS, OpKind.CONCAT_ROWS, OpKind.SLICE_ROWS, OpKind.ROWS_TO_HEADS,
        OpKind.HEADS_TO_ROWS, OpKind.PATCHES,
    }
)  # fmt: skip
_TWO_OR_MORE = frozenset({OpKind.CONCAT, OpKind.CONCAT_ROWS, OpKind.COMBINE})
_INPUTS = dict.fromkeys((*GRADIENT_KINDS, OpKind.MATMUL, OpKind.ADD, OpKind.MULTIPLY, OpKind.DISPATCH), 2)
_INPUTS |= dict.fromkeys(SOURCE_KINDS, 0) | {OpKind.ROTARY: 3}


@dataclass(frozen=True, slots=True)
class OpAttributes:
    """Constants of an op. Those that its kind does not have keep their default."""

    shape: Shape = ()  # load, constant, embedding: shape of the tensor
    weight: str = ""  # name of the weight; norms hold `<weight>.gamma`, layernorm also `<weight>.beta`
    columns: int = 0  # linear: columns of the output
    first_column: int = 0  # linear, bias, gain: column of the weight with which a slice begins
    weight_columns: int = 0  # linear, bias, gain: columns of the whole weight; 0: no slice
    transposed_weight: bool = False  # linear: multiply by the transpose of weight[..., columns, K]
    stacked: bool = False  # linear: weight[heads, K, columns], one matrix per head of the input
    table_rows: int = 0  # embedding: rows of the table
    transpose_a: bool = False  # matmul: left operand
    transpose_b: bool = False  # matmul: right operand
    factor: float = 1.0  # scale
    causal: bool = False  # softmax: row i sees columns 0..i only
    epsilon: float = 1e-5  # layernorm: added to the variance; rmsnorm: to the mean square
    tanh: bool = False  # gelu: in the approximation by tanh
    inverse: bool = False  # rotary: turn back, by the negated sine
    heads: int = 0  # split_heads; rows_to_heads, heads_to_rows: per row
    repeats: int = 0  # repeat_heads, sum_heads: heads that share one
    start: int = 0  # slice: first column; slice_rows: first row
    stop: int = 0  # slice: column after the last; slice_rows: row after the last
    top: int = 0  # top_k: how many of each row are kept
    expert: int = 0  # dispatch: column of the gates
    capacity: int = 0  # dispatch: rows that the expert gets
    image: tuple[int, ...] = ()  # windows: height and width; pixels are the rows, in raster order
    kernel: tuple[int, ...] = ()  # windows: height and width of a window
    stride: tuple[int, ...] = (1, 1)  # windows: rows and columns from window to window
    padding: tuple[int, ...] = (0, 0, 0, 0)  # windows: at the top, left, bottom and right of the image
    dilation: tuple[int, ...] = (1, 1)  # windows: rows and columns from tap to tap
    groups: int = 1  # patches: channels in this many heads, for a grouped convolution
    count_padding: bool = True  # average_pool: divide by the whole window; False: by its taps in the image


_SLICE = ("first_column", "weight_columns")
_WINDOW = ("image", "kernel", "stride", "padding", "dilation")

ATTRIBUTES: dict[OpKind, tuple[str, ...]] = {
    OpKind.LOAD: ("shape",),
    OpKind.CONSTANT: ("shape", "weight"),
    OpKind.EMBEDDING: ("shape", "weight", "table_rows"),
    OpKind.LINEAR: ("weight", "columns", "transposed_weight", "stacked", *_SLICE),
    OpKind.MATMUL: ("transpose_a", "transpose_b"),
    OpKind.BIAS: ("weight", *_SLICE),
    OpKind.GAIN: ("weight", *_SLICE),
    OpKind.SCALE: ("factor",),
    OpKind.SOFTMAX: ("causal",),
    OpKind.GELU: ("tanh",),
    OpKind.GELU_GRAD: ("tanh",),
    OpKind.LAYERNORM: ("weight", "epsilon"),
    OpKind.LAYERNORM_GRAD: ("weight", "epsilon"),
    OpKind.RMSNORM: ("weight", "epsilon"),
    OpKind.RMSNORM_GRAD: ("weight", "epsilon"),
    OpKind.ROTARY: ("inverse",),
    OpKind.WEIGHT_GRAD: ("weight",),
    OpKind.SPLIT_HEADS: ("heads",),
    OpKind.ROWS_TO_HEADS: ("heads",),
    OpKind.HEADS_TO_ROWS: ("heads",),
    OpKind.REPEAT_HEADS: ("repeats",),
    OpKind.SUM_HEADS: ("repeats",),
    OpKind.SLICE: ("start", "stop"),
    OpKind.SLICE_ROWS: ("start", "stop"),
    OpKind.TOP_K: ("top",),
    OpKind.DISPATCH: ("expert", "capacity"),
    OpKind.PATCHES: (*_WINDOW, "groups"),
    OpKind.DEPTHWISE: (*_WINDOW, "weight"),
    OpKind.MAX_POOL: _WINDOW,
    OpKind.AVERAGE_POOL: (*_WINDOW, "count_padding"),
}

# Attributes whose default is no usable value.
_NEEDED = frozenset(
    {
        "shape", "weight", "columns", "table_rows", "heads", "stop", "repeats", "top", "capacity",
        "image", "kernel",
    }
)  # fmt: skip
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
    if op.kind in _TWO_OR_MORE:
        is_right, rule = seen >= 2, "two or more"
    else:
        count = _INPUTS.get(op.kind, 1)
        is_right, rule = seen == count, str(count)
    if not is_right:
        raise InputError(f"op {op.name!r}: {op.kind} takes {rule} input tensors, got {seen}")
