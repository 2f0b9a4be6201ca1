"""Models without a network, in the same tables and folds: what a network must beat."""

from costmodel.baselines.predictors import Boosting, CalibratedHeuristic, RawHeuristic
