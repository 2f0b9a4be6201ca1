"""Scores and tables: laws of perfect and blind predictors, and sums that must fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from costmodel.dataset import ALL
from costmodel.evaluation import Baseline, Method, Published, Spread
from costmodel.evaluation.scores import COVERAGE, LEVELS, score, uncertainty_of
from costmodel.evaluation.tables import (
    METRICS,
    ablation_table,
    board_of,
    latex,
    score_table,
    table_of,
    uncertainty_table,
    winner_lines,
)
from placer.base import Table
from tests.costmodel.evaluation.cases import predicted

LABELS = np.random.default_rng(5).uniform(0.2, 1.0, 80)
CONSTANT = np.full(80, 0.5)


def _whole(scores: pd.DataFrame) -> pd.DataFrame:
    return scores[(scores["family"] == ALL) & (scores["fold"] == ALL)]


def _overall(guess: np.ndarray) -> pd.Series:
    return _whole(score(predicted(LABELS, guess))).iloc[0]


def test_perfect_predictor() -> None:
    found = _overall(LABELS)
    for name in ("relative_error", "top1_regret", "top5_regret", "best_relative_error"):
        assert found[name] == 0
    for name in ("spearman", "spearman_pooled", "kendall", "pair_accuracy", "best_spearman"):
        assert found[name] == pytest.approx(1)


def test_constant_predictor_tells_nothing() -> None:
    found = _overall(CONSTANT)
    assert (found["spearman"], found["kendall"], found["pair_accuracy"]) == (0, 0, 0.5)
    assert found["relative_error"] == pytest.approx(np.mean(np.abs(0.5 - LABELS) / LABELS))


def test_families_and_folds_sum_up_to_all() -> None:
    scores, overall = score(predicted(LABELS, CONSTANT)), _overall(CONSTANT)
    for parts in (scores[scores["family"] != ALL], scores[scores["fold"] != ALL]):
        assert parts["num_decisions"].sum() == overall["num_decisions"] == len(LABELS)
        assert parts["num_graphs"].sum() == overall["num_graphs"]
        error = (parts["relative_error"] * parts["num_decisions"]).sum()
        assert error / overall["num_decisions"] == pytest.approx(overall["relative_error"])


def test_coverage_of_errors_as_predicted() -> None:
    generator = np.random.default_rng(0)
    log_sigma = generator.uniform(-4, -1, 40_000)
    measured = generator.uniform(0.2, 1.0, 40_000)
    guess = measured * np.exp(generator.normal(0, np.exp(log_sigma)))
    found = uncertainty_of(guess, measured, log_sigma)
    np.testing.assert_allclose([found[name] for name in COVERAGE], LEVELS, atol=0.01)
    for factor in (0.5, 2.0):  # too sure or not sure enough: less likely
        wrong = uncertainty_of(guess, measured, log_sigma + np.log(factor))
        assert wrong["log_likelihood"] < found["log_likelihood"]
        assert (wrong["coverage_50"] < found["coverage_50"]) == (factor < 1)


def test_spread_over_seeds() -> None:
    assert str(Spread.of([0.5])) == str(Spread.of([0.5, 0.5])) == "0.500"
    assert str(Spread.of([0.4, 0.6])) == "0.500 ± 0.141"
    assert str(Spread.of([float("nan")])) == "-"


def _scores() -> pd.DataFrame:
    noise = np.random.default_rng(1).normal(0, 0.1, 80)
    log_sigma = np.full(80, -2.0)
    items = [
        predicted(LABELS, CONSTANT, method="heuristic"),
        predicted(LABELS, LABELS * np.exp(noise), method="flow", log_sigma=log_sigma),
        predicted(LABELS, LABELS * np.exp(-noise), method="flow", seed=1, log_sigma=log_sigma),
        predicted(LABELS, LABELS, method="boosting"),
        predicted(LABELS, CONSTANT, method="without_edges"),
    ]
    return score(pd.concat(items))


def test_a_row_per_method_with_means_over_seeds() -> None:
    scores = _scores()
    table = score_table(board_of(scores), "graph", ["heuristic", "flow"])
    first, second = table.rows
    assert table.header == ("method", "seeds", *METRICS)
    assert first[:2] == ("heuristic", 1) and second[:2] == ("flow", 2)
    values = _whole(scores[scores["method"] == "flow"])["relative_error"].to_numpy()
    assert second[2] == f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"


def test_the_report_says_who_beats_the_main_method() -> None:
    everyone = winner_lines(board_of(_scores()), "graph", ["heuristic", "flow", "boosting"], "flow")
    assert [line.split(":")[0] for line in everyone] == [ALL, "mha", "mlp"]
    assert all("`boosting` 1.000 beats `flow`" in line for line in everyone)
    assert not any("`heuristic`" in line for line in everyone)
    alone = winner_lines(board_of(_scores()), "graph", ["heuristic", "flow"], "flow")
    assert all("best `flow`" in line and "beats" not in line for line in alone)


def test_ablations_stand_beneath_their_base_and_beside_the_published_figures() -> None:
    methods = {
        "heuristic": Method(Baseline.HEURISTIC),
        "flow": Method(Baseline.BOOSTING, published=Published.FULL),
        "without_edges": Method(Baseline.HEURISTIC, base="flow", published=Published.WITHOUT_EDGE_EMBEDDING),
    }
    rows = ablation_table(board_of(_scores()), "graph", methods).rows
    assert [row[:2] for row in rows] == [
        (name, family) for name in ("flow", "without_edges") for family in (ALL, "mha", "mlp")
    ]
    assert rows[0][5:] == ("", "", "", "0.193", "0.808")
    assert rows[3][-2:] == ("", "")  # not published
    assert rows[4][-2:] == ("0.297", "0.337")
    assert str(rows[3][7]).startswith("-")  # of Spearman within graphs


def test_only_methods_with_uncertainty_are_listed() -> None:
    table = uncertainty_table(board_of(_scores()), "graph", ["heuristic", "flow"])
    assert {row[0] for row in table.rows} == {"flow"}


def test_numbers_hold_every_seed_family_and_fold() -> None:
    rows = table_of(_scores(), "scores").rows
    assert len({len(row) for row in rows}) == 1
    assert len(rows) == 5 * (1 + 2 + 2)
    assert len({row[:5] for row in rows}) == len(rows)
    assert {row[4]: row[5] for row in rows} == {ALL: 3.0, 0: 1.0, 1: 2.0}  # seconds by fold


def test_latex_escapes() -> None:
    text = latex(Table(("method", "> 5%"), [("flow_small", "0.5 ± 0.1")]), "a_b")
    assert r"method & $>$ 5\% \\" in text
    assert r"flow\_small & 0.5 $\pm$ 0.1 \\" in text
    assert r"\caption{a\_b}" in text
