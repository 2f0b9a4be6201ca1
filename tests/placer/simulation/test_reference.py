"""The plain-Python engine against cycle counts worked out by hand.

Notation: a vector injected in cycle t over a route with h mesh links is visible at its target in
cycle t + P(h), P(h) = 1 (inject) + 4 h (mesh) + 1 (eject); taken out at once, its credit is visible
at the source P(h) + 4 h + 1 cycles after the injection (the round trip). Pipeline depth is 6: what
is fired in cycle t is injected in cycle t + 6 at the earliest.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from placer.base import InputError
from placer.fabric import DramSpec, Fabric, MemorySpec, SiteKind
from placer.fabric.fabric import ComputeSpec, LinkSpec, LocalSpec
from placer.netlist import Flow, Netlist, Unit
from placer.simulation import Status, UnitTime
from placer.simulation.reference import simulate_reference
from placer.simulation.reference.engine import ReferenceResult
from tests.placer.random_cases import dimension_ordered

# Sites: compute 0, 2, 4 / 6, 8 and memory 1, 3 / 5, 7, 9 in two rows; port 10 at the switch of 0.
HAND = Fabric(
    name="hand",
    columns=5,
    rows=2,
    link=LinkSpec(hop_cycles=4, credit_hop_cycles=4, channels=2, fifo_vectors=4),
    local=LocalSpec(vectors_per_cycle=2, hop_cycles=1),
    compute=ComputeSpec(window_vectors=64, output_vectors=8),
    memory=MemorySpec(window_vectors=64, output_vectors=8, latency_cycles=6),
    dram=DramSpec(
        latency_cycles=20, channels=1, burst_vectors=4, burst_cycles=10, window_vectors=16, prefetch_vectors=64
    ),
)


def compute(firings: int, *, cycles: int = 0, releases: int = 0, depth: int = 6) -> Unit:
    return Unit(
        name="compute",
        kind=SiteKind.COMPUTE,
        op="op",
        stage=0,
        firings=firings,
        cycles=cycles or firings,
        releases=releases or firings,
        depth_cycles=depth,
    )


def memory(slots: int = 1) -> Unit:
    return Unit("memory", SiteKind.MEMORY, "buffer", 0, slots=slots)


PORT = Unit("port", SiteKind.PORT, "load", 0)


def flow(source: int, *targets: int, tokens: int, read_cycles: int = 1) -> Flow:
    return Flow("flow", source, targets, tokens, read_cycles)


def simulate(
    fabric: Fabric,
    units: list[Unit],
    flows: list[Flow],
    sites: list[int],
    *,
    channels: list[int] | None = None,
    max_cycles: int = 5000,
    max_samples: int = 100,
) -> ReferenceResult:
    """Simulate with XY routes, in channel 0 if not told; steady at sample 8 at the earliest."""
    netlist = Netlist("hand", "hand", fabric.name, tuple(units), tuple(flows))
    channels = channels or [0] * len(flows)
    decisions = dimension_ordered(fabric, netlist, sites, [False] * len(flows), channels)
    return simulate_reference(
        fabric,
        netlist,
        decisions,
        warmup_samples=4,
        window_samples=2,
        tolerance=0.0,
        max_cycles=max_cycles,
        max_samples=max_samples,
    )


def with_window(vectors: int) -> Fabric:
    return replace(HAND, compute=replace(HAND.compute, window_vectors=vectors))


def test_firings_spread_over_the_work_of_a_sample() -> None:
    # Starts of 4 firings in 10 cycles: 0, 2, 5, 7, then 10 for the next sample.
    result = simulate(HAND, [compute(4, cycles=10)], [], [0])
    assert result.finish[0][:3] == [7, 17, 27]
    assert result.status == Status.STEADY
    assert result.cycles_per_sample == 10
    # The first steady test is at sample 4 + 2 * 2 = 8, finished in cycle 87.
    assert (result.samples, result.cycles_simulated) == (9, 88)
    assert result.unit_time == [[88, 0, 0, 0]]


def test_first_sample_of_a_two_unit_pipeline() -> None:
    # A fires in 0..3, so vectors are injected in 6..9 and visible P(2) = 10 cycles later, in
    # 16..19. B fires in these cycles.
    result = simulate(HAND, [compute(4), compute(4)], [flow(0, 1, tokens=4)], [0, 2])
    assert result.finish[0][:3] == [3, 7, 11]
    assert result.finish[1][:3] == [19, 23, 27]
    assert result.first_sample_cycles == 19
    assert result.cycles_per_sample == 4
    # B starves in 0..15 and never again.
    assert result.unit_time[1] == [result.cycles_simulated - 16, 16, 0, 0]


def test_inputs_are_there_before_they_are_used() -> None:
    # 2 vectors over 4 firings: taken by firing 0 and 2. A fires in 0, 5 (10 cycles of work), so
    # they are visible at B in 16, 21. B fires 0, 1 in 16, 17, waits, fires 2, 3 in 21, 22.
    units = [compute(2, cycles=10), compute(4)]
    result = simulate(HAND, units, [flow(0, 1, tokens=2)], [0, 2])
    assert result.finish[1][:2] == [22, 32]


@pytest.mark.parametrize(("window", "cycles_per_sample"), [(1, 190), (2, 95), (5, 38), (10, 19), (19, 10), (40, 10)])
def test_lone_flow_goes_at_window_over_round_trip(window: int, cycles_per_sample: int) -> None:
    # 2 hops: round trip 10 + 8 + 1 = 19, rate min(1, window / 19), 10 vectors per sample.
    units = [compute(10), compute(10)]
    result = simulate(with_window(window), units, [flow(0, 1, tokens=10)], [0, 2])
    assert result.status == Status.STEADY
    assert result.cycles_per_sample == cycles_per_sample


@pytest.mark.parametrize(
    ("width", "channels", "cycles_per_sample"), [(1, [0, 0], 20), (1, [0, 1], 20), (2, [0, 1], 10), (2, [0, 0], 20)]
)
def test_two_flows_share_a_link(width: int, channels: list[int], cycles_per_sample: int) -> None:
    # 0 -> 4 runs along row 0; 2 -> 8 turns south after the link between the switches 2 and 3.
    # A wide link helps only in two channels: of one FIFO one head leaves per cycle.
    fabric = replace(HAND, link=replace(HAND.link, vectors_per_cycle=width))
    units = [compute(10) for _ in range(4)]
    flows = [flow(0, 1, tokens=10), flow(2, 3, tokens=10)]
    result = simulate(fabric, units, flows, [0, 4, 2, 8], channels=channels)
    assert result.cycles_per_sample == cycles_per_sample
    paces = [cycles[-1] - cycles[-2] for cycles in result.finish]
    assert paces == [cycles_per_sample] * 4


def test_shortest_fifo_keeps_a_link_busy() -> None:
    # The link from switch 0 to 1 carries 20 vectors per sample. At most the vectors of the last 4
    # cycles are in its FIFO, which has 1 + 4 places: the link never pauses.
    fabric = replace(HAND, link=replace(HAND.link, fifo_vectors=1))
    units = [compute(10), compute(10), compute(10)]
    flows = [flow(0, 1, tokens=10), flow(0, 2, tokens=10)]
    result = simulate(fabric, units, flows, [0, 2, 4])
    assert result.cycles_per_sample == 20


def test_buffer_with_strided_reads() -> None:
    # A fires in 0..5; 1 hop, P(1) = 6: visible at the memory in 12..17 and written in these cycles.
    # From 18 on a vector is read every 3 cycles: 18, 21, .., 33. The last one is ready in
    # 33 + 6 = 39 and visible at B in 45.
    units = [compute(6), memory(slots=2), compute(6)]
    flows = [flow(0, 1, tokens=6), flow(1, 2, tokens=6, read_cycles=3)]
    result = simulate(HAND, units, flows, [0, 1, 2])
    assert [cycles[0] for cycles in result.finish] == [5, 33, 45]
    assert result.first_sample_cycles == 45
    assert result.cycles_per_sample == 18


@pytest.mark.parametrize(("slots", "cycles_per_sample"), [(1, 12), (2, 6)])
def test_slots_of_a_buffer(slots: int, cycles_per_sample: int) -> None:
    # One slot: written in 12..17, read in 18..23, written in 24..29, ... Two slots: both at once.
    units = [compute(6), memory(slots), compute(6)]
    result = simulate(HAND, units, [flow(0, 1, tokens=6), flow(1, 2, tokens=6)], [0, 1, 2])
    assert result.finish[1][0] == 23
    assert result.cycles_per_sample == cycles_per_sample


def test_buffers_on_one_site_share_its_read_port() -> None:
    # Two weights with readers on both sides read in turn, so each reader gets half.
    units = [memory(), memory(), compute(10), compute(10)]
    flows = [flow(0, 2, tokens=10), flow(1, 3, tokens=10)]
    result = simulate(HAND, units, flows, [1, 1, 0, 2])
    assert result.cycles_per_sample == 20
    # Flow 0 is read in even cycles, flow 1 in odd ones: sample 0 ends in 18 and 19.
    assert [cycles[0] for cycles in result.finish[:2]] == [18, 19]
    half = result.cycles_simulated // 2
    assert result.unit_time[1][UnitTime.BUSY] == half
    assert result.unit_time[1][UnitTime.PORT_WAIT] == result.cycles_simulated - half


def test_load_is_limited_by_the_bursts_of_its_channel() -> None:
    # Bursts of 4 are granted in 0, 10, 20, 30. Vector 3 of the last is ready in 30 + 20 + 3 and
    # visible P(0) = 2 cycles later at the compute unit of the same switch.
    result = simulate(HAND, [PORT, compute(16)], [flow(0, 1, tokens=16)], [10, 0])
    assert result.finish[0][0] == 30
    assert result.first_sample_cycles == 55
    assert result.cycles_per_sample == 40
    assert result.unit_time[0][UnitTime.BUSY] == math.ceil(result.cycles_simulated / 10)


@pytest.mark.parametrize(("channels", "cycles_per_sample"), [(1, 80), (2, 40)])
def test_loads_share_the_channels(channels: int, cycles_per_sample: int) -> None:
    fabric = replace(HAND, dram=replace(HAND.dram, channels=channels))
    units = [PORT, PORT, compute(16), compute(16)]
    flows = [flow(0, 2, tokens=16), flow(1, 3, tokens=16)]
    result = simulate(fabric, units, flows, [10, 12, 0, 4])
    assert result.cycles_per_sample == cycles_per_sample
    # With one channel flow 0 is granted in 0, 20, .. and flow 1 in 10, 30, ..
    assert [cycles[0] for cycles in result.finish[:2]] == ([60, 70] if channels == 1 else [30, 30])


def test_store_waits_for_a_whole_burst() -> None:
    # Fired in 0..7, injected in 6..13, visible in 8..15: the first four in 11. The channel is free
    # again in 21.
    result = simulate(HAND, [compute(8), PORT], [flow(0, 1, tokens=8)], [0, 10])
    assert result.finish[1][0] == 21
    assert result.cycles_per_sample == 20
    # A burst every 10 cycles, and between two of them the next one always waits: only the cycles
    # 0..10 are starved, and 12..14 with less than four vectors.
    assert result.unit_time[1][UnitTime.STARVED] == 14


@pytest.mark.parametrize(("releases", "first_sample"), [(8, 23), (2, 26), (1, 30)])
def test_release_barrier(releases: int, first_sample: int) -> None:
    # 8 vectors are fired in 0..7 and travel P(2) = 10 cycles.
    # G = 8: the last is injected in 7 + 6.
    # G = 2: the second row comes out in cycle 7 and is injected in 13..16.
    # G = 1: all come out in cycle 7 and are injected in 13..20.
    units = [compute(8, releases=releases), compute(8)]
    result = simulate(HAND, units, [flow(0, 1, tokens=8)], [0, 2])
    assert result.first_sample_cycles == first_sample


def test_fork_feeds_both_targets() -> None:
    # Injected in 6..9. B is 2 hops away (P = 10), C 4 hops (P = 18). The window of 4 ends the
    # injection until the first credit of C is back in 6 + 18 + 16 + 1 = 41.
    units = [compute(4), compute(4), compute(4)]
    flows = [flow(0, 1, 2, tokens=4)]
    result = simulate(with_window(4), units, flows, [0, 2, 4], max_cycles=41)
    assert [cycles[0] for cycles in result.finish] == [3, 19, 27]
    topology = HAND.topology
    used = [int(topology.mesh_link[switch, 0]) for switch in range(4)]
    used += [topology.inject_link(0), topology.eject_link(2), topology.eject_link(4)]
    expected = np.zeros(topology.num_links, int)
    expected[used] = 4  # the way that both share carries each vector once
    assert result.link_vectors == expected.tolist()


def test_multicast_goes_at_the_pace_of_its_farthest_target() -> None:
    # Round trip of 4 hops: 18 + 16 + 1 = 35; window 5, so 10 vectors need 70 cycles.
    units = [compute(10), compute(10), compute(10)]
    result = simulate(with_window(5), units, [flow(0, 1, 2, tokens=10)], [0, 2, 4])
    assert result.cycles_per_sample == 70


def barrier_beside_a_stream(window: int) -> ReferenceResult:
    """A feeds C directly and through B, which gives nothing before it has a whole sample."""
    fabric = replace(
        HAND,
        link=replace(HAND.link, hop_cycles=1, credit_hop_cycles=1),
        compute=ComputeSpec(window_vectors=window, output_vectors=2),
    )
    units = [compute(20, depth=1), compute(20, releases=1, depth=1), compute(20, depth=1)]
    flows = [flow(0, 1, tokens=20), flow(0, 2, tokens=20), flow(1, 2, tokens=20)]
    return simulate(fabric, units, flows, [2, 0, 4], channels=[0, 1, 0])


def test_deadlock_is_detected() -> None:
    # Hops of 1 cycle, B and C 2 hops west and east of A. A fires in 0..6: 4 vectors of A -> C have
    # left (its credits), 3 fill the output queue (2 places and 1 of the pipeline). B gets 7
    # vectors: injected in 1..4 and, with the credits that are back after 4 + 2 + 1 = 7 cycles, in
    # 8..10. B takes the last in 10 + 4 = 14, its credit is visible in 14 + 2 + 1 = 17, and from
    # then on nothing is on its way.
    result = barrier_beside_a_stream(window=4)
    assert result.status == Status.DEADLOCK
    assert result.cycles_simulated == 18
    assert result.unit_time == [[7, 0, 11, 0], [7, 11, 0, 0], [0, 18, 0, 0]]
    assert (result.samples, result.first_sample_cycles) == (0, -1)
    assert math.isnan(result.cycles_per_sample)


def test_window_of_a_sample_avoids_the_deadlock() -> None:
    assert barrier_beside_a_stream(window=20).status == Status.STEADY


def test_limits_end_the_run() -> None:
    units, flows = [compute(4), compute(4)], [flow(0, 1, tokens=4)]
    # Sample s is complete in 19 + 4 s: sample 2 in 27, sample 4 in 35.
    by_samples = simulate(HAND, units, flows, [0, 2], max_samples=3)
    assert (by_samples.status, by_samples.samples) == (Status.CAP, 3)
    assert by_samples.cycles_simulated == 28
    assert math.isnan(by_samples.cycles_per_sample)
    by_cycles = simulate(HAND, units, flows, [0, 2], max_cycles=36)
    assert (by_cycles.status, by_cycles.samples) == (Status.CAP, 5)
    assert by_cycles.cycles_simulated == 36
    assert by_cycles.cycles_per_sample == 4


def test_unconnected_buffer_is_refused() -> None:
    with pytest.raises(InputError, match="has no flows"):
        simulate(HAND, [memory()], [], [1])
