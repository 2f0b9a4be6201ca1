"""The numbers that each kind of op makes of its inputs, with numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, expit

from placer.graph.ops import Op, OpAttributes, OpKind
from placer.graph.routing import combine, picked_rows, top_k
from placer.graph.windows import average_pool, patches, window_of, window_taps

Array = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]

TANH_CUBE = 0.044715  # of gelu by tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))


def apply_op(op: Op, weights: Arrays, *inputs: Array) -> Array:
    """Return what `op`, which is no source, makes of its inputs; `weights` has its weights by name."""
    if op.kind in _WINDOW_RULES:
        return _WINDOW_RULES[op.kind](op, weights, *inputs)
    return _RULES[op.kind](op.attributes, weights, *inputs)


def _of_slice(at: OpAttributes, weight: Array, columns: int) -> Array:
    """Return the columns of a weight that an op uses: all of them, if it is no slice."""
    return weight[..., at.first_column : at.first_column + columns] if at.weight_columns else weight


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


def _by_square(at: OpAttributes, x: Array) -> tuple[Array, Array]:
    """Return rows with mean square 1, and what they were divided by."""
    root = np.sqrt((x * x).mean(axis=-1, keepdims=True) + at.epsilon)
    return x / root, root


def _rmsnorm_grad(at: OpAttributes, weights: Arrays, dy: Array, x: Array) -> Array:
    """With n = normalised x and g = gamma dy, dx is (g - n mean(g n)) / root."""
    normalised, root = _by_square(at, x)
    g = dy * weights[f"{at.weight}.gamma"]
    return np.asarray((g - normalised * (g * normalised).mean(axis=-1, keepdims=True)) / root)


def _silu_grad(at: OpAttributes, weights: Arrays, dy: Array, x: Array) -> Array:
    """With s = sigmoid(x), d/dx of x s is s + x s (1 - s)."""
    share = expit(x)
    return np.asarray(dy * share * (1 + x * (1 - share)))


def _rotary(at: OpAttributes, weights: Arrays, x: Array, cos: Array, sin: Array) -> Array:
    """Turn the pairs (x[i], x[i + d/2]); a table has the angle of a pair in both halves of its columns.

    Because it has, the transpose of the turn is the turn by the negated sine: `inverse` is the gradient.
    """
    left, right = np.split(x, 2, axis=-1)
    turned = np.concatenate((-right, left), axis=-1)
    return np.asarray(x * cos + turned * (-sin if at.inverse else sin))


def _sum_heads(at: OpAttributes, weights: Arrays, x: Array) -> Array:
    return np.asarray(x.reshape(-1, at.repeats, *x.shape[1:]).sum(axis=1))


def _rows_to_heads(at: OpAttributes, weights: Arrays, x: Array) -> Array:
    return x.reshape(len(x) * at.heads, 1, -1)


def _heads_to_rows(at: OpAttributes, weights: Arrays, x: Array) -> Array:
    return x.reshape(len(x) // at.heads, -1)


def _dispatch(at: OpAttributes, weights: Arrays, x: Array, gates: Array) -> Array:
    return x[picked_rows(gates, at.expert, at.capacity)]


def _depthwise(op: Op, weights: Arrays, x: Array) -> Array:
    taps = window_taps(window_of(op), x)  # [taps, windows, channels]
    return np.asarray((taps * weights[op.attributes.weight][:, None]).sum(axis=0))


# By kind: (attributes, weights by name, inputs ...) -> what the op makes.
_RULES: dict[OpKind, Callable[..., Array]] = {
    OpKind.STORE: lambda at, weights, x: x,
    OpKind.LINEAR: lambda at, weights, x: (
        x @ _of_slice(at, _swapped(weights[at.weight], at.transposed_weight), at.columns)
    ),
    OpKind.MATMUL: lambda at, weights, x, y: _swapped(x, at.transpose_a) @ _swapped(y, at.transpose_b),
    OpKind.ADD: lambda at, weights, x, y: x + y,
    OpKind.BIAS: lambda at, weights, x: x + _of_slice(at, weights[at.weight], x.shape[-1]),
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
    OpKind.MULTIPLY: lambda at, weights, x, y: x * y,
    OpKind.GAIN: lambda at, weights, x: x * _of_slice(at, weights[at.weight], x.shape[-1]),
    OpKind.SILU: lambda at, weights, x: x * expit(x),
    OpKind.SIGMOID: lambda at, weights, x: expit(x),
    OpKind.TANH: lambda at, weights, x: np.tanh(x),
    OpKind.RMSNORM: lambda at, weights, x: _by_square(at, x)[0] * weights[f"{at.weight}.gamma"],
    OpKind.ROTARY: _rotary,
    OpKind.CONCAT_ROWS: lambda at, weights, *parts: np.concatenate(parts, axis=-2),
    OpKind.SLICE_ROWS: lambda at, weights, x: x[..., at.start : at.stop, :],
    OpKind.REPEAT_HEADS: lambda at, weights, x: np.repeat(x, at.repeats, axis=0),
    OpKind.SUM_HEADS: _sum_heads,
    OpKind.ROWS_TO_HEADS: _rows_to_heads,
    OpKind.HEADS_TO_ROWS: _heads_to_rows,
    OpKind.TOP_K: lambda at, weights, x: top_k(x, at.top),
    OpKind.DISPATCH: _dispatch,
    OpKind.COMBINE: lambda at, weights, *inputs: combine(*inputs),
    OpKind.SILU_GRAD: _silu_grad,
    OpKind.SIGMOID_GRAD: lambda at, weights, dy, x: dy * expit(x) * (1 - expit(x)),
    OpKind.TANH_GRAD: lambda at, weights, dy, x: dy * (1 - np.tanh(x) ** 2),
    OpKind.RMSNORM_GRAD: _rmsnorm_grad,
}

# By kind: (op, weights by name, image) -> what the op makes of its windows.
_WINDOW_RULES: dict[OpKind, Callable[[Op, Arrays, Array], Array]] = {
    OpKind.PATCHES: lambda op, weights, x: patches(window_of(op), op.attributes.groups, x),
    OpKind.DEPTHWISE: _depthwise,
    OpKind.MAX_POOL: lambda op, weights, x: window_taps(window_of(op), x, -math.inf).max(axis=0),
    OpKind.AVERAGE_POOL: lambda op, weights, x: average_pool(window_of(op), op.attributes.count_padding, x),
}
