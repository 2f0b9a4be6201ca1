"""The learned model as a cost model for placers.

cost = LearnedCost.load("data/model/flow.pt", fabric)
cost.score(netlist, decisions)  # predicted normalised throughput, higher is better
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.encoding import NetlistFeatures, encode, netlist_features
from costmodel.encoding.graph_set import graph_set
from costmodel.labelled import Prediction
from costmodel.model import Model
from placer.cost import CostModel
from placer.decision import Decisions
from placer.errors import InputError
from placer.fabric import Fabric
from placer.heuristic import Rules
from placer.netlist import Netlist

FloatArray = NDArray[np.float64]

# A model does not see rates and latencies: it learned their effect, so they must be the same again.
# These only say how much there is of everything.
_SIZES = ("name", "columns", "rows", "ports_per_side", "dram.channels")


class LearnedCost:
    """Predicts decisions of netlists on one fabric."""

    def __init__(self, fabric: Fabric, model: Model) -> None:
        """Raises InputError when the model was trained on hardware with other rates."""
        _require_same_hardware(fabric, model)
        self.fabric, self.model = fabric, model
        self._last: tuple[Netlist, NetlistFeatures] | None = None  # a search asks for one netlist

    @classmethod
    def load(cls, path: str | Path, fabric: Fabric) -> LearnedCost:
        """From a model file. Raises InputError when it is none, or of another version."""
        return cls(fabric, Model.load(path))

    def score(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        """Predicted normalised throughput [num_decisions] in (0, 1)."""
        return self.predict_with_uncertainty(netlist, decisions).throughput

    def predict_with_uncertainty(self, netlist: Netlist, decisions: Decisions) -> Prediction:
        """Predictions with the standard deviation of their logarithm."""
        if self._last is None or self._last[0] is not netlist:
            self._last = netlist, netlist_features(netlist)
        graphs = graph_set([(self._last[1], encode(self.fabric, netlist, decisions))])
        return self.model.predict_graphs(graphs, np.arange(len(decisions)))


@dataclass(frozen=True, slots=True)
class LearnedChoice:
    """`cost=learned` on a command line."""

    name: str
    model_file: Path

    def model(self, fabric: Fabric, rules: Rules, seed: int) -> CostModel:
        return LearnedCost.load(self.model_file, fabric)


def _require_same_hardware(fabric: Fabric, model: Model) -> None:
    learned, given = _rates(model.origin["fabric"]), _rates(asdict(fabric))
    for name in sorted(learned.keys() | given.keys()):
        if learned.get(name) != given.get(name):
            raise InputError(
                f"the model was trained with {name}={learned.get(name)}, the fabric "
                f"{fabric.name!r} has {given.get(name)}; train a model for this fabric"
            )


def _rates(description: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """All values but sizes, by dotted name."""
    values: dict[str, Any] = {}
    for key, value in description.items():
        if isinstance(value, dict):
            values |= _rates(value, f"{prefix}{key}.")
        elif prefix + key not in _SIZES:
            values[prefix + key] = value
    return values
