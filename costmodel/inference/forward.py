"""The prediction after a change of some routes: what the change touches is worked out again.

1. Write new routes to the other side of some flows, list these in `routes.changed`, and call
   `turn_routes`.
2. `predict` gives log throughput and log sigma of the decision as it is now.
3. To take the change back, call `turn_routes_back` and `turn_back`. To keep it, do nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from costmodel.inference.lanes import exchange_lanes, tell_lanes
from costmodel.inference.layers import head_of_row, layer_of_row
from costmodel.inference.rounds import exchange_flows, exchange_units
from costmodel.inference.state import Inference, Routes, Rows
from costmodel.inference.vectors import PART, add, dense, larger, load, multiply_add, splat, store
from costmodel.networks import SHARPNESS
from placer.base import IntArray, SingleArray, inlined, internal

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_SHARPNESS = float(SHARPNESS)


@inlined
def turn_routes(routes: Routes) -> None:
    """Let the other side of the listed flows count from now on."""
    routes.on_route[:] = 0
    routes.on_route_link[:] = 0
    routes.more_visits[:] = 0
    for entry in range(routes.num_changed[0]):
        flow = routes.changed[entry]
        routes.side[flow] = 1 - routes.side[flow]
        for old in range(2):
            side, start = routes.side[flow] ^ old, routes.start[flow]
            for visit in range(start, start + routes.size[side, flow]):
                lane = routes.lane[side, visit]
                routes.on_route[lane] = 1
                routes.on_route_link[routes.lane_link[lane]] = 1
                routes.more_visits[lane] += 1 - 2 * old
    for lane in range(len(routes.visits)):
        routes.visits[lane] += routes.more_visits[lane]


@inlined
def turn_routes_back(routes: Routes) -> None:
    """Make the routes as they were before `turn_routes`."""
    for lane in range(len(routes.visits)):
        routes.visits[lane] -= routes.more_visits[lane]
    for entry in range(routes.num_changed[0]):
        routes.side[routes.changed[entry]] ^= 1


@inlined
def turn_back(rows: Rows) -> None:
    """Make what a network knows as it was before `predict`."""
    members, levels, _ = rows.num.shape
    for member in range(members):
        for level in range(levels):
            num_lanes, num_flows, num_units = rows.num[member, level]
            for entry in range(num_lanes):
                rows.lane_side[member, level, rows.lanes[member, level, entry]] ^= 1
            for entry in range(num_flows):
                rows.flow_side[member, level, rows.flows[member, level, entry]] ^= 1
            for entry in range(num_units):
                rows.unit_side[member, level, rows.units[member, level, entry]] ^= 1


@internal
def predict(net: Inference, result: NDArray[np.float64]) -> None:
    """Write log throughput, log sigma and trust in the expert's estimate of each member to `result` [M, 3]."""
    rows = net.rows
    members, levels, _ = rows.num.shape
    for member in range(members):
        _first_level(net, member)
        for level in range(1, levels):
            exchange_lanes(net, member, level)
            exchange_flows(net, member, level)
            exchange_units(net, member, level)
        _pool_all(net, member)
        _read_out(net, member, result)


@internal
def _first_level(net: Inference, member: int) -> None:
    """Work out level 0: lanes with another number of visits, and flows with other routes."""
    weights, flows, routes, rows, scratch = net
    _first_lanes(net, member)
    hops_of, near = weights.first_hops[member], weights.first_near[member]
    static, x = rows.flow_static[member], scratch.x
    wide, num = rows.flow.shape[3] // PART, routes.num_changed[0]
    scratch.new_flow[0, :] = 0
    scratch.new_unit[0, :] = 0
    for entry in range(num):
        flow = routes.changed[entry]
        scratch.new_flow[0, flow] = 1
        side = routes.side[flow]
        farthest, nearness = 0, _ZERO
        for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
            farthest = max(farthest, routes.hops[side, end])
            if routes.hops[side, end] <= 1:
                nearness = _ONE
        for part in range(wide):
            told = add(load(static, flow, part), load(hops_of, farthest, part))
            told = multiply_add(splat(nearness), load(near, 0, part), told)
            store(x, entry, part, larger(splat(_ZERO), told))
        rows.flow_side[member, 0, flow] ^= 1
        rows.flows[member, 0, entry] = flow
        scratch.ids[entry] = 2 * flow + rows.flow_side[member, 0, flow]
    rows.num[member, 0, 1] = num
    dense(
        x, scratch.in_order, weights.flow_second[member], weights.flow_second_bias[member],
        rows.flow[member, 0], scratch.ids, num,
    )  # fmt: skip
    if rows.flow_to_lane.shape[1] > 0:
        dense(
            rows.flow[member, 0], scratch.ids, weights.flow_to_lane[member, 0],
            weights.zeros[member], rows.flow_to_lane[member, 0], scratch.ids, num,
        )  # fmt: skip


