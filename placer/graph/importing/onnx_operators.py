"""What the operators of ONNX mean: one handler each, with its attributes and inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from placer.base import InputError
from placer.graph import OpKind
from placer.graph.importing import layers
from placer.graph.importing.assembler import Assembler, Constant
from placer.graph.importing.onnx_file import to_array
from placer.graph.importing.views import UnsupportedError, Value

Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gate:
    """Gelu in the making, as older files write it: x / 2 (1 + erf(x / sqrt 2)), in any order.

    Stands for factor * x^power * (1 + erf(x / sqrt 2)); before the 1 is added, for erf alone.
    """

    x: Value
    factor: float = 1.0
    power: int = 0
    is_erf: bool = False  # the 1 is not added yet

    @classmethod
    def of_erf(cls, a: Assembler, argument: Value) -> Gate:
        """Begin with erf of a tensor, which must be another one times 1 / sqrt 2."""
        x, factor = _unscaled(a, argument)
        _require_gelu(math.isclose(factor, 1 / math.sqrt(2), rel_tol=1e-5))
        return cls(x, is_erf=True)

    def plus(self, one: Any) -> Gate:
        """Add the 1."""
        _require_gelu(self.is_erf and isinstance(one, Constant) and bool((one.array == 1).all()))
        return replace(self, is_erf=False)

    def times(self, a: Assembler, other: Any) -> Gate | Value:
        """Multiply by a number or by x; gelu, once all factors are there."""
        factor, power = self.factor, self.power
        if isinstance(other, Constant) and other.array.size == 1:
            factor *= float(other.array.reshape(()))
        else:
            _require_gelu(isinstance(other, Value))
            x, scale = _unscaled(a, other) if other != self.x else (other, 1.0)
            _require_gelu(x == self.x)
            factor, power = factor * scale, power + 1
        _require_gelu(not self.is_erf and power <= 1)
        if power == 1 and math.isclose(factor, 0.5, rel_tol=1e-5):
            return layers.elementwise(a, OpKind.GELU, self.x)
        return replace(self, factor=factor, power=power)


def _require_gelu(is_right: bool) -> None:
    if not is_right:
        raise UnsupportedError("erf outside of gelu")


def _unscaled(a: Assembler, value: Value) -> tuple[Value, float]:
    """Return what was scaled, and by how much."""
    op = a.ops.get(value.tensor)
    if op is None or op.kind != OpKind.SCALE:
        return value, 1.0
    return replace(value, tensor=op.inputs[0]), op.attributes.factor


def _constant_node(a: Assembler, attributes: Attributes) -> Constant:
    (value,) = attributes.values()
    if isinstance(value, int | float | list):
        return Constant("constant", np.asarray(value))
    return Constant("constant", to_array(value))


def _add(a: Assembler, attributes: Attributes, x: Any, y: Any) -> Any:
    for gate, one in ((x, y), (y, x)):
        if isinstance(gate, Gate):
            return gate.plus(one)
    return layers.add(a, x, y)


def _multiply(a: Assembler, attributes: Attributes, x: Any, y: Any) -> Any:
    for gate, factor in ((x, y), (y, x)):
        if isinstance(gate, Gate):
            return gate.times(a, factor)
    return layers.multiply(a, x, y)


def _negative(a: Assembler, x: Any) -> Any:
    if isinstance(x, Constant):
        return Constant(f"-{x.name}", -x.array)
    return layers.scale(a, x, -1.0)


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


def _convolution(a: Assembler, attributes: Attributes, x: Value, weight: Any, bias: Any = None) -> Value:
    ones = [1] * (len(weight.shape) - 2)
    is_plain = (
        attributes.get("group", 1) == 1
        and not any(attributes.get("pads", ()))
        and attributes.get("dilations", ones) == ones
        and attributes.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID")
    )
    return layers.convolution(a, x, weight, bias, attributes.get("strides", ones), is_plain)


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
    wanted = np.broadcast_shapes(x.shape, tuple(_integers(shape)))
    if math.prod(wanted) != math.prod(x.shape):
        raise UnsupportedError(f"repeating a computed tensor, {list(x.shape)} to {list(wanted)}")
    return x.reshape(wanted)


def _shape(a: Assembler, attributes: Attributes, x: Any) -> Constant:
    sizes = x.shape[attributes.get("start", 0) : attributes.get("end")]
    return Constant("shape", np.asarray(sizes, np.int64))


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a handler of an operator whose attributes do not matter."""
    return lambda a, attributes, *inputs: function(a, *inputs)


HANDLERS: dict[str, Callable[..., Any]] = {
    "Constant": _constant_node,
    "MatMul": _plain(layers.matmul),
    "Gemm": _gemm,
    "Add": _add,
    "Sub": lambda a, attributes, x, y: layers.add(a, x, _negative(a, y)),
    "Mul": _multiply,
    "Div": _plain(layers.divide),
    "Neg": _plain(_negative),
    "Relu": _plain(lambda a, x: layers.elementwise(a, OpKind.RELU, x)),
    "Gelu": lambda a, attributes, x: layers.elementwise(
        a, OpKind.GELU, x, tanh=attributes.get("approximate") == b"tanh"
    ),
    "Erf": _plain(Gate.of_erf),
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
    "LessOrEqual", "GreaterOrEqual", "And", "Or", "Not", "Where", "Min", "Max",
}  # fmt: skip
FOLDABLE = ELEMENTWISE | {
    "Identity", "Cast", "Shape", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice",
    "Gather", "Concat", "Expand", "ConstantOfShape", "Range", "Trilu", "ReduceProd",
}  # fmt: skip
