"""Cost models that need no rules: the simulator, and scores at random."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import placer.cost.cost
from placer.base import InputError
from placer.cost import SimulatorCost
from placer.cost.cost import RandomCost
from placer.graph.workloads import build
from placer.graph.workloads.specs import FfnSpec
from placer.netlist.lowering import lower
from placer.simulation import LONG_SAMPLE_LIMITS, PRECISE_LIMITS, Limits, Status, label_limits, simulate_stack
from tests.placer.lowered_cases import SMALL, netlist_of, random_decisions
from tests.placer.random_cases import random_case

NETLIST = netlist_of("mlp", False)


@pytest.mark.slow
def test_the_simulator_scores_by_its_throughput() -> None:
    decisions = random_decisions(NETLIST, 3, seed=0)
    limits = label_limits(NETLIST.bound_cycles)
    measured = simulate_stack(SMALL, NETLIST, decisions, limits).cycles_per_sample
    scores = SimulatorCost(SMALL).score(NETLIST, decisions)
    np.testing.assert_allclose(scores, NETLIST.bound_cycles / measured)
    assert ((scores > 0) & (scores <= 1)).all()


@pytest.mark.slow
def test_few_long_samples_tell_the_same_as_many() -> None:
    netlist = lower(SMALL, build(FfnSpec(rows=256, width=64, hidden=256)))
    assert label_limits(netlist.bound_cycles) == LONG_SAMPLE_LIMITS
    decisions = random_decisions(netlist, 2, seed=0)
    precise = SimulatorCost(SMALL, PRECISE_LIMITS).score(netlist, decisions)
    np.testing.assert_allclose(SimulatorCost(SMALL).score(netlist, decisions), precise, rtol=0.02)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_every_simulation_has_a_score_in_range(seed: int) -> None:
    fabric, netlist, decisions = random_case(seed, deadlock_free=True)
    [score] = SimulatorCost(fabric).score(netlist, decisions)
    assert 0 < score <= 1


def test_a_simulation_cut_before_a_sample_is_an_error() -> None:
    cost = SimulatorCost(SMALL, Limits(max_cycles=10))
    with pytest.raises(InputError, match="max_cycles=10 before any sample was complete; allow"):
        cost.score(NETLIST, random_decisions(NETLIST, 1, seed=0))


def test_a_deadlock_scores_next_to_nothing_beside_a_measured_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = SimpleNamespace(
        status=np.array([Status.CAP, Status.DEADLOCK]), cycles_per_sample=np.array([2.0 * NETLIST.bound_cycles, np.nan])
    )
    monkeypatch.setattr(placer.cost.cost, "simulate_stack", lambda *_: outcome)
    scores = SimulatorCost(SMALL).score(NETLIST, random_decisions(NETLIST, 2, seed=0))
    assert scores.tolist() == [0.5, np.finfo(np.float64).tiny]


def test_random_scores_are_in_range_and_repeat_with_the_seed() -> None:
    decisions = random_decisions(NETLIST, 50, seed=0)
    scores = RandomCost(seed=3).score(NETLIST, decisions)
    assert scores.shape == (50,)
    assert ((scores > 0) & (scores <= 1)).all()
    assert len(set(scores.tolist())) == 50
    np.testing.assert_array_equal(scores, RandomCost(seed=3).score(NETLIST, decisions))
    assert (scores != RandomCost(seed=4).score(NETLIST, decisions)).all()
