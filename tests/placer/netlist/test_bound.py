"""The full bound: by hand for each resource, and below the period of every placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.decision import Decisions
from placer.fabric import DramSpec, Fabric, MemorySpec
from placer.fabric.fabric import ComputeSpec, LocalSpec
from placer.netlist import Bound, Flow, Netlist, Unit, full_bound
from placer.simulation import Limits, Status, simulate_stack
from tests.placer.hand_cases import compute, flow, memory, port
from tests.placer.lowered_cases import KINDS, SMALL, netlist_of, random_decisions
from tests.placer.random_cases import random_case

# Windows never hold anything up here; three compute and three memory units.
ROOMY = Fabric(
    "roomy",
    3,
    2,
    compute=ComputeSpec(window_vectors=64),
    memory=MemorySpec(window_vectors=64),
    dram=DramSpec(channels=1, burst_vectors=4, burst_cycles=6, window_vectors=64),
)
NARROW = replace(ROOMY, compute=ComputeSpec(window_vectors=4), memory=MemorySpec(window_vectors=2))


def bound_of(fabric: Fabric, units: Sequence[Unit], flows: Sequence[Flow]) -> Bound:
    return full_bound(fabric, Netlist("hand", "hand", fabric.name, tuple(units), tuple(flows)))


def test_work() -> None:
    units = [compute(10, cycles=50, name="slow"), compute(10)]
    assert bound_of(ROOMY, units, [flow(0, 1, tokens=10)]) == (50, "work of slow")


def test_ports_of_a_buffer() -> None:
    units = [memory(name="held"), compute(10), compute(5)]
    flows = [flow(0, 1, tokens=10, read_cycles=3), flow(0, 2, tokens=5)]
    assert bound_of(ROOMY, units, flows) == (35, "read port of held")
    assert bound_of(ROOMY, units, [flow(1, 0, tokens=10), flow(2, 0, tokens=5)]) == (15, "write port of held")


def test_a_vector_to_many_readers_is_read_once() -> None:
    units = [memory(), *[compute(10)] * 3]
    assert bound_of(ROOMY, units, [flow(0, 1, 2, 3, tokens=10, read_cycles=2)]).cycles == 20


def test_ports_of_all_memories() -> None:
    # Twelve weights on three memories; each alone is read in 10 cycles.
    units = [*[memory()] * 12, *[compute(10)] * 3]
    flows = [flow(k, 12 + k % 3, tokens=10) for k in range(12)]
    assert bound_of(ROOMY, units, flows) == (40, "read ports of all memories")
    back = [flow(12 + k % 3, k, tokens=10) for k in range(12)]
    assert bound_of(ROOMY, units, back) == (40, "write ports of all memories")


def test_local_links() -> None:
    # Five flows of 10 vectors over a link that takes two per cycle.
    hub, others = compute(10, name="hub"), [compute(10)] * 5
    away = [flow(0, k, tokens=10) for k in range(1, 6)]
    assert bound_of(ROOMY, [hub, *others], away) == (25, "injection link of hub")
    there = [flow(k, 0, tokens=10) for k in range(1, 6)]
    assert bound_of(ROOMY, [hub, *others], there) == (25, "ejection link of hub")


@pytest.mark.parametrize(("channels", "cycles"), [(1, 36), (3, 18)])
def test_dram(channels: int, cycles: int) -> None:
    # 18 vectors are five bursts of 4, 3 are one; six bursts of 6 cycles. With three channels, the
    # 18 vectors of the one flow take longer.
    fabric = replace(ROOMY, dram=replace(ROOMY.dram, channels=channels))
    flows = [flow(0, 1, tokens=18), flow(1, 2, tokens=3)]
    assert bound_of(fabric, [port(), compute(18), port()], flows).cycles == cycles


@pytest.mark.parametrize(
    ("source", "targets", "cycles"),
    [
        # A round trip is 2 + 1 cycles, and 8 for every hop. Compute units are two hops apart.
        (compute(20), [compute(20)], 20 * 19 / 4),
        # In two rows of three: one neighbour below or beside, the next one there too.
        (memory(), [compute(20)], 20 * 11 / 4),
        (memory(), [compute(20)] * 3, 20 * 11 / 4),
        # A memory unit holds four buffers, so that of the source has room for three more.
        (memory(), [memory()], 20 * 3 / 2),
        (memory(), [memory()] * 3, 20 * 3 / 2),
        (memory(), [memory()] * 4, 20 * 19 / 2),
        (compute(20), [memory()] * 4, 20 * 11 / 2),
    ],
)
def test_a_flow_goes_at_window_over_round_trip(source: Unit, targets: list[Unit], cycles: float) -> None:
    units = [source, *targets]
    found = bound_of(NARROW, units, [flow(0, *range(1, len(units)), tokens=20)])
    assert found.cycles == cycles
    assert found.resource.startswith("flow 0>")


def test_all_links_together() -> None:
    # 14 links. Every flow of 10 vectors takes two of them at least; 30 flows are 600 link cycles.
    fabric = replace(ROOMY, local=LocalSpec(vectors_per_cycle=64))
    flows = [flow(k, (k + 1) % 3, (k + 2) % 3, tokens=10) for k in range(3) for _ in range(10)]
    assert bound_of(fabric, [compute(10)] * 3, flows) == (600 / 14, "all links together")


def test_nothing_takes_a_cycle() -> None:
    assert bound_of(ROOMY, [], []) == (1, "nothing")


SHORT = Limits(max_cycles=50_000)
LONG = Limits(12, 24, tolerance=0.0, max_samples=2000, max_cycles=1_000_000)


def assert_not_faster(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> None:
    """No period is below the bound; where a short run says so, a long one decides."""
    least = full_bound(fabric, netlist).cycles
    assert least >= netlist.bound_cycles
    outcome = simulate_stack(fabric, netlist, decisions, SHORT)
    is_steady = outcome.status[0] == Status.STEADY  # a few are too slow for the limit
    if is_steady and outcome.cycles_per_sample[0] < least:
        outcome = simulate_stack(fabric, netlist, decisions, LONG)
        # The first and the last sample of the window finish in whole cycles.
        assert outcome.cycles_per_sample[0] >= 0.99 * least - 1 / LONG.window_samples


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_placement_is_faster_than_the_bound(seed: int) -> None:
    assert_not_faster(*random_case(seed, deadlock_free=True))


@pytest.mark.parametrize("seed", [751, 886, 1004])
def test_no_placement_with_buffers_that_share_a_site_is_faster_than_the_bound(seed: int) -> None:
    assert_not_faster(*random_case(seed, deadlock_free=True))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_placement_of_many_is_faster_than_the_bound(seed: int) -> None:
    assert_not_faster(*random_case(seed, deadlock_free=True))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "training"), KINDS)
def test_no_workload_is_faster_than_the_bound(family: str, training: bool) -> None:
    netlist = netlist_of(family, training)
    assert_not_faster(SMALL, netlist, random_decisions(netlist, 1, seed=5))
