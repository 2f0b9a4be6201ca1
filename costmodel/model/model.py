"""A trained model: a network, what it was trained with, how sure it is; in memory and as a file.

The file is a torch archive of plain tensors, numbers and text, read with `weights_only`: it cannot
run code. It carries the version of the features that the network reads; other versions are refused.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from costmodel.encoding import FABRIC_FEATURES, FeatureSchema, GraphSet, make_batch
from costmodel.model.labelled import Prediction, Selection, known_features
from costmodel.networks import FlowNetwork, NetworkConfig, build_network, describe_network, network_config
from placer.base import InputError, LongArray, read_archive, write_atomic

KIND = "dataflow-costmodel model"
SCHEMA_VERSION = 1
BATCH_SIZE = 128


@dataclass(frozen=True, slots=True, eq=False)
class PotentialNetwork:
    """Predicts what a good placement of a netlist reaches, from its bare decision (`encode_bare`)."""

    network: FlowNetwork
    sigma_scale: float  # as in `Model`


@dataclass(frozen=True, eq=False)
class Model:
    """Predicts throughput.

    model = Model.load("data/model/flow.pt")
    model.predict(selection).throughput
    """

    config: NetworkConfig
    network: nn.Module
    sigma_scale: float  # predicted standard deviations are multiplied by it
    origin: dict[str, Any]  # what it was trained with, as JSON holds it
    student: FlowNetwork | None = None  # small and fast, taught by the network; searches ask it first
    potential: PotentialNetwork | None = None  # asked about netlists that have no decision yet

    @property
    def features(self) -> FeatureSchema:
        """Return what its network reads."""
        network = self.network
        return network.features if isinstance(network, FlowNetwork) else FABRIC_FEATURES

    def require_features(self, features: FeatureSchema) -> None:
        """Raise InputError when its network reads other ones."""
        if self.features.version != features.version:
            raise InputError(
                f"the model was trained on {self.features.subject}, not on {features.subject}; "
                "give another model, or train one on such a dataset"
            )

    def predict(self, selection: Selection) -> Prediction:
        """Predict decisions of a dataset. Raises InputError when it is one of another kind."""
        self.require_features(selection.data.features)
        return self.predict_graphs(selection.data.graphs, selection.ids)

    def predict_graphs(self, graphs: GraphSet, ids: LongArray) -> Prediction:
        """Predict encoded decisions. Raises InputError when a prediction is not finite."""
        self.network.eval()
        mean, log_sigma = np.empty(len(ids)), np.empty(len(ids))
        with torch.inference_mode():
            for k in range(0, len(ids), BATCH_SIZE):
                output = self.network(make_batch(graphs, ids[k : k + BATCH_SIZE]))
                mean[k : k + BATCH_SIZE] = output.log_throughput.numpy()
                log_sigma[k : k + BATCH_SIZE] = output.log_sigma.numpy()
        if not np.isfinite(mean).all() or not np.isfinite(log_sigma).all():
            raise InputError("the model gives a prediction that is not finite; train it again")
        return Prediction(np.exp(mean), log_sigma + np.log(self.sigma_scale))

    def digest(self) -> str:
        """Return the hash of the weights, those of the student and for potentials too."""
        digest = hashlib.sha256()
        others = [self.student, None if self.potential is None else self.potential.network]
        for network in (self.network, *(other for other in others if other is not None)):
            for name, weights in sorted(network.state_dict().items()):
                digest.update(name.encode() + weights.cpu().numpy().tobytes())
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the whole file or nothing."""
        write_atomic(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return what the file holds."""
        buffer = io.BytesIO()
        document = {
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "features": self.features.version,
            "network": json.dumps(describe_network(self.config)),
            "sigma_scale": self.sigma_scale,
            "origin": json.dumps(self.origin),
            "weights": self.network.state_dict(),
        }
        if self.student is not None:
            document["student"] = json.dumps(describe_network(self.student.config))
            document["student_weights"] = self.student.state_dict()
        if self.potential is not None:
            document["potential"] = json.dumps(describe_network(self.potential.network.config))
            document["potential_weights"] = self.potential.network.state_dict()
            document["potential_scale"] = self.potential.sigma_scale
        torch.save(document, buffer)
        return buffer.getvalue()

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Read a model. Raises InputError when the file is none of this version."""
        document = read_archive(Path(path), "train it again")
        try:
            return cls._from(document)
        except InputError as error:
            raise InputError(f"model {path}: {error}") from error

    @classmethod
    def _from(cls, document: object) -> Model:
        if not isinstance(document, dict) or document.get("kind") != KIND:
            raise InputError("is no model of this program")
        features = known_features()
        if isinstance(kind := document.get("features"), str) and kind not in features:
            raise InputError(
                f"reads an unknown kind of data ({kind!r:.20}); a program that uses it must import "
                "the room that knows it, such as costmodel.wafer"
            )
        for name, known in (("schema", [SCHEMA_VERSION]), ("features", list(features))):
            if document.get(name) not in known:
                raise InputError(
                    f"version of its {name} is {document.get(name)!r:.20}, this program reads "
                    f"{' and '.join(map(str, known))}; train it again (make model)"
                )
        try:
            read = features[document["features"]]
            network = _network_of(document["network"], document["weights"], read)
            student, potential = _second(document, "student", read), None
            if (network_alone := _second(document, "potential", read)) is not None:
                potential = PotentialNetwork(network_alone, _scale_of(document["potential_scale"]))
            sigma_scale, origin = _scale_of(document["sigma_scale"]), json.loads(document["origin"])
            if not isinstance(origin, dict) or not isinstance(origin.get("fabric"), dict):
                raise ValueError(f"origin={origin!r:.40}")
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise InputError(f"is not complete ({error!r:.200}); train it again") from error
        return cls(network_config(json.loads(document["network"])), network, sigma_scale, origin, student, potential)


def _second(document: dict[str, Any], name: str, features: FeatureSchema) -> FlowNetwork | None:
    """Return another network of a file, if it has one of this name. Raises as `_network_of` does."""
    if name not in document:
        return None
    network = _network_of(document[name], document[f"{name}_weights"], features)
    if not isinstance(network, FlowNetwork):
        raise ValueError(f"its {name} is no `flow` network")
    return network


def _scale_of(value: object) -> float:
    """Return a scale of sigma. Raises ValueError and others for what is none."""
    scale = float(value)  # type: ignore[arg-type]  # what is no number raises
    if not 0 < scale < np.inf:
        raise ValueError(f"sigma_scale={scale}")
    return scale


def _network_of(description: str, weights: dict[str, torch.Tensor], features: FeatureSchema) -> nn.Module:
    """Return a network as a file holds it. Raises ValueError and others when it is not complete."""
    network = build_network(network_config(json.loads(description)), 0, features)
    network.load_state_dict(weights)
    if not all(weights.isfinite().all() for weights in network.parameters()):
        raise ValueError("some weights are not finite")
    return network
