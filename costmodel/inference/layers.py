"""Layers of a network for single rows."""

from __future__ import annotations

import math

import numpy as np

from costmodel.inference.vectors import PART, add, larger, load, multiply_add, splat, store, total
from placer.base import SingleArray, inlined

_EPSILON = 1e-5  # of torch's LayerNorm
_ZERO = np.float32(0.0)


@inlined
def normalise(x: SingleArray, x_row: int, norm: SingleArray, width: int, y: SingleArray, y_row: int) -> None:
    """Set y to (x - mean(x)) / deviation(x) * scale + shift over the first `width` columns."""
    num_parts = norm.shape[1] // PART
    sums = splat(_ZERO)
    for part in range(num_parts):
        sums = add(sums, load(x, x_row, part))
    mean = total(sums) / np.float32(width)
    squares, negative_mean = splat(_ZERO), splat(-mean)
    for part in range(num_parts):
        centred = add(load(x, x_row, part), negative_mean)
        squares = multiply_add(centred, centred, squares)
    num_padding = np.float32(num_parts * PART - width)  # columns of 0
    variance = (total(squares) - num_padding * mean * mean) / np.float32(width)
    factor = splat(np.float32(1.0 / math.sqrt(max(variance, _ZERO) + _EPSILON)))
    nothing = splat(_ZERO)
    for part in range(num_parts):
        centred = add(load(x, x_row, part), negative_mean)
        scale = multiply_add(load(norm, 0, part), factor, nothing)
        store(y, y_row, part, multiply_add(centred, scale, load(norm, 1, part)))


@inlined
def layer_of_row(x: SingleArray, x_row: int, w: SingleArray, bias: SingleArray, y: SingleArray, y_row: int) -> None:
    """Set one row of y to relu(bias + x @ w)."""
    num_parts = w.shape[1] // PART
    for part in range(num_parts):
        store(y, y_row, part, load(bias, 0, part))
    for column in range(w.shape[0]):
        number = splat(x[x_row, column])
        for part in range(num_parts):
            sums = multiply_add(number, load(w, column, part), load(y, y_row, part))
            store(y, y_row, part, sums)
    for part in range(num_parts):
        store(y, y_row, part, larger(splat(_ZERO), load(y, y_row, part)))


@inlined
def head_of_row(x: SingleArray, x_row: int, heads: SingleArray, head: int) -> float:
    sums = splat(_ZERO)
    for part in range(heads.shape[1] // PART):
        sums = multiply_add(load(x, x_row, part), load(heads, head, part), sums)
    return float(total(sums))
