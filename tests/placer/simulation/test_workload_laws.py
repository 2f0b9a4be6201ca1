"""Laws of the simulator on lowered workloads of all families."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import FloatArray
from placer.decision import check
from placer.decision.routing import RoutingMethod
from placer.fabric import Fabric
from placer.simulation import Limits, Status, simulate_stack
from tests.placer.lowered_cases import KINDS, SMALL, netlist_of, random_decisions

LONG = Limits(warmup_samples=8, window_samples=24, tolerance=0.005, max_samples=400)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.sampled_from(KINDS), st.integers(0, 3), st.sampled_from(RoutingMethod), st.integers(0, 1000))
def test_throughput_of_workloads_never_exceeds_the_bound(
    kind: tuple[str, bool], spec_seed: int, method: RoutingMethod, seed: int
) -> None:
    netlist = netlist_of(*kind, spec_seed)
    decisions = random_decisions(netlist, 1, seed, method)
    outcome = simulate_stack(SMALL, netlist, decisions)
    assert outcome.status[0] == Status.STEADY
    assert outcome.cycles_per_sample[0] >= netlist.bound_cycles


def improved_fabrics() -> dict[str, Fabric]:
    """The small fabric with more of something."""
    link, compute_spec, memory_spec = SMALL.link, SMALL.compute, SMALL.memory
    return {
        "wider links": replace(SMALL, link=replace(link, vectors_per_cycle=2)),
        "deeper FIFOs": replace(SMALL, link=replace(link, fifo_vectors=2 * link.fifo_vectors)),
        "larger windows": replace(
            SMALL,
            compute=replace(compute_spec, window_vectors=2 * compute_spec.window_vectors),
            memory=replace(memory_spec, window_vectors=2 * memory_spec.window_vectors),
        ),
    }


def slowdowns(workloads: list[tuple[str, bool]], num: int) -> dict[str, FloatArray]:
    """Period on each improved fabric over that on the small one, of random decisions."""
    ratios: dict[str, list[FloatArray]] = {}
    for kind in workloads:
        netlist = netlist_of(*kind)
        decisions = random_decisions(netlist, num, seed=1)
        before = simulate_stack(SMALL, netlist, decisions, LONG).cycles_per_sample
        for name, fabric in improved_fabrics().items():
            after = simulate_stack(fabric, netlist, decisions, LONG).cycles_per_sample
            ratios.setdefault(name, []).append(after / before)
    return {name: np.concatenate(parts) for name, parts in ratios.items()}


# Wider links and deeper FIFOs never cost more than 3%. Larger windows may: what more is in flight
# stands in the way of others that share a channel. Of 32 random decisions, twice the window cost
# more than 3% in 6, at most 15%; in most it helped.
MOST_SLOWDOWN = {"wider links": 1.04, "deeper FIFOs": 1.05, "larger windows": 1.25}


@pytest.mark.slow
def test_more_of_a_resource_is_hardly_ever_worse() -> None:
    for name, ratios in slowdowns(KINDS, num=2).items():
        assert ratios.max() <= MOST_SLOWDOWN[name], name
        assert np.mean(ratios > 1.03) <= 0.25, name
        assert np.median(ratios) <= 1.01, name


def assert_no_deadlock(family: str, training: bool, spec_seed: int | None, num: int) -> None:
    netlist = netlist_of(family, training, spec_seed)
    for method in RoutingMethod:
        decisions = random_decisions(netlist, num, seed=2, method=method)
        check(SMALL, netlist, decisions)
        outcome = simulate_stack(SMALL, netlist, decisions)
        assert outcome.status.tolist() == [Status.STEADY] * num, method
        assert (outcome.cycles_per_sample >= netlist.bound_cycles).all()


@pytest.mark.slow
@pytest.mark.parametrize(("family", "training"), KINDS)
def test_workload_does_not_deadlock(family: str, training: bool) -> None:
    assert_no_deadlock(family, training, None, num=1)


@pytest.mark.slow
@pytest.mark.parametrize("spec_seed", range(4))
@pytest.mark.parametrize(("family", "training"), KINDS)
def test_random_workload_does_not_deadlock(family: str, training: bool, spec_seed: int) -> None:
    assert_no_deadlock(family, training, spec_seed, num=2)


def short_run_errors(num: int) -> FloatArray:
    """How far the period is off, by kind and decision, against runs six times as long."""
    errors = []
    for kind in KINDS:
        netlist = netlist_of(*kind)
        decisions = random_decisions(netlist, num, seed=3)
        short = simulate_stack(SMALL, netlist, decisions)
        long = simulate_stack(SMALL, netlist, decisions, Limits(12, 24))
        assert (short.status == Status.STEADY).all()
        assert (long.samples > 12 + 2 * 24).all()
        assert (long.cycles_per_sample >= netlist.bound_cycles).all()
        errors.append(np.abs(short.cycles_per_sample / long.cycles_per_sample - 1))
    return np.array(errors)


# Of 32 random decisions the median was off by 1.7%, 9 of 10 by less than 7%, one by 13%: now and
# then a pipeline keeps a pace for some samples before it falls into another.
@pytest.mark.slow
def test_periods_agree_with_runs_six_times_as_long() -> None:
    errors = short_run_errors(num=2)
    assert np.median(errors) <= 0.03
    assert np.quantile(errors, 0.9) <= 0.15
