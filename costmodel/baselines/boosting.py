"""Gradient boosting on pooled features: what can be known without message passing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from costmodel.baselines.heuristic import log_spread
from costmodel.baselines.pooled import pooled_features
from costmodel.labelled import Prediction, Selection, split_validation

VALIDATION_SHARE = 0.15  # of the netlists of the training set


@dataclass(frozen=True, slots=True)
class Boosting:
    """Trees for log throughput; the same uncertainty for all decisions."""

    trees: HistGradientBoostingRegressor
    log_sigma: float  # from the netlists that were held back

    @classmethod
    def fit(cls, train: Selection, seed: int) -> Boosting:
        """Stops adding trees when netlists that were held back get no better.

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
        trees.fit(
            _features(learn),
            np.log(learn.throughput),
            X_val=validation,
            y_val=np.log(validate.throughput),
        )
        return cls(trees, log_spread(np.exp(trees.predict(validation)), validate.throughput))

    def predict(self, selection: Selection) -> Prediction:
        log_throughput = self.trees.predict(_features(selection))
        return Prediction(np.exp(log_throughput), np.full(len(selection), self.log_sigma))


def _features(selection: Selection) -> NDArray[np.float64]:
    return pooled_features(selection.data.graphs, selection.ids)
