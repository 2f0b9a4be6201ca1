"""What is compared: anything that is fitted to a selection of decisions and predicts others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Protocol

import numpy as np
import torch

from costmodel.baselines.boosting import Boosting
from costmodel.baselines.heuristic import CalibratedHeuristic, RawHeuristic
from costmodel.labelled import Prediction, Selection
from placer.config import choices
from placer.errors import InputError


class Predictor(Protocol):
    """A fitted model."""

    def predict(self, selection: Selection) -> Prediction: ...


class Baseline(Enum):
    """Models that are no networks."""

    HEURISTIC = "heuristic"  # the stored scores of the expert's rules
    CALIBRATED = "calibrated"  # the same on a monotone curve fitted to the training set
    BOOSTING = "boosting"  # trees on pooled features


BASELINES = tuple(baseline.value for baseline in Baseline)


class Published(Enum):
    """Rows of the published ablation table (Guha et al.) that a method may stand beside."""

    FULL = "full"
    WITHOUT_NODE_EMBEDDING = "without_node_embedding"
    WITHOUT_EDGE_EMBEDDING = "without_edge_embedding"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make a predictor."""

    model: str  # a baseline, or a file in conf/model
    overrides: tuple[str, ...] = ()  # of the configuration of training; networks only
    base: str | None = None  # an ablation: the method that it takes something away from
    published: Published | None = None

    def __post_init__(self) -> None:
        allowed = (*BASELINES, *choices("model"))
        if self.model not in allowed:
            raise InputError(f"unknown model {self.model!r}; allowed: {', '.join(allowed)}")
        if self.overrides and self.model in BASELINES:
            raise InputError(
                f"model {self.model!r} knows no overrides: {', '.join(self.overrides)}"
            )


def fit(recipe: Recipe, train: Selection, seed: int, num_threads: int) -> Predictor:
    """A predictor that has seen `train` only; validation takes whole netlists out of it."""
    if recipe.model == Baseline.HEURISTIC.value:
        return RawHeuristic()
    if recipe.model == Baseline.CALIBRATED.value:
        return CalibratedHeuristic.fit(train)
    if recipe.model == Baseline.BOOSTING.value:
        return Boosting.fit(train, seed)
    return _fit_network(recipe, train, seed, num_threads)


def _fit_network(recipe: Recipe, train: Selection, seed: int, num_threads: int) -> Predictor:
    """The only way to networks; imported here since baselines do without."""
    training = import_module("costmodel.training")
    torch.set_num_threads(num_threads)
    predictor: Predictor = training.fit(recipe.model, recipe.overrides, train, seed)
    return predictor


def checked_prediction(predictor: Predictor, test: Selection) -> Prediction:
    """What the predictor says of `test`. Raises InputError for values that are none."""
    prediction = predictor.predict(test)
    columns = {"throughput": prediction.throughput}
    if prediction.log_sigma is not None:
        columns["log_sigma"] = prediction.log_sigma
    for name, values in columns.items():
        legal = np.isfinite(values)
        if name == "throughput":
            legal &= values > 0
        if values.shape != (len(test),) or not legal.all():
            seen = values[~legal][0] if values.shape == (len(test),) else f"shape {values.shape}"
            raise InputError(
                f"predicted {name} holds {seen}; needed {len(test)} finite numbers"
                + (" above 0" if name == "throughput" else "")
            )
    return prediction
