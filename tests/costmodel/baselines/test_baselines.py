"""Baselines: features that tell nothing of the labels, and predictors that obey their laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.base import score_predictions
from costmodel.baselines import Boosting, CalibratedHeuristic, RawHeuristic
from costmodel.baselines.pooled import QUANTILES, pooled_features, statistics
from costmodel.model import Labelled, Selection
from placer.base import InputError
from tests.costmodel.evaluation.cases import NUM_DECISIONS, sources_in

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    return sources_in(tmp_path_factory.mktemp("baselines")).main


@pytest.fixture
def everything(data: Labelled) -> Selection:
    return Selection(data, np.arange(len(data)))


def test_features_belong_to_their_decision_alone(data: Labelled) -> None:
    everything = pooled_features(data.graphs, np.arange(len(data)))
    assert np.isfinite(everything).all()
    ids = np.random.default_rng(0).permutation(len(data))[:17]
    np.testing.assert_allclose(pooled_features(data.graphs, ids), everything[ids], rtol=1e-12)


def test_features_do_not_see_labels(data: Labelled) -> None:
    graphs = data.graphs
    blind = replace(
        graphs,
        log_throughput=np.full_like(graphs.log_throughput, np.nan),
        unit_stalls=np.full_like(graphs.unit_stalls, np.nan),
    )
    ids = np.arange(len(data))
    np.testing.assert_array_equal(pooled_features(blind, ids), pooled_features(graphs, ids))


def test_features_tell_decisions_of_a_netlist_apart(data: Labelled) -> None:
    first = pooled_features(data.graphs, np.arange(NUM_DECISIONS))
    assert len(np.unique(first, axis=0)) == NUM_DECISIONS


@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=9), min_size=1, max_size=5))
def test_statistics_of_each_decision(groups: list[list[float]]) -> None:
    of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    values = np.array([value for group in groups for value in group], np.float64)
    for group, row in zip(groups, statistics(values, of, len(groups)), strict=True):
        if not group:
            assert (row == 0).all()
            continue
        expected = np.quantile(group, QUANTILES, method="lower")
        np.testing.assert_allclose(row, [np.mean(group), np.max(group), *expected], atol=1e-6)


def test_raw_heuristic_is_what_is_stored(everything: Selection) -> None:
    prediction = RawHeuristic().predict(everything)
    np.testing.assert_array_equal(prediction.throughput, everything.data.heuristic)
    assert prediction.log_sigma is None


def test_calibration_never_turns_the_order(everything: Selection) -> None:
    fitted = CalibratedHeuristic.fit(everything).predict(everything)
    order = np.argsort(everything.data.heuristic)
    assert (np.diff(fitted.throughput[order]) >= 0).all()


def test_boosting_is_the_same_for_a_seed(everything: Selection) -> None:
    first, again, other = (Boosting.fit(everything, seed).predict(everything).throughput for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_boosting_learns(everything: Selection) -> None:
    labels, graphs = everything.throughput, everything.netlist
    predicted = Boosting.fit(everything, 0).predict(everything).throughput
    constant = np.full(len(labels), np.exp(np.log(labels).mean()))
    error = score_predictions(predicted, labels, graphs).overall.relative_error
    assert error < score_predictions(constant, labels, graphs).overall.relative_error


def test_boosting_needs_two_netlists(data: Labelled) -> None:
    with pytest.raises(InputError, match="needed 2"):
        Boosting.fit(Selection(data, np.arange(NUM_DECISIONS)), 0)
