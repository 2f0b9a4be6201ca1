"""What the operators of ONNX mean: one handler each, with its attributes and inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from placer.errors import InputError
from placer.importing import layers
from placer.importing.assembler import Assembler, Constant, Value
from placer.importing.erf_gelu import Gate, begin, times
from placer.importing.onnx_file import to_array
from placer.importing.views import UnsupportedError
from placer.ops import OpAttributes, OpKind

Attributes = dict[str, Any]


def _constant_node(a: Assembler, attributes: Attributes) -> Constant:
    (value,) = attributes.values()
    if isinstance(value, int | float | list):
        return Constant("constant", np.asarray(value))
    return Constant("constant", to_array(value))


def _add(a: Assembler, attributes: Attributes, x: Any, y: Any) -> Any:
    for gate, one in ((x, y), (y, x)):
        if isinstance(gate, Gate):
            return begin(gate, one)
    return layers.add(a, x, y)


def _multiply(a: Assembler, attributes: Attributes, x: Any, y: Any) -> Any:
    for gate, factor in ((x, y), (y, x)):
        if isinstance(gate, Gate):
            return times(a, gate, factor)
    return layers.multiply(a, x, y)


def _negative(a: Assembler, x: Any) -> Any:
    if isinstance(x, Constant):
        return Constant(f"-{x.name}", -x.array)
    return layers.scale(a, x, -1.0)


def _divide(a: Assembler, attributes: Attributes, x: Any, y: Any) -> Value:
    if not isinstance(y, Constant) or not (y.array != 0).all():
        raise UnsupportedError("a quotient of two tensors")
    return layers.multiply(a, x, Constant(f"1/{y.name}", 1 / y.array))


def _gemm(a: Assembler, attributes: Attributes, x: Any, weight: Any, bias: Any = None) -> Value:
    """alpha x W + beta b; x and W may be transposed."""
    if attributes.get("transA") or attributes.get("alpha", 1.0) != 1.0:
        raise UnsupportedError("a product with transA or alpha")
    if not isinstance(weight, Constant) or attributes.get("beta", 1.0) != 1.0:
        raise UnsupportedError("a Gemm with beta, or of two computed tensors")
    return layers.linear(a, x, weight, bias, transposed=bool(attributes.get("transB")))


def _gelu(a: Assembler, attributes: Attributes, x: Value) -> Value:
    is_tanh = attributes.get("approximate", b"none") == b"tanh"
    return layers.elementwise(a, OpKind.GELU, x, OpAttributes(tanh=is_tanh))


def _layernorm(
    a: Assembler, attributes: Attributes, x: Value, gamma: Any = None, beta: Any = None
) -> Value:
    axis = attributes.get("axis", -1)
    size = math.prod(x.shape[axis % len(x.shape) :])
    epsilon = attributes.get("epsilon", 1e-5)
    return layers.layernorm(a, x, size, gamma, beta, epsilon, "layernorm")


def _gather(a: Assembler, attributes: Attributes, data: Any, indices: Any) -> Value:
    axis = attributes.get("axis", 0)
    if isinstance(data, Constant) and axis == 0 and len(data.shape) == 2:
        return layers.embedding(a, data, indices)
    if not isinstance(data, Value) or not isinstance(indices, Constant):
        raise UnsupportedError("a gather by computed indices, or from a table that is no matrix")
    axis %= len(data.shape)
    chosen = indices.array % data.shape[axis]
    if not chosen.ndim:
        return Value(data.tensor, data.view.select(axis, int(chosen)))
    start = int(chosen.reshape(-1)[0])
    if chosen.ndim > 1 or not np.array_equal(chosen, np.arange(start, start + len(chosen))):
        raise UnsupportedError("a gather of scattered elements")
    return Value(data.tensor, data.view.slice(axis, start, start + len(chosen)))


def _convolution(
    a: Assembler, attributes: Attributes, x: Value, weight: Any, bias: Any = None
) -> Value:
    ones = [1] * (len(weight.shape) - 2)
    is_plain = (
        attributes.get("group", 1) == 1
        and not any(attributes.get("pads", ()))
        and attributes.get("dilations", ones) == ones
        and attributes.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID")
    )
    if not is_plain or not isinstance(weight, Constant):
        raise UnsupportedError("a convolution with groups, padding or dilation")
    return layers.convolution(a, x, weight, bias, attributes.get("strides", ones))


def _mean(a: Assembler, attributes: Attributes, x: Value, axes: Any = None) -> Value:
    dims = attributes.get("axes", []) if axes is None else _integers(axes)
    if not dims and attributes.get("noop_with_empty_axes"):
        return x
    return layers.mean(a, x, dims, bool(attributes.get("keepdims", 1)))


def _integers(constant: Any) -> list[int]:
    if not isinstance(constant, Constant):
        raise UnsupportedError("sizes or axes that depend on the input")
    return [int(number) for number in constant.array.reshape(-1)]


def _reshape(a: Assembler, attributes: Attributes, x: Value, shape: Any) -> Value:
    wanted = _integers(shape)
    if not attributes.get("allowzero"):
        wanted = [x.shape[dim] if size == 0 else size for dim, size in enumerate(wanted)]
    return x.reshape(layers.sizes_of(x.shape, wanted))


def _flatten(a: Assembler, attributes: Attributes, x: Value) -> Value:
    axis = attributes.get("axis", 1)
    axis += len(x.shape) if axis < 0 else 0
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def _transpose(a: Assembler, attributes: Attributes, x: Value) -> Value:
    order = attributes.get("perm", list(range(len(x.shape)))[::-1])
    if sorted(order) != list(range(len(x.shape))):
        raise InputError(f"perm {order} of {len(x.shape)} dimensions")
    return x.permute(order)


def _squeeze(a: Assembler, attributes: Attributes, x: Value, axes: Any = None) -> Value:
    rank = len(x.shape)
    chosen = range(rank) if axes is None else _integers(axes)
    gone = {dim % rank for dim in chosen if x.shape[dim] == 1}
    return x.reshape(tuple(size for dim, size in enumerate(x.shape) if dim not in gone))


def _unsqueeze(a: Assembler, attributes: Attributes, x: Value, axes: Any) -> Value:
    chosen = _integers(axes)
    rank = len(x.shape) + len(chosen)
    new = {axis % rank for axis in chosen}
    sizes = iter(x.shape)
    return x.reshape(tuple(1 if dim in new else next(sizes) for dim in range(rank)))


def _slice(
    a: Assembler, attributes: Attributes, x: Value, starts: Any, ends: Any, axes: Any = None,
    steps: Any = None,
) -> Value:  # fmt: skip
    first, last = _integers(starts), _integers(ends)
    dims = list(range(len(first))) if axes is None else _integers(axes)
    if steps is not None and set(_integers(steps)) != {1}:
        raise UnsupportedError("a slice with steps")
    view = x.view
    for dim, start, stop in zip(dims, first, last, strict=True):
        begin_at, end_at, _ = slice(start, stop).indices(x.shape[dim])
        view = view.slice(dim % len(x.shape), begin_at, end_at)
    return Value(x.tensor, view)


def _split(a: Assembler, attributes: Attributes, x: Value, sizes: Any = None) -> tuple[Value, ...]:
    axis = attributes.get("axis", 0) % len(x.shape)
    if sizes is None:
        if "num_outputs" not in attributes:
            raise UnsupportedError("a split without sizes")
        part = -(-x.shape[axis] // attributes["num_outputs"])
        lengths = [min(part, x.shape[axis] - s) for s in range(0, x.shape[axis], part)]
    else:
        lengths = _integers(sizes)
    ends = np.cumsum(lengths)
    return tuple(
        Value(x.tensor, x.view.slice(axis, int(end) - length, int(end)))
        for length, end in zip(lengths, ends, strict=True)
    )


def _expand(a: Assembler, attributes: Attributes, x: Value, shape: Any) -> Value:
    wanted = np.broadcast_shapes(x.shape, tuple(_integers(shape)))
    if math.prod(wanted) != math.prod(x.shape):
        raise UnsupportedError(f"repeating a computed tensor, {list(x.shape)} to {list(wanted)}")
    return x.reshape(wanted)


def _shape(a: Assembler, attributes: Attributes, x: Any) -> Constant:
    sizes = x.shape[slice(attributes.get("start", 0), attributes.get("end"))]
    return Constant("shape", np.asarray(sizes, np.int64))


def _same(a: Assembler, attributes: Attributes, x: Value, *_more: Any) -> Value:
    return x


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A handler of an operator without attributes."""
    return lambda a, attributes, *inputs: function(a, *inputs)


