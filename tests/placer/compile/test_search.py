"""Compilation: more time is never worse, results are always legal, the same for any workers, and nothing is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from placer.base import DoesNotFitError, FloatArray, InputError
from placer.base.workers import WorkerCrashError, Workers
from placer.compile import compile_network
from placer.cost import HeuristicCost, Rules
from placer.fabric import Fabric, load_fabric
from placer.graph.workloads import build
from placer.graph.workloads.specs import FfnSpec, MhaSpec, MlpSpec, Spec
from placer.netlist import Netlist
from placer.netlist.lowering import default_plan
from tests.placer.compile.cases import SMALL, compiled, options
from tests.placer.netlist.evaluate import assert_computes, assert_counts

FFN = build(FfnSpec(48, 64, 128))
NETWORKS = [MhaSpec(24, 64, 4), MlpSpec(96, 64, 4), FfnSpec(40, 64, 128, training=True)]


@pytest.mark.slow
@pytest.mark.parametrize("spec", NETWORKS, ids=lambda spec: type(spec).__name__)
def test_a_compiled_network_is_legal_and_computes_the_same(spec: Spec) -> None:
    graph = build(spec)
    network = compiled(graph, options())
    network.require_legal()
    assert_computes(SMALL, graph, network.plan)
    assert_counts(SMALL, graph, network.plan)
    cycles = [step.cycles_per_input for step in network.history]
    assert cycles == sorted(cycles, reverse=True)
    assert network.cycles_per_input == cycles[-1]


def test_the_first_result_is_the_plan_by_rules_and_later_ones_are_faster() -> None:
    first, more = compiled(FFN, options(1)), compiled(FFN, options(3))
    assert first.history[0].cycles_per_input == more.history[0].cycles_per_input
    assert more.cycles_per_input <= first.cycles_per_input <= first.history[0].cycles_per_input
    alone = compiled(FFN, options(None, seconds=1e-3))  # there is one result, however short the time
    assert len(alone.history) == 1 and alone.plan == default_plan(SMALL, FFN, batch=4)
    assert alone.cycles_per_input == first.history[0].cycles_per_input


class ManyUnits(HeuristicCost):
    """Believes that the more units, the better."""

    def potential(self, netlists: Sequence[Netlist]) -> FloatArray:
        return np.array([(netlist.num_units / 100) ** 6 for netlist in netlists])


@dataclass(frozen=True)
class ManyUnitsChoice:
    name: str = "many units"

    def model(self, fabric: Fabric, rules: Rules, seed: int) -> ManyUnits:
        return ManyUnits(fabric, rules)


def test_the_best_draft_may_be_placed_first() -> None:
    drafted = replace(options(), draft_first=True, cost=ManyUnitsChoice())
    first, more = (compiled(FFN, replace(drafted, max_rounds=rounds)) for rounds in (1, 3))
    assert first.history[0].cycles_per_input == more.history[0].cycles_per_input
    assert more.cycles_per_input <= first.cycles_per_input
    assert first.plan != default_plan(SMALL, FFN, batch=4), "a plan that is believed to be faster"


def test_a_plan_that_is_given_is_placed_first() -> None:
    plan = default_plan(SMALL, FFN, batch=4)
    begun = compile_network(SMALL, FFN, options(None, seconds=1e-3), Workers(), plan)
    longer = compile_network(SMALL, FFN, options(2), Workers(), plan)
    assert begun.plan == plan and longer.history[0].cycles_per_input == begun.cycles_per_input


@pytest.mark.slow
def test_workers_do_not_change_what_is_found() -> None:
    here = compiled(FFN, options(2))
    for workers in (1, 2):
        there = compile_network(SMALL, FFN, options(2), Workers(workers=workers))
        assert there.plan == here.plan and there.cycles_per_input == here.cycles_per_input
        assert [step.cycles_per_input for step in there.history] == [step.cycles_per_input for step in here.history]
        for one, other in zip(there.sections, here.sections, strict=True):
            assert (one.result.decision.sites == other.result.decision.sites).all()
            assert one.predicted_cycles == other.predicted_cycles


def test_ctrl_c_keeps_the_best_so_far() -> None:
    def press(number: int) -> None:
        if number == 1:
            raise KeyboardInterrupt

    network = compiled(FFN, options(5), before_round=press)
    assert network.is_interrupted and not compiled(FFN, options(1)).is_interrupted
    network.require_legal()


def test_ctrl_c_before_the_first_result_is_told() -> None:
    def press(number: int) -> None:
        raise KeyboardInterrupt

    graph = build(MhaSpec(24, 64, 4))
    with pytest.raises(KeyboardInterrupt):
        compiled(graph, options(5), load_fabric("small", ["columns=4", "rows=4"]), before_round=press)


@pytest.mark.slow
def test_a_lost_worker_costs_its_jobs_only(caplog: pytest.LogCaptureFixture) -> None:
    def lose(number: int) -> None:
        if number == 1:
            raise WorkerCrashError("a worker is gone")

    network = compiled(FFN, options(3), before_round=lose)
    assert "a worker is gone" in caplog.text
    assert network.cycles_per_input <= network.history[0].cycles_per_input and not network.is_interrupted


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(DoesNotFitError):
        compiled(FFN, options(1), load_fabric("small", ["columns=2", "rows=2", "memory.capacity_bytes=256"]))


def test_a_plan_to_begin_with_must_be_of_the_network() -> None:
    other = default_plan(SMALL, build(MlpSpec(96, 64, 4)))
    with pytest.raises(InputError, match="is for another network"):
        compile_network(SMALL, FFN, options(1), Workers(), other)


def test_what_is_predicted_is_told() -> None:
    network = compiled(FFN, options(1))
    assert all(math.isfinite(section.predicted_cycles) for section in network.sections)
