"""Metrics of finished jobs: folds pooled, per family, seed by seed.

The folds of a method and seed are put together and scored once, so that each graph counts the same
whatever fold it is in; scores of single folds are kept too. Values over seeds are told as mean and
standard deviation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from costmodel.dataset.report_numbers import ALL
from costmodel.evaluation.jobs import Sources, selections
from costmodel.evaluation.run import Finished
from costmodel.metrics import Evaluation, evaluate

FloatArray = NDArray[np.float64]
LongArray = NDArray[np.int64]

LEVELS = (0.5, 0.8, 0.95)  # of the intervals whose coverage is reported


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """What one method with one seed says of the test decisions of a split, all folds together."""

    split: str
    method: str
    seed: int
    ids: LongArray  # [num_decisions]
    fold: LongArray  # [num_decisions]
    netlist: LongArray  # [num_decisions]
    family: NDArray[np.str_]  # [num_decisions]
    measured: FloatArray  # [num_decisions]
    predicted: FloatArray  # [num_decisions]
    log_sigma: FloatArray | None  # [num_decisions]
    seconds: dict[int, float]  # of training, by fold

    @property
    def families(self) -> list[str]:
        return sorted(set(self.family.tolist()))


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """How well a predicted standard deviation of log throughput tells the error."""

    coverage: tuple[float, ...]  # [LEVELS] share of the labels within the interval
    mean_sigma: float
    log_likelihood: float  # mean, of log throughput under a normal distribution; higher is better


@dataclass(frozen=True, slots=True)
class Scored:
    """Metrics of one method and seed on some test decisions."""

    split: str
    method: str
    seed: int
    family: str  # or ALL
    fold: int | None  # None: all of them
    metrics: Evaluation
    uncertainty: Uncertainty | None
    seconds: float  # of training, of this fold or of all


@dataclass(frozen=True, slots=True)
class Spread:
    """A value over seeds; as text without a deviation where seeds change nothing."""

    mean: float
    deviation: float | None  # standard deviation; None for a single seed

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return Spread(float(np.mean(values)), deviation)

    def __str__(self) -> str:
        if np.isnan(self.mean):
            return "-"
        return f"{self.mean:.3f}" + (f" ± {self.deviation:.3f}" if self.deviation else "")


def put_together(sources: Sources, finished: Iterable[Finished]) -> list[Predicted]:
    """The folds of each split, method and seed, in the order in which they come."""
    groups: dict[tuple[str, str, int], list[Finished]] = {}
    for item in finished:
        job = item.job
        groups.setdefault((job.split, job.name, job.seed), []).append(item)
    return [_join(sources, group) for group in groups.values()]


def _join(sources: Sources, group: list[Finished]) -> Predicted:
    job = group[0].job
    data = sources.tested(job.split)
    tests = [selections(sources, job.split, item.job.fold)[1].ids for item in group]
    ids = np.concatenate(tests)
    sigmas = [item.outcome.prediction.log_sigma for item in group]
    known = [sigma for sigma in sigmas if sigma is not None]
    return Predicted(
        split=job.split,
        method=job.name,
        seed=job.seed,
        ids=ids,
        fold=np.repeat([item.job.fold for item in group], [len(test) for test in tests]),
        netlist=data.netlist[ids],
        family=data.family[ids],
        measured=data.throughput[ids],
        predicted=np.concatenate([item.outcome.prediction.throughput for item in group]),
        log_sigma=np.concatenate(known) if len(known) == len(group) else None,
        seconds={item.job.fold: item.outcome.fit_seconds for item in group},
    )


def score(predictions: Iterable[Predicted]) -> list[Scored]:
    """Metrics of all, of each family, and of each fold."""
    return [scored for predicted in predictions for scored in _score(predicted)]


def _score(predicted: Predicted) -> Iterable[Scored]:
    everything = np.ones(len(predicted.ids), np.bool_)
    yield _scored(predicted, everything, ALL, None)
    for family in predicted.families:
        yield _scored(predicted, predicted.family == family, family, None)
    for fold in np.unique(predicted.fold).tolist():
        yield _scored(predicted, predicted.fold == fold, ALL, fold)


def _scored(p: Predicted, own: NDArray[np.bool_], family: str, fold: int | None) -> Scored:
    metrics = evaluate(p.predicted[own], p.measured[own], p.netlist[own])
    uncertainty = None
    if p.log_sigma is not None:
        uncertainty = uncertainty_of(p.predicted[own], p.measured[own], p.log_sigma[own])
    seconds = sum(p.seconds.values()) if fold is None else p.seconds[fold]
    return Scored(p.split, p.method, p.seed, family, fold, metrics, uncertainty, seconds)


def uncertainty_of(
    predicted: FloatArray, measured: FloatArray, log_sigma: FloatArray
) -> Uncertainty:
    """Coverage and likelihood of measured throughput."""
    deviation = deviations(predicted, measured, log_sigma)
    likelihood = -0.5 * deviation**2 - log_sigma - 0.5 * np.log(2 * np.pi)
    return Uncertainty(
        coverage=tuple(coverage(deviation, LEVELS).tolist()),
        mean_sigma=float(np.exp(log_sigma).mean()),
        log_likelihood=float(likelihood.mean()),
    )


def deviations(predicted: FloatArray, measured: FloatArray, log_sigma: FloatArray) -> FloatArray:
    """Errors of log throughput in units of their predicted standard deviation."""
    return (np.log(measured) - np.log(predicted)) / np.exp(log_sigma)


def coverage(deviation: FloatArray, levels: Sequence[float]) -> FloatArray:
    """Share of the labels within the central interval of each level [num_levels]."""
    limits = norm.ppf((1 + np.asarray(levels)) / 2)
    return np.asarray((np.abs(deviation)[:, None] <= limits).mean(axis=0))
