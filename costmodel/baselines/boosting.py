"""Gradient boosting on pooled features: what can be known without message passing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from costmodel.baselines.heuristic import log_spread
from costmodel.baselines.pooled import pooled_features
from costmodel.labelled import Prediction, Selection
from placer.errors import InputError

VALIDATION_SHARE = 0.15  # of the netlists of the training set


@dataclass(frozen=True, slots=True)
class Boosting:
    """Trees for log throughput; the same uncertainty for all decisions."""

    trees: HistGradientBoostingRegressor
    log_sigma: float  # from the netlists that were held back

    @classmethod
    def fit(cls, train: Selection, seed: int) -> Boosting:
        """Stops adding trees when netlists that were held back get no better.

        Raises InputError when there are fewer than two netlists.
        """
        held_back = _hold_back(train.netlist, seed)
        features, target = _features(train), np.log(train.throughput)
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
        trees.fit(
            features[~held_back],
            target[~held_back],
            X_val=features[held_back],
            y_val=target[held_back],
        )
        validated = np.exp(trees.predict(features[held_back]))
        return cls(trees, log_spread(validated, train.throughput[held_back]))

    def predict(self, selection: Selection) -> Prediction:
        log_throughput = self.trees.predict(_features(selection))
        return Prediction(np.exp(log_throughput), np.full(len(selection), self.log_sigma))


def _features(selection: Selection) -> NDArray[np.float64]:
    return pooled_features(selection.data.graphs, selection.ids)


def _hold_back(netlist: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Decisions of some netlists, chosen at random."""
    netlists = np.unique(netlist)
    if len(netlists) < 2:
        raise InputError(
            f"boosting: {len(netlists)} netlists to learn from; needed 2 or more, since some are "
            "held back for validation; use a larger dataset"
        )
    num = min(max(round(len(netlists) * VALIDATION_SHARE), 1), len(netlists) - 1)
    chosen = np.random.default_rng(seed).permutation(netlists)[:num]
    return np.isin(netlist, chosen)
