"""The published network: Algorithm 1 against a slow version of itself, node by node."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from costmodel.encoding import encode, netlist_features
from costmodel.networks.guha import NUM_TYPES, SWITCH_OP, SWITCH_STAGE, GuhaConfig, GuhaNetwork
from placer.base import InputError
from tests.costmodel.cases import Case, batch_of, network_of, random_stack


@dataclass
class PlainGraph:
    """Nodes with features, edges with features."""

    nodes: list[Tensor]
    edges: list[tuple[int, int, Tensor]]


def plain_graph(network: GuhaNetwork, case: Case, d: int) -> PlainGraph:
    """Units and switches in use, with the links between them (cost model paper, section III)."""
    fabric, netlist, decisions = case
    encoded, features = encode(fabric, netlist, decisions[d]), netlist_features(fabric, netlist)
    nodes = []
    for k, unit in enumerate(netlist.units):
        kind = torch.eye(NUM_TYPES)[int(unit.kind)]
        learned = (network.op.weight[features.unit_op[k]], network.stage.weight[unit.stage])
        nodes.append(torch.cat((kind, *learned)))
    for _ in range(int(encoded.num_switches[0])):
        learned = (network.op.weight[SWITCH_OP], network.stage.weight[SWITCH_STAGE])
        nodes.append(torch.cat((torch.eye(NUM_TYPES)[-1], *learned)))
    edges = []
    for unit in range(netlist.num_units):
        switch = netlist.num_units + int(encoded.unit_switch[0, unit])
        edges.append((unit, switch, torch.zeros(3)))
    for k in range(len(encoded.link_from)):
        first, second = int(encoded.link_from[k]), int(encoded.link_to[k])
        if first >= 0 and second >= 0:
            flows, hops = int(encoded.link_flows[k]), int(encoded.link_hops[k])
            row = torch.tensor([1.0, math.log(flows), hops / flows / 8])
            edges.append((netlist.num_units + first, netlist.num_units + second, row))
    return PlainGraph(nodes, edges)


def plain_predict(network: GuhaNetwork, graph: PlainGraph) -> Tensor:
    """Algorithm 1; the readout is the network's own."""
    near: list[list[tuple[int, Tensor]]] = [[] for _ in graph.nodes]
    for first, second, row in graph.edges:
        near[first].append((second, row))
        near[second].append((first, row))
    h = graph.nodes
    for layer in network.layers:
        result = []
        for v, edges in enumerate(near):
            mean_edge = torch.stack([row for _, row in edges]).mean(dim=0)
            mean_near = torch.stack([h[u] for u, _ in edges]).mean(dim=0)
            s = torch.relu(layer.edge(torch.cat((mean_edge, mean_near))))
            result.append(layer.node(torch.cat((h[v], s))))
        h = result
    return network.readout(torch.stack(h).mean(dim=0)[None])[0]


@pytest.mark.parametrize("seed", range(4))
def test_predictions_follow_algorithm_1(seed: int) -> None:
    cases = [random_stack(seed), random_stack(seed + 100)]
    batch = batch_of(*cases)
    network = network_of(GuhaConfig(width=8, rounds=3, embedding=4), batch, seed)
    assert isinstance(network, GuhaNetwork)
    with torch.no_grad():
        expected = [
            plain_predict(network, plain_graph(network, case, d)) for case in cases for d in range(len(case[2]))
        ]
        given = network(batch).log_throughput
    torch.testing.assert_close(given, torch.cat(expected), rtol=1e-5, atol=1e-5)
    assert np.ptp(given.numpy()) > 1e-4


def test_sizes_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match=r"model\.rounds=0; allowed 1 to 16"):
        GuhaConfig(rounds=0)
    with pytest.raises(InputError, match=r"model\.embedding=0"):
        GuhaConfig(embedding=0)
