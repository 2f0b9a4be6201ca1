"""Predictors without a network: the expert's rules as they are or calibrated, and boosted trees.

The trees read pooled features: what can be known without message passing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from costmodel.base import Calibration
from costmodel.baselines.pooled import pooled_features
from costmodel.model import Prediction, Selection, split_validation

VALIDATION_SHARE = 0.15  # of the netlists of the training set
MIN_SIGMA = 1e-6  # of a model without any error


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


@dataclass(frozen=True, slots=True)
class Boosting:
    """Trees for log throughput; the same uncertainty for all decisions."""

    trees: HistGradientBoostingRegressor
    log_sigma: float  # from the netlists that were held back

    @classmethod
    def fit(cls, train: Selection, seed: int) -> Boosting:
        """Add trees until netlists that were held back get no better.

        Raises InputError when there are fewer than two different netlists.
        """
        learn, validate = split_validation(train, VALIDATION_SHARE, seed)
        trees = HistGradientBoostingRegressor(
            learning_rate=0.05,
            max_iter=1000,
            max_leaf_nodes=15,
            max_features=0.3,
            l2_regularization=1.0,
            early_stopping=True,
            n_iter_no_change=40,
            random_state=seed,
        )
        validation = _features(validate)
        trees.fit(_features(learn), np.log(learn.throughput), X_val=validation, y_val=np.log(validate.throughput))
        return cls(trees, log_spread(np.exp(trees.predict(validation)), validate.throughput))

    def predict(self, selection: Selection) -> Prediction:
        log_throughput = self.trees.predict(_features(selection))
        return Prediction(np.exp(log_throughput), np.full(len(selection), self.log_sigma))


def _features(selection: Selection) -> NDArray[np.float64]:
    return pooled_features(selection.data.graphs, selection.ids)


def log_spread(predicted: np.ndarray, measured: np.ndarray) -> float:
    """Return the log of the root mean square error of log throughput."""
    squares = (np.log(predicted) - np.log(measured)) ** 2
    return float(np.log(max(np.sqrt(squares.mean()), MIN_SIGMA)))
