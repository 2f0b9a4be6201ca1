"""Laws of the simulator: small cases worked out on paper, and what holds for every decision.

Notation: a vector injected in cycle t over a route with h mesh links is visible at its target in
cycle t + P(h), P(h) = 2 local hops + h mesh hops. Taken out at once, its credit is back after the
round trip R(h) = P(h) + h credit hops + 1.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from placer.decision import Decisions
from placer.fabric import Direction, DramSpec, Fabric, MemorySpec, round_trip_cycles
from placer.fabric.fabric import ComputeSpec
from placer.netlist import Netlist, Unit
from placer.simulation import Limits, Status, UnitTime, simulate, simulate_stack
from tests.placer.hand_cases import compute, flow, memory, placed, port
from tests.placer.random_cases import random_case

Case = tuple[Fabric, Netlist, Decisions]

seeds = st.integers(0, 2**32 - 1)

# Two rows of 8 tiles; compute units on the even tiles of the first row. Windows and queues never
# hold anything up here.
ROOMY = Fabric(
    name="roomy",
    columns=8,
    rows=2,
    compute=ComputeSpec(window_vectors=64, output_vectors=64),
    memory=MemorySpec(window_vectors=64, output_vectors=64),
    dram=DramSpec(channels=1, latency_cycles=20, burst_vectors=4, burst_cycles=6),
)
EXACT = Limits(tolerance=0.0)


def travel_cycles(fabric: Fabric, hops: int) -> int:
    """P(h)."""
    return 2 * fabric.local.hop_cycles + hops * fabric.link.hop_cycles


def period(case: Case, limits: Limits | None = None) -> float:
    [measurement] = simulate(*case, limits)
    assert measurement.status == Status.STEADY
    return measurement.cycles_per_sample


@settings(max_examples=25)
@given(st.lists(st.integers(1, 12), min_size=2, max_size=4), st.booleans(), st.integers(1, 24))
def test_period_of_a_chain_is_its_slowest_stage(intervals: list[int], is_buffered: bool, tokens: int) -> None:
    # Stage k fires `tokens` times per sample, once every `intervals[k]` cycles. All that lies
    # between two stages takes a vector per cycle, so the period is tokens * max(intervals).
    units, sites = [], []
    for number, interval in enumerate(intervals):
        if is_buffered and number:
            units.append(memory(slots=2))
            sites.append(2 * number - 1)
        units.append(compute(tokens, cycles=tokens * interval))
        sites.append(2 * number)
    flows = [flow(k, k + 1, tokens=tokens) for k in range(len(units) - 1)]
    assert period(placed(ROOMY, units, flows, sites), EXACT) == tokens * max(intervals)


@settings(max_examples=25)
@given(
    tokens=st.integers(1, 40),
    intervals=st.tuples(*[st.integers(1, 5)] * 3),
    depths=st.tuples(*[st.integers(1, 20)] * 2),
    read_cycles=st.integers(1, 4),
    site=st.sampled_from([2, 4, 6]),
    buffer_hops=st.sampled_from([1, 3, 5]),
)
def test_first_sample_of_a_chain(
    tokens: int, intervals: tuple[int, int, int], depths: tuple[int, int], read_cycles: int, site: int, buffer_hops: int
) -> None:
    # A streams to B; its k-th vector, fired in k * a, is visible at B depth_A + P later. B fires
    # at the pace of the slower one, so its last of n firings is (n - 1) max(a, b) after its first.
    # The buffer is written when B's last vector has come, and read from the next cycle on, one
    # vector every r cycles, each ready after the latency; C again fires at the slower pace.
    a, b, c = intervals
    units = [
        compute(tokens, cycles=tokens * a, depth=depths[0]),
        compute(tokens, cycles=tokens * b, depth=depths[1]),
        memory(),
        compute(tokens, cycles=tokens * c),
    ]
    flows = [flow(0, 1, tokens=tokens), flow(1, 2, tokens=tokens), flow(2, 3, tokens=tokens, read_cycles=read_cycles)]
    # From west to east in the first row, then to the end of the second row: no link is shared.
    buffer = min(site + buffer_hops, 7)
    case = placed(ROOMY, units, flows, [0, site, buffer, 8 + 7])
    travel = [travel_cycles(ROOMY, hops) for hops in (site, buffer - site, 1 + 7 - buffer)]
    written = depths[0] + travel[0] + (tokens - 1) * max(a, b) + depths[1] + travel[1]
    first_of_c = written + 1 + ROOMY.memory.latency_cycles + travel[2]
    [measurement] = simulate(*case)
    assert measurement.first_sample_cycles == first_of_c + (tokens - 1) * max(read_cycles, c)


@pytest.mark.parametrize("bursts", [1, 3, 5])
def test_first_sample_from_dram_to_dram(bursts: int) -> None:
    # One channel, 4 vectors in 6 cycles. Load bursts are granted in 0, 6, ..., as long as no store
    # asks: vector k of burst j is ready in 6 j + 20 + k, visible P(0) = 2 cycles later at the
    # compute unit of the same switch, and 5 + P(0) after that at the store, also on this switch.
    # The first burst is complete there in 20 + 3 + 2 + 7 = 32. From then on the channel serves
    # loads and stores in turn; the first sample is short enough to have all its loads by then.
    units = [port(name="load"), compute(4 * bursts, depth=5), port(name="store")]
    flows = [flow(0, 1, tokens=4 * bursts), flow(1, 2, tokens=4 * bursts)]
    case = placed(ROOMY, units, flows, [16, 0, 16])
    [measurement] = simulate(*case)
    # Grants: loads in 0, 6, .., 30; store 0 in 36, then load, store, load, store, ...
    assert measurement.first_sample_cycles == 36 + 12 * (bursts - 1)


@pytest.mark.parametrize("window", [4, 16])
@pytest.mark.parametrize("hops", range(1, 8))
def test_lone_flow_goes_at_window_over_round_trip(hops: int, window: int) -> None:
    # rate = min(1, W / R(h)); a sample of 10 W vectors takes max(10 W, 10 R(h)) cycles.
    fabric = replace(
        ROOMY,
        compute=replace(ROOMY.compute, window_vectors=window),
        memory=replace(ROOMY.memory, window_vectors=window),
    )
    round_trip = round_trip_cycles(fabric, hops)
    assert round_trip == travel_cycles(fabric, hops) + 4 * hops + 1
    tokens = 10 * window
    # At odd distances sit memory units: there the flow is written to a buffer.
    target = memory() if hops % 2 else compute(tokens)
    case = placed(fabric, [compute(tokens), target], [flow(0, 1, tokens=tokens)], [0, hops])
    assert period(case, EXACT) == max(tokens, 10 * round_trip)


@pytest.mark.parametrize("channels", [[0, 0], [0, 1]])
def test_two_flows_that_share_a_link_get_half_each(channels: list[int]) -> None:
    # 0 -> 4 and 2 -> 6 share the links between the switches 2 and 4: one vector per cycle.
    units = [compute(50) for _ in range(4)]
    flows = [flow(0, 1, tokens=50), flow(2, 3, tokens=50)]
    case = placed(ROOMY, units, flows, [0, 4, 2, 6], channels)
    [measurement] = simulate(*case, EXACT)
    assert measurement.cycles_per_sample == 100
    np.testing.assert_allclose(measurement.unit_time[:, UnitTime.BUSY], 0.5, atol=0.01)
    shared = ROOMY.topology.mesh_link[2, Direction.EAST]
    assert measurement.link_utilisation[shared] == 1


def transpose_traffic(k: int, interval: int, tokens: int) -> Case:
    """Node (r, c) sends to (c, r), a vector every `interval` cycles, with XY routes.

    Memory tiles (r + c odd) hold a source and a sink. A compute unit cannot be both, since its
    inputs and outputs are coupled: those below the diagonal send to those above it. The busiest
    link is that of the full pattern: in row k - 1 all k - 1 other tiles send east to column k - 1.
    """
    fabric = Fabric(
        name="square",
        columns=k,
        rows=k,
        compute=ComputeSpec(window_vectors=256, output_vectors=64),
        memory=MemorySpec(window_vectors=256, output_vectors=64),
    )
    units: list[Unit] = []
    flows, sites = [], []
    for row in range(k):
        for column in range(k):
            is_memory = (row + column) % 2 == 1
            if is_memory:
                ends = [memory(), memory()]
            elif row > column:
                ends = [compute(tokens, cycles=tokens * interval), compute(tokens)]
            else:
                continue
            source = len(units)
            units += ends
            sites += [row * k + column, column * k + row]
            flows.append(flow(source, source + 1, tokens=tokens, read_cycles=interval))
    return placed(fabric, units, flows, sites, [number % 2 for number in range(len(flows))])


@pytest.mark.parametrize("k", [4, 8])
def test_transpose_traffic_saturates_at_one_over_k_minus_1(k: int) -> None:
    tokens = 40
    case = transpose_traffic(k, k - 1, tokens)
    fabric, _, decisions = case
    flows_on_link = Counter(decisions.links.tolist())
    last_east = int(fabric.topology.mesh_link[k * k - 2, Direction.EAST])
    assert max(flows_on_link.values()) == flows_on_link[last_east] == k - 1
    # A rate of 1 / (k - 1) per flow is carried in full, and fills the busiest link.
    [measurement] = simulate(*case)
    assert tokens / measurement.cycles_per_sample == pytest.approx(1 / (k - 1), rel=0.02)
    assert measurement.link_utilisation[last_east] == pytest.approx(1, rel=0.02)
    # More is not: the slowest flow stays at 1 / (k - 1) or below.
    [faster] = simulate(*transpose_traffic(k, k - 2, tokens))
    assert tokens / faster.cycles_per_sample <= 1.02 / (k - 1)
    # Less is carried as it is offered.
    [slower] = simulate(*transpose_traffic(k, k, tokens))
    assert tokens / slower.cycles_per_sample == pytest.approx(1 / k, rel=0.02)


@settings(max_examples=60)
@given(seeds)
def test_throughput_of_random_cases_never_exceeds_the_bound(seed: int) -> None:
    fabric, netlist, decisions = random_case(seed, deadlock_free=True)
    outcome = simulate_stack(fabric, netlist, decisions, Limits(max_cycles=50_000))
    assert outcome.status[0] != Status.DEADLOCK
    assume(outcome.status[0] == Status.STEADY)  # a few are too slow for the limit
    assert outcome.cycles_per_sample[0] >= netlist.bound_cycles
