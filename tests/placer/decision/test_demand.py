"""Demand: numbers worked out by hand, and a lower bound of what the simulator measures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.decision import Decisions
from placer.decision.routing import Demand, RoutingMethod, demand_of
from placer.fabric import Direction, DramSpec, Fabric, MemorySpec, SiteKind, round_trip_cycles, window_vectors
from placer.fabric.fabric import ComputeSpec, LinkSpec
from placer.netlist import Netlist
from placer.simulation import Limits, Status, simulate, simulate_stack
from tests.placer.hand_cases import compute, flow, memory, placed, port
from tests.placer.lowered_cases import KINDS, SMALL, netlist_of, random_decisions
from tests.placer.random_cases import random_case

# Sites: compute 0, 2 / 5, 7 and memory 1, 3 / 4, 6 in two rows; ports 8, 9 west and 10, 11 east.
HAND = Fabric(
    name="hand",
    columns=4,
    rows=2,
    link=LinkSpec(hop_cycles=4, credit_hop_cycles=3, vectors_per_cycle=1),
    compute=ComputeSpec(window_vectors=10),
    memory=MemorySpec(window_vectors=5),
    dram=DramSpec(burst_vectors=8, burst_cycles=6, channels=2, window_vectors=16),
)


def hand_made() -> tuple[Fabric, Netlist, Decisions]:
    """Load -> compute -> two buffers on one site (multicast) -> compute -> store."""
    units = [
        port(name="load"),
        compute(30, cycles=40, name="first"),
        memory(name="left"),
        memory(name="right"),
        compute(60, cycles=70, name="second"),
        port(name="store"),
    ]
    flows = [
        flow(0, 1, tokens=30),  # no mesh link: the port hangs on the switch of site 0
        flow(1, 2, 3, tokens=20),  # 3 hops east
        flow(2, 4, tokens=60, read_cycles=2),  # 1 hop south
        flow(3, 4, tokens=10),
        flow(4, 5, tokens=9),  # no mesh link
    ]
    return placed(HAND, units, flows, [8, 0, 3, 3, 7, 11])


def test_round_trip_by_hand() -> None:
    # There: inject 1, mesh 4 per hop, eject 1. Back: 3 per hop, and 1 to be visible.
    assert [round_trip_cycles(HAND, hops) for hops in range(4)] == [3, 10, 17, 24]


@pytest.mark.parametrize(("kind", "window"), [(SiteKind.COMPUTE, 10), (SiteKind.MEMORY, 5), (SiteKind.PORT, 16)])
def test_window_of_each_kind(kind: SiteKind, window: int) -> None:
    assert window_vectors(HAND, kind) == window


def test_demand_of_units_and_flows() -> None:
    demand = demand_of(*hand_made())
    assert demand.unit.tolist() == [0, 40, 0, 0, 70, 0]
    assert demand.flow_hops.tolist() == [0, 3, 1, 1, 0]
    # tokens * round trip / window of the target
    assert demand.flow.tolist() == [30 * 3 / 10, 20 * 24 / 5, 60 * 10 / 10, 10 * 10 / 10, 9 * 3 / 16]


def test_demand_of_links() -> None:
    demand = demand_of(*hand_made())
    topology = HAND.topology
    expected = np.zeros(topology.num_links)
    # Local links move two vectors per cycle. The copies for both buffers come over one eject link.
    expected[topology.inject_link(8)] = expected[topology.eject_link(0)] = 30 / 2
    expected[topology.inject_link(0)] = expected[topology.eject_link(3)] = 20 / 2
    for switch in range(3):
        expected[topology.mesh_link[switch, Direction.EAST]] = 20
    expected[topology.inject_link(3)] = expected[topology.eject_link(7)] = (60 + 10) / 2
    expected[topology.mesh_link[3, Direction.SOUTH]] = 60 + 10
    expected[topology.inject_link(7)] = expected[topology.eject_link(11)] = 9 / 2
    np.testing.assert_array_equal(demand.link, expected)


def test_demand_of_memory_ports_and_dram() -> None:
    demand = demand_of(*hand_made())
    # Both buffers sit on site 3: 20 + 20 writes; reads of 2 cycles for one of them.
    assert np.flatnonzero(demand.write_port).tolist() == [3]
    assert demand.write_port[3] == 20 + 20
    assert np.flatnonzero(demand.read_port).tolist() == [3]
    assert demand.read_port[3] == 60 * 2 + 10
    # 30 vectors are 4 bursts, 9 are 2; 6 cycles each on 2 channels.
    assert demand.dram == (4 + 2) * 6 / 2


def test_the_largest_demand_is_named() -> None:
    # The read port of site 3 is needed for 130 cycles, more than anything else.
    [measurement] = simulate(*hand_made())
    assert largest(demand_of(*hand_made())) == 130
    assert measurement.cycles_per_sample == pytest.approx(130, rel=0.02)
    assert measurement.critical.startswith("read port of left, right")


def largest(demand: Demand) -> float:
    """Cycles per sample of the resource that is needed most."""
    per_resource = (demand.unit, demand.link, demand.flow, demand.read_port, demand.write_port)
    return max(demand.dram, *(float(cycles.max()) for cycles in per_resource))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_random_case_is_not_faster_than_its_demand(seed: int) -> None:
    fabric, netlist, decisions = random_case(seed, deadlock_free=True)
    # Samples of these cases are short and may come in irregular groups: average over many.
    limits = Limits(warmup_samples=10, window_samples=20, max_cycles=100_000)
    outcome = simulate_stack(fabric, netlist, decisions, limits)
    assert not outcome.cycles_per_sample[0] < 0.98 * largest(demand_of(fabric, netlist, decisions))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "training"), KINDS)
def test_workload_is_not_faster_than_its_demand(family: str, training: bool) -> None:
    netlist = netlist_of(family, training)
    for method in (RoutingMethod.MIXED, RoutingMethod.NEGOTIATED):
        decisions = random_decisions(netlist, 2, seed=5, method=method)
        outcome = simulate_stack(SMALL, netlist, decisions)
        assert (outcome.status == Status.STEADY).all()
        for index in range(len(decisions)):
            demand = demand_of(SMALL, netlist, decisions[index])
            assert outcome.cycles_per_sample[index] >= 0.98 * largest(demand)
