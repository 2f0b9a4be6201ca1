"""The expert's rules as predictors: their scores as they are, or calibrated on the training set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.calibration import Calibration
from costmodel.labelled import Prediction, Selection


@dataclass(frozen=True, slots=True)
class RawHeuristic:
    """Learns nothing."""

    def predict(self, selection: Selection) -> Prediction:
        return Prediction(selection.data.heuristic[selection.ids], None)


@dataclass(frozen=True, slots=True)
class CalibratedHeuristic:
    """The scores on a curve fitted to throughput; the same uncertainty for all decisions."""

    calibration: Calibration
    log_sigma: float  # log of the standard deviation of log throughput around the curve

    @classmethod
    def fit(cls, train: Selection) -> CalibratedHeuristic:
        scores = train.data.heuristic[train.ids]
        calibration = Calibration.fit(scores, train.throughput)
        return cls(calibration, log_spread(calibration.apply(scores), train.throughput))

    def predict(self, selection: Selection) -> Prediction:
        throughput = self.calibration.apply(selection.data.heuristic[selection.ids])
        return Prediction(throughput, np.full(len(selection), self.log_sigma))


MIN_SIGMA = 1e-6  # of a model without any error


def log_spread(predicted: np.ndarray, measured: np.ndarray) -> float:
    """Log of the root mean square error of log throughput."""
    squares = (np.log(predicted) - np.log(measured)) ** 2
    return float(np.log(max(np.sqrt(squares.mean()), MIN_SIGMA)))
