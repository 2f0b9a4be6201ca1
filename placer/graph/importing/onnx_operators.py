"""What the operators of ONNX mean: one handler each, with its attributes and inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placer.base import InputError
from placer.graph import OpKind
from placer.graph.importing import elementwise, images, layers, sums
from placer.graph.importing.assembler import Assembler, Constant
from placer.graph.importing.onnx_file import MAX_SIZES, to_array
from placer.graph.importing.views import UnsupportedError, Value

Attributes = dict[str, Any]


def _constant_node(a: Assembler, attributes: Attributes) -> Constant:
    (value,) = attributes.values()
    if isinstance(value, int | float | list):
        return Constant("constant", np.asarray(value))
    return Constant("constant", to_array(value))


def _negative(a: Assembler, x: Any) -> Any:
    if isinstance(x, Constant):
        return Constant(f"-{x.name}", -x.array)
    return elementwise.scale(a, x, -1.0)


def _gemm(a: Assembler, attributes: Attributes, x: Any, weight: Any, bias: Any = None) -> Value:
    """Compute alpha x W + beta b; x and W may be transposed."""
    if attributes.get("transA") or attributes.get("alpha", 1.0) != 1.0:
        raise UnsupportedError("a product with transA or alpha")
    if not isinstance(weight, Constant) or attributes.get("beta", 1.0) != 1.0:
        raise UnsupportedError("a Gemm with beta, or of two computed tensors")
    return layers.linear(a, x, weight, bias, transposed=bool(attributes.get("transB")))


def _layernorm(a: Assembler, attributes: Attributes, x: Value, gamma: Any = None, beta: Any = None) -> Value:
    size = math.prod(x.shape[attributes.get("axis", -1) % len(x.shape) :])
    return layers.layernorm(a, x, size, gamma, beta, attributes.get("epsilon", 1e-5))


def _rmsnorm(a: Assembler, attributes: Attributes, x: Value, gamma: Any) -> Value:
    size = math.prod(x.shape[attributes.get("axis", -1) % len(x.shape) :])
    return layers.rmsnorm(a, x, size, gamma, attributes.get("epsilon", 1e-5))


def _batch_norm(
    a: Assembler, attributes: Attributes, x: Value, gamma: Any, beta: Any, mean: Any, variance: Any
) -> Value:
    if attributes.get("training_mode"):
        raise UnsupportedError("batch normalisation in training mode")
    return images.batch_norm(a, x, gamma, beta, mean, variance, attributes.get("epsilon", 1e-5))


def _attention(
    a: Assembler, attributes: Attributes, query: Value, key: Value, value: Value, mask: Any = None, *more: Any
) -> Value:
    """Attend, per head [batch, heads, rows, d] or with all heads side by side [batch, rows, heads * d]."""
    if any(extra is not None for extra in more) or attributes.get("softcap"):
        raise UnsupportedError("attention with keys of the past, or with softcap")
    if len(query.shape) == 4:
        return layers.attention(a, query, key, value, mask, bool(attributes.get("is_causal")), attributes.get("scale"))
    groups = attributes["kv_num_heads"]
    apart = (_heads(x, n) for x, n in ((query, attributes["q_num_heads"]), (key, groups), (value, groups)))
    y = _attention(a, attributes, *apart, mask).permute([0, 2, 1, 3])
    return y.reshape((*y.shape[:2], y.shape[2] * y.shape[3]))


def _heads(x: Value, heads: int) -> Value:
    return x.reshape((*x.shape[:2], heads, x.shape[2] // heads)).permute([0, 2, 1, 3])


def _gather(a: Assembler, attributes: Attributes, data: Any, indices: Any) -> Value:
    axis = attributes.get("axis", 0)
    if isinstance(data, Constant) and axis == 0 and len(data.shape) == 2:
        return layers.embedding(a, data, indices)
    if not isinstance(data, Value) or not isinstance(indices, Constant):
        raise UnsupportedError("a gather by computed indices, or from a table that is no matrix")
    chosen = indices.array % data.shape[axis]
    if not chosen.ndim:
        return data.select(axis, int(chosen))
    start = int(chosen.reshape(-1)[0])
    if chosen.ndim > 1 or not np.array_equal(chosen, np.arange(start, start + len(chosen))):
        raise UnsupportedError("a gather of scattered elements")
    return data.take(axis, start, start + len(chosen))


def _windows(attributes: Attributes, x: Value, kernel: Sequence[int]) -> images.Windows:
    rank = len(kernel)
    ones, pads = [1] * rank, list(attributes.get("pads", [0] * 2 * rank))
    stride, dilation = attributes.get("strides", ones), attributes.get("dilations", ones)
    auto = attributes.get("auto_pad", b"NOTSET")
    if len(stride) != rank or len(dilation) != rank or len(pads) != 2 * rank or len(x.shape) != rank + 2:
        raise InputError(f"windows of {list(kernel)} in {list(x.shape)} with strides {stride}, pads {pads}")
    if min((*kernel, *stride, *dilation)) < 1 or min(pads) < 0:
        raise UnsupportedError(f"windows of {list(kernel)} with strides {stride}, pads {pads}, dilations {dilation}")
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        return images.Windows.same(kernel, stride, dilation, x.shape[2:], auto == b"SAME_UPPER")
    pads = [0] * 2 * rank if auto == b"VALID" else pads
    windows = images.Windows(list(kernel), list(stride), pads[:rank], pads[rank:], list(dilation))
    return windows.with_last(x.shape[2:]) if attributes.get("ceil_mode") else windows


def _convolution(a: Assembler, attributes: Attributes, x: Value, weight: Any, bias: Any = None) -> Value:
    kernel = tuple(attributes.get("kernel_shape", weight.shape[2:]))
    if kernel != weight.shape[2:]:
        raise InputError(f"kernel_shape {list(kernel)} with a weight of {list(weight.shape)}")
    windows = _windows(attributes, x, kernel)
    return images.convolution(a, x, weight, bias, windows, attributes.get("group", 1))


def _max_pool(a: Assembler, attributes: Attributes, x: Value) -> Value:
    return images.pool(a, OpKind.MAX_POOL, x, _windows(attributes, x, attributes["kernel_shape"]))


def _average_pool(a: Assembler, attributes: Attributes, x: Value) -> Value:
    windows = _windows(attributes, x, attributes["kernel_shape"])
    if windows != _windows({**attributes, "ceil_mode": 0}, x, attributes["kernel_shape"]):
        raise UnsupportedError("an average of windows beyond the image")
    is_counted = bool(attributes.get("count_include_pad")) or not any((*windows.before, *windows.after))
    return images.pool(a, OpKind.AVERAGE_POOL, x, windows, count_padding=is_counted)


def _reduction(function: Callable[..., Value]) -> Callable[..., Value]:
    def handler(a: Assembler, attributes: Attributes, x: Value, axes: Any = None) -> Value:
        dims = attributes.get("axes", []) if axes is None else _integers(axes)
        if not dims and attributes.get("noop_with_empty_axes"):
            return x
        return function(a, x, dims, bool(attributes.get("keepdims", 1)))

    return handler


def _integers(constant: Any) -> list[int]:
    if not isinstance(constant, Constant):
        raise UnsupportedError("sizes or axes that depend on the input")
    if constant.array.size > MAX_SIZES:
        raise UnsupportedError(f"sizes of {constant.array.size} dimensions")
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


def _slice(
    a: Assembler, attributes: Attributes, x: Value, starts: Any, ends: Any, axes: Any = None,
    steps: Any = None,
) -> Value:  # fmt: skip
    first, last = _integers(starts), _integers(ends)
    dims = list(range(len(first))) if axes is None else _integers(axes)
    if steps is not None and set(_integers(steps)) != {1}:
        raise UnsupportedError("a slice with steps")
    for dim, start, stop in zip(dims, first, last, strict=True):
        x = x.take(dim, start, stop)
    return x


def _split(a: Assembler, attributes: Attributes, x: Value, sizes: Any = None) -> tuple[Value, ...]:
    axis = attributes.get("axis", 0)
    if sizes is not None:
        return x.split(axis, _integers(sizes))
    if "num_outputs" not in attributes:
        raise UnsupportedError("a split without sizes")
    return x.split(axis, -(-x.shape[axis] // attributes["num_outputs"]))


def _expand(a: Assembler, attributes: Attributes, x: Value, shape: Any) -> Value:
    return x.expand(np.broadcast_shapes(x.shape, tuple(_integers(shape))))


def _shape(a: Assembler, attributes: Attributes, x: Any) -> Constant:
    sizes = x.shape[attributes.get("start", 0) : attributes.get("end")]
    return Constant("shape", np.asarray(sizes, np.int64))


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a handler of an operator whose attributes do not matter."""
    return lambda a, attributes, *inputs: function(a, *inputs)


