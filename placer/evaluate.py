"""What a graph computes: numpy evaluation op by op, the meaning against which others are tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from placer.errors import InputError
from placer.graph import DataflowGraph
from placer.ops import Op, OpKind, Shape

Array = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]

TANH_CUBE = 0.044715  # of gelu by tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))


def evaluate(graph: DataflowGraph, inputs: Arrays, weights: Arrays) -> dict[str, Array]:
    """Every tensor of the graph by name, in float64.

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
            value = _RULES[op.kind](op, [tensors[name] for name in op.inputs], given)
        tensors[op.name] = value
    return tensors


def random_inputs(graph: DataflowGraph, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Normal numbers for loads, row indices for embeddings."""
    inputs: dict[str, NDArray[Any]] = {}
    for op in graph.ops:
        if op.kind == OpKind.LOAD:
            inputs[op.name] = rng.standard_normal(op.attributes.shape)
        elif op.kind == OpKind.EMBEDDING:
            inputs[op.name] = rng.integers(op.attributes.table_rows, size=op.attributes.shape[0])
    return inputs


def random_weights(graph: DataflowGraph, rng: np.random.Generator) -> dict[str, Array]:
    """Normal numbers; matrices are scaled by their rows, so that activations stay near 1."""
    return {
        name: rng.standard_normal(shape) / (math.sqrt(shape[0]) if len(shape) == 2 else 1.0)
        for name, shape in graph.weights.items()
    }


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


def _linear(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    weight = weights[op.attributes.weight]
    return inputs[0] @ _swapped(weight, op.attributes.transposed_weight)


def _matmul(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    left = _swapped(inputs[0], op.attributes.transpose_a)
    return left @ _swapped(inputs[1], op.attributes.transpose_b)


def _bias(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    return inputs[0] + weights[op.attributes.weight]


def _softmax(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    scores = inputs[0]
    if op.attributes.causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _normalised(op: Op, x: Array) -> tuple[Array, Array]:
    """Rows with mean 0 and variance 1, and what they were divided by."""
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + op.attributes.epsilon)
    return (x - x.mean(axis=-1, keepdims=True)) / deviation, deviation


def _layernorm(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    gamma, beta = (weights[f"{op.attributes.weight}.{part}"] for part in ("gamma", "beta"))
    return _normalised(op, inputs[0])[0] * gamma + beta


def _split_heads(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    rows, columns = inputs[0].shape
    heads = op.attributes.heads
    return inputs[0].reshape(rows, heads, columns // heads).transpose(1, 0, 2)


def _merge_heads(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    heads, rows, columns = inputs[0].shape
    return inputs[0].transpose(1, 0, 2).reshape(rows, heads * columns)


def _gelu(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    return np.asarray(inputs[0] * _normal_distribution(op, inputs[0])[0])


def _gelu_grad(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    """d/dx of x Phi(x) = Phi(x) + x phi(x), with the normal distribution Phi and density phi."""
    dy, x = inputs
    distribution, density = _normal_distribution(op, x)
    return np.asarray(dy * (distribution + x * density))


def _softmax_grad(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    dy, y = inputs
    return np.asarray(y * (dy - (dy * y).sum(axis=-1, keepdims=True)))


def _layernorm_grad(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    """With n = normalised x and g = gamma dy: (g - mean(g) - n mean(g n)) / deviation."""
    normalised, deviation = _normalised(op, inputs[1])
    g = inputs[0] * weights[f"{op.attributes.weight}.gamma"]
    along = (g * normalised).mean(axis=-1, keepdims=True)
    return np.asarray((g - g.mean(axis=-1, keepdims=True) - normalised * along) / deviation)


def _weight_grad(op: Op, inputs: list[Array], weights: Mapping[str, Array]) -> Array:
    x, dy = (tensor.reshape(-1, tensor.shape[-1]) for tensor in inputs)
    return x.T @ dy


def _normal_distribution(op: Op, x: Array) -> tuple[Array, Array]:
    """The normal distribution and its density, or the approximation by tanh and its slope."""
    if not op.attributes.tanh:
        density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return np.asarray((1 + erf(x / math.sqrt(2))) / 2), density
    root = math.sqrt(2 / math.pi)
    tanh = np.tanh(root * (x + TANH_CUBE * x**3))
    return (1 + tanh) / 2, (1 - tanh**2) / 2 * root * (1 + 3 * TANH_CUBE * x * x)


_RULES: dict[OpKind, Callable[[Op, list[Array], Mapping[str, Array]], Array]] = {
    OpKind.STORE: lambda op, inputs, weights: inputs[0],
    OpKind.LINEAR: _linear,
    OpKind.MATMUL: _matmul,
    OpKind.ADD: lambda op, inputs, weights: inputs[0] + inputs[1],
    OpKind.BIAS: _bias,
    OpKind.SCALE: lambda op, inputs, weights: inputs[0] * op.attributes.factor,
    OpKind.RELU: lambda op, inputs, weights: np.maximum(inputs[0], 0),
    OpKind.GELU: _gelu,
    OpKind.SOFTMAX: _softmax,
    OpKind.LAYERNORM: _layernorm,
    OpKind.TRANSPOSE: lambda op, inputs, weights: _swapped(inputs[0], True),
    OpKind.SPLIT_HEADS: _split_heads,
    OpKind.MERGE_HEADS: _merge_heads,
    OpKind.CONCAT: lambda op, inputs, weights: np.concatenate(inputs, axis=-1),
    OpKind.SLICE: lambda op, inputs, weights: inputs[0][
        ..., op.attributes.start : op.attributes.stop
    ],
    OpKind.RELU_GRAD: lambda op, inputs, weights: inputs[0] * (inputs[1] > 0),
    OpKind.GELU_GRAD: _gelu_grad,
    OpKind.SOFTMAX_GRAD: _softmax_grad,
    OpKind.LAYERNORM_GRAD: _layernorm_grad,
    OpKind.WEIGHT_GRAD: _weight_grad,
}
