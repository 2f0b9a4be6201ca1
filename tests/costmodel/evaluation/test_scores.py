"""Scores and tables: laws of perfect and blind predictors, and sums that must fit."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.dataset.report_numbers import ALL
from costmodel.evaluation.methods import Baseline, Method, Published
from costmodel.evaluation.scores import LEVELS, Scored, Spread, score, uncertainty_of
from costmodel.evaluation.tables import (
    METRICS,
    Board,
    ablation_rows,
    latex,
    score_numbers,
    score_rows,
    uncertainty_rows,
    winner_lines,
)
from tests.costmodel.evaluation.cases import predicted

LABELS = np.random.default_rng(5).uniform(0.2, 1.0, 80)
CONSTANT = np.full(80, 0.5)


def _overall(scores: list[Scored]) -> Scored:
    return next(s for s in scores if s.family == ALL and s.fold is None)


def test_perfect_predictor() -> None:
    found = _overall(score([predicted(LABELS, LABELS)])).metrics.to_dict()
    for name in ("relative_error", "top1_regret", "top5_regret", "best_relative_error"):
        assert found[name] == 0
    for name in ("spearman", "spearman_pooled", "kendall", "pair_accuracy", "best_spearman"):
        assert found[name] == pytest.approx(1)


def test_constant_predictor_tells_nothing() -> None:
    found = _overall(score([predicted(LABELS, CONSTANT)])).metrics.overall
    assert (found.spearman, found.kendall, found.pair_accuracy) == (0, 0, 0.5)
    assert found.relative_error == pytest.approx(np.mean(np.abs(0.5 - LABELS) / LABELS))


def test_families_and_folds_sum_up_to_all() -> None:
    scores = score([predicted(LABELS, CONSTANT)])
    overall = _overall(scores).metrics.overall
    families = [s.metrics.overall for s in scores if s.family != ALL]
    folds = [s.metrics.overall for s in scores if s.fold is not None]
    for parts in (families, folds):
        assert sum(part.num_decisions for part in parts) == overall.num_decisions == len(LABELS)
        assert sum(part.num_graphs for part in parts) == overall.num_graphs
        error = sum(part.relative_error * part.num_decisions for part in parts)
        assert error / overall.num_decisions == pytest.approx(overall.relative_error)


def test_coverage_of_errors_as_predicted() -> None:
    generator = np.random.default_rng(0)
    log_sigma = generator.uniform(-4, -1, 40_000)
    measured = generator.uniform(0.2, 1.0, 40_000)
    guess = measured * np.exp(generator.normal(0, np.exp(log_sigma)))
    found = uncertainty_of(guess, measured, log_sigma)
    np.testing.assert_allclose(found.coverage, LEVELS, atol=0.01)
    for factor in (0.5, 2.0):  # too sure or not sure enough: less likely
        wrong = uncertainty_of(guess, measured, log_sigma + np.log(factor))
        assert wrong.log_likelihood < found.log_likelihood
        assert (wrong.coverage[0] < found.coverage[0]) == (factor < 1)


def test_spread_over_seeds() -> None:
    assert str(Spread.of([0.5])) == str(Spread.of([0.5, 0.5])) == "0.500"
    assert str(Spread.of([0.4, 0.6])) == "0.500 ± 0.141"
    assert str(Spread.of([float("nan")])) == "-"


def _board() -> Board:
    noise = np.random.default_rng(1).normal(0, 0.1, 80)
    log_sigma = np.full(80, -2.0)
    items = [
        predicted(LABELS, CONSTANT, method="heuristic"),
        predicted(LABELS, LABELS * np.exp(noise), method="flow", log_sigma=log_sigma),
        predicted(LABELS, LABELS * np.exp(-noise), method="flow", seed=1, log_sigma=log_sigma),
        predicted(LABELS, LABELS, method="boosting"),
        predicted(LABELS, CONSTANT, method="without_edges"),
    ]
    return Board(score(items))


def test_a_row_per_method_with_means_over_seeds() -> None:
    board = _board()
    header, first, second = score_rows(board, "graph", ALL, ["heuristic", "flow"])
    assert header == ("method", "seeds", *METRICS)
    assert first[:2] == ("heuristic", 1) and second[:2] == ("flow", 2)
    values = [s.metrics.overall.relative_error for s in board.find("graph", ALL, "flow")]
    assert second[2] == f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"


def test_the_report_says_who_beats_the_main_method() -> None:
    everyone = winner_lines(_board(), "graph", ["heuristic", "flow", "boosting"], "flow")
    assert [line.split(":")[0] for line in everyone] == [ALL, "mha", "mlp"]
    assert all("`boosting` 1.000 **beats** `flow`" in line for line in everyone)
    assert not any("`heuristic`" in line for line in everyone)
    alone = winner_lines(_board(), "graph", ["heuristic", "flow"], "flow")
    assert all("best `flow`" in line and "beats" not in line for line in alone)


def test_ablations_stand_beneath_their_base_and_beside_the_published_figures() -> None:
    methods = {
        "heuristic": Method(Baseline.HEURISTIC),
        "flow": Method(Baseline.BOOSTING, published=Published.FULL),
        "without_edges": Method(
            Baseline.HEURISTIC, base="flow", published=Published.WITHOUT_EDGE_EMBEDDING
        ),
    }
    rows = ablation_rows(_board(), "graph", methods)[1:]
    assert [row[:2] for row in rows] == [
        (name, family) for name in ("flow", "without_edges") for family in (ALL, "mha", "mlp")
    ]
    assert rows[0][5:] == ("", "", "", "0.193", "0.808")
    assert rows[3][-2:] == ("", "")  # not published
    assert rows[4][-2:] == ("0.297", "0.337")
    assert str(rows[3][7]).startswith("-")  # of Spearman within graphs


def test_only_methods_with_uncertainty_are_listed() -> None:
    rows = uncertainty_rows(_board(), "graph", ["heuristic", "flow"])
    assert {row[0] for row in rows[1:]} == {"flow"}


def test_numbers_hold_every_seed_family_and_fold() -> None:
    rows = score_numbers(_board())
    assert len({len(row) for row in rows}) == 1
    assert len(rows) == 1 + 5 * (1 + 2 + 2)
    assert len({row[:5] for row in rows}) == len(rows)
    assert {row[4]: row[5] for row in rows[1:]} == {ALL: 3.0, 0: 1.0, 1: 2.0}  # seconds by fold


def test_latex_escapes() -> None:
    text = latex([("method", "> 5%"), ("flow_small", "0.5 ± 0.1")], "a_b")
    assert r"method & $>$ 5\% \\" in text
    assert r"flow\_small & 0.5 $\pm$ 0.1 \\" in text
    assert r"\caption{a\_b}" in text
