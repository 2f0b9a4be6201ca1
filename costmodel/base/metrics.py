"""How good are predictions? Error, and rank within a graph, since a placer compares decisions of
one netlist only.

Every function takes three arrays [num_decisions]: prediction, label (normalised throughput, > 0)
and the graph that the decision belongs to. Conventions:

- A graph whose labels are all equal has no order to find: it is left out of all rank metrics.
- A graph whose predictions are all equal gives correlation 0: the model does not tell them apart.
- Pairs are of one graph, with different labels, and each pair counts the same. The difference of a
  pair is |a - b| / max(a, b). Equal predictions count as half right.
- Regret of the top k = 1 - best label among the k best predictions / best label of the graph; of
  equal predictions any may be chosen, and the regret is the expected one. Graphs with no more than
  k decisions are left out, since any model finds their best.
- The best decile of a graph are the decisions with the highest labels: a tenth of them, rounded
  up, but at least MIN_BEST (or all there are), and those with the same label as the last of them.
- What no graph tells is NaN.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import comb
from scipy.stats import rankdata

from placer.base import BoolArray, FloatArray, InputError, LongArray

PAIR_DIFFERENCES = (0.0, 0.02, 0.05, 0.10)
TOP = (1, 5)
MIN_BEST = 8  # with less, five of them are nearly all


@dataclass(frozen=True, slots=True)
class Scores:
    """Metrics over some decisions."""

    num_decisions: int
    num_graphs: int  # with different labels: those that rank metrics tell of
    relative_error: float  # mean of |prediction - label| / label
    spearman_pooled: float  # over all decisions; high for a model that only tells graphs apart
    spearman: float  # mean over graphs
    kendall: float  # mean over graphs of tau-b
    pair_accuracy: float
    pair_accuracy_2: float  # pairs that differ by more than 2%
    pair_accuracy_5: float
    pair_accuracy_10: float
    top1_regret: float  # mean over graphs
    top5_regret: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics over all decisions, and over the best decile of each graph."""

    overall: Scores
    best: Scores

    def to_dict(self) -> dict[str, float]:
        """Return all metrics by name, those of the best decile as `best_<name>`."""
        best = {f"best_{name}": value for name, value in asdict(self.best).items()}
        return asdict(self.overall) | best


@dataclass(frozen=True, slots=True)
class GraphScores:
    """Rank metrics of each graph; NaN where a graph is left out."""

    graph: LongArray  # [num_graphs] rising
    num_decisions: LongArray  # [num_graphs]
    spearman: FloatArray  # [num_graphs]
    kendall: FloatArray  # [num_graphs] tau-b
    num_pairs: LongArray  # [num_graphs, len(PAIR_DIFFERENCES)] that differ by more
    pairs_right: FloatArray  # [num_graphs, len(PAIR_DIFFERENCES)]
    regret: FloatArray  # [num_graphs, len(TOP)]


def score_predictions(predicted: ArrayLike, measured: ArrayLike, graph: ArrayLike) -> Evaluation:
    """Return all metrics. Raises InputError when the arrays do not fit or hold illegal values."""
    prediction, label, graphs = _require_arrays(predicted, measured, graph)
    best = is_best(label, graphs)
    return Evaluation(
        overall=_scores(prediction, label, graphs), best=_scores(prediction[best], label[best], graphs[best])
    )


def score_graphs(predicted: ArrayLike, measured: ArrayLike, graph: ArrayLike) -> GraphScores:
    """Return rank metrics graph by graph. Raises InputError as `score_predictions` does."""
    return _score_graphs(*_require_arrays(predicted, measured, graph))


