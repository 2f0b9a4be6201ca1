"""Short simulations: warm starts that both engines read alike, and estimates close to labels."""

from __future__ import annotations

import numpy as np
import pytest

from placer.decision import random_sites
from placer.decision.routing import route
from placer.fabric import SiteKind
from placer.graph.workloads import GemmSpec, build
from placer.netlist import Netlist
from placer.netlist.lowering import BufferPlan, GroupPlan, SectionPlan, Tiling, WeightsPlan, lower
from placer.simulation import (
    PRECISE_LIMITS,
    ShortLimits,
    ShortRun,
    Status,
    short_machine,
    simulate_short,
    simulate_stack,
)
from placer.simulation.warm import WarmState, sinks_of, warm_state
from tests.placer.lowered_cases import SMALL, netlist_of, random_decisions
from tests.placer.random_cases import random_case
from tests.placer.simulation.test_engine import BRIEF, assert_engines_agree


def assert_balanced(netlist: Netlist, state: WarmState) -> None:
    """What left a source is at or behind its targets, up to whole samples: units count their own."""
    for s, (f, target) in enumerate(sinks_of(netlist)):
        flow = netlist.flows[f]
        source, unit = netlist.units[flow.source], netlist.units[target]
        if source.kind == SiteKind.COMPUTE:
            releases = state.fired[flow.source] * source.releases // source.firings
            assert state.put[f] % flow.tokens == releases * flow.tokens // source.releases % flow.tokens
        taken = state.taken[s]
        if unit.kind == SiteKind.COMPUTE:
            taken = -(-state.fired[target] * flow.tokens // unit.firings)
        assert (state.put[f] - state.queued[f] - state.arrived[s] - taken) % flow.tokens == 0


@pytest.mark.parametrize("seed", range(12))
def test_engines_agree_on_a_warm_start(seed: int) -> None:
    fabric, netlist, decision = random_case(seed, deadlock_free=True)
    state = warm_state(fabric, netlist)
    if state is None:  # then a short simulation starts empty
        pytest.skip("this netlist has no warm start")
    assert_balanced(netlist, state)
    assert_engines_agree(fabric, netlist, decision, BRIEF, state)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gemm", "mha"])
def test_engines_agree_on_a_warm_workload(family: str) -> None:
    netlist = netlist_of(family, training=False)
    state = warm_state(SMALL, netlist)
    assert state is not None
    assert_balanced(netlist, state)
    assert_engines_agree(SMALL, netlist, random_decisions(netlist, 1, seed=0), BRIEF, state)


def shared_sums() -> Netlist:
    """Return a product whose sums pass through four units without buffers."""
    layout = SectionPlan(
        Tiling(), (GroupPlan(rows=2, columns=2, inner=4),), (BufferPlan(slots=5), BufferPlan()), (WeightsPlan(),)
    )
    return lower(SMALL, build(GemmSpec(16, 64, 32)), layout)


def test_engines_agree_on_warm_sums_that_several_units_share() -> None:
    netlist = shared_sums()
    state = warm_state(SMALL, netlist)
    assert state is not None
    assert sum(state.arrived) > 0
    assert_balanced(netlist, state)
    assert_engines_agree(SMALL, netlist, random_decisions(netlist, 1, seed=0), BRIEF, state)


def test_short_labels_are_near_the_full_ones_and_cheaper() -> None:
    netlist = netlist_of("ffn", training=False)
    decisions = route(SMALL, netlist, random_sites(SMALL, netlist, 8, seed=0))
    short, full = simulate_short(SMALL, netlist, decisions), simulate_stack(SMALL, netlist, decisions, PRECISE_LIMITS)
    error = short.cycles_per_sample / full.cycles_per_sample - 1
    assert np.abs(error).mean() < 0.1
    assert 3 * short.vector_hops.sum() < full.vector_hops.sum()
    assert set(short.status.tolist()) <= {Status.STEADY, Status.CAP}


def test_a_short_run_goes_on_where_it_stopped() -> None:
    netlist = netlist_of("ffn", training=False)
    decision = random_decisions(netlist, 1, seed=0)
    machine, wide = short_machine(SMALL, netlist, decision), ShortLimits(least=4.0, most=5.0)
    stopped, whole = (ShortRun(machine.another(), netlist, decision) for _ in range(2))
    stopped.advance(ShortLimits())
    before = stopped.cycles
    stopped.advance(wide)
    whole.advance(wide)
    assert stopped.cycles > before
    assert (stopped.cycles, stopped.hops, stopped.period) == (whole.cycles, whole.hops, whole.period)
