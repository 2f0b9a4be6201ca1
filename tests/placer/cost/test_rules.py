"""The expert's rules: numbers by hand, and the plain demand of `demand_of` on random cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import InputError
from placer.cost import MAX_DOUBLINGS, HeuristicCost, Rules
from placer.decision import Decisions, random_sites
from placer.decision.routing import RoutingMethod, demand_of, route
from placer.fabric import DramSpec, Fabric, MemorySpec, round_trip_cycles, window_vectors
from placer.fabric.fabric import ComputeSpec, LinkSpec
from placer.netlist import Netlist
from tests.placer.hand_cases import compute, flow, memory, placed, port
from tests.placer.lowered_cases import KINDS, SMALL, netlist_of, random_decisions
from tests.placer.random_cases import random_case

SEEDS = st.integers(0, 2**32 - 1)

# Compute sites 0, 2 / 5, 7 and memory sites 1, 3 / 4, 6 in two rows; port 8 hangs on site 0.
# A round trip of h hops takes 2 + 4 h cycles there, 3 h back and 1 to be visible: 3 + 7 h.
HAND = Fabric(
    name="hand",
    columns=4,
    rows=2,
    link=LinkSpec(hop_cycles=4, credit_hop_cycles=3, vectors_per_cycle=1),
    compute=ComputeSpec(window_vectors=10),
    memory=MemorySpec(window_vectors=5),
    dram=DramSpec(burst_vectors=8, burst_cycles=40, channels=2, window_vectors=16),
)


def score_of(case: tuple[Fabric, Netlist, Decisions]) -> float:
    fabric, netlist, decision = case
    return float(HeuristicCost(fabric).score(netlist, decision)[0])


@pytest.mark.parametrize(("site", "hops"), [(2, 2), (5, 2), (7, 4)])
def test_a_flow_is_limited_by_its_round_trip(site: int, hops: int) -> None:
    case = placed(HAND, [compute(20), compute(20)], [flow(0, 1, tokens=20)], [0, site])
    assert score_of(case) == pytest.approx(20 / (20 * (3 + 7 * hops) / 10))


def test_a_window_that_covers_the_round_trip_costs_nothing() -> None:
    near = replace(HAND, compute=ComputeSpec(window_vectors=17))  # 2 hops: 17 cycles
    assert score_of(placed(near, [compute(20)] * 2, [flow(0, 1, tokens=20)], [0, 2])) == 1


def test_two_flows_share_a_link() -> None:
    units = [compute(50), memory(), compute(60)]
    flows = [flow(0, 2, tokens=50), flow(1, 2, tokens=60)]
    # East of switch 1 both pass: 110 vectors. Round trips: 50 * 17 / 10 = 85 and 60 * 10 / 10.
    assert score_of(placed(HAND, units, flows, [0, 1, 2])) == pytest.approx(60 / 110)


def test_buffers_on_one_site_share_its_ports() -> None:
    units = [memory(name="left"), memory(name="right"), compute(40)]
    flows = [flow(0, 2, tokens=40, read_cycles=2), flow(1, 2, tokens=30)]
    # Read port 40 * 2 + 30; 70 vectors on the link; round trips 40 * 10 / 10 and 30.
    assert score_of(placed(HAND, units, flows, [1, 1, 0])) == pytest.approx(40 / 110)
    assert score_of(placed(HAND, units, flows, [1, 4, 0])) == pytest.approx(40 / 80)


def test_writes_have_a_port_of_their_own() -> None:
    units = [compute(40), compute(40), memory(), memory(), compute(40)]
    flows = [flow(0, 2, tokens=30), flow(1, 3, tokens=35), flow(2, 4, tokens=10)]
    fabric = replace(HAND, memory=MemorySpec(window_vectors=20))
    # Both write to site 1: 65 cycles; the links into it come from the two sides.
    assert score_of(placed(fabric, units, flows, [0, 2, 1, 1, 5])) == pytest.approx(40 / 65)


def test_bursts_share_the_channels_of_the_dram() -> None:
    case = placed(HAND, [port(), compute(100)], [flow(0, 1, tokens=100)], [8, 0])
    assert score_of(case) == pytest.approx(100 / (13 * 40 / 2))  # 100 vectors are 13 bursts


def test_energy_by_hand() -> None:
    case = placed(HAND, [compute(20), compute(20)], [flow(0, 1, tokens=20)], [0, 2])
    # Over the bound: two units 1, two mesh links 1, two local links 0.5, the round trip 1.7.
    for doublings in range(MAX_DOUBLINGS + 1):
        p = 2**doublings
        expected = np.log(2 + 2 + 2 * 0.5**p + 1.7**p) / p
        energy = HeuristicCost(HAND, Rules(doublings=doublings)).energy(*case[1:])
        assert energy == pytest.approx([expected], abs=1e-12)


def test_weights_scale_their_rules() -> None:
    case = placed(HAND, [compute(20), compute(20)], [flow(0, 1, tokens=20)], [0, 2])
    rules = Rules(link=3.0, flow=0.5, doublings=0)
    expected = 2 + 3 * (2 + 2 * 0.5) + 0.5 * 1.7
    assert HeuristicCost(HAND, rules).energy(*case[1:]) == pytest.approx([np.log(expected)])
    assert HeuristicCost(HAND, rules).score(*case[1:]) == pytest.approx([1 / 3])


def trips(fabric: Fabric, netlist: Netlist, decision: Decisions) -> list[float]:
    """Tokens * round trip / window of every target of every flow, by a walk up its route."""
    topology = fabric.topology
    found = []
    for flow_id, one in enumerate(netlist.flows):
        links, parents = decision.route(flow_id)
        for target in one.targets:
            eject = topology.eject_link(int(decision.sites[0, target]))
            node, hops = int(np.flatnonzero(links == eject)[0]), 0
            while node >= 0:
                hops += int(links[node]) < topology.num_mesh_links
                node = int(parents[node])
            window = window_vectors(fabric, netlist.units[target].kind)
            found.append(one.tokens * round_trip_cycles(fabric, hops) / window)
    return found


def numbers(fabric: Fabric, netlist: Netlist, decisions: Decisions, doublings: int = 3) -> list[tuple[float, float]]:
    """Score and energy of each decision of a stack."""
    cost = HeuristicCost(fabric, Rules(doublings=doublings))
    scores, energies = cost.score(netlist, decisions), cost.energy(netlist, decisions)
    return list(zip(scores.tolist(), energies.tolist(), strict=True))


def plain_numbers(fabric: Fabric, netlist: Netlist, decisions: Decisions, doublings: int = 3) -> list[object]:
    """The same from the plain demand of each decision."""
    found: list[object] = []
    for index in range(len(decisions)):
        demand = demand_of(fabric, netlist, decisions[index])
        others = (demand.unit, demand.link, demand.read_port, demand.write_port, [demand.dram])
        largest = max(np.max(cycles) for cycles in (*others, demand.flow))
        per_target = trips(fabric, netlist, decisions[index])
        cycles = np.concatenate([*others, per_target]) / netlist.bound_cycles
        norm = np.linalg.norm(cycles, ord=2**doublings)
        score = netlist.bound_cycles / largest
        assert 0 < score <= 1
        found.append(pytest.approx((score, np.log(norm)), rel=1e-12, abs=1e-12))
    return found


@settings(max_examples=80)
@given(SEEDS, st.integers(0, MAX_DOUBLINGS))
def test_random_cases_have_the_plain_numbers(seed: int, doublings: int) -> None:
    case = random_case(seed)
    assert numbers(*case, doublings) == plain_numbers(*case, doublings)


@settings(max_examples=30)
@given(SEEDS, st.sampled_from(RoutingMethod))
def test_all_routes_have_the_plain_numbers(seed: int, method: RoutingMethod) -> None:
    fabric, netlist, _ = random_case(seed)
    sites = random_sites(fabric, netlist, 3, seed)
    decisions = route(fabric, netlist, sites, method=method, seed=seed)
    assert numbers(fabric, netlist, decisions) == plain_numbers(fabric, netlist, decisions)


@pytest.mark.parametrize("method", RoutingMethod)
@pytest.mark.parametrize(("family", "training"), KINDS)
def test_workloads_have_the_plain_numbers(family: str, training: bool, method: RoutingMethod) -> None:
    netlist = netlist_of(family, training)
    decisions = random_decisions(netlist, 2, seed=1, method=method)
    assert numbers(SMALL, netlist, decisions) == plain_numbers(SMALL, netlist, decisions)


@settings(max_examples=80)
@given(SEEDS)
def test_energy_falls_to_the_slowest_resource(seed: int) -> None:
    """max <= p-norm <= n^(1/p) * max, and the p-norm falls with p."""
    fabric, netlist, decisions = random_case(seed)
    floor = -np.log(HeuristicCost(fabric).score(netlist, decisions)[0])
    energies = [
        HeuristicCost(fabric, Rules(doublings=doublings)).energy(netlist, decisions)[0]
        for doublings in range(MAX_DOUBLINGS + 1)
    ]
    assert (np.diff(energies) <= 1e-12).all()
    topology = fabric.topology
    num_ends = sum(len(flow.targets) for flow in netlist.flows)
    num = netlist.num_units + topology.num_links + num_ends + 2 * topology.num_sites + 1
    for doublings, energy in enumerate(energies):
        assert floor - 1e-12 <= energy <= floor + np.log(num) / 2**doublings + 1e-12


@pytest.mark.parametrize(("name", "value"), [("link", -0.1), ("flow", 101), ("port", np.nan)])
def test_weights_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"rules.{name}={value}; allowed 0 to 100"):
        Rules(**{name: value})


@pytest.mark.parametrize("doublings", [-1, MAX_DOUBLINGS + 1])
def test_exponents_out_of_range_are_refused(doublings: int) -> None:
    with pytest.raises(InputError, match=f"rules.doublings={doublings}; allowed 0 to 5"):
        Rules(doublings=doublings)


def test_routes_of_another_netlist_are_refused() -> None:
    _, netlist, _ = placed(HAND, [compute(20)] * 2, [flow(0, 1, tokens=20)], [0, 2])
    _, _, others = placed(HAND, [compute(20)] * 2, [], [0, 2])
    with pytest.raises(InputError, match="channels have shape"):
        HeuristicCost(HAND).score(netlist, others)
