"""Metrics: cases counted by hand, agreement with scipy, laws of ranks."""

from __future__ import annotations

from dataclasses import asdict
from itertools import combinations
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr

from costmodel.base import MIN_BEST, score_graphs, score_predictions
from costmodel.base.metrics import is_best
from placer.base import InputError

PAIR_METRICS = ("pair_accuracy", "pair_accuracy_2", "pair_accuracy_5", "pair_accuracy_10")
CORRELATIONS = ("spearman_pooled", "spearman", "kendall")
RANK_METRICS = (*CORRELATIONS, *PAIR_METRICS, "top1_regret", "top5_regret")


@st.composite
def cases(draw: st.DrawFn, max_levels: int = 30, *, ties: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, labels and graphs; few levels, so that values repeat if `ties`."""
    num = draw(st.integers(1, 40))
    levels = st.integers(1, max_levels)
    predicted = draw(st.lists(levels, min_size=num, max_size=num))
    measured = draw(st.lists(levels, min_size=num, max_size=num))
    graph = draw(st.lists(st.integers(-2, 3), min_size=num, max_size=num))
    if not ties:
        predicted = draw(st.permutations(range(1, num + 1)))
        measured = draw(st.permutations(range(1, num + 1)))
    return np.array(predicted) / 64, np.array(measured) / 64, np.array(graph)


def test_relative_error_by_hand() -> None:
    scores = score_predictions([0.5, 0.3], [0.4, 0.4], [0, 1]).overall
    assert scores.relative_error == pytest.approx(0.25)
    assert scores.num_decisions == 2
    assert scores.num_graphs == 0 and isnan(scores.spearman) and isnan(scores.pair_accuracy)


def test_one_graph_by_hand() -> None:
    """One pair of six is wrong: 0.50 and 0.52 (4% apart)."""
    scores = score_predictions([1, 3, 2, 4], [0.2, 0.50, 0.52, 0.8], [7] * 4).overall
    assert scores.spearman == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert scores.kendall == pytest.approx((5 - 1) / 6)
    assert scores.pair_accuracy == pytest.approx(5 / 6)
    assert scores.pair_accuracy_2 == pytest.approx(5 / 6)
    assert scores.pair_accuracy_5 == scores.pair_accuracy_10 == 1
    assert scores.top1_regret == 0
    assert isnan(scores.top5_regret)


def test_graphs_count_the_same_and_pairs_count_the_same() -> None:
    """A graph of two decisions in wrong order, one of three in right order."""
    scores = score_predictions([2, 1, 1, 2, 3], [0.5, 1.0, 0.2, 0.4, 0.8], [0, 0, 1, 1, 1]).overall
    assert scores.num_graphs == 2
    assert scores.spearman == scores.kendall == 0
    assert scores.pair_accuracy == pytest.approx(3 / 4)
    assert scores.top1_regret == pytest.approx((0.5 + 0) / 2)


def test_ranking_only_the_graphs_is_seen_through() -> None:
    """A model that tells graphs apart and nothing else has a high pooled rank, and 0 within."""
    graph = np.repeat(np.arange(10), 8)
    measured = 0.05 + graph / 11 + np.tile(np.arange(8), 10) / 1000
    scores = score_predictions(graph.astype(float), measured, graph).overall
    assert scores.spearman_pooled > 0.95
    assert scores.spearman == scores.kendall == 0
    assert scores.pair_accuracy == 0.5


def test_graphs_of_equal_labels_are_left_out() -> None:
    with_flat = score_predictions([1, 2, 5, 6, 7], [0.2, 0.4, 0.5, 0.5, 0.5], [0, 0, 1, 1, 1]).overall
    assert with_flat.num_graphs == 1
    assert with_flat.spearman == with_flat.pair_accuracy == 1
    assert with_flat.top1_regret == 0
    per_graph = score_graphs([1, 2, 5, 6, 7], [0.2, 0.4, 0.5, 0.5, 0.5], [0, 0, 1, 1, 1])
    np.testing.assert_array_equal(per_graph.spearman, [1, np.nan])
    np.testing.assert_array_equal(per_graph.num_pairs[:, 0], [1, 0])


def test_regret_of_equal_predictions_is_the_expected_one() -> None:
    """All subsets of the tied decisions are equally likely."""
    predicted = np.array([9, 5, 5, 5, 5, 5, 1, 8])
    measured = np.array([0.3, 0.9, 0.4, 0.5, 0.6, 0.8, 1.0, 0.2])
    found = score_graphs(predicted, measured, np.zeros(8, int)).regret[0]
    assert found[0] == pytest.approx(1 - 0.3 / 1.0)
    chosen = [max(0.3, *subset) for subset in combinations(measured[1:6], 3)]
    assert found[1] == pytest.approx(1 - np.mean(chosen))
    all_tied = score_graphs(np.ones(8), measured, np.zeros(8, int)).regret[0]
    assert all_tied[0] == pytest.approx(1 - measured.mean())
    assert all_tied[1] == pytest.approx(1 - np.mean([max(s) for s in combinations(measured, 5)]))


def test_best_decile_of_small_and_large_graphs() -> None:
    graph = np.repeat([0, 1, 2], [3, 20, 200])
    measured = np.concatenate([np.arange(1, size + 1) / size for size in (3, 20, 200)])
    best = is_best(measured, graph)
    assert [int(best[graph == g].sum()) for g in range(3)] == [3, MIN_BEST, 20]
    assert measured[best & (graph == 2)].min() == pytest.approx(181 / 200)
    tied = np.repeat([0.5, 1.0], [20, 4])
    assert is_best(tied, np.zeros(24, int)).all()


def test_best_decile_has_scores_of_its_own() -> None:
    """Right on the whole, wrong among the best."""
    measured = np.arange(1, 101) / 100
    predicted = measured.copy()
    predicted[90:] = predicted[90:][::-1]
    result = score_predictions(predicted, measured, np.zeros(100, int))
    assert result.overall.spearman > 0.99
    assert result.best.num_decisions == 10
    assert result.best.spearman == result.best.kendall == -1
    assert result.best.top1_regret == result.overall.top1_regret == pytest.approx(0.09)


def test_dictionary_has_both_parts() -> None:
    result = score_predictions([1, 2, 3], [0.1, 0.2, 0.4], [0, 0, 0])
    values = result.to_dict()
    assert values["spearman"] == result.overall.spearman
    assert values["best_top1_regret"] == result.best.top1_regret
    assert len(values) == 2 * len(asdict(result.overall))


@pytest.mark.slow
@given(cases())
def test_ranks_agree_with_scipy(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    predicted, measured, graph = case
    found = score_graphs(predicted, measured, graph)
    np.testing.assert_array_equal(found.graph, np.unique(graph))
    for row, number in enumerate(found.graph):
        p, y = predicted[graph == number], measured[graph == number]
        assert found.num_decisions[row] == len(y)
        if len(set(y)) == 1:
            assert isnan(found.spearman[row]) and isnan(found.kendall[row])
        elif len(set(p)) == 1:
            assert found.spearman[row] == found.kendall[row] == 0
        else:
            assert found.spearman[row] == pytest.approx(spearmanr(p, y).statistic)
            assert found.kendall[row] == pytest.approx(kendalltau(p, y).statistic)


@pytest.mark.slow
@given(cases())
def test_pairs_agree_with_a_plain_loop(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    predicted, measured, graph = case
    scores = score_predictions(predicted, measured, graph).overall
    for found, least in (
        (scores.pair_accuracy, 0), (scores.pair_accuracy_2, 0.02),
        (scores.pair_accuracy_5, 0.05), (scores.pair_accuracy_10, 0.10),
    ):  # fmt: skip
        right = []
        for a, b in combinations(range(len(graph)), 2):
            gap = abs(measured[a] - measured[b]) / max(measured[a], measured[b])
            if graph[a] == graph[b] and gap > least:
                agrees = (predicted[a] - predicted[b]) * (measured[a] - measured[b])
                right.append(1.0 if agrees > 0 else 0.5 if agrees == 0 else 0.0)
        assert found == pytest.approx(np.mean(right)) if right else isnan(found)


@pytest.mark.slow
@given(cases())
def test_a_monotone_transform_changes_no_rank(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    predicted, measured, graph = case
    before, after = (score_predictions(p, measured, graph) for p in (predicted, np.exp(3 * predicted) - 7))
    for part in ("overall", "best"):
        for name in RANK_METRICS:
            old, new = (getattr(getattr(r, part), name) for r in (before, after))
            assert old == new or (isnan(old) and isnan(new)), name


@pytest.mark.slow
@given(cases(), st.randoms(use_true_random=False))
def test_order_of_decisions_does_not_matter(
    case: tuple[np.ndarray, np.ndarray, np.ndarray], random: np.random.Generator
) -> None:
    predicted, measured, graph = case
    order = list(range(len(graph)))
    random.shuffle(order)
    before = score_predictions(predicted, measured, graph).to_dict()
    after = score_predictions(predicted[order], measured[order], graph[order]).to_dict()
    assert after == pytest.approx(before, nan_ok=True, abs=1e-12)


@pytest.mark.slow
@given(cases())
def test_the_truth_is_perfect(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    _, measured, graph = case
    result = score_predictions(measured, measured, graph)
    for scores in (result.overall, result.best):
        assert scores.relative_error == 0
        for name in RANK_METRICS:
            wanted = 0 if name.endswith("regret") else 1
            value = getattr(scores, name)
            assert value == pytest.approx(wanted, abs=1e-12) or isnan(value), name


@pytest.mark.slow
@given(cases(ties=False))
def test_reversed_predictions_are_right_where_others_are_wrong(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    predicted, measured, graph = case
    forward, backward = (score_predictions(p, measured, graph).overall for p in (predicted, -predicted))
    for name in PAIR_METRICS:
        total = getattr(forward, name) + getattr(backward, name)
        assert total == pytest.approx(1) or isnan(total)
    assert backward.spearman == pytest.approx(-forward.spearman, nan_ok=True)
    assert backward.kendall == pytest.approx(-forward.kendall, nan_ok=True)


@pytest.mark.slow
@given(cases())
def test_values_stay_in_their_range(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    result = score_predictions(*case)
    for scores in (result.overall, result.best):
        for name in RANK_METRICS:
            low, value = -1 if name in CORRELATIONS else 0, getattr(scores, name)
            assert low - 1e-12 <= value <= 1 + 1e-12 or isnan(value), name
    top1, top5 = score_graphs(*case).regret.T
    assert (np.isnan(top5) | (top5 <= top1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("predicted", "measured", "graph", "message"),
    [
        ([], [], [], "1 or more"),
        ([1.0], [0.5, 0.5], [0, 0], r"\(1,\), \(2,\), \(2,\)"),
        ([[1.0]], [[0.5]], [[0]], "three lists"),
        ([np.nan], [0.5], [0], "predicted holds nan"),
        ([0.5], [0.0], [0], r"measured holds 0\.0; allowed are finite numbers above 0"),
        ([0.5], [np.inf], [0], "measured holds inf"),
        ([0.5], [0.5], [0.5], "needed integers"),
    ],
)
def test_wrong_input_is_refused(predicted: list[float], measured: list[float], graph: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        score_predictions(predicted, measured, graph)
