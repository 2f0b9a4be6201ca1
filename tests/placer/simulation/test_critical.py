"""The critical resource is the one with the largest demand, named and described alike."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.decision.routing import Demand, demand_of
from placer.simulation import CriticalResource, ResourceKind, find_critical, simulate
from tests.placer.decision.test_demand import hand_made, largest
from tests.placer.random_cases import random_case

WORDS = {
    ResourceKind.UNIT: "compute unit ",
    ResourceKind.LINK: "link ",
    ResourceKind.FLOW: "flow ",
    ResourceKind.READ_PORT: "read port of ",
    ResourceKind.WRITE_PORT: "write port of ",
    ResourceKind.DRAM: "DRAM bandwidth",
}


def demand_for(demand: Demand, critical: CriticalResource) -> float:
    if critical.kind == ResourceKind.DRAM:
        return demand.dram
    cycles = {
        ResourceKind.UNIT: demand.unit,
        ResourceKind.LINK: demand.link,
        ResourceKind.FLOW: demand.flow,
        ResourceKind.READ_PORT: demand.read_port,
        ResourceKind.WRITE_PORT: demand.write_port,
    }[critical.kind]
    return float(cycles[critical.resource_id])


def test_by_hand() -> None:
    # The read port of memory site 3, with both buffers on it, is needed for 130 cycles.
    critical = find_critical(*hand_made(), cycles_per_sample=130)
    sentence = "read port of left, right (100% of the period)"
    assert critical == CriticalResource(ResourceKind.READ_PORT, 3, sentence)


@pytest.mark.parametrize(("cycles", "explains"), [(144, True), (145, False)])
def test_a_resource_needed_for_nine_tenths_explains_the_period(cycles: int, explains: bool) -> None:
    critical = find_critical(*hand_made(), cycles_per_sample=cycles)
    assert critical.sentence.startswith("contention: ") != explains
    assert critical.sentence.endswith("read port of left, right (90% of the period)")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_it_has_the_largest_demand_and_the_sentence_names_its_kind(seed: int) -> None:
    fabric, netlist, decision = random_case(seed)
    demand = demand_of(fabric, netlist, decision)
    critical = find_critical(fabric, netlist, decision, cycles_per_sample=largest(demand))
    assert demand_for(demand, critical) == largest(demand)
    assert critical.sentence.startswith(WORDS[critical.kind])


def test_a_measurement_has_its_sentence() -> None:
    [measurement] = simulate(*hand_made())
    critical = find_critical(*hand_made(), measurement.cycles_per_sample)
    assert measurement.critical == critical.sentence