HANDLERS: dict[str, Callable[..., Any]] = {
    "Constant": _constant_node,
    "MatMul": _plain(layers.matmul),
    "Gemm": _gemm,
    "Add": _add,
    "Sub": lambda a, attributes, x, y: layers.add(a, x, _negative(a, y)),
    "Mul": _multiply,
    "Div": _divide,
    "Neg": _plain(_negative),
    "Relu": _plain(lambda a, x: layers.elementwise(a, OpKind.RELU, x)),
    "Gelu": _gelu,
    "Erf": _plain(lambda a, x: Gate.of_erf(a, x)),
    "Softmax": lambda a, attributes, x: layers.softmax(a, x, attributes.get("axis", -1)),
    "LayerNormalization": _layernorm,
    "Where": _plain(layers.choose),
    "Gather": _gather,
    "Conv": _convolution,
    "ReduceMean": _mean,
    "Concat": lambda a, attributes, *parts: layers.concat(a, parts, attributes["axis"]),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Split": _split,
    "Expand": _expand,
    "Shape": _shape,
    "Identity": _same,
    "Dropout": _same,
    "Cast": _same,
}

ELEMENTWISE = {
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Neg", "Sqrt", "Equal", "Less", "Greater",
    "LessOrEqual", "GreaterOrEqual", "And", "Or", "Not", "Where", "Min", "Max",
}  # fmt: skip
FOLDABLE = ELEMENTWISE | {
    "Identity", "Cast", "Shape", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice",
    "Gather", "Concat", "Expand", "ConstantOfShape", "Range", "Trilu", "ReduceProd",
}  # fmt: skip
