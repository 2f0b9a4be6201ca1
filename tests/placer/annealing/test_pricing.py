"""The running cost: every move is priced exactly and taken back to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.annealing.moves import LEGAL, Move
from placer.annealing.pressure import Pressure
from placer.annealing.stretches import link_order
from placer.cost import HeuristicCost, Rules
from placer.decision.routing import demand_of
from placer.fabric import Fabric
from placer.graph.workloads import FAMILIES
from placer.netlist import Netlist
from tests.placer.annealing.cases import SMALL, Walk, drawn, free_start, random_start
from tests.placer.hand_cases import compute, flow, memory

SEEDS = st.integers(0, 2**32 - 1)
RULES = st.builds(Rules, link=st.floats(0, 4), flow=st.floats(0, 4), port=st.floats(0, 4), doublings=st.integers(0, 4))


def require_same_loads(one: Pressure, two: Pressure) -> None:
    np.testing.assert_array_equal(one.load, two.load)
    np.testing.assert_array_equal(one.ports, two.ports)


def begin(seed: int, rules: Rules | None = None) -> tuple[Walk, np.random.Generator]:
    fabric, netlist, start = random_start(seed)
    return Walk.begin(fabric, netlist, start, seed, rules), np.random.default_rng(seed)


@settings(max_examples=40)
@given(SEEDS, RULES)
def test_the_total_is_the_energy_of_the_heuristic(seed: int, rules: Rules) -> None:
    walk, _ = begin(seed, rules)
    energy = HeuristicCost(walk.fabric, rules).energy(walk.netlist, walk.decision())[0]
    assert np.log(walk.pressure.level[0]) / rules.exponent == pytest.approx(energy, abs=1e-12)


@settings(max_examples=40)
@given(SEEDS)
def test_loads_are_the_demand_on_links_and_ports(seed: int) -> None:
    walk, _ = begin(seed)
    demand = demand_of(walk.fabric, walk.netlist, walk.decision())
    width = walk.fabric.topology.link_width
    np.testing.assert_allclose(walk.pressure.load[link_order(walk.board.grid)] / width, demand.link)
    np.testing.assert_array_equal(walk.pressure.ports[0], demand.read_port)
    np.testing.assert_array_equal(walk.pressure.ports[1], demand.write_port)


@settings(max_examples=40)
@given(SEEDS, RULES)
def test_growth_is_the_difference_of_fresh_totals(seed: int, rules: Rules) -> None:
    walk, rng = begin(seed, rules)
    for _ in range(30):
        before = float(walk.fresh_pressure().level[0])
        growth = walk.try_move(int(rng.integers(len(Move))), walk.farthest)
        if growth is None:
            continue
        fresh = walk.fresh_pressure()
        after = float(fresh.level[0])
        assert growth == pytest.approx(after - before, abs=1e-12 * max(before, after))
        require_same_loads(walk.pressure, fresh)
        if rng.random() < 0.5:
            walk.accept()
        else:
            walk.reject()
        require_same_loads(walk.pressure, walk.fresh_pressure())


def begin_multicast(seed: int) -> tuple[Walk, np.random.Generator]:
    """A walk whose flows have up to fourteen targets: compute units, and buffers that share sites."""
    rng = np.random.default_rng(seed)
    fabric = Fabric("wide", columns=9, rows=5)
    units = [replace(unit, stage=k % 3) for k, unit in enumerate([compute(9)] * 14 + [memory()] * 16)]
    flows = []
    for _ in range(12):
        ends = rng.permutation(len(units))[: rng.integers(2, 16)].tolist()
        flows.append(flow(*ends, tokens=int(rng.integers(1, 9))))
    netlist = Netlist("wide", "hand", fabric.name, tuple(units), tuple(flows))
    return Walk.begin(fabric, netlist, free_start(fabric, netlist, seed), seed), rng


@settings(max_examples=20)
@given(SEEDS)
def test_growth_and_loads_are_exact_where_flows_have_many_targets(seed: int) -> None:
    walk, rng = begin_multicast(seed)
    for _ in range(60):
        before = float(walk.fresh_pressure().level[0])
        growth = walk.try_move(int(rng.integers(len(Move))), walk.farthest)
        if growth is None:
            continue
        fresh = walk.fresh_pressure()
        assert growth == pytest.approx(float(fresh.level[0]) - before, abs=1e-11 * before)
        require_same_loads(walk.pressure, fresh)
        if rng.random() < 0.7:
            walk.accept()
        else:
            walk.reject()
        require_same_loads(walk.pressure, walk.fresh_pressure())


@settings(max_examples=40)
@given(SEEDS)
def test_a_rejected_move_leaves_no_trace(seed: int) -> None:
    walk, rng = begin(seed)
    state = [array.copy() for array in walk.state]
    loads = walk.pressure.load.copy(), walk.pressure.ports.copy(), walk.pressure.level[:1].copy()
    for _ in range(30):
        if walk.try_move(int(rng.integers(len(Move))), walk.farthest) is None:
            continue
        walk.reject()
        for array, copy in zip(walk.state, state, strict=True):
            np.testing.assert_array_equal(array, copy)
        pressure = walk.pressure
        after = (pressure.load, pressure.ports, pressure.level[:1])
        for now, kept in zip(after, loads, strict=True):
            np.testing.assert_array_equal(now, kept)


@settings(max_examples=40)
@given(SEEDS)
def test_pricing_may_end_once_a_move_is_too_dear(seed: int) -> None:
    walk, rng = begin(seed)
    load = walk.pressure.load.copy()
    for _ in range(30):
        if walk.propose(int(rng.integers(len(Move))), walk.farthest) != LEGAL:
            continue
        growth = walk.price()
        walk.reject()
        limit = growth + rng.normal() * abs(growth)
        limited = walk.price(limit)
        walk.reject()
        assert limited == growth if growth <= limit else limit < limited <= growth
        np.testing.assert_array_equal(walk.pressure.load, load)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_running_total_does_not_drift_in_a_long_walk(family: str) -> None:
    netlist = drawn(family)
    walk, rng = Walk.begin(SMALL, netlist, free_start(SMALL, netlist), 0), np.random.default_rng(0)
    for move in rng.integers(len(Move), size=600):
        growth = walk.try_move(int(move), walk.farthest)
        if growth is None:
            continue
        if growth <= 0 or rng.random() < 0.3:
            walk.accept()
        else:
            walk.reject()
    fresh = walk.fresh_pressure()
    require_same_loads(walk.pressure, fresh)
    assert walk.pressure.level[0] == pytest.approx(fresh.level[0], rel=1e-9)
