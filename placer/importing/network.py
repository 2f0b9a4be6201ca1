"""An imported network: its graph, the user's weights, and how both meet the user's arrays."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.errors import InputError
from placer.evaluate import Array, evaluate
from placer.graph import DataflowGraph
from placer.importing.views import View
from placer.ops import OpKind, Shape

log = logging.getLogger(__name__)

TOLERANCE = 1e-4  # largest difference over largest value; networks compute in float32
MAX_CHECKED_WEIGHTS = 2**27  # numbers; more would need gigabytes in float64


@dataclass(frozen=True, slots=True)
class Loaded:
    """Where the tensor of a load, or the indices of an embedding, come from."""

    source: int | NDArray[Any]  # number of the input, or a constant of the network
    view: View  # of all its elements in a row

    def array(self, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The tensor, given the user's inputs."""
        source = inputs[self.source] if isinstance(self.source, int) else self.source
        return source.reshape(-1)[self.view.indices()]


@dataclass(frozen=True)
class ImportedNetwork:
    """What an import makes."""

    graph: DataflowGraph
    weights: Mapping[str, NDArray[Any]]  # for every name in graph.weights
    loads: Mapping[str, Loaded]  # for every load and embedding of the graph
    outputs: Mapping[str, Shape]  # shape that the user knows, by name of the store

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[Array]:
        """What the graph computes for the user's inputs, op by op, in the user's shapes."""
        arrays = {name: loaded.array(inputs) for name, loaded in self.loads.items()}
        tensors = evaluate(self.graph, arrays, self.weights)
        return [tensors[name].reshape(shape) for name, shape in self.outputs.items()]

    def can_be_checked(self) -> bool:
        """Whether its numbers can be checked in reasonable memory; a warning tells if not."""
        total = sum(array.size for array in self.weights.values())
        if total > MAX_CHECKED_WEIGHTS:
            log.warning("%s: %d weights are too many to check the import", self.graph.name, total)
        return total <= MAX_CHECKED_WEIGHTS

    def example(self, shape: Shape, seed: int = 0) -> NDArray[Any]:
        """A random input: row numbers for embeddings, else normal numbers."""
        rng = np.random.default_rng(seed)
        tables = [op.attributes.table_rows for op in self.graph.ops if op.kind == OpKind.EMBEDDING]
        if tables:
            return rng.integers(min(tables), size=shape)
        return rng.standard_normal(shape).astype(np.float32)


def require_agreement(
    network: ImportedNetwork, inputs: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]
) -> None:
    """Raise InputError when the graph computes something else than the user's network."""
    found = network.run(inputs)
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if not np.isfinite(theirs).all():
            raise InputError(
                f"output {number} of the network is not finite for a random input: are all its "
                "weights numbers?"
            )
        scale = float(np.abs(theirs).max()) or 1.0
        error = float(np.abs(ours - theirs).max()) / scale
        if not error <= TOLERANCE:
            raise InputError(
                f"the imported graph computes something else than the network: output {number} "
                f"differs by {error:.1e} of its largest value (allowed: {TOLERANCE}); "
                "networks in half precision, or that draw random numbers, cannot be imported"
            )
