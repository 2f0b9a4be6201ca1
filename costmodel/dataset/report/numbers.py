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

from costmodel.base import Calibration, Evaluation, score_predictions
from costmodel.dataset import ALL, Dataset, Phase, SplitKind, Splits
from placer.base import BoolArray, FloatArray, InputError, LongArray

NEAR_OPTIMAL = (Phase.COLD, Phase.QUENCHED, Phase.POOL, Phase.OPTIMAL)
MIN_MEDIAN_SPREAD = 0.30
MIN_SHARE_WITHIN = 0.20
AIM_SHARE_WITHIN = 0.30
MIN_DECISIONS = 16  # per netlist


@dataclass(frozen=True, slots=True)
class Points:
    """All decisions, netlist by netlist."""

    family: NDArray[np.str_]  # [num_decisions]
    netlist_id: LongArray  # [num_decisions] rising
    phase: NDArray[np.str_]  # [num_decisions]
    throughput: FloatArray  # [num_decisions]
    of_best: FloatArray  # [num_decisions] throughput / best of the netlist
    heuristic: FloatArray  # [num_decisions]
    calibrated: FloatArray  # [num_decisions]

    @property
    def families(self) -> list[str]:
        return sorted(set(self.family.tolist()))

    @property
    def phases(self) -> list[Phase]:
        present = set(self.phase.tolist())
        return [phase for phase in Phase if phase.value in present]

    @property
    def is_near_optimal(self) -> BoolArray:
        return np.isin(self.phase, [phase.value for phase in NEAR_OPTIMAL])

    def of(self, family: str) -> BoolArray:
        """Tell which decisions belong to a family, or to `ALL` [num_decisions]."""
        return np.asarray((self.family == family) | (family == ALL))


@dataclass(frozen=True, slots=True)
class NetlistNumbers:
    """One entry per netlist; NaN for those without decisions."""

    family: NDArray[np.str_]  # [num_netlists]
    failures: tuple[tuple[str, ...], ...]  # [num_netlists] reasons
    num_decisions: LongArray  # [num_netlists]
    best: FloatArray  # [num_netlists]
    worst: FloatArray  # [num_netlists]
    variance: FloatArray  # [num_netlists] mean of (y - mean of the netlist)^2

    @property
    def num_failures(self) -> LongArray:
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

    def checks(self) -> list[Check]:
        """Return what a family must fulfil."""
        needs = (
            ("median spread", self.median_spread, MIN_MEDIAN_SPREAD, MIN_MEDIAN_SPREAD),
            ("variance within graphs", self.share_within, MIN_SHARE_WITHIN, AIM_SHARE_WITHIN),
            ("decisions per netlist", self.least_decisions, MIN_DECISIONS, MIN_DECISIONS),
        )
        return [Check(self.family, *need) for need in needs]


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
        """Tell whether the value is there and high enough."""
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

    @property
    def cells(self) -> tuple[str, str, str]:
        """Return how tables call it: family, phases, kind of heuristic."""
        phases = "near-optimal" if self.near_optimal else ALL
        return self.family, phases, "calibrated" if self.calibrated else "raw"


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
    calibrated = np.empty(len(dataset))
    for number in range(splits.folds(SplitKind.GRAPH)):
        fold = splits.fold(SplitKind.GRAPH, number)
        fit = Calibration.fit(index.heuristic[fold.train], index.throughput[fold.train])
        calibrated[fold.test] = fit.apply(index.heuristic[fold.test])
    return Points(
        family=np.array(dataset.families, np.str_)[index.netlist_id],
        netlist_id=index.netlist_id,
        phase=index.phase,
        throughput=index.throughput,
        of_best=index.throughput / best[index.netlist_id],
        heuristic=index.heuristic,
        calibrated=calibrated,
    )


def netlist_numbers(dataset: Dataset, points: Points) -> NetlistNumbers:
    """Return the numbers of each netlist."""
    failures = dataset.netlists_file.read_columns(["failures"])["failures"].to_pylist()
    best, worst, variance = np.full((3, dataset.num_netlists), np.nan)
    for netlist_id in np.unique(points.netlist_id).tolist():
        first, last = dataset.first_decision[netlist_id : netlist_id + 2]
        own = points.throughput[first:last]
        best[netlist_id], worst[netlist_id], variance[netlist_id] = own.max(), own.min(), own.var()
    return NetlistNumbers(
        family=np.array(dataset.families, np.str_),
        failures=tuple(map(tuple, failures)),
        num_decisions=np.diff(dataset.first_decision),
        best=best,
        worst=worst,
        variance=variance,
    )


def summarise(family: str, points: Points, netlists: NetlistNumbers) -> FamilySummary:
    """Return the summary of a family, or of `ALL`."""
    own = (netlists.family == family) | (family == ALL)
    filled = own & (netlists.num_decisions > 0)
    labels, spread, best = points.throughput[points.of(family)], netlists.spread, netlists.best
    spread, best = spread[filled], best[filled]
    if not len(labels):
        labels = spread = best = np.array([np.nan])
    # Equal labels must give exactly 0, which the rounding of a mean does not.
    variance = float(labels.var()) if labels.max() > labels.min() else 0.0
    within = float(netlists.variance[filled] @ netlists.num_decisions[filled]) / len(labels)
    return FamilySummary(
        family=family,
        num_netlists=int(own.sum()),
        num_decisions=int(netlists.num_decisions[own].sum()),
        num_failures=int(netlists.num_failures[own].sum()),
        least_decisions=int(netlists.num_decisions[own].min()),
        median_throughput=float(np.median(labels)),
        median_best=float(np.median(best)),
        median_spread=float(np.median(spread)),
        least_spread=float(spread.min()),
        most_spread=float(spread.max()),
        variance=variance,
        share_within=min(within / variance, 1.0) if variance > 0 else float("nan"),
    )


def score_heuristic(points: Points) -> tuple[HeuristicScores, ...]:
    """Score the heuristic raw and calibrated, per family and for all, in all phases and the last.

    Subsets without decisions are left out.
    """
    results = []
    for near_optimal in (False, True):
        for family in (*points.families, ALL):
            own = points.of(family) & (points.is_near_optimal | (not near_optimal))
            for calibrated in (False, True) if own.any() else ():
                predicted = (points.calibrated if calibrated else points.heuristic)[own]
                scores = score_predictions(predicted, points.throughput[own], points.netlist_id[own])
                results.append(HeuristicScores(family, near_optimal, calibrated, scores))
    return tuple(results)
