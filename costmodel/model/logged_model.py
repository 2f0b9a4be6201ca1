"""A model as MLflow serves it: a table of decisions in, predictions out.

MLflow runs this file when such a model is loaded (mlflow.pyfunc.load_model); the packages
`costmodel` and `placer` must be installed there.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel

from costmodel.dataset import Dataset, parse_cell
from costmodel.encoding import encode, graph_set, netlist_features
from costmodel.model.model import Model
from placer.base import InputError
from placer.decision.routing import decision_text, parse_decision
from placer.fabric import Fabric, fabric_of
from placer.netlist import Netlist

COLUMNS = ("fabric", "netlist", "decision")


class LoggedModel(PythonModel):
    """A model file as MLflow loads and asks it."""

    def load_context(self, context: Any) -> None:
        self._model = Model.load(context.artifacts["model"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        return predict_table(self._model, model_input)


def predict_table(model: Model, table: pd.DataFrame) -> pd.DataFrame:
    """Return `throughput`, and `sigma`, the standard deviation of its logarithm, of each row.

    Column `fabric` holds its constants as JSON, `netlist` Netlist.to_dict, `decision` the text of a decision file.
    Raises InputError that names the row when a value is not legal.
    """
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        raise InputError(f"the table has no column {missing[0]!r}; needed: {', '.join(COLUMNS)}")
    parts = []
    for row, (fabric_json, netlist_json, decision) in enumerate(table[list(COLUMNS)].to_numpy().tolist()):
        try:
            fabric = _fabric_for(model, fabric_json)
            netlist = Netlist.from_dict(parse_cell(netlist_json, "netlist"))
            decisions = parse_decision(decision, fabric, netlist)
        except InputError as error:
            raise InputError(f"row {row}: {error}") from error
        parts.append((netlist_features(fabric, netlist), encode(fabric, netlist, decisions)))
    prediction = model.predict_graphs(graph_set(parts), np.arange(len(parts)))
    assert prediction.log_sigma is not None
    columns = {"throughput": prediction.throughput, "sigma": np.exp(prediction.log_sigma)}
    return pd.DataFrame(columns, index=table.index)


def _fabric_for(model: Model, text: str) -> Fabric:
    """Return a fabric. Raises InputError when it is none, or the model knows another one only."""
    fabric = fabric_of(parse_cell(text, "fabric"))
    known = model.origin["fabric"]
    if "ranges" not in known and known != json.loads(json.dumps(asdict(fabric))):
        raise InputError(f"fabric {fabric.name!r} is not {known['name']!r}, which the model was trained on")
    return fabric


def example_table(folder: Path, num_rows: int = 2) -> pd.DataFrame:
    """Return the first decisions of a dataset, as `predict_table` reads them."""
    samples = Dataset.open(folder).samples(0)
    fabric, netlist = json.dumps(asdict(samples.fabric)), json.dumps(samples.netlist.to_dict())
    rows = [
        (fabric, netlist, decision_text(samples.fabric, samples.netlist, samples.decisions, index))
        for index in range(min(num_rows, len(samples.decisions)))
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


set_model(LoggedModel())
