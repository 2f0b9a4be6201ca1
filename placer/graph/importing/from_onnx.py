"""Import of ONNX files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.base import InputError
from placer.graph import MAX_ELEMENTS, Shape
from placer.graph.importing.assembler import Constant
from placer.graph.importing.finishing import finish
from placer.graph.importing.network import ImportedNetwork, require_agreement
from placer.graph.importing.onnx_file import MALFORMED, attributes_of, read_model, to_array
from placer.graph.importing.onnx_operators import ELEMENTWISE, FOLDABLE, HANDLERS, Gate
from placer.graph.importing.views import UnsupportedError, Value
from placer.graph.importing.walk import Walk

MAX_FOLDED = 2**27  # numbers in all results that do not depend on the input
INTEGERS = (6, 7)  # TensorProto.INT32, INT64


def import_onnx(path: Path, input_shape: Shape | None = None) -> ImportedNetwork:
    """Import an ONNX file; `input_shape` is needed where the file leaves sizes open.

    The graph is evaluated on a random input and must agree with the reference implementation of
    ONNX. Raises InputError with all operators that are not supported, and their nodes.
    """
    from onnx.reference import ReferenceEvaluator

    model = read_model(path)
    shape = _input_shape(path, model, input_shape)
    network = _OnnxWalk(path, model, shape).network()
    if network.can_be_checked():
        (entry,) = _inputs(model)
        is_integer = entry.type.tensor_type.elem_type in INTEGERS
        array = network.example(shape)
        array = array.astype(np.int64 if is_integer else np.float32)
        try:
            expected: Any = ReferenceEvaluator(model).run(None, {entry.name: array})
        except MALFORMED as error:
            raise InputError(f"ONNX file {path}: cannot be evaluated: {error}") from error
        require_agreement(network, [array], expected)
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


class _OnnxWalk(Walk):
    """One pass over the nodes of a model."""

    def __init__(self, path: Path, model: Any, input_shape: Shape) -> None:
        super().__init__(input_shape)
        self._path = path
        self._graph = model.graph
        self._opset = next(e.version for e in model.opset_import if e.domain in ("", "ai.onnx"))
        self._folded = 0
        self._values: dict[str, Any] = {}  # None: depends on something that is not supported
        (entry,) = _inputs(model)
        for tensor in self._graph.initializer:
            self._values[tensor.name] = Constant(tensor.name, to_array(tensor))
        self._values[entry.name] = self.input

    def network(self) -> ImportedNetwork:
        for node in self._graph.node:
            results = self._visit(node)
            for name, result in zip(node.output, results, strict=False):
                self._values[name] = result
        for number, entry in enumerate(self._graph.output):
            self.output(self._values.get(entry.name, "unknown"), number, repr(entry.name))
        where = f"ONNX file {self._path}"
        self.require_no_problems(where)
        try:
            return finish(self.assembler, self._path.stem)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error

    def _visit(self, node: Any) -> Sequence[Any]:
        """Return the results of a node; None for each if it, or what it reads, is not supported."""
        nothing = [None] * len(node.output)
        place = f"node {node.name or node.output[0] if node.output else node.name!r}"
        kind = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        try:
            inputs = [self._values[name] if name else None for name in node.input]
            is_known = all(v is not None for v, n in zip(inputs, node.input, strict=True) if n)
            depends = any(not isinstance(value, Constant) for value in inputs if value is not None)
            if kind not in HANDLERS and (depends or kind not in FOLDABLE):
                self.refuse(kind, place)
                return nothing
            attributes = attributes_of(node)
            if kind in FOLDABLE and is_known and not depends:
                return self._fold(node, inputs)
            if not is_known or kind not in HANDLERS:
                return nothing
            gates = any(isinstance(value, Gate) for value in inputs)
            if gates and kind not in ("Add", "Mul"):
                raise UnsupportedError("erf outside of gelu")
            result = HANDLERS[kind](self.assembler, attributes, *inputs)
            return result if isinstance(result, tuple) else [result]
        except UnsupportedError as error:
            self.refuse(kind, place, error)
        except MALFORMED as error:
            self.refuse(kind, place, f"malformed ({type(error).__name__}: {error})")
        return nothing

    def _fold(self, node: Any, inputs: Sequence[Value | Constant | None]) -> list[Constant]:
        """Compute the results of a node that does not depend on the input."""
        from onnx import GraphProto, ValueInfoProto
        from onnx.reference import ReferenceEvaluator

        arrays = {
            name: value.array for name, value in zip(node.input, inputs, strict=True) if isinstance(value, Constant)
        }
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        self._folded += _folded_size(node.op_type, list(arrays.values()), axis)
        if self._folded > MAX_FOLDED:
            raise UnsupportedError(f"constants of more than {MAX_FOLDED} numbers")
        graph = GraphProto(
            node=[node],
            input=[ValueInfoProto(name=name) for name in arrays],
            output=[ValueInfoProto(name=name) for name in node.output],
        )
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(graph, opsets={"": self._opset}).run(None, arrays)
        named = zip(node.output, results, strict=True)
        return [Constant(name, np.asarray(result)) for name, result in named]


def _folded_size(kind: str, arrays: list[NDArray[Any]], axis: int) -> int:
    """Return an upper bound on the numbers of a result."""
    sizes = [array.size for array in arrays]
    if kind in ("Expand", "ConstantOfShape"):
        wanted = [abs(int(size)) for size in arrays[-1].reshape(-1)]
        return math.prod(wanted) * (sizes[0] if kind == "Expand" else 1)
    if kind == "Range":
        start, stop, step = (float(array.reshape(())) for array in arrays)
        return int(abs((stop - start) / step)) + 1
    if kind == "Gather":
        table, indices = arrays
        return int(indices.size * (table.size // max(1, table.shape[axis])))
    if kind in ELEMENTWISE:
        return math.prod(np.broadcast_shapes(*(array.shape for array in arrays)))
    return sum(sizes)
