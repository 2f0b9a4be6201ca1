"""Plans: whatever they choose, the network computes the same; and what cannot be is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.fabric import Fabric
from placer.graph import SOURCE_KINDS, DataflowGraph, OpKind, compute_values
from placer.netlist.lowering import Plan, default_plan
from placer.netlist.lowering.groups import stored
from tests.placer.graph.random_values import random_inputs, random_weights
from tests.placer.netlist.evaluate import run_plan
from tests.placer.netlist.random_plans import KINDS, random_fabric, random_graph, random_plan

seeds = st.integers(0, 2**32 - 1)


def random_case(kind: str, seed: int) -> tuple[Fabric, DataflowGraph, Plan]:
    rng = np.random.default_rng(seed)
    fabric, graph = random_fabric(rng), random_graph(rng, kind)
    return fabric, graph, random_plan(rng, fabric, graph)


def assert_computes(fabric: Fabric, graph: DataflowGraph, plan: Plan) -> None:
    """What the sections leave in DRAM, and the weight gradients, are those of the graph."""
    rng = np.random.default_rng(7)
    weights = random_weights(graph, rng)
    expected = compute_values(graph, random_inputs(graph, rng), weights)
    sources = {op.name: expected[op.name] for op in graph.ops if op.kind in SOURCE_KINDS}
    made = run_plan(fabric, graph, plan, sources, weights)
    wanted = {op.name for op in graph.ops if op.kind == OpKind.WEIGHT_GRAD}
    for op in graph.ops:
        if op.kind == OpKind.STORE:
            wanted |= stored(graph, op.inputs[0]) - sources.keys()
    assert wanted <= made.keys()
    for name, value in made.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4, deadline=None)
@given(seed=seeds)
def test_any_plan_computes_what_the_graph_computes(kind: str, seed: int) -> None:
    assert_computes(*random_case(kind, seed))
