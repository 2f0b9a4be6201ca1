"""Networks of the user: which one to import, and its graph and weights after that.

`import_network` is the way in. Importing a module runs the user's own code; an ONNX file is data.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placer.base import InputError
from placer.graph import MAX_ELEMENTS, Array, DataflowGraph, OpKind, Shape, compute_values
from placer.graph.importing.views import Value

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

Shapes = tuple[Shape, ...]

TOLERANCE = 1e-4  # largest difference over largest value; networks compute in float32
MAX_CHECKED_WEIGHTS = 2**27  # numbers; more would need gigabytes in float64
MAX_CHECKED_TENSORS = 2**28  # numbers in all tensors of the graph together
# A small file must not cost gigabytes: more than this is checked only up to so many numbers per weight.
FREE_CHECKED_TENSORS, CHECKED_PER_WEIGHT = 2**27, 4
MAX_INPUTS = 64
MAX_DIMENSION = 2**24  # of an input; more is a typing error or a damaged file


class InputKind(StrEnum):
    """What the input of a network holds."""

    NUMBERS = "numbers"  # real numbers: activations, pixels
    INDICES = "indices"  # rows of an embedding: tokens


@dataclass(frozen=True, slots=True)
class NetworkChoice:
    """Which network to import.

    A network with several inputs has a shape for each, ((1, 5, 16), (1, 7, 16)), and may have a kind
    for each; one kind is that of all.
    """

    model: str | Path | bytes | torch.nn.Module | Callable[..., Any]  # see `import_network`
    arguments: Mapping[str, Any]  # of what makes it
    input_shape: Sequence[int] | Sequence[Sequence[int]] | None  # may be None for an ONNX file that tells it
    input_kind: InputKind | Sequence[InputKind] = InputKind.NUMBERS  # an ONNX file tells it

    def shapes(self) -> Shapes | None:
        """Return the shape of each input. Raises InputError for sizes that cannot be."""
        if self.input_shape is None:
            return None
        given: list[Any] = list(self.input_shape)
        several = given if given and not isinstance(given[0], int) else [given]
        try:
            shapes = tuple(tuple(int(size) for size in shape) for shape in several)
        except (TypeError, ValueError) as error:
            raise InputError(f"input_shape={given}: needed is one shape, or a list with one for each input") from error
        if len(shapes) > MAX_INPUTS:
            raise InputError(f"input_shape={given}: more than {MAX_INPUTS} inputs")
        for shape in shapes:
            if not is_allowed(shape):
                raise InputError(
                    f"input_shape={list(shape)}: allowed are sizes from 1 to {MAX_DIMENSION}, at most "
                    f"{MAX_ELEMENTS} elements"
                )
        return shapes

    def kinds(self, count: int) -> tuple[InputKind, ...]:
        """Return what each input holds."""
        if isinstance(self.input_kind, InputKind):
            return (self.input_kind,) * count
        if len(self.input_kind) != count:
            raise InputError(f"input_kind={[str(kind) for kind in self.input_kind]} for {count} inputs")
        return tuple(self.input_kind)


def is_allowed(shape: Shape) -> bool:
    """Say whether an input may have this shape."""
    return bool(shape) and min(shape) >= 1 and max(shape) <= MAX_DIMENSION and math.prod(shape) <= MAX_ELEMENTS


def import_network(choice: NetworkChoice) -> ImportedNetwork:
    """Import the graph and the weights of a network. Raises InputError that says what is wrong.

    The model is the name of an ONNX file or its content, `module:name` of a PyTorch module or of what makes one, or
    such an object itself: a module, a class or function that makes one, or a function of tensors.
    """
    shapes, model = choice.shapes(), choice.model
    where = f"model={model if isinstance(model, str | Path) else type(model).__name__}"
    if str(model).endswith(".onnx") and isinstance(model, str | Path):
        from placer.graph.importing.from_onnx import import_onnx

        if choice.arguments:
            raise InputError(f"{where}: an ONNX file takes no model_arguments")
        return import_onnx(Path(model), shapes)
    if isinstance(model, bytes):
        from placer.graph.importing.from_onnx import import_onnx

        return import_onnx(Path("network.onnx"), shapes, model)
    if isinstance(model, Path) or (isinstance(model, str) and model.endswith(".pt")):
        raise InputError(
            f"{where}: a network to place is module:function or a file *.onnx; a cost "
            f"model is cost=learned cost.model_file={model}"
        )
    if shapes is None:
        raise InputError(f"{where}: set input_shape, for example [1,128,768]")
    from placer.graph.importing.from_torch import import_module, make_module

    module, name = make_module(model, choice.arguments)
    sizes = "-".join("x".join(map(str, shape)) for shape in shapes)
    has_indices = [kind is InputKind.INDICES for kind in choice.kinds(len(shapes))]
    return import_module(module, shapes, has_indices, f"{name}-{sizes}")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Where the tensor of a load, or the indices of an embedding, come from."""

    source: int  # number of the input
    view: Value  # of all its elements in a row

    def array(self, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the tensor, given the user's inputs."""
        return inputs[self.source].reshape(-1)[self.view.indices()]


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

    def can_be_checked(self, repeated: int = 0) -> bool:
        """Say whether its numbers can be checked in reasonable memory; warn if not.

        `repeated`: numbers in tensors of the user's network that the graph does not have.
        """
        weights = sum(array.size for array in self.weights.values())
        tensors = repeated + sum(tensor.elements for tensor in self.graph.tensors.values())
        most = min(MAX_CHECKED_TENSORS, max(FREE_CHECKED_TENSORS, CHECKED_PER_WEIGHT * weights))
        is_small = weights <= MAX_CHECKED_WEIGHTS and tensors <= most
        if not is_small:
            log.warning(
                "%s: %d weights are too many to check the import, or %d numbers in tensors",
                self.graph.name, weights, tensors,
            )  # fmt: skip
        return is_small

    def examples(self, shapes: Sequence[Shape], seed: int = 0) -> list[NDArray[Any]]:
        """Draw an array for each input: row numbers for embeddings, else normal numbers."""
        rng = np.random.default_rng(seed)
        arrays: list[NDArray[Any]] = []
        for number, shape in enumerate(shapes):
            tables = [
                op.attributes.table_rows
                for op in self.graph.ops
                if op.kind == OpKind.EMBEDDING and self.loads[op.name].source == number
            ]
            drawn = rng.integers(min(tables), size=shape) if tables else rng.standard_normal(shape).astype(np.float32)
            arrays.append(drawn)
        return arrays


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
