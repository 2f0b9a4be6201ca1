"""What a graph computes, op by op with numpy: the meaning against which others are tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from placer.base import InputError
from placer.graph.graph import DataflowGraph
from placer.graph.ops import Op, OpAttributes, OpKind, Shape

Array = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]

TANH_CUBE = 0.044715  # of gelu by tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))


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
        else:
            value = _RULES[op.kind](op.attributes, given, *(tensors[name] for name in op.inputs))
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


def _swapped(x: Array, is_swapped: bool) -> Array:
    return np.swapaxes(x, -1, -2) if is_swapped else x


def _softmax(at: OpAttributes, weights: Arrays, x: Array) -> Array:
    if at.causal:
        x = np.where(np.tri(x.shape[-1], dtype=bool), x, -np.inf)
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _normalised(at: OpAttributes, x: Array) -> tuple[Array, Array]:
    """Return rows with mean 0 and variance 1, and what they were divided by."""
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + at.epsilon)
    return (x - x.mean(axis=-1, keepdims=True)) / deviation, deviation


def _gelu_grad(at: OpAttributes, weights: Arrays, dy: Array, x: Array) -> Array:
    """d/dx of x Phi(x) is Phi(x) + x phi(x), with the normal distribution Phi and density phi."""
    distribution, density = _normal_distribution(at, x)
    return np.asarray(dy * (distribution + x * density))


def _layernorm_grad(at: OpAttributes, weights: Arrays, dy: Array, x: Array) -> Array:
    """With n = normalised x and g = gamma dy, dx is (g - mean(g) - n mean(g n)) / deviation."""
    normalised, deviation = _normalised(at, x)
    g = dy * weights[f"{at.weight}.gamma"]
    along = (g * normalised).mean(axis=-1, keepdims=True)
    return np.asarray((g - g.mean(axis=-1, keepdims=True) - normalised * along) / deviation)


def _normal_distribution(at: OpAttributes, x: Array) -> tuple[Array, Array]:
    """Return the normal distribution and its density, or what tanh makes of them."""
    if not at.tanh:
        density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return np.asarray((1 + erf(x / math.sqrt(2))) / 2), density
    root = math.sqrt(2 / math.pi)
    tanh = np.tanh(root * (x + TANH_CUBE * x**3))
    return (1 + tanh) / 2, (1 - tanh**2) / 2 * root * (1 + 3 * TANH_CUBE * x * x)


# By kind: (attributes, weights by name, inputs ...) -> what the op makes.
_RULES: dict[OpKind, Callable[..., Array]] = {
    OpKind.STORE: lambda at, weights, x: x,
    OpKind.LINEAR: lambda at, weights, x: x @ _swapped(weights[at.weight], at.transposed_weight),
    OpKind.MATMUL: lambda at, weights, x, y: _swapped(x, at.transpose_a) @ _swapped(y, at.transpose_b),
    OpKind.ADD: lambda at, weights, x, y: x + y,
    OpKind.BIAS: lambda at, weights, x: x + weights[at.weight],
    OpKind.SCALE: lambda at, weights, x: x * at.factor,
    OpKind.RELU: lambda at, weights, x: np.maximum(x, 0),
    OpKind.GELU: lambda at, weights, x: x * _normal_distribution(at, x)[0],
    OpKind.SOFTMAX: _softmax,
    OpKind.LAYERNORM: lambda at, weights, x: (
        _normalised(at, x)[0] * weights[f"{at.weight}.gamma"] + weights[f"{at.weight}.beta"]
    ),
    OpKind.TRANSPOSE: lambda at, weights, x: _swapped(x, True),
    OpKind.SPLIT_HEADS: lambda at, weights, x: x.reshape(len(x), at.heads, -1).transpose(1, 0, 2),
    OpKind.MERGE_HEADS: lambda at, weights, x: x.transpose(1, 0, 2).reshape(x.shape[1], -1),
    OpKind.CONCAT: lambda at, weights, *parts: np.concatenate(parts, axis=-1),
    OpKind.SLICE: lambda at, weights, x: x[..., at.start : at.stop],
    OpKind.RELU_GRAD: lambda at, weights, dy, x: dy * (x > 0),
    OpKind.GELU_GRAD: _gelu_grad,
    OpKind.SOFTMAX_GRAD: lambda at, weights, dy, y: y * (dy - (dy * y).sum(axis=-1, keepdims=True)),
    OpKind.LAYERNORM_GRAD: _layernorm_grad,
    OpKind.WEIGHT_GRAD: lambda at, weights, x, dy: x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1]),
}
