"""The learned model behind the protocol of cost models: alone, in a search, on a command line."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.inference import LearnedCost
from costmodel.model import ManyFabrics, Model
from costmodel.networks import FlowConfig, NetworkConfig
from costmodel.networks.guha import GuhaConfig
from placer.annealing import AnnealOptions, BatchedSearch, Start, anneal, start_of
from placer.base import InputError
from placer.base.config import run_command
from placer.cost import HeuristicCost
from placer.decision.routing import route
from placer.fabric import Fabric, load_fabric
from placer.place import main
from tests.costmodel.cases import batch_of, named, network_of, random_stack
from tests.placer.random_cases import random_netlist, random_placement

SMALL = load_fabric("small")
FLOW = FlowConfig(width=8, lane_width=8, rounds=1)


def model_for(fabric: Fabric, seed: int = 1, config: NetworkConfig = FLOW) -> Model:
    network = network_of(config, batch_of(random_stack(0)), seed)
    return Model(config, network, 1.5, {"fabric": asdict(fabric)})


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


def test_with_the_rules_a_model_tells_what_is_lost_of_the_experts_estimate() -> None:
    fabric, netlist, decisions = random_stack(1, SMALL)
    plain, corrected = (
        LearnedCost(fabric, model_for(fabric, config=replace(FLOW, rules=rules))) for rules in (False, True)
    )
    estimate = HeuristicCost(fabric).score(netlist, decisions)
    scores = corrected.score(netlist, decisions)
    assert (scores < estimate).all()
    np.testing.assert_allclose(scores, plain.score(netlist, decisions) * estimate, rtol=1e-5)


@pytest.mark.slow
def test_a_search_gets_better_by_the_model_that_it_uses() -> None:
    rng = np.random.default_rng(3)
    netlist = named(random_netlist(rng, SMALL))
    cost = LearnedCost(SMALL, model_for(SMALL))
    is_allowed = np.ones((netlist.num_units, SMALL.topology.num_sites), np.bool_)
    sites = np.array([random_placement(rng, SMALL, netlist)], np.int32)
    start = start_of(SMALL, route(SMALL, netlist, sites), is_allowed)
    result = anneal(SMALL, netlist, cost, start, AnnealOptions(max_moves=60, start_temperature=1e-4), seed=0)
    before = -np.log(cost.score(netlist, route(SMALL, netlist, sites))[0])
    assert result.energy == pytest.approx(-np.log(cost.score(netlist, result.decision)[0]), rel=1e-5)
    assert result.energy <= before + 1e-6


def test_several_models_give_their_mean_and_a_pessimist_takes_their_spread_off() -> None:
    fabric, netlist, decisions = random_stack(1, SMALL)
    models = [model_for(fabric, seed) for seed in range(3)]
    alone = [LearnedCost(fabric, model) for model in models]
    logs = np.log([cost.score(netlist, decisions) for cost in alone])
    both = LearnedCost(fabric, *models)
    np.testing.assert_allclose(both.score(netlist, decisions), np.exp(logs.mean(axis=0)))
    low = LearnedCost(fabric, *models, pessimism=2).score(netlist, decisions)
    np.testing.assert_allclose(low, np.exp(logs.mean(axis=0) - 2 * logs.std(axis=0)))
    sigmas = [cost.predict_with_uncertainty(netlist, decisions).log_sigma for cost in alone]
    variance = np.exp(2 * np.array(sigmas)).mean(axis=0) + logs.var(axis=0)
    together = both.predict_with_uncertainty(netlist, decisions).log_sigma
    np.testing.assert_allclose(together, np.log(variance) / 2)
    with pytest.raises(InputError, match="pessimism=1 needs several models"):
        LearnedCost(fabric, models[0], pessimism=1)
    with pytest.raises(InputError, match="pessimism=-1; allowed: 0 or more"):
        LearnedCost(fabric, *models, pessimism=-1)
    wider = FlowConfig(width=12, lane_width=8, rounds=1)
    with pytest.raises(InputError, match="of the same configuration"):
        LearnedCost(fabric, models[0], model_for(fabric, config=wider))


def test_other_networks_are_asked_by_dgl() -> None:
    fabric, netlist, decisions = random_stack(1, SMALL)
    cost = LearnedCost(fabric, model_for(fabric, config=GuhaConfig(width=8, rounds=1)))
    assert (((scores := cost.score(netlist, decisions)) > 0) & (scores < 1)).all()
    flow_class = np.zeros(netlist.num_flows, np.int32)
    is_allowed = np.ones((netlist.num_units, fabric.topology.num_sites), np.bool_)
    start = Start(decisions.sites[0], flow_class, is_allowed)
    assert isinstance(cost.open_search(netlist, start, np.ones(5), 0), BatchedSearch)
    with pytest.raises(InputError, match="needs models with `flow` networks"):
        cost.session(netlist, decisions.sites[0], flow_class)


def test_another_hardware_is_refused_but_another_size_is_not() -> None:
    model = model_for(SMALL)
    LearnedCost(load_fabric("large"), model)
    LearnedCost(replace(SMALL, name="mine"), model)
    with pytest.raises(InputError, match=r"link\.hop_cycles=4.*'small' has 3.*train a model"):
        LearnedCost(load_fabric("small", ["link.hop_cycles=3"]), model)
    with pytest.raises(InputError, match="'small_v2'"):
        LearnedCost(load_fabric("small_v2"), model)


def test_a_model_of_many_fabrics_knows_others_and_tells_them_apart() -> None:
    fabric, netlist, decisions = random_stack(1, SMALL)
    hardware = ManyFabrics.of([SMALL, load_fabric("small_v2")])
    assert hardware.ranges["link.hop_cycles"] == (3, 4) and hardware.count == 2
    model = replace(model_for(SMALL), origin={"fabric": asdict(hardware)})
    slow = load_fabric("small", ["link.hop_cycles=12", "compute.window_vectors=8"])
    scores = [LearnedCost(each, model).score(netlist, decisions) for each in (fabric, slow)]
    assert (np.abs(np.log(scores[0] / scores[1])) > 1e-4).all()
    blind = model_for(SMALL, config=replace(FLOW, annotations=False))
    with pytest.raises(InputError, match="its network does not see which"):
        LearnedCost(slow, replace(blind, origin=model.origin))


def test_a_model_of_many_fabrics_is_told_which_or_takes_small(tmp_path: Path) -> None:
    origin = {"fabric": asdict(ManyFabrics.of([SMALL, load_fabric("small_v2")]))}
    replace(model_for(SMALL), origin=origin).save(tmp_path / "flow.pt")
    assert LearnedCost.load(tmp_path / "flow.pt", load_fabric("plasticine")).fabric.name == "plasticine"
    assert LearnedCost.load(tmp_path / "flow.pt").fabric == SMALL


@pytest.mark.slow
def test_the_place_command_searches_with_a_model_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    error = capsys.readouterr().err
    assert ending.value.code == 2 and "no model nowhere.pt; make one with `make model`" in error