def _activation(kind: OpKind) -> Callable[..., Any]:
    return lambda a, attributes, x: elementwise.elementwise(a, kind, x)


HANDLERS: dict[str, Callable[..., Any]] = {
    "Constant": _constant_node,
    "MatMul": _plain(layers.matmul),
    "Gemm": _gemm,
    "Add": _plain(elementwise.add),
    "Sub": lambda a, attributes, x, y: elementwise.add(a, x, _negative(a, y)),
    "Mul": _plain(elementwise.multiply),
    "Div": _plain(elementwise.divide),
    "Neg": _plain(_negative),
    "Pow": _plain(elementwise.power),
    "Relu": _activation(OpKind.RELU),
    "Sigmoid": _activation(OpKind.SIGMOID),
    "Tanh": _activation(OpKind.TANH),
    "Gelu": lambda a, attributes, x: elementwise.elementwise(
        a, OpKind.GELU, x, tanh=attributes.get("approximate") == b"tanh"
    ),
    "Softmax": lambda a, attributes, x: layers.softmax(a, x, attributes.get("axis", -1)),
    "RMSNormalization": _rmsnorm,
    "Attention": _attention,
    "BatchNormalization": _batch_norm,
    "Einsum": lambda a, attributes, *operands: sums.einsum(a, attributes["equation"].decode(), operands),
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _plain(images.mean_of_image),
    "LayerNormalization": _layernorm,
    "Where": _plain(layers.choose),
    "Gather": _gather,
    "Conv": _convolution,
    "ReduceMean": _reduction(sums.mean),
    "ReduceSum": _reduction(sums.total),
    "Concat": lambda a, attributes, *parts: sums.concat(a, parts, attributes["axis"]),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _plain(lambda a, x, axes=None: x.squeeze(axes and _integers(axes))),
    "Unsqueeze": _plain(lambda a, x, axes: x.unsqueeze(_integers(axes))),
    "Slice": _slice,
    "Split": _split,
    "Expand": _expand,
    "Shape": _shape,
    **dict.fromkeys(("Identity", "Dropout", "Cast"), _plain(lambda a, x, *_more: x)),
}

ELEMENTWISE = {
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Neg", "Sqrt", "Equal", "Less", "Greater",
    "LessOrEqual", "GreaterOrEqual", "And", "Or", "Not", "Where", "Min", "Max", "Reciprocal", "Exp",
    "Log", "Abs", "Floor", "Ceil", "Sin", "Cos", "Erf", "Sigmoid", "Tanh", "Clip", "Relu",
}  # fmt: skip
FOLDABLE = ELEMENTWISE | {
    "Identity", "Cast", "Shape", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Split",
    "Gather", "Concat", "Expand", "ConstantOfShape", "Range", "Trilu", "ReduceProd", "ReduceSum",
    "ReduceMean", "ReduceMax", "ReduceMin", "CumSum", "MatMul",
}  # fmt: skip
COMPUTABLE = FOLDABLE | {"Softmax", "TopK", "ScatterElements", "OneHot", "Gelu", "ReduceL2"}  # in idioms
