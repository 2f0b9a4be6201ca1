"""Networks of the user as dataflow graphs: PyTorch modules and ONNX files.

`import_network` is the way in. Importing a module runs the user's own code; an ONNX file is data.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placer.errors import InputError
from placer.importing.user_code import place_of_error
from placer.ops import MAX_ELEMENTS, Shape

if TYPE_CHECKING:
    import torch

    from placer.importing.network import ImportedNetwork


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
    """The graph and the weights of a network. Raises InputError that says what is wrong."""
    shape = choice.input_shape
    if shape is not None and (not shape or min(shape) < 1 or math.prod(shape) > MAX_ELEMENTS):
        raise InputError(
            f"input_shape={list(shape)}: allowed are sizes from 1, at most {MAX_ELEMENTS} elements"
        )
    if choice.model.endswith(".onnx"):
        from placer.importing.from_onnx import import_onnx

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
    from placer.importing.from_torch import import_module

    name = f"{choice.model.partition(':')[2]}-{'x'.join(map(str, shape))}"
    is_indices = choice.input_kind is InputKind.INDICES
    return import_module(_make_module(choice), shape, is_indices, name)


def _make_module(choice: NetworkChoice) -> torch.nn.Module:
    """Run the user's code that makes the network."""
    import torch

    where, (module_name, _, name) = f"model={choice.model}", choice.model.partition(":")
    if not module_name or not name:
        raise InputError(f"{where}: write module:function, or the name of a file *.onnx")
    try:
        made = getattr(importlib.import_module(module_name), name)
        if not isinstance(made, torch.nn.Module):
            made = made(**choice.arguments)
    except Exception as error:  # whatever the user's code raises
        place = place_of_error(error)
        raise InputError(f"{where}: {type(error).__name__}: {error}{place}") from error
    if not isinstance(made, torch.nn.Module):
        raise InputError(f"{where}: makes a {type(made).__name__}; needed is a torch.nn.Module")
    return made
