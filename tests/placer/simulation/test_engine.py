"""The compiled engine: cycle for cycle the same as the plain one, and its results in bulk."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numba import config

from placer.decision import Decisions, random_sites
from placer.decision.routing import RoutingMethod, route
from placer.fabric import DramSpec, Fabric, SiteKind
from placer.fabric.fabric import ComputeSpec, LinkSpec, LocalSpec
from placer.graph.workloads import GemmSpec, build
from placer.netlist import Netlist
from placer.netlist.lowering import BufferPlan, GroupPlan, SectionPlan, Tiling, WeightsPlan, lower, lower_plan
from placer.simulation import Limits, Outcome, Status, simulate, simulate_stack
from placer.simulation import records as at
from placer.simulation.machine import Machine
from placer.simulation.reference import simulate_reference
from placer.simulation.reference.engine import ReferenceResult
from placer.simulation.simulator import run_machine
from placer.simulation.warm import WarmState
from tests.placer.hand_cases import compute, flow, placed, port
from tests.placer.lowered_cases import SMALL, netlist_of, random_decisions
from tests.placer.netlist import random_plans
from tests.placer.netlist.random_plans import KINDS as PLANNED_KINDS
from tests.placer.netlist.random_plans import random_plan
from tests.placer.random_cases import random_case, random_decision, random_fabric, random_netlist

# Statistics cover the whole run, as those of the plain engine do.
BRIEF = Limits(1, 1, tolerance=0.02, max_cycles=1500, max_samples=10, statistics_from_sample=-1)


def finish_cycles(machine: Machine) -> list[list[int]]:
    """Return per unit the cycle in which it finished each sample of the last decision."""
    cells, max_samples = machine.cells, int(machine.cells[at.MAX_SAMPLES])
    units = range(int(cells[at.UNITS]), int(cells[at.UNITS_END]), at.UNIT_SIZE)
    cycles = []
    for unit in units:
        first, finished = int(cells[unit + at.UNIT_FINISHES]), int(cells[unit + at.UNIT_FINISHED])
        # A unit may run ahead of the others, past the samples that were asked for.
        cycles.append(cells[first : first + min(finished, max_samples)].tolist())
    return cycles


def reference(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, limits: Limits, warm: WarmState | None = None
) -> ReferenceResult:
    return simulate_reference(
        fabric,
        netlist,
        decisions,
        warmup_samples=limits.warmup_samples,
        window_samples=limits.window_samples,
        tolerance=limits.tolerance,
        max_cycles=limits.max_cycles,
        max_samples=limits.max_samples,
        warm=warm,
    )


def assert_engines_agree(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, limits: Limits, warm: WarmState | None = None
) -> None:
    expected = reference(fabric, netlist, decisions, limits, warm)
    outcome, machine = run_machine(fabric, netlist, decisions, limits, warm)
    assert outcome.status[0] == expected.status
    assert outcome.cycles_simulated[0] == expected.cycles_simulated
    assert outcome.samples[0] == expected.samples
    assert outcome.first_sample_cycles[0] == expected.first_sample_cycles
    np.testing.assert_equal(outcome.cycles_per_sample[0], expected.cycles_per_sample)
    assert finish_cycles(machine) == [cycles[: limits.max_samples] for cycles in expected.finish]
    assert outcome.link_vectors[0].tolist() == expected.link_vectors
    assert outcome.unit_time[0].tolist() == expected.unit_time
    assert outcome.vector_hops[0] == sum(expected.link_vectors)
    assert outcome.counted_cycles[0] == expected.cycles_simulated


@pytest.mark.parametrize("seed", range(30))
def test_engines_agree(seed: int) -> None:
    assert_engines_agree(*random_case(seed), BRIEF)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30, 230))
def test_engines_agree_for_longer(seed: int) -> None:
    limits = BRIEF._replace(window_samples=2, max_cycles=2500, max_samples=20)
    assert_engines_agree(*random_case(seed), limits)


@pytest.mark.slow
@pytest.mark.parametrize("method", RoutingMethod)
def test_engines_agree_on_a_lowered_workload(method: RoutingMethod) -> None:
    netlist = netlist_of("mha", training=True)
    decisions = random_decisions(netlist, 1, seed=0, method=method)
    assert_engines_agree(SMALL, netlist, decisions, BRIEF)


def has_partial_sums(netlist: Netlist) -> bool:
    """Say whether some compute units hand their sums on to others."""
    kinds = [unit.kind for unit in netlist.units]
    return any(kinds[flow.source] == kinds[flow.targets[0]] == SiteKind.COMPUTE for flow in netlist.flows)


@pytest.mark.parametrize("kind", PLANNED_KINDS)
def test_engines_agree_on_sections_of_random_plans(kind: str) -> None:
    # Operations of all kinds, and products whose sums several units share.
    rng = np.random.default_rng(11)
    fabric, graph = random_plans.random_fabric(rng), random_plans.random_graph(rng, kind)
    netlists = [section.netlist for section in lower_plan(fabric, graph, random_plan(rng, fabric, graph))]
    netlists.sort(key=has_partial_sums)
    for netlist in netlists[-2:]:
        decisions = route(fabric, netlist, random_sites(fabric, netlist, 1, seed=0))
        assert_engines_agree(fabric, netlist, decisions, BRIEF)


def test_engines_agree_on_sums_that_several_units_share() -> None:
    graph = build(GemmSpec(16, 64, 32))
    layout = SectionPlan(
        Tiling(), (GroupPlan(rows=2, columns=2, inner=4),), (BufferPlan(slots=5), BufferPlan()), (WeightsPlan(),)
    )
    netlist = lower(SMALL, graph, layout)
    assert has_partial_sums(netlist)
    assert_engines_agree(SMALL, netlist, random_decisions(netlist, 1, seed=0), BRIEF)


def random_stack(seed: int, num: int) -> tuple[Fabric, Netlist, Decisions]:
    """A random netlist with many decisions."""
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    netlist = random_netlist(rng, fabric)
    stack = Decisions.concatenate(random_decision(rng, fabric, netlist) for _ in range(num))
    return fabric, netlist, stack


def assert_same(outcome: Outcome, other: Outcome) -> None:
    for name, values, others in zip(Outcome._fields, outcome, other, strict=True):
        np.testing.assert_array_equal(values, others, err_msg=name)


@pytest.mark.parametrize("seed", range(5))
def test_stack_is_simulated_as_its_members_are(seed: int) -> None:
    fabric, netlist, decisions = random_stack(seed, num=12)
    limits = Limits(max_cycles=20_000)
    outcome = simulate_stack(fabric, netlist, decisions, limits)
    singles = [simulate_stack(fabric, netlist, decisions[d], limits) for d in range(12)]
    assert_same(outcome, Outcome(*map(np.concatenate, zip(*singles, strict=True))))
    # Decisions differ, or the test would not see a mix-up.
    assert len(set(outcome.vector_hops.tolist())) > 1


@pytest.mark.parametrize("seed", range(5))
def test_same_input_same_bits(seed: int) -> None:
    case = random_stack(seed, num=4)
    assert_same(simulate_stack(*case), simulate_stack(*case))


def test_empty_stack() -> None:
    fabric, netlist, decisions = random_case(0)
    empty = Decisions(
        sites=decisions.sites[:0],
        channels=decisions.channels[:0],
        route_start=decisions.route_start[:0],
        links=decisions.links[:0],
        parents=decisions.parents[:0],
    )
    assert simulate(fabric, netlist, empty) == []


@pytest.mark.parametrize("seed", range(10))
def test_measurement_accounts_for_all_time_after_the_warm_up(seed: int) -> None:
    fabric, netlist, decisions = random_case(seed, deadlock_free=True)
    [measurement] = simulate(fabric, netlist, decisions)
    [outcome_cycles] = simulate_stack(fabric, netlist, decisions).counted_cycles
    assert 0 < outcome_cycles < measurement.cycles_simulated
    assert measurement.unit_time.shape == (netlist.num_units, 4)
    np.testing.assert_allclose(measurement.unit_time.sum(axis=1), 1)
    assert measurement.link_utilisation.max() <= 1
    unused = np.setdiff1d(np.arange(fabric.topology.num_links), decisions.links)
    assert not measurement.link_utilisation[unused].any()
    assert measurement.throughput == netlist.bound_cycles / measurement.cycles_per_sample


def barrier_beside_a_stream(window: int) -> tuple[Fabric, Netlist, Decisions]:
    """`source` feeds `join` directly and through `barrier`, which first wants a whole sample."""
    fabric = Fabric(
        name="hand",
        columns=5,
        rows=2,
        link=LinkSpec(hop_cycles=1, credit_hop_cycles=1, channels=2),
        local=LocalSpec(vectors_per_cycle=2, hop_cycles=1),
        compute=ComputeSpec(window_vectors=window, output_vectors=2),
    )
    units = [
        compute(20, depth=1, name="source"),
        compute(20, releases=1, depth=1, name="barrier"),
        compute(20, depth=1, name="join"),
    ]
    flows = [flow(0, 1, tokens=20), flow(0, 2, tokens=20), flow(1, 2, tokens=20)]
    return placed(fabric, units, flows, [2, 0, 4], channels=[0, 1, 0])


def test_deadlock_is_detected_and_explained() -> None:
    # The stream to `join` holds no more than its window and its output queue of the 20 vectors of
    # a sample, then `source` stops and `barrier` never gets the whole sample that it waits for.
    [measurement] = simulate(*barrier_beside_a_stream(window=4))
    assert measurement.status == Status.DEADLOCK
    assert (measurement.samples, measurement.first_sample_cycles) == (0, -1)
    assert np.isnan(measurement.cycles_per_sample)
    chain = measurement.critical.removeprefix("deadlock: ").split(" waits for ")
    assert chain[0] == chain[-1]
    # `source` waits for room, `join` and `barrier` for data.
    waits = set(pairwise(chain))
    assert waits == {("source", "join"), ("join", "barrier"), ("barrier", "source")}


def test_deadlock_leaves_no_trace_in_the_next_decision() -> None:
    fabric, netlist, stuck = barrier_beside_a_stream(window=4)
    first = simulate_stack(fabric, netlist, stuck)
    twice = simulate_stack(fabric, netlist, Decisions.concatenate([stuck, stuck]))
    assert_same(twice, Outcome(*(np.concatenate([values, values]) for values in first)))


def test_window_of_a_sample_avoids_the_deadlock() -> None:
    [measurement] = simulate(*barrier_beside_a_stream(window=20))
    assert measurement.status == Status.STEADY


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_engines_agree_when_a_deadlock_meets_the_cycle_limit(more: int) -> None:
    case = barrier_beside_a_stream(window=4)
    [last] = simulate_stack(*case).cycles_simulated.tolist()
    assert_engines_agree(*case, BRIEF._replace(max_cycles=last + more))


def test_engines_agree_on_a_flow_from_a_load_to_a_store() -> None:
    # Both ends compete for the only DRAM channel with the same flow id.
    dram = DramSpec(channels=1, latency_cycles=4, burst_vectors=4, window_vectors=4)
    fabric = Fabric(name="hand", columns=2, rows=2, dram=dram)
    case = placed(fabric, [port(), port()], [flow(1, 0, tokens=18)], [4, 7])
    assert_engines_agree(*case, BRIEF)


def test_engines_agree_when_a_firing_is_longer_than_all_delays() -> None:
    # Timers reach as far as the longest delay; a unit that works longer sets them again and again.
    units = [compute(4, cycles=12_000), compute(8), port()]
    flows = [flow(2, 1, tokens=8), flow(1, 0, tokens=4)]
    fabric = Fabric(name="hand", columns=3, rows=2)
    limits = BRIEF._replace(max_cycles=30_000, max_samples=2)
    assert_engines_agree(*placed(fabric, units, flows, [0, 2, 6]), limits)


@pytest.mark.parametrize("seed", range(3))
def test_engines_agree_on_crowded_links(seed: int) -> None:
    # Two units send to six others in both channels: of many requests for a link often only one has
    # room, and it may be the flow that won last.
    rng = np.random.default_rng(seed)
    fabric = Fabric(name="hand", columns=4, rows=4)
    units = [compute(40, name=f"compute{k}") for k in range(8)]
    pairs = [(source, target) for source in range(2) for target in range(2, 8)]
    flows = [flow(*pairs[k], tokens=int(rng.integers(10, 41))) for k in rng.permutation(len(pairs))]
    channels = rng.integers(0, 2, len(flows)).tolist()
    case = placed(fabric, units, flows, [0, 2, 5, 7, 8, 10, 13, 15], channels)
    assert_engines_agree(*case, BRIEF)


def test_limit_before_the_pipeline_is_full_is_said() -> None:
    fabric, netlist, decisions = random_case(1, deadlock_free=True)
    [measurement] = simulate(fabric, netlist, decisions, Limits(max_cycles=5))
    assert (measurement.status, measurement.cycles_simulated) == (Status.CAP, 5)
    assert "limit" in measurement.critical


def test_the_number_of_cores_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    netlist = netlist_of("ffn", training=False)
    decisions = random_decisions(netlist, 7, seed=3)
    outcomes = []
    for cores in (1, 3):
        monkeypatch.setattr(config, "NUMBA_NUM_THREADS", cores)
        outcomes.append(simulate_stack(SMALL, netlist, decisions))
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(one, other)
