"""Compiled code predicts what the DGL network predicts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from costmodel.encoding import encode, netlist_features
from costmodel.inference import predict_encoded
from costmodel.inference.vectors import aligned_zeros, dense
from costmodel.networks import FlowConfig, FlowNetwork, Pooling
from tests.costmodel.cases import Case, batch_of, network_of, random_stack

CONFIGS = [
    FlowConfig(width=8, lane_width=8, rounds=2),
    FlowConfig(),
    FlowConfig(width=20, lane_width=36, rounds=1, pooling=Pooling.MAX),
    FlowConfig(rounds=0),
    FlowConfig(width=16, lanes=False, stalls=False),
    FlowConfig(width=16, edge_embedding=False, pooling=Pooling.MEAN),
    FlowConfig(width=16, node_embedding=False, annotations=False),
    FlowConfig(width=16, rules=True),
    FlowConfig(width=16, rules=True, trust=True),
]


def flow_network(config: FlowConfig, case: Case, seed: int = 0) -> FlowNetwork:
    network = network_of(config, batch_of(case), seed).eval()
    assert isinstance(network, FlowNetwork)
    return network


def by_dgl(network: FlowNetwork, case: Case) -> np.ndarray:
    with torch.inference_mode():
        output = network(batch_of(case))
    return np.stack((output.log_throughput.numpy(), output.log_sigma.numpy()), axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_compiled_predictions_are_those_of_dgl(config: FlowConfig, seed: int) -> None:
    """Random netlists and fabrics, decisions of every router and random ones."""
    fabric, netlist, decisions = case = random_stack(seed)
    networks = [flow_network(config, case, seed=number) for number in range(2)]
    result = predict_encoded(networks, netlist_features(fabric, netlist), encode(*case))
    for member, network in enumerate(networks):
        np.testing.assert_allclose(result[:, member], by_dgl(network, case), rtol=1e-4, atol=1e-6)
    alone = predict_encoded(networks, netlist_features(fabric, netlist), encode(fabric, netlist, decisions[1]))
    np.testing.assert_array_equal(alone[0], result[1])  # whatever else is in the stack


@pytest.mark.parametrize("num_rows", [1, 7, 8, 19])
@pytest.mark.parametrize("num_columns", [16, 32, 48, 64, 80, 96])
def test_a_product_of_chosen_rows(num_rows: int, num_columns: int) -> None:
    rng = np.random.default_rng(num_rows)
    x, w, bias = (rng.normal(size=(24, 40)), rng.normal(size=(33, num_columns)), np.arange(num_columns))
    arrays = [aligned_zeros(*array.shape) for array in (x, w, bias)]
    for aligned, array in zip(arrays, (x, w, bias), strict=True):
        assert aligned.ctypes.data % 64 == 0
        aligned[...] = array
    y = aligned_zeros(30, num_columns)
    x_ids, y_ids = (rng.permutation(24)[:num_rows].astype(np.int32) for _ in range(2))
    dense(arrays[0], x_ids, arrays[1], arrays[2], y, y_ids, num_rows)
    np.testing.assert_allclose(y[y_ids], x[x_ids][:, :33] @ w + bias, rtol=1e-4, atol=1e-4)
    others = np.setdiff1d(np.arange(30), y_ids)
    assert not y[others].any()
