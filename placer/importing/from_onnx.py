"""Import of ONNX files: one handler per operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.errors import InputError
from placer.importing import layers
from placer.importing.assembler import Assembler, Constant, Value
from placer.importing.erf_gelu import Gate, begin, times
from placer.importing.finishing import finish
from placer.importing.network import ImportedNetwork, require_agreement
from placer.importing.onnx_file import MALFORMED, read_model, to_array
from placer.importing.unsupported import Problems
from placer.importing.views import UnsupportedError
from placer.ops import MAX_ELEMENTS, OpAttributes, OpKind, Shape

MAX_FOLDED = 2**27  # numbers in all results that do not depend on the input
INTEGERS = (6, 7)  # TensorProto.INT32, INT64

Attributes = dict[str, Any]
Operand = Value | Constant | None


def import_onnx(path: Path, input_shape: Shape | None = None) -> ImportedNetwork:
    """The network of an ONNX file; `input_shape` is needed where the file leaves sizes open.

    The graph is evaluated on a random input and must agree with the reference implementation of
    ONNX. Raises InputError with all operators that are not supported, and their nodes.
    """
    from onnx.reference import ReferenceEvaluator

    model = read_model(path)
    shape = _input_shape(path, model, input_shape)
    network = _Walk(path, model, shape).network()
    if network.is_small:
        (entry,) = _inputs(model)
        is_integer = entry.type.tensor_type.elem_type in INTEGERS
        array = network.example(shape)
        array = array.astype(np.int64 if is_integer else np.float32)
        try:
            expected = ReferenceEvaluator(model).run(None, {entry.name: array})
        except MALFORMED as error:
            raise InputError(f"ONNX file {path}: cannot be evaluated: {error}") from error
        require_agreement(network, [array], list(expected))
    return network


def _inputs(model: Any) -> list[Any]:
    weights = {tensor.name for tensor in model.graph.initializer}
    return [entry for entry in model.graph.input if entry.name not in weights]


def _input_shape(path: Path, model: Any, given: Shape | None) -> Shape:
    inputs = _inputs(model)
    if len(inputs) != 1:
        names = [entry.name for entry in inputs]
        raise InputError(f"ONNX file {path}: inputs {names}; networks with one are supported")
    told = [dim.dim_value for dim in inputs[0].type.tensor_type.shape.dim]  # 0: left open
    shape = tuple(told) if given is None else given
    fits = len(shape) == len(told) and all(t in (0, s) for s, t in zip(shape, told, strict=True))
    if not fits or not shape or min(shape) < 1 or math.prod(shape) > MAX_ELEMENTS:
        seen = [size or "?" for size in told]
        raise InputError(
            f"ONNX file {path}: the input has shape {seen}, input_shape is "
            f"{None if given is None else list(given)}; set input_shape to sizes from 1, at most "
            f"{MAX_ELEMENTS} elements, for example [1,128,768]"
        )
    return shape


class _Walk:
    """One pass over the nodes of a model."""

    def __init__(self, path: Path, model: Any, input_shape: Shape) -> None:
        self._path = path
        self._graph = model.graph
        self._opset = next(e.version for e in model.opset_import if e.domain in ("", "ai.onnx"))
        self._input_shape = input_shape
        self._assembler = Assembler()
        self._problems = Problems()
        self._folded = 0
        self._values: dict[str, Any] = {}  # None: depends on something that is not supported
        (entry,) = _inputs(model)
        for tensor in self._graph.initializer:
            self._values[tensor.name] = Constant(tensor.name, to_array(tensor))
        self._values[entry.name] = self._assembler.input(0, input_shape)

    def network(self) -> ImportedNetwork:
        for node in self._graph.node:
            results = self._visit(node)
            for name, result in zip(node.output, results, strict=False):
                self._values[name] = result
        for number, entry in enumerate(self._graph.output):
            self._output(entry.name, number)
        where = f"ONNX file {self._path}"
        self._problems.require_none(where, self._input_shape)
        try:
            return finish(self._assembler, self._path.stem)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error

    def _output(self, name: str, number: int) -> None:
        value = self._values.get(name, "unknown")
        if value is None:
            return  # depends on something that is not supported
        try:
            if not isinstance(value, Value):
                raise UnsupportedError("does not depend on the input")
            self._assembler.output(value, f"output{number}" if number else "output")
        except InputError as error:
            self._problems.add("output", repr(name), error)

    def _visit(self, node: Any) -> Sequence[Any]:
        """Results of a node; None for each if it, or what it reads, is not supported."""
        from onnx.helper import get_attribute_value

        nothing = [None] * len(node.output)
        place = f"node {node.name or node.output[0] if node.output else node.name!r}"
        kind = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        try:
            attributes = {a.name: get_attribute_value(a) for a in node.attribute}
            inputs = [self._values[name] if name else None for name in node.input]
            is_known = all(v is not None for v, n in zip(inputs, node.input, strict=True) if n)
            depends = any(not isinstance(value, Constant) for value in inputs if value is not None)
            if kind in _FOLDABLE and is_known and not depends:
                return self._fold(node, inputs)
            if kind not in _HANDLERS:
                self._problems.add(kind, place)
                return nothing
            if not is_known:
                return nothing
            gates = any(isinstance(value, Gate) for value in inputs)
            if gates and kind not in ("Add", "Mul"):
                raise UnsupportedError("erf outside of gelu")
            result = _HANDLERS[kind](self._assembler, attributes, *inputs)
            return result if isinstance(result, tuple) else [result]
        except UnsupportedError as error:
            self._problems.add(kind, place, error)
        except MALFORMED as error:
            self._problems.add(kind, place, f"malformed ({type(error).__name__}: {error})")
        return nothing

    def _fold(self, node: Any, inputs: Sequence[Operand]) -> list[Constant]:
        """Results of a node that does not depend on the input."""
        from onnx import GraphProto, ValueInfoProto
        from onnx.reference import ReferenceEvaluator

        arrays = {
            name: value.array
            for name, value in zip(node.input, inputs, strict=True)
            if isinstance(value, Constant)
        }
        self._folded += _folded_size(node.op_type, list(arrays.values()))
        if self._folded > MAX_FOLDED:
            raise UnsupportedError(f"constants of more than {MAX_FOLDED} numbers")
        graph = GraphProto(
            node=[node],
            input=[ValueInfoProto(name=name) for name in arrays],
            output=[ValueInfoProto(name=name) for name in node.output],
        )
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(graph, opsets={"": self._opset}).run(None, arrays)
        return [
            Constant(name, np.asarray(result))
            for name, result in zip(node.output, results, strict=True)
        ]


def _folded_size(kind: str, arrays: list[NDArray[Any]]) -> int:
    """Upper bound on the numbers of a result."""
    sizes = [array.size for array in arrays]
    if kind in ("Expand", "ConstantOfShape"):
        wanted = [abs(int(size)) for size in arrays[-1].reshape(-1)]
        return math.prod(wanted) * (sizes[0] if kind == "Expand" else 1)
    if kind == "Range":
        start, stop, step = (float(array.reshape(())) for array in arrays)
        return int(abs((stop - start) / step)) + 1
    if kind in ("Gather", "Concat"):
        return sum(sizes) + math.prod(sizes[:2])
    shapes = [array.shape for array in arrays]
    if kind in _ELEMENTWISE:
        return math.prod(np.broadcast_shapes(*shapes))
    return sum(sizes)


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


_HANDLERS: dict[str, Callable[..., Any]] = {
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

_ELEMENTWISE = {
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Neg", "Sqrt", "Equal", "Less", "Greater",
    "LessOrEqual", "GreaterOrEqual", "And", "Or", "Not", "Where", "Min", "Max",
}  # fmt: skip
_FOLDABLE = _ELEMENTWISE | {
    "Identity", "Cast", "Shape", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice",
    "Gather", "Concat", "Expand", "ConstantOfShape", "Range", "Trilu", "ReduceProd",
}  # fmt: skip
