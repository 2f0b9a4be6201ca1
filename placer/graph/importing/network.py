"""Networks of the user: which one to import, and its graph and weights after that.

`import_network` is the way in. Importing a module runs the user's own code; an ONNX file is data.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.base import InputError
from placer.graph import MAX_ELEMENTS, Array, DataflowGraph, OpKind, Shape, compute_values
from placer.graph.importing.views import Value

log = logging.getLogger(__name__)

TOLERANCE = 1e-4  # largest difference over largest value; networks compute in float32
MAX_CHECKED_WEIGHTS = 2**27  # numbers; more would need gigabytes in float64


class InputKind(StrEnum):
    """What the input of a network holds."""

    NUMBERS = "numbers"  # real numbers: activations, pixels
    INDICES = "indices"  # rows of an embedding: tokens


@dataclass(frozen=True, slots=True)
class NetworkChoice:
    """Which network to import."""

    model: str  # an ONNX file, or module:name of a PyTorch module or of what makes one
    arguments: Mapping[str, Any]  # of what makes it
    input_shape: Shape | None  # may be None for an ONNX file that tells it
    input_kind: InputKind = InputKind.NUMBERS  # an ONNX file tells it


def import_network(choice: NetworkChoice) -> ImportedNetwork:
    """Import the graph and the weights of a network. Raises InputError that says what is wrong."""
    shape = choice.input_shape
    if shape is not None and (not shape or min(shape) < 1 or math.prod(shape) > MAX_ELEMENTS):
        raise InputError(f"input_shape={list(shape)}: allowed are sizes from 1, at most {MAX_ELEMENTS} elements")
    if choice.model.endswith(".onnx"):
        from placer.graph.importing.from_onnx import import_onnx

        if choice.arguments:
            raise InputError(f"model={choice.model}: an ONNX file takes no model_arguments")
        return import_onnx(Path(choice.model), shape)
    if choice.model.endswith(".pt"):
        raise InputError(
            f"model={choice.model}: a network to place is module:function or a file *.onnx; a cost "
            f"model is cost=learned cost.model_file={choice.model}"
        )
    if shape is None:
        raise InputError(f"model={choice.model}: set input_shape, for example [1,128,768]")
    from placer.graph.importing.from_torch import import_module, make_module

    name = f"{choice.model.partition(':')[2]}-{'x'.join(map(str, shape))}"
    is_indices = choice.input_kind is InputKind.INDICES
    module = make_module(choice.model, choice.arguments)
    return import_module(module, shape, is_indices, name)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Where the tensor of a load, or the indices of an embedding, come from."""

    source: int | NDArray[Any]  # number of the input, or a constant of the network
    view: Value  # of all its elements in a row

    def array(self, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the tensor, given the user's inputs."""
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
        """Compute the outputs for the user's inputs, op by op, in the user's shapes."""
        arrays = {name: loaded.array(inputs) for name, loaded in self.loads.items()}
        tensors = compute_values(self.graph, arrays, self.weights)
        return [tensors[name].reshape(shape) for name, shape in self.outputs.items()]

    def can_be_checked(self) -> bool:
        """Say whether its numbers can be checked in reasonable memory; warn if not."""
        total = sum(array.size for array in self.weights.values())
        if total > MAX_CHECKED_WEIGHTS:
            log.warning("%s: %d weights are too many to check the import", self.graph.name, total)
        return total <= MAX_CHECKED_WEIGHTS

    def example(self, shape: Shape, seed: int = 0) -> NDArray[Any]:
        """Draw an input: row numbers for embeddings, else normal numbers."""
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
                f"output {number} of the network is not finite for a random input: are all its weights numbers?"
            )
        scale = float(np.abs(theirs).max()) or 1.0
        error = float(np.abs(ours - theirs).max()) / scale
        if not error <= TOLERANCE:
            raise InputError(
                f"the imported graph computes something else than the network: output {number} "
                f"differs by {error:.1e} of its largest value (allowed: {TOLERANCE}); "
                "networks in half precision, or that draw random numbers, cannot be imported"
            )
