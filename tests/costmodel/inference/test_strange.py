"""What is far from training is told."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace

import pytest

from costmodel.encoding import netlist_features
from costmodel.inference import LearnedCost
from costmodel.inference.strange import strange_constants, strange_facts
from costmodel.model import ManyFabrics, Model
from placer.fabric import load_fabric
from tests.costmodel.cases import batch_of, random_stack
from tests.costmodel.inference.test_learned import SMALL, model_for


def model_of_two() -> Model:
    hardware = ManyFabrics.of([SMALL, load_fabric("small_v2")])
    model = replace(model_for(SMALL), origin={"fabric": asdict(hardware)})
    batch = batch_of(random_stack(1, SMALL))
    model.network.fit_normaliser(batch.unit, batch.flow)
    return model


def test_constants_outside_of_the_ranges_are_told() -> None:
    model = model_of_two()
    assert strange_constants(model, SMALL) == []
    assert strange_constants(model, replace(SMALL, clock_mhz=5 * SMALL.clock_mhz)) == []  # no network reads it
    (remark,) = strange_constants(model, load_fabric("small", ["link.hop_cycles=40"]))
    assert remark == "link.hop_cycles=40 of fabric 'small' (seen: 3 to 4)"


def test_facts_far_from_their_mean_are_told() -> None:
    fabric, netlist, _ = random_stack(1, SMALL)
    features = netlist_features(fabric, netlist)
    model = model_of_two()
    assert strange_facts(model, features) == []
    rows = features.flow.copy()
    rows[:, 6] += 1000
    assert any(remark.endswith("of flows") for remark in strange_facts(model, replace(features, flow=rows)))


def test_a_prediction_of_something_strange_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    fabric, netlist, decisions = random_stack(1, load_fabric("small", ["link.hop_cycles=40"]))
    cost = LearnedCost(fabric, model_of_two())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            cost.score(netlist, decisions)
    assert len(caplog.messages) == 1
    assert "its prediction is a guess: link.hop_cycles=40" in caplog.messages[0]
