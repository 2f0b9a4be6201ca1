"""How sure a model is gets learned from netlists that it has not learned from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodel.model import Labelled, Model, Selection
from costmodel.networks import build_network
from costmodel.training import calibrated
from tests.costmodel.cases import labelled
from tests.costmodel.training.tiny import FLOW

NETLISTS = 40


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(FLOW, build_network(FLOW, seed=3), 1.0, {})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    return labelled(tmp_path_factory.mktemp("data"), num_netlists=NETLISTS, num_decisions=4)


def with_errors(model: Model, data: Labelled, seed: int) -> Labelled:
    """Return labels of which the model is three times as wrong where it predicts much as where it predicts little."""
    said = model.predict(Selection(data, np.arange(len(data)))).throughput
    deviation = np.where(said > np.median(said), 0.06, 0.02)
    noise = np.random.default_rng(seed).normal(size=len(said))
    return replace(data, throughput=said * np.exp(deviation * noise))


def likelihood(model: Model, selection: Selection) -> float:
    said = model.predict(selection)
    assert said.log_sigma is not None
    error = np.log(said.throughput / selection.throughput)
    return float((-said.log_sigma - (error * np.exp(-said.log_sigma)) ** 2 / 2).mean())


def halves(data: Labelled) -> tuple[Selection, Selection]:
    is_first = data.netlist < NETLISTS // 2
    return Selection(data, np.flatnonzero(is_first)), Selection(data, np.flatnonzero(~is_first))


def test_it_learns_where_the_model_is_wrong(model: Model, data: Labelled) -> None:
    known, other = halves(with_errors(model, data, 0))
    fitted = calibrated(model, known)
    best_scale = max(
        (replace(model, sigma_scale=scale) for scale in np.geomspace(0.01, 10, 200)), key=lambda m: likelihood(m, other)
    )
    assert likelihood(fitted, other) > likelihood(best_scale, other)
    np.testing.assert_allclose(fitted.predict(other).throughput, model.predict(other).throughput)


def test_the_network_that_was_given_stays_as_it_is(model: Model, data: Labelled) -> None:
    before = model.digest()
    calibrated(model, halves(with_errors(model, data, 1))[0])
    assert model.digest() == before


def test_intervals_hold_on_what_they_were_fitted_on(model: Model, data: Labelled) -> None:
    known = halves(with_errors(model, data, 2))[0]
    said = calibrated(model, known).predict(known)
    assert said.log_sigma is not None
    error = np.abs(np.log(said.throughput / known.throughput)) * np.exp(-said.log_sigma)
    assert abs((error < 0.674).mean() - 0.5) < 0.12 and (error < 1.96).mean() > 0.88


def test_of_a_few_netlists_only_the_scale_is_learned(model: Model, data: Labelled) -> None:
    few = Selection(with_errors(model, data, 3), np.flatnonzero(data.netlist < 5))
    fitted = calibrated(model, few)
    assert fitted.digest() == model.digest() and fitted.sigma_scale != model.sigma_scale
