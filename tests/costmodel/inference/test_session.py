"""A session that follows moves knows what a fresh prediction knows."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from costmodel.inference import LearnedCost, LearnedSearch
from costmodel.model import Model
from costmodel.networks import FlowConfig
from placer.annealing import Counts, MoveMix, Refusal, Start
from placer.annealing.loop import begin_walk
from placer.annealing.moves import Move
from placer.annealing.search import propose_candidates, take_candidate
from placer.base import InputError
from placer.decision.routing import route_turns
from placer.fabric import Fabric
from placer.netlist import Netlist
from tests.costmodel.cases import named, random_stack
from tests.costmodel.inference.test_full import flow_network
from tests.placer.random_cases import random_fabric, random_netlist, random_placement

CONFIG = FlowConfig(width=24, lane_width=16, rounds=3)
STUDENT = FlowConfig(width=8, lane_width=8, rounds=1, stalls=False)
MIX = MoveMix(group_swap=10, stage_shift=10).cumulated()


def problem(seed: int) -> tuple[Fabric, Netlist, Start]:
    """A random netlist at a random placement on a random fabric."""
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    netlist = named(random_netlist(rng, fabric), seed)
    sites = np.array(random_placement(rng, fabric, netlist), np.int32)
    flow_class = rng.integers(2, size=netlist.num_flows).astype(np.int32)
    is_allowed = np.ones((netlist.num_units, fabric.topology.num_sites), np.bool_)
    return fabric, netlist, Start(sites, flow_class, is_allowed)


def cost_for(fabric: Fabric, num_models: int = 1, pessimism: float = 0.0, rules: bool = False) -> LearnedCost:
    config = replace(CONFIG, rules=rules, trust=rules)
    networks = [flow_network(config, random_stack(0), seed=k) for k in range(num_models)]
    models = [Model(config, network, 1.0, {"fabric": asdict(fabric)}) for network in networks]
    return LearnedCost(fabric, *models, pessimism=pessimism)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_session_follows_accepted_and_refused_moves(seed: int) -> None:
    fabric, netlist, start = problem(seed)
    cost = cost_for(fabric, 1 + seed % 2, pessimism=float(seed % 2), rules=seed % 3 > 0)
    session = cost.session(netlist, start.sites, start.flow_class)
    walk = begin_walk(fabric, netlist, start, MIX, seed)
    refused = np.zeros((len(Move), len(Refusal)), np.int64)
    for step in range(12):
        _, sites, flow_class = propose_candidates(walk, 4, 3, refused)
        full = cost.score(netlist, route_turns(fabric, netlist, sites, flow_class))
        for k in range(len(sites)):
            score = session.score(sites[k], flow_class[k])
            assert score == pytest.approx(full[k], rel=1e-5)
        if step % 3 and len(sites):
            assert session.go_to(sites[0], flow_class[0]) == pytest.approx(full[0], rel=1e-5)
            take_candidate(walk, sites[0], flow_class[0])
    here = route_turns(fabric, netlist, walk.state.sites[None], walk.state.flow_class[None])
    assert session.current == pytest.approx(cost.score(netlist, here)[0], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("has_student", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_energies_of_a_search_are_those_of_fresh_predictions(seed: int, has_student: bool) -> None:
    """With students too: where a walk stands is what the networks say, and the students know it."""
    fabric, netlist, start = problem(seed)
    rules = seed % 2 > 0
    cost = cost_for(fabric, num_models=2, pessimism=0.5, rules=rules)
    config = replace(CONFIG, rules=rules, trust=rules)
    networks = [flow_network(config, random_stack(0), seed=k) for k in range(2)]
    small = replace(STUDENT, rules=rules, trust=rules)
    students = [flow_network(small, random_stack(0), seed=k) for k in range(2)] if has_student else []
    search = LearnedSearch(networks, fabric, netlist, start, MIX, seed, 0.5, students)
    counts = Counts()
    for _ in range(5):
        search.run(40, 0.01, 3, counts)
        search.verify()
        for decision, energy in ((search.current(), search.energy), (search.best(), search.best_energy)):
            assert energy == pytest.approx(-np.log(cost.score(netlist, decision)[0]), abs=1e-5)
        if has_student:
            fresh = LearnedSearch(
                students,
                fabric,
                netlist,
                Start(search._walk.state.sites, search._walk.state.flow_class, start.is_allowed),
                MIX,
                seed,
                0.5,
            )
            assert search._pricer.student.level[0] == pytest.approx(fresh.energy, abs=1e-5)
    assert counts.moves == 200 and 0 < counts.accepted.sum() < 200
    assert search.best_energy <= search.energy


@pytest.mark.slow
def test_a_student_that_knows_all_is_trusted() -> None:
    """At temperature 0 what it accepts is accepted, so the blocks that are judged grow."""
    fabric, netlist, start = problem(1)
    networks = [flow_network(CONFIG, random_stack(0), seed=k) for k in range(2)]
    search, counts = LearnedSearch(networks, fabric, netlist, start, MIX, 0, 0.5, networks), Counts()
    search.run(200, 1e-12, 3, counts)
    pricer = search._pricer
    assert counts.moves == 200 and counts.accepted.sum() > 2
    assert pricer.block[0] > 1
    assert pricer.student.level[0] == pytest.approx(search.energy, abs=1e-6)


@pytest.mark.slow
def test_what_a_student_likes_and_the_model_does_not_is_taken_back() -> None:
    """At temperature 0 the model's energy never rises, whatever a student that knows nothing says."""
    fabric, netlist, start = problem(1)
    network, student = flow_network(CONFIG, random_stack(0)), flow_network(STUDENT, random_stack(0), seed=5)
    search, counts = LearnedSearch([network], fabric, netlist, start, MIX, 0, students=[student]), Counts()
    pricer, state = search._pricer, search._walk.state
    num_back = 0
    for _ in range(200):
        energy, refused = search.energy, int(counts.refused[:, Refusal.COST].sum())
        says = float(pricer.student.level[0])
        search.run(2, 1e-12, 3, counts)
        assert search.energy <= energy and search.best_energy == search.energy
        is_back = search.energy == energy and int(counts.refused[:, Refusal.COST].sum()) > refused
        num_back += is_back and pricer.block[0] == 1
        if search.energy == energy and not counts.accepted.sum():
            assert pricer.student.level[0] == pytest.approx(says, abs=1e-6)
    assert counts.moves == 400 and num_back > 0 and counts.accepted.sum() > 0
    np.testing.assert_array_equal(pricer.kept_sites, state.sites)
    np.testing.assert_array_equal(pricer.kept_class, state.flow_class)
    np.testing.assert_array_equal(np.bincount(state.sites, minlength=len(state.num_tenants)), state.num_tenants)
    search.verify()


@pytest.mark.slow
def test_a_prediction_that_is_no_number_ends_a_search() -> None:
    fabric, netlist, start = problem(0)
    network = flow_network(CONFIG, random_stack(0))
    network.readout.mean.bias.data[:] = np.nan
    with pytest.raises(InputError, match="not finite"):
        LearnedSearch([network], fabric, netlist, start, MIX, 0)
    cost = LearnedCost(fabric, Model(CONFIG, network, 1.0, {"fabric": asdict(fabric)}))
    decisions = route_turns(fabric, netlist, start.sites[None], start.flow_class[None])
    with pytest.raises(InputError, match="not finite"):
        cost.score(netlist, decisions)
    with pytest.raises(InputError, match="not finite"):
        cost.session(netlist, start.sites, start.flow_class)
