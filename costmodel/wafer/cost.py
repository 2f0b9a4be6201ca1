"""The learned model as a cost of mappings: `python -m placer.kernels cost=learned model=FILE`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from costmodel.encoding import NO_HARDWARE, NetlistFeatures
from costmodel.inference import Room, open_pass, predict_all, tell_units
from costmodel.model import Model
from costmodel.networks import FlowNetwork
from costmodel.wafer.dataset import WaferHardware
from costmodel.wafer.encode import MAX_HOPS, Encoder, unit_ops, unit_stages
from costmodel.wafer.features import WAFER_FEATURES
from placer.base import FloatArray, InputError, LongArray
from placer.kernels.sizing import Problem
from placer.kernels.truth import Scores

Matrix = NDArray[np.float32]


class LearnedMappingCost:
    """Predicts mappings by one model, thousands a second.

    cost = LearnedMappingCost(Model.load("data/wafer_model/flow.pt"))
    cost.score(problem, tables).throughput
    """

    def __init__(self, model: Model) -> None:
        """Take a model. Raises InputError when it is none of mappings by this truth model."""
        model.require_features(WAFER_FEATURES)
        network = model.network
        assert isinstance(network, FlowNetwork), "no other one reads mappings"
        if model.origin["fabric"] != asdict(WaferHardware()):
            raise InputError(
                f"the model was trained with {model.origin['fabric']}, the truth model is now "
                f"{asdict(WaferHardware())}; train it again"
            )
        # A search asks for one problem, or for one and the same wafer turned by 90 degrees.
        self._ready = lru_cache(maxsize=2)(partial(_OneProblem, network))

    def score(self, problem: Problem, tables: LongArray) -> Scores:
        """Predict mappings. Raises InputError when a prediction is not finite."""
        ready = self._ready(problem)
        results = [ready.predict(table) for table in tables]
        throughput = np.array([result[0] for result in results])
        if not np.isfinite(throughput).all():
            raise InputError("the model gives a prediction that is not finite; train it again")
        return Scores(throughput, np.array([result[1] for result in results]))


@dataclass(frozen=True, slots=True)
class LearnedMappingChoice:
    """`cost=learned` on the command line of the mapper."""

    model_file: Path

    def cost(self) -> LearnedMappingCost:
        return LearnedMappingCost(Model.load(self.model_file))


class _Layers(NamedTuple):
    """Layers that compiled inference takes as facts of a netlist; here they change."""

    unit_first: tuple[Matrix, Matrix]  # weights [columns, W] with the normaliser in them, bias
    unit_second: tuple[Matrix, Matrix]  # bias [num_units, W] with the embeddings in it
    flow_first: tuple[Matrix, Matrix]
    busy: tuple[Matrix, float]  # [W], of the share of time that a unit waits


class _OneProblem:
    """The encoder and the compiled network of one problem."""

    def __init__(self, network: FlowNetwork, problem: Problem) -> None:
        self._encoder = Encoder.of(problem)
        graph, room = self._encoder.graph, self._encoder.room
        routes = room.routes
        edges = graph.edges.astype(np.int32)
        features = NetlistFeatures(
            unit=room.unit,
            unit_op=unit_ops(problem.graph),
            unit_stage=unit_stages(graph),
            flow=room.flow,
            flow_source=np.ascontiguousarray(edges[:, 0]),
            end_flow=np.arange(len(edges), dtype=np.int32),
            end_unit=np.ascontiguousarray(edges[:, 1]),
            hardware=NO_HARDWARE,
        )
        num_lanes = routes.lanes.shape[1]
        sizes = Room(num_lanes, num_lanes, routes.visits.shape[1], MAX_HOPS)
        self._net = open_pass([network], features, sizes)
        self._layers = _layers(network, features)
        self._result = np.zeros((1, 1, 2))

    def predict(self, table: LongArray) -> tuple[float, FloatArray]:
        """Return throughput, and the share of the time that each kernel is busy."""
        room, layers = self._encoder.encode(table), self._layers
        rows, width = self._net.rows, self._net.weights.width
        hidden = np.maximum(room.unit @ layers.unit_first[0] + layers.unit_first[1], 0)
        rows.unit[0, 0, ::2, :width] = hidden @ layers.unit_second[0] + layers.unit_second[1]
        rows.flow_static[0, :, :width] = room.flow @ layers.flow_first[0] + layers.flow_first[1]
        tell_units(self._net)
        visits, lanes, (num_visits, num_lanes) = room.routes
        predict_all(
            self._net, np.array([0, num_visits]), visits[0], visits[1], visits[2],
            np.array([0, num_lanes]), lanes[0], lanes[1], room.end_hops[None], self._result,
        )  # fmt: skip
        last = rows.unit.shape[1] - 1
        sides = 2 * np.arange(len(table)) + rows.unit_side[0, last]
        waits = rows.unit[0, last, sides, :width] @ layers.busy[0] + layers.busy[1]
        return float(np.exp(self._result[0, 0, 0])), np.clip(1.0 - waits, 0.01, 1.0)


def _layers(network: FlowNetwork, features: NetlistFeatures) -> _Layers:
    config = network.config
    if not config.annotations or network.stalls is None:
        raise InputError("the mapper needs a model with model.annotations and model.stalls")
    with torch.inference_mode():
        embedding = torch.zeros(len(features.unit_op), config.width)
        if config.node_embedding:
            embedding = network.op(torch.from_numpy(features.unit_op)) + network.stage(
                torch.from_numpy(features.unit_stage)
            )
        second, bias = _plain(network.unit, 2)
        unit_scale, unit_mean = network.unit_normaliser.scale, network.unit_normaliser.mean
        flow_scale, flow_mean = network.flow_normaliser.scale, network.flow_normaliser.mean
        return _Layers(
            _normalised(_plain(network.unit, 0), unit_scale.numpy(), unit_mean.numpy()),
            (second, bias + embedding.numpy()),
            _normalised(_plain(network.flow, 0), flow_scale.numpy(), flow_mean.numpy()),
            (network.stalls.weight[0].numpy().copy(), float(network.stalls.bias[0])),
        )


def _plain(layers: torch.nn.Sequential, number: int) -> tuple[Matrix, Matrix]:
    layer = layers[number]
    assert isinstance(layer, torch.nn.Linear)
    return layer.weight.T.numpy().copy(), layer.bias.numpy().copy()


def _normalised(layer: tuple[Matrix, Matrix], scale: Matrix, mean: Matrix) -> tuple[Matrix, Matrix]:
    """Return W' and b' with W' x + b' = W (scale (x - mean)) + b, for normalised columns."""
    weights, bias = layer
    scaled = weights[: len(scale)] * scale[:, None]
    return scaled, bias - mean @ scaled
