"""Calibration: make scores comparable with throughput without changing which decision is better.

Isotonic regression (least squares among all curves that never fall) from log score to log
throughput gives steps. On a step, decisions that the score tells apart would become equal, so the
curve goes through the centres of the steps (centred isotonic regression, Oron and Flournoy 2017):
linear between them, and level only below the first and above the last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from placer.base import FloatArray, InputError, parse_object, read_text, require_kind, write_atomic
from placer.cost import CostModel, HeuristicCost, Rules
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.netlist import Netlist

KIND = "dataflow-costmodel calibration"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """The curve; `Calibration.fit(scores, throughput).apply(other_scores)`."""

    log_score: FloatArray  # [num_steps] rising
    log_throughput: FloatArray  # [num_steps] never falling, at most 0

    def __post_init__(self) -> None:
        x, y = self.log_score, self.log_throughput
        _require_same_length("log_score", x, "log_throughput", y)
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise InputError("calibration: log_score and log_throughput must be finite")
        if (np.diff(x) <= 0).any() or (np.diff(y) < 0).any() or y[-1] > 0:
            raise InputError(
                "calibration: log_score must rise, log_throughput must not fall and end at most "
                f"at 0; it ends at {y[-1]}"
            )

    @classmethod
    def fit(cls, scores: ArrayLike, throughput: ArrayLike) -> Calibration:
        """Return the curve for scores (> 0) with known normalised throughput, in (0, 1].

        Raises InputError for other values, or when there are none.
        """
        x, y = _log_scores(scores), np.asarray(throughput, np.float64)
        _require_same_length("scores", x, "throughput", y)
        wrong = y[~((y > 0) & (y <= 1))]
        if len(wrong):
            raise InputError(f"calibration: throughput holds {wrong[0]}; allowed are 0 < y <= 1")
        return cls(*_step_centres(x, np.log(y)))

    def apply(self, scores: ArrayLike) -> FloatArray:
        """Return throughput in (0, 1] for scores > 0. Raises InputError for other scores."""
        return np.exp(np.interp(_log_scores(scores), self.log_score, self.log_throughput))

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` reads, as JSON holds it."""
        return {
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "log_score": self.log_score.tolist(),
            "log_throughput": self.log_throughput.tolist(),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Calibration:
        """Read what `to_dict` gives. Raises InputError for anything else."""
        try:
            require_kind(document, KIND, SCHEMA_VERSION)
        except InputError as error:
            raise InputError(f"calibration: {error}; fit it again with this version") from error
        return cls(_numbers(document, "log_score"), _numbers(document, "log_throughput"))


@dataclass(frozen=True, slots=True)
class CalibratedCost:
    """A cost model whose scores pass a calibration."""

    model: CostModel
    calibration: Calibration

    def score(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        """Return the predicted normalised throughput [num_decisions] in (0, 1]."""
        return self.calibration.apply(self.model.score(netlist, decisions))

    @property
    def ranks_like(self) -> CostModel:
        """Return the model itself: a search needs no calibration."""
        return self.model


@dataclass(frozen=True, slots=True)
class CalibratedChoice:
    """What `conf/cost/calibrated.yaml` holds."""

    name: str
    calibration: Path

    def model(self, fabric: Fabric, rules: Rules, seed: int) -> CostModel:
        return CalibratedCost(HeuristicCost(fabric, rules), load_calibration(self.calibration))


def load_calibration(path: Path) -> Calibration:
    """Read a calibration. Raises InputError when the file holds none of this version."""
    text = read_text(path)
    try:
        return Calibration.from_dict(parse_object(text))
    except InputError as error:
        raise InputError(f"file {path}: {error}") from error


def save_calibration(path: Path, calibration: Calibration) -> None:
    """Write what `load_calibration` reads."""
    write_atomic(path, json.dumps(calibration.to_dict()) + "\n")


def _step_centres(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean x and height of each step of the isotonic regression, [num_steps] each."""
    from sklearn.isotonic import IsotonicRegression  # takes half a second

    fit = IsotonicRegression().fit(x, y)
    is_start = np.diff(fit.y_thresholds_, prepend=-np.inf) > 0
    x = np.sort(x)
    first = np.searchsorted(x, fit.X_thresholds_[is_start])
    last = np.append(first[1:], len(x)) - 1
    means = np.add.reduceat(x, first) / (last - first + 1)
    # Rounding must not move a centre out of its step, else centres might not rise.
    return np.clip(means, x[first], x[last]), np.minimum(fit.y_thresholds_[is_start], 0.0)


def _require_same_length(x_name: str, x: FloatArray, y_name: str, y: FloatArray) -> None:
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise InputError(
            f"calibration: {x_name} has shape {x.shape} and {y_name} {y.shape}; needed two lists "
            "of the same length, 1 or more"
        )


def _log_scores(scores: ArrayLike) -> FloatArray:
    values = np.asarray(scores, np.float64)
    legal = np.isfinite(values) & (values > 0)
    if not legal.all():
        raise InputError(f"calibration: scores hold {values[~legal].flat[0]}; allowed are finite numbers above 0")
    return np.log(values)


def _numbers(document: Mapping[str, Any], name: str) -> FloatArray:
    values = document.get(name)
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        raise InputError(f"calibration: {name} must be a list of numbers")
    return np.array(values, np.float64)