def is_best(measured: FloatArray, graph: LongArray) -> BoolArray:
    """Tell which decisions are in the best decile of their graph [num_decisions]."""
    _, inverse, sizes = np.unique(graph, return_inverse=True, return_counts=True)
    from_best = np.lexsort((-measured, inverse))
    num_best = np.minimum(np.maximum(-(-sizes // 10), MIN_BEST), sizes)
    last = from_best[np.cumsum(sizes) - sizes + num_best - 1]
    return np.asarray(measured >= measured[last][inverse])


def _scores(predicted: FloatArray, measured: FloatArray, graph: LongArray) -> Scores:
    graphs = _score_graphs(predicted, measured, graph)
    num_pairs, right = graphs.num_pairs.sum(axis=0), graphs.pairs_right.sum(axis=0)
    no_pairs = np.full(len(PAIR_DIFFERENCES), np.nan)
    return Scores(
        len(measured),
        int(np.isfinite(graphs.spearman).sum()),
        float(np.mean(np.abs(predicted - measured) / measured)),
        float(_spearman(_ranks(predicted[None]), _ranks(measured[None]))[0]),
        _mean(graphs.spearman),
        _mean(graphs.kendall),
        *np.divide(right, num_pairs, out=no_pairs, where=num_pairs > 0).tolist(),
        *map(_mean, graphs.regret.T),
    )


def _score_graphs(predicted: FloatArray, measured: FloatArray, graph: LongArray) -> GraphScores:
    """Score graphs of equal size as a stack, with one row each."""
    ids, sizes = np.unique(graph, return_counts=True)
    by_graph, first = np.argsort(graph, kind="stable"), np.cumsum(sizes) - sizes
    result = GraphScores(
        graph=ids,
        num_decisions=sizes,
        spearman=np.empty(len(ids)),
        kendall=np.empty(len(ids)),
        num_pairs=np.empty((len(ids), len(PAIR_DIFFERENCES)), np.int64),
        pairs_right=np.empty((len(ids), len(PAIR_DIFFERENCES))),
        regret=np.empty((len(ids), len(TOP))),
    )
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        stack = by_graph[first[rows, None] + np.arange(size)]
        prediction_rank, label_rank = _ranks(predicted[stack]), _ranks(measured[stack])
        result.spearman[rows] = _spearman(prediction_rank, label_rank)
        result.kendall[rows], result.num_pairs[rows], result.pairs_right[rows] = _compare_pairs(
            prediction_rank, label_rank, measured[stack]
        )
        for column, k in enumerate(TOP):
            result.regret[rows, column] = _regret(prediction_rank, measured[stack], k)
    return result


def _ranks(values: FloatArray) -> FloatArray:
    """Return the rank within each row, from 1; equal values share the mean of their ranks."""
    return np.asarray(rankdata(values, axis=1))


def _spearman(predicted: FloatArray, measured: FloatArray) -> FloatArray:
    """Return the correlation of ranks in each row [num_rows]."""
    middle = (predicted.shape[1] + 1) / 2
    predicted, measured = predicted - middle, measured - middle
    return _correlation((predicted * measured).sum(axis=1), (predicted**2).sum(axis=1), (measured**2).sum(axis=1))


def _compare_pairs(
    predicted: FloatArray, measured: FloatArray, label: FloatArray
) -> tuple[FloatArray, LongArray, FloatArray]:
    """Return tau-b [num_rows]; pairs, and those ordered right [num_rows, PAIR_DIFFERENCES].

    Ranks and labels come as [num_rows, size]. All pairs at one distance are compared at a time, so
    the memory needed does not grow with the number of pairs.
    """
    num_rows, size = label.shape
    agreement, different = np.zeros(num_rows), np.zeros((2, num_rows))
    pairs = np.zeros((num_rows, len(PAIR_DIFFERENCES)), np.int64)
    right = np.zeros((num_rows, len(PAIR_DIFFERENCES)))
    for distance in range(1, size):
        order = np.sign(predicted[:, distance:] - predicted[:, :-distance])
        true_order = np.sign(measured[:, distance:] - measured[:, :-distance])
        agrees = order * true_order
        agreement += agrees.sum(axis=1)
        different += np.abs((order, true_order)).sum(axis=2)
        near, far = label[:, distance:], label[:, :-distance]
        difference = np.abs(near - far) / np.maximum(near, far)
        for column, least in enumerate(PAIR_DIFFERENCES):
            counts = difference > least
            pairs[:, column] += counts.sum(axis=1)
            right[:, column] += ((1 + agrees) / 2 * counts).sum(axis=1)
    return _correlation(agreement, *different), pairs, right


def _correlation(covariance: FloatArray, predicted_variance: FloatArray, measured_variance: FloatArray) -> FloatArray:
    """Return covariance / root of both variances; 0 for equal predictions, NaN for labels."""
    scale = np.sqrt(predicted_variance * measured_variance)
    value = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0)
    return np.where(measured_variance > 0, value, np.nan)


def _regret(predicted: FloatArray, label: FloatArray, k: int) -> FloatArray:
    """Return the expected regret of the k best predictions of each row [num_rows].

    Those above the k-th best prediction v are chosen for sure. m places are left for the T that
    are equal to v: their best label is no better than the i-th lowest label among them with
    probability C(i, m) / C(T, m).
    """
    num_rows, size = label.shape
    if size <= k:
        return np.full(num_rows, np.nan)
    by_label = np.argsort(label, axis=1, kind="stable")
    predicted = np.take_along_axis(predicted, by_label, axis=1)
    label = np.take_along_axis(label, by_label, axis=1)
    last = np.sort(predicted, axis=1)[:, [-k]]
    sure, tied = predicted > last, predicted == last
    places = k - sure.sum(axis=1, keepdims=True)
    at_most = comb(np.cumsum(tied, axis=1), places) / comb(tied.sum(axis=1, keepdims=True), places)
    probability = np.diff(at_most, axis=1, prepend=0)
    best_sure = np.max(np.where(sure, label, 0), axis=1, keepdims=True)
    chosen = (probability * np.maximum(label, best_sure)).sum(axis=1)
    best, worst = label[:, -1], label[:, 0]
    return np.where(best > worst, np.maximum(1 - chosen / best, 0), np.nan)


def _mean(values: FloatArray) -> float:
    """Return the mean over the graphs that are not left out."""
    told = values[np.isfinite(values)]
    return float(told.mean()) if len(told) else float("nan")


def _require_arrays(
    predicted: ArrayLike, measured: ArrayLike, graph: ArrayLike
) -> tuple[FloatArray, FloatArray, LongArray]:
    prediction, label = np.asarray(predicted, np.float64), np.asarray(measured, np.float64)
    graphs = np.asarray(graph)
    shapes = prediction.shape, label.shape, graphs.shape
    if prediction.ndim != 1 or not len(prediction) or len(set(shapes)) > 1:
        raise InputError(
            "predicted, measured and graph must be three lists of the same length, 1 or more; "
            f"their shapes are {', '.join(map(str, shapes))}"
        )
    if graphs.dtype.kind not in "iu":
        raise InputError(f"graph holds {graphs.dtype}; needed integers")
    for name, values, above, allowed in (
        ("predicted", prediction, -np.inf, "finite numbers"),
        ("measured", label, 0, "finite numbers above 0"),
    ):
        legal = np.isfinite(values) & (values > above)
        if not legal.all():
            raise InputError(f"{name} holds {values[~legal][0]}; allowed are {allowed}")
    return prediction, label, graphs.astype(np.int64)
