"""Import of ONNX files."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.base import InputError
from placer.graph import MAX_ELEMENTS, Shape
from placer.graph.importing.assembler import MAX_CONSTANTS, Constant
from placer.graph.importing.finishing import finish
from placer.graph.importing.network import MAX_DIMENSION, MAX_INPUTS, ImportedNetwork, is_allowed, require_agreement
from placer.graph.importing.onnx_file import MALFORMED, MAX_SIZES, attributes_of, read_model, to_array
from placer.graph.importing.onnx_operators import COMPUTABLE, ELEMENTWISE, FOLDABLE, HANDLERS
from placer.graph.importing.views import UnsupportedError
from placer.graph.importing.walk import MAX_COMPUTED, Node, Problem, Walk, complete

log = logging.getLogger(__name__)

INTEGERS = (6, 7)  # TensorProto.INT32, INT64


def import_onnx(
    path: Path, input_shape: Shape | Sequence[Shape] | None = None, content: bytes | None = None
) -> ImportedNetwork:
    """Import an ONNX file; `input_shape`, one or one per input, is needed where it leaves sizes open.

    `content` takes the place of what is in the file; the path then only names it.
    The graph is evaluated on a random input and must agree with the reference implementation of
    ONNX. Raises InputError with all operators that are not supported, and their nodes.
    """
    from onnx.reference import ReferenceEvaluator

    model = read_model(path, content)
    shapes = _input_shapes(path, model, input_shape)
    where = f"ONNX file {path}"
    walk = complete(lambda known: _OnnxWalk(model, shapes, known), where)
    try:
        network = finish(walk.assembler, path.stem)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    if network.can_be_checked(walk.repeated):
        arrays = {
            entry.name: array.astype(np.int64 if entry.type.tensor_type.elem_type in INTEGERS else np.float32)
            for entry, array in zip(_inputs(model), network.examples(shapes), strict=True)
        }
        try:
            expected: Any = ReferenceEvaluator(model).run(None, arrays)
        except MALFORMED as error:
            raise InputError(f"ONNX file {path}: cannot be evaluated: {error}") from error
        require_agreement(network, list(arrays.values()), expected)
    return network


def _inputs(model: Any) -> list[Any]:
    weights = {tensor.name for tensor in model.graph.initializer}
    return [entry for entry in model.graph.input if entry.name not in weights]


def _input_shapes(path: Path, model: Any, given: Any) -> list[Shape]:
    inputs = _inputs(model)
    several = given if given is None or not given or not isinstance(given[0], int) else [given]
    if not 1 <= len(inputs) <= MAX_INPUTS or (several is not None and len(several) != len(inputs)):
        names = [entry.name for entry in inputs[:MAX_INPUTS]]
        raise InputError(
            f"ONNX file {path}: {len(inputs)} inputs {names}; input_shape has "
            f"{'none' if several is None else len(several)}, needed are 1 to {MAX_INPUTS} inputs and a shape for each"
        )
    shapes = several or [None] * len(inputs)
    return [_input_shape(path, entry, shape) for entry, shape in zip(inputs, shapes, strict=True)]


def _input_shape(path: Path, entry: Any, given: Shape | None) -> Shape:
    told = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]  # 0: left open
    shape = tuple(told) if given is None else tuple(given)
    fits = len(shape) == len(told) and all(t in (0, s) for s, t in zip(shape, told, strict=True))
    if not fits or not is_allowed(shape):
        seen = [size or "?" for size in told]
        raise InputError(
            f"ONNX file {path}: the input has shape {seen}, input_shape is "
            f"{None if given is None else list(given)}; set input_shape to sizes from 1 to "
            f"{MAX_DIMENSION}, at most {MAX_ELEMENTS} elements, for example [1,128,768]"
        )
    return shape


def _inferred_shapes(model: Any, input_shapes: Sequence[Shape]) -> dict[str, Shape]:
    """Return the shapes of tensors of real numbers, by name, as far as ONNX can tell them."""
    from onnx import ModelProto, TensorProto, shape_inference

    copy = ModelProto()
    copy.CopyFrom(model)
    for entry, shape in zip(_inputs(copy), input_shapes, strict=True):
        for dim, size in zip(entry.type.tensor_type.shape.dim, shape, strict=True):
            dim.dim_value = size
    try:
        inferred = shape_inference.infer_shapes(copy).graph
    except Exception as error:  # of operators that ONNX does not know, or damaged ones
        log.debug("no shapes: %s", error)
        return {}
    known = {}
    for entry in (*inferred.value_info, *inferred.output):
        shape = tuple(dim.dim_value for dim in entry.type.tensor_type.shape.dim)
        if entry.type.tensor_type.elem_type == TensorProto.FLOAT and is_allowed(shape):
            known[entry.name] = shape
    return known


class _OnnxWalk(Walk):
    """One pass over the nodes of a model."""

    malformed = MALFORMED

    def __init__(self, model: Any, input_shapes: Sequence[Shape], known: Mapping[int, Problem]) -> None:
        super().__init__(input_shapes, known)
        self._graph = model.graph
        self._made: dict[int, list[str]] = {}  # names of what an operator makes, by its number
        self._shapes = _inferred_shapes(model, input_shapes) if known else {}
        self._opset = next(e.version for e in model.opset_import if e.domain in ("", "ai.onnx"))
        self._values: dict[str, Node | Constant] = {}
        for tensor in self._graph.initializer:
            self._values[tensor.name] = Constant(tensor.name, to_array(tensor))
        for entry, node in zip(_inputs(model), self.inputs, strict=True):
            self._values[entry.name] = node

    def native(self, array: NDArray[Any]) -> Any:
        return array

    def array(self, native: Any) -> NDArray[Any] | None:
        is_real = isinstance(native, np.ndarray) and native.dtype.kind == "f"
        return native if is_real else None

    def shapes_of(self, node: Node) -> list[Shape | None]:
        return [self._shapes.get(name) for name in self._made[node.number]]

    def visit_all(self) -> None:
        number = 0
        for node in self._graph.node:
            self._made[number] = list(node.output)
            for name, result in zip(node.output, self._visit(number, node), strict=False):
                self._values[name] = result
            number += 1 + len(node.output)  # the results are numbered, too
        for number, entry in enumerate(self._graph.output):
            self.output(self._values.get(entry.name), number, repr(entry.name))

    def _visit(self, number: int, node: Any) -> Sequence[Node | Constant]:
        """Return the results of an operator: constants if it does not depend on the input."""
        kind = str(node.op_type) if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        read = [self._values.get(name, name) if name else None for name in node.input]
        entry = self._node(number, node, kind, read)
        unknown = [value for value in read if isinstance(value, str)]
        try:
            if unknown:
                raise LookupError(f"no tensor {unknown[0]!r}")
            attributes = attributes_of(node)
            if not entry.inputs and kind in FOLDABLE:
                return self._fold(node, kind, [value for value in read if isinstance(value, Constant)])
        except UnsupportedError as error:
            entry.problem = error
        except MALFORMED as error:
            entry.problem = f"malformed ({type(error).__name__}: {error})"
        if entry.problem is not None:
            return [entry] * len(node.output)
        handler = HANDLERS.get(kind)
        handled = self.settle(entry, handler and (lambda: self._handle(handler, attributes, read)))
        return self._parts(handled, len(node.output))

    def _node(self, number: int, node: Any, kind: str, read: Sequence[Any]) -> Node:
        """Return a node without a value for an operator that reads nodes and constants."""
        arrays = [value.array for value in read if isinstance(value, Constant)]

        def compute(results: Mapping[Node, Any]) -> Any:
            given = [results[value] if isinstance(value, Node) else value for value in read]
            return self._results(node, kind, [v.array if isinstance(v, Constant) else v for v in given])

        return Node(
            number,
            kind,
            lambda: f"node {(node.name or next(iter(node.output), ''))!r}",
            tuple(dict.fromkeys(value for value in read if isinstance(value, Node))),
            compute,
            tuple(float(array.reshape(())) for array in arrays if array.size == 1 and array.dtype.kind in "iuf"),
        )

    def _handle(self, handler: Any, attributes: dict[str, Any], read: Sequence[Any]) -> Any:
        inputs = [value.value if isinstance(value, Node) else value for value in read]
        return handler(self.assembler, attributes, *inputs)

    def _parts(self, entry: Node, count: int) -> Sequence[Node | Constant]:
        """Return a node for each result of an operator."""
        if isinstance(entry.value, Constant):
            return [entry.value]
        if count == 1 and not isinstance(entry.value, tuple):
            return [entry]
        values = entry.value if isinstance(entry.value, tuple) else (entry.value,)
        values = (*values, *[None] * (count - len(values)))
        return [
            Node(entry.number + 1 + part, f"{entry.kind} result {part}", entry.place, (entry,),
                 compute=lambda results, part=part: _listed(results[entry])[part], value=values[part])  # type: ignore[misc]
            for part in range(count)
        ]  # fmt: skip

    def _results(self, node: Any, kind: str, inputs: Sequence[Any], limit: int = MAX_COMPUTED) -> Any:
        """Compute the result of an operator for given numbers; a list if there are several."""
        from onnx import GraphProto, ValueInfoProto
        from onnx.reference import ReferenceEvaluator

        if kind not in COMPUTABLE:
            raise UnsupportedError(f"{kind} is not computed")
        arrays = {name: np.asarray(v) for name, v in zip(node.input, inputs, strict=True) if v is not None}
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if _folded_size(kind, list(arrays.values()), axis) > limit:
            raise UnsupportedError(f"a result of more than {limit} numbers")
        graph = GraphProto(
            node=[node],
            input=[ValueInfoProto(name=name) for name in arrays],
            output=[ValueInfoProto(name=name) for name in node.output],
        )
        with np.errstate(all="ignore"):
            results: Any = ReferenceEvaluator(graph, opsets={"": self._opset}).run(None, arrays)
        return results[0] if len(results) == 1 else results

    def _fold(self, node: Any, kind: str, constants: Sequence[Constant]) -> list[Constant]:
        """Compute the results of a node that does not depend on the input."""
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        self.assembler.reserve(_folded_size(kind, [constant.array for constant in constants], axis))
        given = iter(constants)
        inputs = [next(given).array if name else None for name in node.input]
        results = _listed(self._results(node, kind, inputs, MAX_CONSTANTS))
        arrays = [np.asarray(result) for result in results]
        if any(array.dtype.kind not in "biuf" for array in arrays):
            raise ValueError("the result holds no numbers")
        return [Constant(name, array) for name, array in zip(node.output, arrays, strict=True)]


def _listed(results: Any) -> Any:
    return results if isinstance(results, list) else [results]


def _folded_size(kind: str, arrays: list[NDArray[Any]], axis: int) -> int:
    """Return an upper bound on the numbers of a result."""
    sizes = [array.size for array in arrays]
    if kind in ("Expand", "ConstantOfShape", "Reshape") and sizes[-1] > MAX_SIZES:
        raise UnsupportedError(f"sizes of {sizes[-1]} dimensions")
    if kind in ("Expand", "ConstantOfShape"):
        wanted = [abs(int(size)) for size in arrays[-1].reshape(-1)]
        return math.prod(wanted) * (sizes[0] if kind == "Expand" else 1)
    if kind == "Range":
        start, stop, step = (float(array.reshape(())) for array in arrays)
        return int(abs((stop - start) / step)) + 1
    if kind == "Gather":
        table, indices = arrays
        return int(indices.size * (table.size // max(1, table.shape[axis])))
    if kind == "OneHot":
        return sizes[0] * abs(int(arrays[1].reshape(-1)[0]))
    if kind == "MatMul":
        left, right = arrays
        inner = max(1, left.shape[-1])
        return int(left.size // inner * (right.size // inner))
    if kind in ELEMENTWISE:
        return math.prod(np.broadcast_shapes(*(array.shape for array in arrays if array.ndim)))
    return sum(sizes)
