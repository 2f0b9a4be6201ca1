"""A netlist alone: what every decision of it has in common, and nothing else."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costmodel.encoding import encode, encode_bare, graph_set, make_batch, netlist_features
from costmodel.inference import predict_encoded
from costmodel.networks import FlowConfig, FlowNetwork
from placer.netlist import full_bound
from tests.costmodel.cases import batch_of, network_of, random_stack


@pytest.mark.parametrize("seed", range(4))
def test_a_bare_decision_has_the_local_links_of_any_decision(seed: int) -> None:
    """What is left of a routed decision without its links between switches is the bare one."""
    fabric, netlist, decisions = random_stack(seed)
    bare, whole = encode_bare(fabric, netlist), encode(fabric, netlist, decisions[0])
    is_local = whole.lane_kind[whole.visit_lane] > 0
    assert np.array_equal(np.sort(whole.visit_flow[is_local]), np.sort(bare.visit_flow))
    kinds = [np.bincount(e.lane_kind[e.visit_lane], minlength=3)[1:] for e in (bare, whole)]
    assert np.array_equal(*kinds)
    assert not bare.end_hops.any()
    roots = bare.visit_before < 0
    assert np.array_equal(bare.visit_flow[roots], np.arange(netlist.num_flows))
    assert (bare.lane_kind[bare.visit_lane[roots]] == 1).all()
    assert (bare.lane_kind[bare.visit_lane[~roots]] == 2).all()
    assert bare.link_flows.sum() == len(bare.visit_flow)


def test_the_full_bound_stands_in_place_of_the_rules() -> None:
    fabric, netlist, _ = random_stack(1)
    expected = math.log(netlist.bound_cycles / full_bound(fabric, netlist).cycles)
    assert encode_bare(fabric, netlist).log_rules[0] == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_compiled_code_reads_bare_decisions_as_dgl_does(seed: int) -> None:
    fabric, netlist, _ = case = random_stack(seed)
    network = network_of(FlowConfig(width=16, rules=True, stalls=False), batch_of(case)).eval()
    assert isinstance(network, FlowNetwork)
    features, bare = netlist_features(fabric, netlist), encode_bare(fabric, netlist)
    output = network(make_batch(graph_set([(features, bare)]), np.arange(1)))
    found = predict_encoded([network], features, bare)[0, 0]
    np.testing.assert_allclose(found, [output.log_throughput.item(), output.log_sigma.item()], rtol=1e-4, atol=1e-6)