@inlined
def _first_lanes(net: Inference, member: int) -> None:
    weights, routes, rows, scratch = net.weights, net.routes, net.rows, net.scratch
    kinds, sharing, first = weights.lane_kind[member], weights.lane_sharing[member], 0
    num = 0
    for lane in range(len(routes.visits)):
        is_new = routes.more_visits[lane] != 0 and routes.visits[lane] > 0
        scratch.new_lane[0, lane] = is_new
        if not is_new:
            continue
        rows.lane_side[member, 0, lane] ^= 1
        row = 2 * lane + rows.lane_side[member, 0, lane]
        amount = splat(np.float32(math.log(routes.visits[lane])))
        for part in range(rows.lane.shape[3] // PART):
            kind = load(kinds, routes.lane_kind[lane], part)
            value = multiply_add(amount, load(sharing, first, part), kind)
            store(rows.lane[member, 0], row, part, value)
        rows.lanes[member, 0, num], scratch.lane_ids[num] = lane, row
        num += 1
    rows.num[member, 0, 0] = num
    if rows.lane_tell.shape[1] > 0:
        tell_lanes(net, member, 0, num)


@internal
def _pool_all(net: Inference, member: int) -> None:
    """Write mean and largest unit, flow and lane side by side to `pooled`."""
    routes, rows, scratch = net.routes, net.rows, net.scratch
    last, pooled = rows.num.shape[1] - 1, scratch.pooled
    wide = rows.unit.shape[3] // PART
    _pool(rows.unit[member, last], rows.unit_side[member, last], routes.visits, False, pooled, 0)
    _pool(
        rows.flow[member, last], rows.flow_side[member, last], routes.visits, False, pooled,
        2 * wide,
    )  # fmt: skip
    _pool(
        rows.lane[member, last], rows.lane_side[member, last], routes.visits, True, pooled,
        4 * wide,
    )  # fmt: skip


@inlined
def _pool(
    rows: SingleArray, side: IntArray, visits: IntArray, has_gaps: bool, pooled: SingleArray,
    first: int,
) -> None:  # fmt: skip
    """Write from part `first` of `pooled` on; with gaps, rows without visits do not count."""
    num_parts = rows.shape[1] // PART
    for part in range(num_parts):
        num, sums, largest = 0, splat(_ZERO), splat(_ZERO)
        for node in range(len(side)):
            if has_gaps and visits[node] == 0:
                continue
            value = load(rows, 2 * node + side[node], part)
            sums = add(sums, value)
            largest = value if num == 0 else larger(largest, value)
            num += 1
        share = splat(np.float32(1.0 / max(1, num)))
        store(pooled, 0, first + part, multiply_add(sums, share, splat(_ZERO)))
        store(pooled, 0, first + num_parts + part, largest)


@internal
def _read_out(net: Inference, member: int, result: NDArray[np.float64]) -> None:
    """Give log(throughput) = -softplus(-s z) / s with s = SHARPNESS, log(sigma), and trust."""
    weights, scratch = net.weights, net.scratch
    hidden, heads, bias = scratch.hidden, weights.heads[member], weights.head_bias[member]
    layer_of_row(scratch.pooled, 0, weights.pooled[member], weights.pooled_bias[member], hidden, 0)
    layer_of_row(hidden, 0, weights.body[member], weights.body_bias[member], hidden, 1)
    layer_of_row(hidden, 1, weights.sigma_body[member], weights.sigma_body_bias[member], hidden, 2)
    z = -_SHARPNESS * (head_of_row(hidden, 1, heads, 0) + bias[0])
    softplus = max(z, 0.0) + math.log1p(math.exp(-abs(z)))
    result[member, 0] = -softplus / _SHARPNESS
    result[member, 1] = head_of_row(hidden, 2, heads, 1) + bias[1]
    result[member, 2] = 1.0 / (1.0 + math.exp(-head_of_row(hidden, 1, heads, 2) - bias[2]))
