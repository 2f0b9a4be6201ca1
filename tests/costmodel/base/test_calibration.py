"""Calibration: monotone, in range, kept by JSON, and a cost model like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from costmodel.base import Calibration, save_calibration, score_predictions
from costmodel.base.calibration import CalibratedCost, load_calibration
from placer.base import InputError
from placer.cost import ranking_model
from placer.cost.cost import MonotoneCost, RandomCost
from tests.costmodel.dataset.samples import random_samples

SCORES = st.floats(1e-6, 10)
PAIRS = st.lists(st.tuples(SCORES, st.floats(1e-6, 1)), min_size=1, max_size=30)


def test_steps_by_hand() -> None:
    """The second and third point fall: they become one step, in the middle, at their mean."""
    scores, throughput = np.exp([-4, -3, -2, -1]), np.exp([-3.0, -1.5, -2.5, -1.0])
    calibration = Calibration.fit(scores, throughput)
    np.testing.assert_allclose(calibration.log_score, [-4, -2.5, -1])
    np.testing.assert_allclose(calibration.log_throughput, [-3, -2, -1])
    found = np.log(calibration.apply(np.exp([-9, -4, -3.25, -2.5, -2, -1, 3])))
    np.testing.assert_allclose(found, [-3, -3, -2.5, -2, -2 + 1 / 3, -1, -1])


def test_equal_scores_get_the_geometric_mean() -> None:
    calibration = Calibration.fit([0.5, 0.5], [0.2, 0.8])
    np.testing.assert_allclose(calibration.apply([0.1, 0.5, 0.9]), 0.4)


def test_a_biased_score_becomes_right() -> None:
    throughput = np.linspace(0.1, 1, 50)
    scores = 3 * throughput**2
    found = Calibration.fit(scores, throughput).apply(scores)
    np.testing.assert_allclose(found, throughput)


def test_unseen_scores_keep_their_order_and_lose_their_bias() -> None:
    """As good as the plain steps on other data, but no two scores become equal."""
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.2, 0.8, 800)
    measured, graph = truth * np.exp(rng.normal(0, 0.1, 800)), np.arange(400) // 20
    scores = truth**2
    calibrated = Calibration.fit(scores[:400], measured[:400]).apply(scores[400:])
    fit = IsotonicRegression(out_of_bounds="clip").fit(np.log(scores[:400]), np.log(measured[:400]))
    steps = np.exp(fit.predict(np.log(scores[400:])))
    before, after, plain = (
        score_predictions(p, measured[400:], graph).overall for p in (scores[400:], calibrated, steps)
    )
    assert after.relative_error < 1.02 * plain.relative_error < before.relative_error / 3
    inner = (calibrated > calibrated.min()) & (calibrated < calibrated.max())
    assert inner.sum() > 390
    order = np.argsort(scores[400:][inner])
    assert (np.diff(calibrated[inner][order]) > 0).all()
    assert len(np.unique(steps)) < 200


@given(PAIRS, st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=20))
def test_predictions_rise_with_scores_and_stay_in_range(pairs: list[tuple[float, float]], scores: list[float]) -> None:
    calibration = Calibration.fit(*np.transpose(pairs))
    found = calibration.apply(np.sort(scores))
    assert ((found > 0) & (found <= 1)).all()
    assert (np.diff(found) >= 0).all()
    assert (np.diff(calibration.log_score) > 0).all()


@given(PAIRS)
def test_order_of_the_fit_does_not_matter(pairs: list[tuple[float, float]]) -> None:
    forward, backward = (Calibration.fit(*np.transpose(p)) for p in (pairs, pairs[::-1]))
    scores = [score for score, _ in pairs]
    np.testing.assert_allclose(forward.apply(scores), backward.apply(scores))


@given(PAIRS)
def test_json_keeps_it_exactly(pairs: list[tuple[float, float]]) -> None:
    calibration = Calibration.fit(*np.transpose(pairs))
    again = Calibration.from_dict(json.loads(json.dumps(calibration.to_dict())))
    np.testing.assert_array_equal(again.log_score, calibration.log_score)
    np.testing.assert_array_equal(again.log_throughput, calibration.log_throughput)


def test_calibrated_cost_is_a_cost_model() -> None:
    samples = random_samples(0)
    calibration = Calibration.fit([0.1, 0.9], [0.3, 0.5])
    model: MonotoneCost = CalibratedCost(RandomCost(seed=3), calibration)
    found = model.score(samples.netlist, samples.decisions)
    raw = RandomCost(seed=3).score(samples.netlist, samples.decisions)
    np.testing.assert_array_equal(found, calibration.apply(raw))
    assert found.shape == (len(samples.decisions),)
    assert ranking_model(model) == model.ranks_like


def test_a_file_keeps_it(tmp_path: Path) -> None:
    calibration = Calibration.fit([0.1, 0.9], [0.3, 0.5])
    save_calibration(tmp_path / "c.json", calibration)
    again = load_calibration(tmp_path / "c.json")
    np.testing.assert_array_equal(again.apply([0.2, 0.7]), calibration.apply([0.2, 0.7]))


@pytest.mark.parametrize(
    ("scores", "throughput", "message"),
    [
        ([], [], "1 or more"),
        ([0.5, 0.5], [0.5], r"\(2,\)"),
        ([0.0], [0.5], r"scores hold 0\.0; allowed"),
        ([np.nan], [0.5], "scores hold nan"),
        ([0.5], [0.0], "throughput holds 0"),
        ([0.5], [1.5], r"throughput holds 1\.5; allowed are 0 < y <= 1"),
        ([0.5], [np.nan], "throughput holds nan"),
    ],
)
def test_wrong_input_is_refused(scores: list[float], throughput: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Calibration.fit(scores, throughput)


def test_wrong_scores_are_refused() -> None:
    with pytest.raises(InputError, match=r"scores hold -1\.0"):
        Calibration.fit([0.5], [0.5]).apply([0.5, -1.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "other"}, "kind is 'other'"),
        ({"schema": 2}, "schema is 2, needed 1"),
        ({"log_score": None}, "log_score must be a list"),
        ({"log_throughput": [True, False]}, "log_throughput must be a list of numbers"),
        ({"log_throughput": [-1.0]}, "same length"),
        ({"log_score": [], "log_throughput": []}, "1 or more"),
        ({"log_score": [-1.0, -1.0]}, "log_score must rise"),
        ({"log_throughput": [-1.0, -2.0]}, "must not fall"),
        ({"log_throughput": [-1.0, 0.5]}, r"ends at 0\.5"),
        ({"log_score": [-1.0, float("inf")]}, "finite"),
    ],
)
def test_damaged_json_is_refused(change: dict[str, Any], message: str) -> None:
    document = Calibration.fit([0.1, 0.9], [0.3, 0.5]).to_dict()
    with pytest.raises(InputError, match=message):
        Calibration.from_dict(document | change)
