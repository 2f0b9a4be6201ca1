"""What a dataset report counts: does placement matter, and how good is the heuristic?

- Spread of a netlist = (best - worst) / best throughput over its decisions.
- Share of variance within graphs = sum of (y - mean of its netlist)^2 / sum of (y - mean)^2. What
  is left lies between graphs, and no placement can change it.
- The calibrated heuristic of a decision comes from a fit to the training part of the by-graph fold
  that tests it: neither its netlist nor an equal one was seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.calibration import Calibration
from costmodel.dataset.loader import Dataset
from costmodel.dataset.records import Phase
from costmodel.dataset.splits import SplitKind, Splits
from costmodel.metrics import Evaluation, GraphScores, evaluate, score_graphs
from placer.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NEAR_OPTIMAL = (Phase.COLD, Phase.QUENCHED, Phase.OPTIMAL)
MIN_MEDIAN_SPREAD = 0.30
MIN_SHARE_WITHIN = 0.20
AIM_SHARE_WITHIN = 0.30
MIN_DECISIONS = 16  # per netlist
ALL = "all"  # where the name of a family may stand


@dataclass(frozen=True, slots=True)
class Points:
    """All decisions, netlist by netlist."""

    family: NDArray[np.str_]  # [num_decisions]
    netlist_id: IntArray  # [num_decisions] rising
    phase: NDArray[np.str_]  # [num_decisions]
    throughput: FloatArray  # [num_decisions]
    of_best: FloatArray  # [num_decisions] throughput / best of the netlist
    heuristic: FloatArray  # [num_decisions]
    calibrated: FloatArray  # [num_decisions]

    @property
    def is_near_optimal(self) -> NDArray[np.bool_]:
        return np.isin(self.phase, [phase.value for phase in NEAR_OPTIMAL])


@dataclass(frozen=True, slots=True)
class NetlistNumbers:
    """One entry per netlist; NaN for those without decisions."""

    family: NDArray[np.str_]  # [num_netlists]
    failures: tuple[tuple[str, ...], ...]  # [num_netlists] reasons
    num_decisions: IntArray  # [num_netlists]
    best: FloatArray  # [num_netlists]
    worst: FloatArray  # [num_netlists]
    squares_within: FloatArray  # [num_netlists] sum of (y - mean of the netlist)^2

    @property
    def num_failures(self) -> IntArray:
        return np.array([len(reasons) for reasons in self.failures], np.int64)

    @property
    def spread(self) -> FloatArray:
        return 1 - self.worst / self.best


@dataclass(frozen=True, slots=True)
class FamilySummary:
    """Numbers of one family, or of all."""

    family: str
    num_netlists: int
    num_decisions: int
    num_failures: int
    least_decisions: int  # of a netlist
    median_throughput: float
    median_best: float  # over netlists
    median_spread: float
    least_spread: float
    most_spread: float
    variance: float  # of throughput
    share_within: float


@dataclass(frozen=True, slots=True)
class Check:
    """A demand on a family."""

    family: str
    what: str
    value: float
    needed: float
    aim: float

    @property
    def passed(self) -> bool:
        """False also when there is no value."""
        return self.value >= self.needed

    @property
    def verdict(self) -> str:
        if not self.passed:
            return "FAIL"
        return "PASS" if self.value >= self.aim else "PASS (below the aim)"


@dataclass(frozen=True, slots=True)
class HeuristicScores:
    """The heuristic on some decisions."""

    family: str
    near_optimal: bool  # only decisions of the phases NEAR_OPTIMAL
    calibrated: bool
    scores: Evaluation


def points_of(dataset: Dataset, splits: Splits) -> Points:
    """Raises InputError when there are no decisions, or the splits are of another dataset."""
    if splits.dataset != dataset.content_hash:
        raise InputError(
            f"the splits were made for a dataset with hash {splits.dataset[:16]!r}, this one has "
            f"{dataset.content_hash[:16]!r}; make them again from this dataset"
        )
    if not len(dataset):
        raise InputError(f"dataset {dataset.folder} holds no decisions; there is nothing to report")
    index = dataset.index
    best = np.zeros(dataset.num_netlists)
    np.maximum.at(best, index.netlist_id, index.throughput)
    return Points(
        family=np.array(dataset.families, np.str_)[index.netlist_id],
        netlist_id=index.netlist_id.astype(np.int64),
        phase=index.phase,
        throughput=index.throughput,
        of_best=index.throughput / best[index.netlist_id],
        heuristic=index.heuristic,
        calibrated=_calibrated(index.heuristic, index.throughput, splits),
    )


def _calibrated(heuristic: FloatArray, throughput: FloatArray, splits: Splits) -> FloatArray:
    calibrated = np.empty(len(heuristic))
    for number in range(splits.folds(SplitKind.GRAPH)):
        fold = splits.fold(SplitKind.GRAPH, number)
        fit = Calibration.fit(heuristic[fold.train], throughput[fold.train])
        calibrated[fold.test] = fit.apply(heuristic[fold.test])
    return calibrated


def netlist_numbers(dataset: Dataset, points: Points) -> NetlistNumbers:
    """Numbers of each netlist."""
    failures = dataset.netlists_file.read_columns(["failures"])["failures"].to_pylist()
    present, first = np.unique(points.netlist_id, return_index=True)
    sizes = np.diff(dataset.first_decision)
    best, worst = np.full((2, dataset.num_netlists), np.nan)
    best[present] = np.maximum.reduceat(points.throughput, first)
    worst[present] = np.minimum.reduceat(points.throughput, first)
    means = np.add.reduceat(points.throughput, first) / sizes[present]
    deviation = points.throughput - np.repeat(means, sizes[present])
    squares = np.zeros(dataset.num_netlists)
    squares[present] = np.add.reduceat(deviation**2, first)
    return NetlistNumbers(
        family=np.array(dataset.families, np.str_),
        failures=tuple(map(tuple, failures)),
        num_decisions=sizes,
        best=best,
        worst=worst,
        squares_within=squares,
    )


def summarise(points: Points, netlists: NetlistNumbers) -> tuple[FamilySummary, ...]:
    """One summary per family, sorted by name, and one of all."""
    families = sorted(set(netlists.family.tolist()))
    return tuple(_summary(name, points, netlists) for name in (*families, ALL))


def _summary(family: str, points: Points, netlists: NetlistNumbers) -> FamilySummary:
    own = (netlists.family == family) | (family == ALL)
    labels = points.throughput[(points.family == family) | (family == ALL)]
    spread = netlists.spread[own & (netlists.num_decisions > 0)]
    if not len(labels):
        labels = spread = np.array([np.nan])
    # Equal labels must give exactly 0, which the rounding of a mean does not.
    variance = float(labels.var()) if labels.max() > labels.min() else 0.0
    within = float(netlists.squares_within[own].sum() / len(labels))
    return FamilySummary(
        family=family,
        num_netlists=int(own.sum()),
        num_decisions=int(netlists.num_decisions[own].sum()),
        num_failures=int(netlists.num_failures[own].sum()),
        least_decisions=int(netlists.num_decisions[own].min()),
        median_throughput=float(np.median(labels)),
        median_best=_median(netlists.best[own]),
        median_spread=float(np.median(spread)),
        least_spread=float(spread.min()),
        most_spread=float(spread.max()),
        variance=variance,
        share_within=min(within / variance, 1.0) if variance > 0 else float("nan"),
    )


def _median(values: FloatArray) -> float:
    told = values[np.isfinite(values)]
    return float(np.median(told)) if len(told) else float("nan")


def checks_of(summary: FamilySummary) -> tuple[Check, ...]:
    """What a family must fulfil."""
    spread, share = summary.median_spread, summary.share_within
    decisions, name = float(summary.least_decisions), summary.family
    return (
        Check(name, "median spread", spread, MIN_MEDIAN_SPREAD, MIN_MEDIAN_SPREAD),
        Check(name, "variance within graphs", share, MIN_SHARE_WITHIN, AIM_SHARE_WITHIN),
        Check(name, "decisions per netlist", decisions, MIN_DECISIONS, MIN_DECISIONS),
    )


def score_heuristic(points: Points) -> tuple[HeuristicScores, ...]:
    """The heuristic raw and calibrated, per family and for all, all phases and near-optimal ones.

    Subsets without decisions are left out.
    """
    results = []
    families = sorted(set(points.family.tolist()))
    for near_optimal in (False, True):
        for family in (*families, ALL):
            own = (points.family == family) | (family == ALL)
            if near_optimal:
                own = own & points.is_near_optimal
            if not own.any():
                continue
            for calibrated in (False, True):
                predicted = points.calibrated if calibrated else points.heuristic
                scores = evaluate(predicted[own], points.throughput[own], points.netlist_id[own])
                results.append(HeuristicScores(family, near_optimal, calibrated, scores))
    return tuple(results)


def score_netlists(points: Points) -> GraphScores:
    """Rank metrics of the heuristic, raw, for each netlist with decisions."""
    return score_graphs(points.heuristic, points.throughput, points.netlist_id)
