"""What users hand over, in any form: a network, shapes or examples of its inputs, a fabric, a cost model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from placer.annealing import SearchingCost
from placer.base import InputError, allowed_text
from placer.base.config import choices
from placer.cost import CostModel, Rules
from placer.fabric import Fabric, load_fabric
from placer.graph import DataflowGraph, load_graph
from placer.graph.importing import InputKind, NetworkChoice, import_network
from placer.graph.workloads import Spec, build

ONNX_FILE, GRAPH_FILE = ".onnx", ".json"


class GivenCost:
    """A cost model that was handed over, as the settings of a search hold it."""

    def __init__(self, cost: CostModel) -> None:
        self.name, self._cost = type(cost).__name__, cost

    def model(self, fabric: Fabric, rules: Rules, seed: int) -> CostModel:
        """Return the cost model. Raises InputError when it knows another fabric."""
        own = getattr(self._cost, "fabric", fabric)
        if own != fabric:
            raise InputError(f"the cost model {self.name} is for fabric {own.name!r}, not for {fabric.name!r}")
        return self._cost

    @property
    def settings(self) -> str:
        """Return the choice of `cost=` whose search suits it: one that walks by itself is polished by."""
        return "learned" if isinstance(self._cost, SearchingCost) else "rules"

    def __deepcopy__(self, memo: dict[int, Any]) -> GivenCost:
        return self  # settings are copied to be written; a model is not

    def __str__(self) -> str:
        return self.name


def fabric_of_user(fabric: str | Path | Fabric) -> Fabric:
    """Return a fabric, by its name in `conf/fabric`, from a YAML file, or as it is."""
    return fabric if isinstance(fabric, Fabric) else load_fabric(fabric)


def workload_of(network: object) -> str | None:
    """Return the name of a built-in workload, if that is what the user has written."""
    return network if isinstance(network, str) and network in choices("workload") else None


def graph_of(network: Any, inputs: Any) -> DataflowGraph:
    """Return the graph of a network that is no built-in workload. Raises InputError for what is none."""
    if isinstance(network, DataflowGraph):
        return network
    if isinstance(network, Spec):
        return build(network)
    if isinstance(network, str | Path) and str(network).endswith(GRAPH_FILE):
        return load_graph(Path(network))
    if isinstance(network, str) and ":" not in network and not network.endswith(ONNX_FILE):
        raise InputError(
            f"unknown network {network!r}; write a file {ONNX_FILE} or {GRAPH_FILE}, module:function, or a workload: "
            f"{allowed_text(network, choices('workload'))}"
        )
    shapes, kinds = shapes_of(inputs)
    try:
        return import_network(NetworkChoice(network, {}, shapes, kinds)).graph
    except InputError as error:  # it names the setting of commands, which is another word here
        raise InputError(str(error).replace("input_shape", "inputs")) from error


def shapes_of(inputs: Any) -> tuple[Sequence[Any] | None, InputKind | list[InputKind]]:
    """Return the shape and the kind of each input, told by one shape, several, one tensor or several."""
    if inputs is None:
        return None, InputKind.NUMBERS
    several = [inputs] if _is_tensor(inputs) else inputs
    if not isinstance(several, Sequence):
        raise InputError(f"inputs={inputs!r:.60}: needed is a shape such as (1, 128, 768), a tensor, or a list of them")
    if not any(map(_is_tensor, several)):
        return several, InputKind.NUMBERS
    shapes = [tuple(each.shape) if _is_tensor(each) else tuple(each) for each in several]
    return shapes, [_kind_of(each) for each in several]


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _kind_of(value: Any) -> InputKind:
    """Say what an example holds: whole numbers are rows of an embedding."""
    if not _is_tensor(value):
        return InputKind.NUMBERS
    is_whole = "int" in str(value.dtype) or (isinstance(value, np.ndarray) and value.dtype.kind in "iu")
    return InputKind.INDICES if is_whole else InputKind.NUMBERS
