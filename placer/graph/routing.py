"""Mixture of experts: which rows go to which expert, and what comes back.

The router (`top_k`) gives each row a gate for some experts and 0 for the others. On dataflow hardware
an expert is a pipeline of fixed size, so it takes a fixed number of rows, its capacity: the rows with
the largest gates for it. The assumption is that the load is balanced: with
capacity = ceil(rows * top / experts) every row then reaches all the experts that it chose, and the
result is that of the published token-choice routing. Under an unbalanced load, rows beyond the
capacity are dropped, as with a capacity factor of 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def expert_capacity(rows: int, top: int, experts: int) -> int:
    """Return how many rows each expert takes when each row chooses `top` and the load is balanced."""
    return min(rows, -(-rows * top // experts))


def picked_rows(gates: Array, expert: int, capacity: int) -> NDArray[np.intp]:
    """Return the rows with the largest gates for an expert, in order; of equals, the first ones."""
    return np.sort(np.argsort(-gates[:, expert], kind="stable")[:capacity])


def top_k(x: Array, top: int) -> Array:
    """Return the softmax over the `top` largest of each row, zeros elsewhere; of equals, the first."""
    kept = np.argsort(-x, axis=-1, kind="stable")[..., :top]
    powers = np.zeros_like(x)
    largest = x.max(axis=-1, keepdims=True)
    np.put_along_axis(powers, kept, np.exp(np.take_along_axis(x, kept, axis=-1) - largest), axis=-1)
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def combine(gates: Array, *results: Array) -> Array:
    """Return rows that add up, over the experts, the gate times what the expert made of the row."""
    total = np.zeros((len(gates), results[0].shape[-1]))
    for expert, result in enumerate(results):
        rows = picked_rows(gates, expert, len(result))
        total[rows] += gates[rows, expert, None] * result
    return total
