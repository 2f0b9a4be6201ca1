"""The learned model behind the protocol of cost models: alone, in a search, on a command line."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.learned import LearnedCost
from costmodel.model import Model
from costmodel.networks.flow import FlowConfig
from placer.annealing import AnnealOptions, anneal
from placer.annealing.starts import start_of
from placer.config import load_fabric, run_command
from placer.errors import InputError
from placer.fabric import Fabric
from placer.place import main
from placer.routing import route
from tests.costmodel.cases import batch_of, named, network_of, random_stack
from tests.placer.random_cases import random_netlist, random_placement

SMALL = load_fabric("small")
FLOW = FlowConfig(width=8, lane_width=8, rounds=1)


def model_for(fabric: Fabric) -> Model:
    network = network_of(FLOW, batch_of(random_stack(0)), seed=1)
    return Model(FLOW, network, 1.5, {"fabric": asdict(fabric)})


def test_scores_are_the_predictions_of_the_model_whatever_was_asked_before() -> None:
    fabric, netlist, decisions = random_stack(1, SMALL)
    _, other, other_decisions = random_stack(2, SMALL)
    cost = LearnedCost(fabric, model_for(fabric))
    scores = cost.score(netlist, decisions)
    assert scores.shape == (len(decisions),) and ((scores > 0) & (scores < 1)).all()
    cost.score(other, other_decisions)
    alone = [cost.score(netlist, decisions[k])[0] for k in range(len(decisions))]
    np.testing.assert_allclose(scores, alone, rtol=1e-5)
    sigma = cost.predict_with_uncertainty(netlist, decisions).log_sigma
    assert sigma is not None and np.isfinite(sigma).all()


@pytest.mark.slow
def test_a_search_gets_better_by_the_model_that_it_uses() -> None:
    rng = np.random.default_rng(3)
    netlist = named(random_netlist(rng, SMALL))
    cost = LearnedCost(SMALL, model_for(SMALL))
    is_allowed = np.ones((netlist.num_units, SMALL.topology.num_sites), np.bool_)
    sites = np.array([random_placement(rng, SMALL, netlist)], np.int32)
    start = start_of(SMALL, route(SMALL, netlist, sites), is_allowed)
    result = anneal(
        SMALL, netlist, cost, start, AnnealOptions(max_moves=60, start_temperature=1e-4), seed=0
    )
    before = -np.log(cost.score(netlist, route(SMALL, netlist, sites))[0])
    assert result.energy == pytest.approx(
        -np.log(cost.score(netlist, result.decision)[0]), rel=1e-5
    )
    assert result.energy <= before + 1e-6


def test_another_hardware_is_refused_but_another_size_is_not() -> None:
    model = model_for(SMALL)
    LearnedCost(load_fabric("large"), model)
    LearnedCost(replace(SMALL, name="mine"), model)
    with pytest.raises(InputError, match=r"link\.hop_cycles=4.*'small' has 3.*train a model"):
        LearnedCost(load_fabric("small", ["link.hop_cycles=3"]), model)
    with pytest.raises(InputError, match="'small_v2'"):
        LearnedCost(load_fabric("small_v2"), model)


@pytest.mark.slow
def test_the_place_command_searches_with_a_model_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model_for(SMALL).save(tmp_path / "flow.pt")
    arguments = [
        "workload=gemm", "cost=learned", f"cost.model_file={tmp_path / 'flow.pt'}", "effort=0.05",
        "max_moves=20", f"output={tmp_path / 'out'}",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as ending:
        run_command(main, "place", arguments)
    assert ending.value.code == 0 and list((tmp_path / "out").glob("*.decision.json"))
    with pytest.raises(SystemExit) as ending:
        run_command(main, "place", [*arguments, "cost.model_file=nowhere.pt"])
    assert ending.value.code == 2 and "nowhere.pt" in capsys.readouterr().err
