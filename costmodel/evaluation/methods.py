"""What is compared: anything that is fitted to a selection of decisions and predicts others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from costmodel.baselines import Boosting, CalibratedHeuristic, RawHeuristic
from costmodel.model import Prediction, Selection
from costmodel.training import TrainConfig
from costmodel.training import fit as fit_network
from placer.base import InputError


class Predictor(Protocol):
    """A fitted model."""

    def predict(self, selection: Selection) -> Prediction: ...


class Baseline(Enum):
    """Models that are no networks."""

    HEURISTIC = "heuristic"  # the stored scores of the expert's rules
    CALIBRATED = "calibrated"  # the same on a monotone curve fitted to the training set
    BOOSTING = "boosting"  # trees on pooled features


class Published(Enum):
    """Rows of the published ablation table (Guha et al.) that a method may stand beside."""

    FULL = "full"
    WITHOUT_NODE_EMBEDDING = "without_node_embedding"
    WITHOUT_EDGE_EMBEDDING = "without_edge_embedding"


@dataclass(frozen=True, slots=True)
class Method:
    """How to make a predictor, and what to compare it with."""

    config: Baseline | TrainConfig
    base: str | None = None  # an ablation: the method that it takes something away from
    published: Published | None = None

    def describe(self) -> dict[str, Any]:
        """Return everything that decides what is learned, as JSON holds it."""
        config = self.config
        return {"baseline": config.value} if isinstance(config, Baseline) else config.describe()


def fit(
    config: Baseline | TrainConfig, train: Selection, seed: int, *, checkpoints: Path, num_threads: int = 1
) -> Predictor:
    """Return a predictor that has seen `train` only; validation takes whole netlists out of it.

    The training of a network that was cut off goes on from what it left in `checkpoints`.
    Raises InputError when there is too little to learn from.
    """
    match config:
        case Baseline.HEURISTIC:
            return RawHeuristic()
        case Baseline.CALIBRATED:
            return CalibratedHeuristic.fit(train)
        case Baseline.BOOSTING:
            return Boosting.fit(train, seed)
    torch.set_num_threads(num_threads)  # unless the configuration says otherwise
    return fit_network(train, config, seed, checkpoints)


def checked_prediction(predictor: Predictor, test: Selection) -> Prediction:
    """Return what the predictor says of `test`. Raises InputError for values that are none."""
    prediction = predictor.predict(test)
    _require_numbers("throughput", prediction.throughput, len(test))
    if prediction.log_sigma is not None:
        _require_numbers("log_sigma", prediction.log_sigma, len(test))
    return prediction


def _require_numbers(name: str, values: np.ndarray, num: int) -> None:
    if values.shape != (num,):
        raise InputError(f"predicted {name} has shape {values.shape}; needed {num} numbers")
    legal = np.isfinite(values) & ((values > 0) | (name != "throughput"))
    if not legal.all():
        raise InputError(
            f"predicted {name} is {values[~legal][0]} for {(~legal).sum()} of {num} decisions; "
            "needed finite numbers, throughput above 0"
        )
