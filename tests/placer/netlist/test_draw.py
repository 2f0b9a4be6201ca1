"""Random segments and their plans: all families, several ways to lay out the same work."""

from __future__ import annotations

import numpy as np
import pytest

from placer.base import DoesNotFitError
from placer.fabric import draw_fabric, load_fabric
from placer.graph.workloads import FAMILIES, NETWORK_FAMILIES, NETWORKS, sample_network
from placer.graph.workloads.sampling import is_published, sample_layer
from placer.netlist.lowering import draw_netlist, draw_plans, draw_segment
from placer.netlist.lowering.draw import DrawnPlan, DrawnSegment

MAX_CYCLES = 1024


def drawn(family: str, index: int) -> tuple[DrawnSegment, list[DrawnPlan]]:
    rng, fabric = np.random.default_rng([index, 5]), draw_fabric(5, index)
    while True:
        try:
            segment = draw_segment(fabric, family, 24, MAX_CYCLES, rng)
            return segment, draw_plans(fabric, segment, 3, MAX_CYCLES, rng)
        except DoesNotFitError:
            continue


@pytest.mark.parametrize("family", [*FAMILIES, *NETWORK_FAMILIES])
def test_plans_of_a_segment_do_the_same_work_in_different_ways(family: str) -> None:
    segment, plans = drawn(family, 3)
    netlists = [plan.netlist for plan in plans]
    assert len({netlist.fingerprint for netlist in netlists}) == 3
    assert {netlist.family for netlist in netlists} == {family} == {segment.about["family"]}
    assert all(netlist.bound_cycles <= MAX_CYCLES for netlist in netlists)
    ops = [{unit.op for unit in netlist.units} for netlist in netlists]
    assert ops[0] == ops[1] == ops[2]


def test_a_workload_as_a_segment_is_the_netlist_that_studies_draw() -> None:
    small = load_fabric("small")
    segment = draw_segment(small, "mlp", 32, MAX_CYCLES, np.random.default_rng([0, FAMILIES.index("mlp"), 4]))
    assert segment.lowered(small, segment.plan).netlist == draw_netlist(small, "mlp", 32, seed=0, index=4)


def test_no_published_transformer_is_drawn() -> None:
    published = {(model.width, model.heads) for model in NETWORKS.values() if hasattr(model, "heads")}
    assert (1024, 16) in published and all(is_published(*sizes) for sizes in published)
    rng = np.random.default_rng(0)
    layers = [sample_layer(rng)[0] for _ in range(2000)]
    assert not {(layer.width, layer.heads) for layer in layers} & published
    abouts = [sample_network("decoder", rng)[1] for _ in range(20)]
    assert not {(about["width"], about["heads"]) for about in abouts} & published
