"""Random inputs and weights of graphs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.graph import Array, DataflowGraph, OpKind


def random_inputs(graph: DataflowGraph, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Draw normal numbers for loads, row indices for embeddings."""
    inputs: dict[str, NDArray[Any]] = {}
    for op in graph.ops:
        if op.kind == OpKind.LOAD:
            inputs[op.name] = rng.standard_normal(op.attributes.shape)
        elif op.kind == OpKind.EMBEDDING:
            inputs[op.name] = rng.integers(op.attributes.table_rows, size=op.attributes.shape[0])
    return inputs


def random_weights(graph: DataflowGraph, rng: np.random.Generator) -> dict[str, Array]:
    """Draw normal numbers; matrices are scaled by their rows: activations stay near 1."""
    return {
        name: rng.standard_normal(shape) / (math.sqrt(shape[0]) if len(shape) == 2 else 1.0)
        for name, shape in graph.weights.items()
    }
