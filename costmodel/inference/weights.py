"""The weights of `flow` networks as compiled code reads them.

Layers that read the same row are joined side by side, layers whose results are added are joined one
above the other, and everything that depends on a small number and the fabric alone (hops of an end,
kind of a lane and flows on it) becomes a table. What a configuration leaves out has weights 0. Rows are padded to
full vectors. The first axis counts the members of an ensemble.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from costmodel.encoding import NetlistFeatures
from costmodel.inference.vectors import aligned_zeros, padded
from costmodel.networks import NEAR, FlowNetwork, LaneUpdate, Pooling, Round
from placer.base import InputError, SingleArray


class Weights(NamedTuple):
    """[M, rounds, ...] with M members, W and D the padded widths of flows (units) and lanes.

    Level r is what is known after r rounds; round r leads from level r to level r + 1.
    """

    width: int  # columns that count in a row of a unit or a flow
    lane_width: int
    lane_tell: SingleArray  # [D, 3 D] level r -> itself, the lane before, the next lane
    lane_tell_bias: SingleArray  # [3 D]
    lane_norm: SingleArray  # [2, D] scale, shift
    flow_to_lane: SingleArray  # [W, 2 D] level r -> lanes on its route, all lanes of their links
    unit_to_flow: SingleArray  # [W, 2 W] level r -> flows that it writes, flows that it reads
    flow_hops: SingleArray  # [num hops, W] what the distance adds to the latter
    flow_in: SingleArray  # [2 W + 2 D, W] itself, largest end, sum of lanes, largest lane
    flow_in_bias: SingleArray  # [W]
    flow_out: SingleArray  # [W, W]
    flow_out_bias: SingleArray  # [W]
    flow_norm: SingleArray  # [2, W]
    flow_to_unit: SingleArray  # [W, 2 W] level r + 1 -> units that read it, unit that writes it
    unit_hops: SingleArray  # [num hops, W] what the distance adds to the former
    unit_in: SingleArray  # [3 W, W] itself, sum of ends, largest end
    unit_in_bias: SingleArray  # [W]
    unit_out: SingleArray  # [W, W]
    unit_out_bias: SingleArray  # [W]
    unit_norm: SingleArray  # [2, W]
    # [M, ...]
    zeros: SingleArray  # [largest width] in place of a bias
    lane_kind: SingleArray  # [lane kinds, D] level 0 of a lane that one flow uses
    lane_sharing: SingleArray  # [1, D] what the logarithm of the visits adds
    first_hops: SingleArray  # [num hops, W] what the farthest end adds to a flow at level 0
    first_near: SingleArray  # [1, W] what an end next to the source adds
    flow_second: SingleArray  # [W, W] second layer of flows at level 0
    flow_second_bias: SingleArray  # [W]
    pooled: SingleArray  # [2 (2 W + D), 2 W] of mean and largest unit, flow and lane
    pooled_bias: SingleArray  # [2 W]
    body: SingleArray  # [2 W, W]
    body_bias: SingleArray  # [W]
    sigma_body: SingleArray  # [W, W]
    sigma_body_bias: SingleArray  # [W]
    heads: SingleArray  # [3, W] mean, sigma, trust
    head_bias: SingleArray  # [3]


class Facts(NamedTuple):
    """What the members of an ensemble make of a netlist alone."""

    unit: SingleArray  # [M, num_units, W] level 0
    flow: SingleArray  # [M, num_flows, W] first layer of level 0, without hops


def weights_of(networks: Sequence[FlowNetwork], hardware: SingleArray, max_hops: int) -> Weights:
    """Return the weights of networks of one configuration, for a fabric (`NetlistFeatures.hardware`).

    Ends are at most `max_hops` links between switches away.
    """
    config = networks[0].config
    if any(network.config != config for network in networks):
        raise InputError("the models of an ensemble must have networks of the same configuration")
    with _one_thread(), torch.inference_mode():
        members = [_member(network, torch.from_numpy(hardware), max_hops) for network in networks]
    stacked = {name: np.stack([member[name] for member in members]) for name in members[0]}
    arrays = {name: _aligned(array) for name, array in stacked.items()}
    return Weights(width=config.width, lane_width=config.lane_width, **arrays)


def facts_of(networks: Sequence[FlowNetwork], features: NetlistFeatures) -> Facts:
    """Return what does not depend on the decision."""
    with _one_thread(), torch.inference_mode():
        rows = [_facts(network, features) for network in networks]
    units, flows = zip(*rows, strict=True)
    return Facts(_aligned(np.stack(units)), _aligned(np.stack(flows)))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch do small products in this thread: on a busy machine, threads that wait for others take longer."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _facts(network: FlowNetwork, features: NetlistFeatures) -> tuple[SingleArray, SingleArray]:
    config = network.config
    unit, flow = network.known(torch.from_numpy(features.unit), torch.from_numpy(features.flow))
    unit = network.unit(unit)
    if config.node_embedding:
        unit = unit + network.op(torch.from_numpy(features.unit_op))
        unit = unit + network.stage(torch.from_numpy(features.unit_stage))
    first = _linear(network.flow, 0)
    flow = flow @ first.weight[:, : flow.shape[1]].T + first.bias
    wide = padded(config.width)
    return _pad(unit, len(unit), wide), _pad(flow, len(flow), wide)


def _member(network: FlowNetwork, hardware: Tensor, max_hops: int) -> dict[str, NDArray[np.float32]]:
    config = network.config
    wide, deep = padded(config.width), padded(config.lane_width)
    hops = network.hop_columns(torch.arange(max_hops + 1), hardware.expand(max_hops + 1, -1))
    rounds = [_round(network, r, hops) for r in range(config.rounds)]
    shapes = _round(_template(network), 0, hops)
    arrays = {
        name: np.stack([r[name] for r in rounds]) if rounds else shape[None][:0] for name, shape in shapes.items()
    }
    first, second = _linear(network.flow, 0), _linear(network.flow, 2)
    hop_weights = first.weight[:, -hops.shape[1] :].T
    far = hops.clone()
    far[:, NEAR] = 0
    near = hop_weights[NEAR : NEAR + 1] * config.edge_embedding
    lane_columns = network.lane.weight.T * config.edge_embedding
    lane_kinds = network.features.lane_kinds
    constants = network.lane_constants(hardware)[0] @ lane_columns[lane_kinds + 1 :]
    readout = network.readout
    pooled, body = _linear(readout.body, 0), _linear(readout.body, 2)
    heads = [head for head in (readout.mean, readout.sigma, readout.trust) if head is not None]
    return arrays | {
        "zeros": np.zeros(3 * max(wide, deep), np.float32),
        "lane_kind": _pad(lane_columns[:lane_kinds] + constants + network.lane.bias, None, deep),
        "lane_sharing": _pad(lane_columns[lane_kinds : lane_kinds + 1], None, deep),
        "first_hops": _pad(far @ hop_weights, None, wide),
        "first_near": _pad(near, 1, wide),
        "flow_second": _pad(second.weight.T, wide, wide),
        "flow_second_bias": _pad_row(second.bias, wide),
        "pooled": _pooled_weights(network, pooled.weight.T, wide, deep),
        "pooled_bias": _pad_row(pooled.bias, 2 * wide),
        "body": _pad(body.weight.T, 2 * wide, wide),
        "body_bias": _pad_row(body.bias, wide),
        "sigma_body": _pad(readout.sigma_body.weight.T, wide, wide),
        "sigma_body_bias": _pad_row(readout.sigma_body.bias, wide),
        "heads": _pad(torch.cat([head.weight for head in heads]), 3, wide),
        "head_bias": np.append(torch.cat([head.bias for head in heads]), np.float32(np.inf))[:3],  # endless: trust 1
    }


def _template(network: FlowNetwork) -> FlowNetwork:
    """Return a network with at least one round, for the shapes."""
    if network.config.rounds:
        return network
    return FlowNetwork(replace(network.config, rounds=1), network.features)


def _round(network: FlowNetwork, number: int, hops: Tensor) -> dict[str, NDArray[np.float32]]:
    config, exchange = network.config, network.rounds[number]
    wide, deep = padded(config.width), padded(config.lane_width)
    assert isinstance(exchange, Round)
    flow, unit = exchange.flow, exchange.unit
    routes = [flow.route_sum, flow.route_max] if config.lanes else []
    flow_in = [(flow.own, wide), (flow.ends, wide), *((layer, deep) for layer in routes)]
    return _lane_round(exchange.lane, wide, deep) | {
        "unit_to_flow": _beside([flow.source, flow.target], wide, wide),
        "flow_hops": _pad(flow.hops(hops), None, wide),
        "flow_in": _above(flow_in, 2 * wide + 2 * deep, wide),
        "flow_in_bias": _pad_row(flow.own.bias, wide),
        "flow_out": _pad(flow.out.weight.T, wide, wide),
        "flow_out_bias": _pad_row(flow.out.bias, wide),
        "flow_norm": _pad(torch.stack((flow.norm.weight, flow.norm.bias)), 2, wide),
        "flow_to_unit": _beside([unit.flow, unit.writes], wide, wide),
        "unit_hops": _pad(unit.hops(hops), None, wide),
        "unit_in": _above([(layer, wide) for layer in (unit.own, unit.reads_sum, unit.reads_max)], 3 * wide, wide),
        "unit_in_bias": _pad_row(unit.own.bias, wide),
        "unit_out": _pad(unit.out.weight.T, wide, wide),
        "unit_out_bias": _pad_row(unit.out.bias, wide),
        "unit_norm": _pad(torch.stack((unit.norm.weight, unit.norm.bias)), 2, wide),
    }


def _lane_round(lane: LaneUpdate | None, wide: int, deep: int) -> dict[str, NDArray[np.float32]]:
    if lane is None:
        return {
            "lane_tell": np.zeros((deep, 3 * deep), np.float32),
            "lane_tell_bias": np.zeros(3 * deep, np.float32),
            "lane_norm": np.zeros((2, deep), np.float32),
            "flow_to_lane": np.zeros((wide, 2 * deep), np.float32),
        }
    return {
        "lane_tell": _beside([lane.own, lane.next, lane.before], deep, deep),
        "lane_tell_bias": _pad_row(lane.own.bias, 3 * deep),
        "lane_norm": _pad(torch.stack((lane.norm.weight, lane.norm.bias)), 2, deep),
        "flow_to_lane": _beside([lane.flow, lane.link], wide, deep),
    }


def _pooled_weights(network: FlowNetwork, weight: Tensor, wide: int, deep: int) -> SingleArray:
    """Return rows for mean and largest unit, flow, lane, whatever of it the network reads."""
    config, given = network.config, 0
    parts: list[SingleArray] = []
    for width, room in ((config.width, wide), (config.width, wide), (config.lane_width, deep)):
        for pooling in (Pooling.MEAN, Pooling.MAX):
            is_lane = len(parts) >= 4
            is_read = config.pooling in (pooling, Pooling.MEAN_MAX)
            width_read = width if is_read and (config.lanes or not is_lane) else 0
            parts.append(_pad(weight[given : given + width_read], room, 2 * wide))
            given += width_read
    return np.concatenate(parts)


def _linear(layers: nn.Sequential, number: int) -> nn.Linear:
    layer = layers[number]
    assert isinstance(layer, nn.Linear)
    return layer


def _beside(layers: Sequence[nn.Linear], rows: int, columns: int) -> SingleArray:
    """Return the weights of layers that read the same row, side by side."""
    return np.concatenate([_pad(layer.weight.T, rows, columns) for layer in layers], axis=1)


def _above(layers: Sequence[tuple[nn.Linear, int]], rows: int, columns: int) -> SingleArray:
    """Return the weights of layers whose results are added, with room for what each reads."""
    joined = np.concatenate([_pad(layer.weight.T, room, columns) for layer, room in layers])
    return np.pad(joined, ((0, rows - len(joined)), (0, 0)))


def _pad(matrix: Tensor, rows: int | None, columns: int) -> SingleArray:
    given = matrix.detach().numpy()
    result = np.zeros((len(given) if rows is None else rows, columns), np.float32)
    result[: given.shape[0], : given.shape[1]] = given
    return result


def _pad_row(row: Tensor, columns: int) -> SingleArray:
    return _pad(row[None], 1, columns).reshape(columns)


def _aligned(array: NDArray[np.float32]) -> SingleArray:
    result = aligned_zeros(*array.shape)
    result[...] = array
    return result
