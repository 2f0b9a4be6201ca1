"""What a graph computes, op by op with numpy: the meaning against which others are tested."""

from __future__ import annotations

import numpy as np

from placer.base import InputError
from placer.graph.graph import DataflowGraph
from placer.graph.ops import Op, OpKind, Shape
from placer.graph.rules import Array, Arrays, apply_op


def compute_values(graph: DataflowGraph, inputs: Arrays, weights: Arrays) -> dict[str, Array]:
    """Compute every tensor of the graph, by name, in float64.

    `inputs` has the tensor of each load and the row indices [rows] of each embedding, by op name;
    `weights` has an array for each name in `graph.weights`.
    Raises InputError when one is missing or has another shape.
    """
    given = {name: _array("weight", weights, name, shape) for name, shape in graph.weights.items()}
    tensors: dict[str, Array] = {}
    for op in graph.ops:
        shape = graph.tensors[op.name].shape
        if op.kind == OpKind.LOAD:
            value = _array("input", inputs, op.name, shape)
        elif op.kind == OpKind.EMBEDDING:
            value = _gather(op, given[op.attributes.weight], inputs)
        elif op.kind == OpKind.CONSTANT:
            value = given[op.attributes.weight]
        else:
            value = apply_op(op, given, *(tensors[name] for name in op.inputs))
        tensors[op.name] = value
    return tensors


def _array(what: str, arrays: Arrays, name: str, shape: Shape) -> Array:
    if name not in arrays:
        raise InputError(f"{what} {name!r} is missing; needed with shape {list(shape)}")
    array = np.asarray(arrays[name], np.float64)
    if array.shape != shape:
        raise InputError(f"{what} {name!r} has shape {list(array.shape)}; needed {list(shape)}")
    return array


def _gather(op: Op, table: Array, inputs: Arrays) -> Array:
    indices = _array("input", inputs, op.name, op.attributes.shape[:1]).astype(np.int64)
    if indices.min() < 0 or indices.max() >= len(table):
        raise InputError(f"input {op.name!r}: indices must lie in 0..{len(table) - 1}")
    return table[indices]
