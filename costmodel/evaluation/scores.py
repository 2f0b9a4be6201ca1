"""Metrics of finished jobs: folds pooled, per family, seed by seed.

The folds of a method and seed are put together and scored once, so that each graph counts the same
whatever fold it is in; scores of single folds are kept too. Values over seeds are told as mean and
standard deviation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm

from costmodel.base import score_predictions
from costmodel.dataset import ALL
from costmodel.evaluation.jobs import Finished, Job, Outcome
from placer.base import FloatArray

LEVELS = (0.5, 0.8, 0.95)  # of the intervals whose coverage is reported
COVERAGE = [f"coverage_{100 * level:.0f}" for level in LEVELS]
UNCERTAINTY = [*COVERAGE, "mean_sigma", "log_likelihood"]
SCORED_TOGETHER = ["split", "method", "seed"]


@dataclass(frozen=True, slots=True)
class Spread:
    """A value over seeds; as text without a deviation where seeds change nothing."""

    mean: float
    deviation: float | None  # standard deviation; None for a single seed
    seeds: int

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Return the spread of the values of all seeds."""
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return Spread(float(np.mean(values)), deviation, len(values))

    def __str__(self) -> str:
        if np.isnan(self.mean):
            return "-"
        return f"{self.mean:.3f}" + (f" ± {self.deviation:.3f}" if self.deviation else "")


def predictions_of(finished: Iterable[Finished]) -> pd.DataFrame:
    """Return a row per decision and job that was tested with it; no uncertainty is NaN."""
    return pd.concat([_rows(*item) for item in finished], ignore_index=True)


def _rows(job: Job, outcome: Outcome) -> pd.DataFrame:
    test = job.sources.selections(job.split, job.fold)[1]
    return pd.DataFrame(
        {
            "split": job.split,
            "method": job.name,
            "seed": job.seed,
            "fold": job.fold,
            "decision": test.ids,
            "netlist": test.netlist,
            "family": test.data.family[test.ids],
            "measured": test.throughput,
            "predicted": outcome.throughput,
            "log_sigma": np.nan if outcome.log_sigma is None else outcome.log_sigma,
            "fit_seconds": outcome.fit_seconds,
        }
    )


def score(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return a row of metrics for all decisions, each family, and each fold."""
    rows = []
    for key, own in predictions.groupby(SCORED_TOGETHER, sort=False):
        seconds = own.groupby("fold")["fit_seconds"].first()
        for family, fold, part in _parts(own):
            spent = seconds.sum() if fold == ALL else seconds[fold]
            place = {"family": family, "fold": fold, "fit_seconds": float(spent)}
            rows.append(dict(zip(SCORED_TOGETHER, key, strict=True)) | place | _metrics(part))
    return pd.DataFrame(rows)


def _parts(own: pd.DataFrame) -> Iterator[tuple[str, str | int, pd.DataFrame]]:
    """Yield family, fold and decisions of everything that is scored for a method and seed."""
    yield ALL, ALL, own
    for family, part in own.groupby("family"):
        yield family, ALL, part
    for fold, part in own.groupby("fold"):
        yield ALL, fold, part


def _metrics(part: pd.DataFrame) -> dict[str, float]:
    columns = ("predicted", "measured", "netlist", "log_sigma")
    predicted, measured, netlist, log_sigma = (part[name].to_numpy() for name in columns)
    found = score_predictions(predicted, measured, netlist).to_dict()
    if np.isnan(log_sigma).any():
        return found | dict.fromkeys(UNCERTAINTY, float("nan"))
    return found | uncertainty_of(predicted, measured, log_sigma)


def uncertainty_of(predicted: FloatArray, measured: FloatArray, log_sigma: FloatArray) -> dict[str, float]:
    """Tell how well a predicted standard deviation of log throughput tells the error.

    Coverage is the share of the labels within an interval; the log likelihood is the mean of that
    of log throughput under a normal distribution, higher is better.
    """
    deviation = deviations(predicted, measured, log_sigma)
    likelihood = -0.5 * deviation**2 - log_sigma - 0.5 * np.log(2 * np.pi)
    values = (*coverage(deviation, LEVELS), np.exp(log_sigma).mean(), likelihood.mean())
    return dict(zip(UNCERTAINTY, map(float, values), strict=True))


def deviations(predicted: FloatArray, measured: FloatArray, log_sigma: FloatArray) -> FloatArray:
    """Return errors of log throughput in units of their predicted standard deviation."""
    return (np.log(measured) - np.log(predicted)) / np.exp(log_sigma)


def coverage(deviation: FloatArray, levels: Sequence[float]) -> FloatArray:
    """Return the share of the labels within the central interval of each level [num_levels]."""
    limits = norm.ppf((1 + np.asarray(levels)) / 2)
    return np.asarray((np.abs(deviation)[:, None] <= limits).mean(axis=0))
