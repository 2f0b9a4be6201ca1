"""One round of a `flow` network, for the nodes that a change touches.

A node is worked out again when something that it reads has changed: its own row, a row that it is
told of, or the routes. The result is that of a full pass to the last bit, since every sum is taken
in the order of the flows.
"""

from __future__ import annotations

import numpy as np

from costmodel.inference.layers import normalise
from costmodel.inference.state import Inference, Scratch
from costmodel.inference.vectors import PART, add, dense, larger, load, splat, store
from placer.base import IntArray, SingleArray, hot_loop, inlined, internal

_ZERO = np.float32(0.0)
_FLOWS, _UNITS = 1, 2  # columns of `Rows.num`


@inlined
def _reads_news(net: Inference, flow: int, level: int) -> np.uint8:
    """Return 1 if something that a flow reads has changed; no branches but for the loops."""
    flows, routes, scratch = net.flows, net.routes, net.scratch
    new_lane, new_unit = scratch.new_lane[level & 1], scratch.new_unit[1 - (level & 1)]
    # Flows with new routes are new at all levels.
    news: np.uint8 = scratch.new_flow[1 - (level & 1), flow]
    news |= new_unit[flows.source[flow]]
    for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
        news |= new_unit[flows.targets[end]]
    side, start = routes.side[flow], routes.start[flow]
    for visit in range(start, start + routes.size[side, flow]):
        news |= new_lane[routes.lane[side, visit]]
    return news


@inlined
def _gather_flow(net: Inference, member: int, level: int, flow: int, entry: int) -> None:
    """Write itself, largest end, sum of lanes and largest lane to row `entry` of `x`."""
    weights, flows, routes, rows, scratch = net
    x, side = scratch.x, routes.side[flow]
    wide, deep = rows.flow.shape[3] // PART, rows.lane.shape[3] // PART
    own, units = rows.flow[member, level - 1], rows.unit_to_flow[member, level - 1]
    unit_side, hop_rows = rows.unit_side[member, level - 1], weights.flow_hops[member, level - 1]
    row = 2 * flow + rows.flow_side[member, level - 1, flow]
    for part in range(wide):
        store(x, entry, part, load(own, row, part))
        largest = splat(_ZERO)
        for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
            unit = flows.targets[end]
            told = add(
                load(units, 2 * unit + unit_side[unit], wide + part), load(hop_rows, routes.hops[side, end], part)
            )
            largest = larger(largest, told)  # and with 0: the rectifier
        store(x, entry, wide + part, largest)
    lanes, lane_side = rows.lane[member, level], rows.lane_side[member, level]
    start, size = routes.start[flow], routes.size[side, flow]
    for part in range(deep):
        first = routes.lane[side, start]
        sums = largest = load(lanes, 2 * first + lane_side[first], part)
        for visit in range(start + 1, start + size):
            lane = routes.lane[side, visit]
            told = load(lanes, 2 * lane + lane_side[lane], part)
            sums, largest = add(sums, told), larger(largest, told)
        store(x, entry, 2 * wide + part, sums)
        store(x, entry, 2 * wide + deep + part, largest)


@internal
def exchange_flows(net: Inference, member: int, level: int) -> None:
    """Take flows from level - 1 to `level`: h <- norm(h + W relu(V h + messages))."""
    weights, flows, rows, scratch = net.weights, net.flows, net.rows, net.scratch
    new, listed, num = scratch.new_flow[level & 1], rows.flows[member, level], 0
    for flow in range(len(new)):
        new[flow] = _reads_news(net, flow, level)
        if new[flow]:
            _gather_flow(net, member, level, flow, num)
            listed[num] = flow
            num += 1
    y, order, number = scratch.y, scratch.in_order, level - 1
    dense(
        scratch.x, order, weights.flow_in[member, number], weights.flow_in_bias[member, number],
        y, order, num,
    )  # fmt: skip
    sources, unit_side = rows.unit_to_flow[member, number], rows.unit_side[member, number]
    wide = y.shape[1] // PART
    for entry in range(num):
        unit = flows.source[listed[entry]]
        for part in range(wide):
            told = load(sources, 2 * unit + unit_side[unit], part)
            store(y, entry, part, larger(splat(_ZERO), add(load(y, entry, part), told)))
    dense(
        y, order, weights.flow_out[member, number], weights.flow_out_bias[member, number],
        scratch.z, order, num,
    )  # fmt: skip
    _settle(
        rows.flow[member, number], rows.flow_side[member, number], rows.flow[member, level],
        rows.flow_side[member, level], weights.flow_norm[member, number], weights.width, listed,
        num, scratch,
    )  # fmt: skip
    rows.num[member, level, _FLOWS] = num
    ids = scratch.ids
    dense(
        rows.flow[member, level], ids, weights.flow_to_unit[member, number],
        weights.zeros[member], rows.flow_to_unit[member, number], ids, num,
    )  # fmt: skip
    if level < rows.flow_to_lane.shape[1]:
        dense(
            rows.flow[member, level], ids, weights.flow_to_lane[member, level],
            weights.zeros[member], rows.flow_to_lane[member, level], ids, num,
        )  # fmt: skip


@inlined
def _settle(
    before: SingleArray, side_before: IntArray, here: SingleArray, side_here: IntArray,
    norm: SingleArray, width: int, listed: IntArray, num: int, scratch: Scratch,
) -> None:  # fmt: skip
    """Take norm(row before + z) of the listed nodes; their new rows are in `scratch.ids`."""
    z, wide = scratch.z, norm.shape[1] // PART
    for entry in range(num):
        node = listed[entry]
        old, row = 2 * node + side_before[node], 2 * node + 1 - side_here[node]
        for part in range(wide):
            store(z, entry, part, add(load(z, entry, part), load(before, old, part)))
        normalise(z, entry, norm, width, here, row)
        side_here[node] = 1 - side_here[node]
        scratch.ids[entry] = row


@internal
def exchange_units(net: Inference, member: int, level: int) -> None:
    """Take units from level - 1 to `level`: h <- norm(h + W relu(V h + messages))."""
    weights, flows, rows, scratch = net.weights, net.flows, net.rows, net.scratch
    new, was = scratch.new_unit[level & 1], scratch.new_unit[1 - (level & 1)]
    new_flow, number = scratch.new_flow[level & 1], level - 1
    is_fresh = scratch.is_fresh[0]
    for unit in range(len(new)):
        new[unit] = was[unit] | is_fresh
    for flow in range(len(new_flow)):
        if new_flow[flow]:
            new[flows.source[flow]] = 1
            for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
                new[flows.targets[end]] = 1
    listed, num = rows.units[member, level], 0
    for unit in range(len(new)):
        if new[unit]:
            _gather_unit(net, member, level, unit, num)
            listed[num] = unit
            num += 1
    y, order, wide = scratch.y, scratch.in_order, scratch.y.shape[1] // PART
    dense(
        scratch.x, order, weights.unit_in[member, number], weights.unit_in_bias[member, number],
        y, order, num,
    )  # fmt: skip
    told_by, flow_side = rows.flow_to_unit[member, number], rows.flow_side[member, level]
    for entry in range(num):
        unit = listed[entry]
        for part in range(wide):
            told = load(y, entry, part)
            for place in range(flows.write_start[unit], flows.write_start[unit + 1]):
                flow = flows.write_flows[place]
                told = add(told, load(told_by, 2 * flow + flow_side[flow], wide + part))
            store(y, entry, part, larger(splat(_ZERO), told))
    dense(
        y, order, weights.unit_out[member, number], weights.unit_out_bias[member, number],
        scratch.z, order, num,
    )  # fmt: skip
    _settle(
        rows.unit[member, number], rows.unit_side[member, number], rows.unit[member, level],
        rows.unit_side[member, level], weights.unit_norm[member, number], weights.width, listed,
        num, scratch,
    )  # fmt: skip
    rows.num[member, level, _UNITS] = num
    if level < rows.unit_to_flow.shape[1]:
        dense(
            rows.unit[member, level], scratch.ids, weights.unit_to_flow[member, level],
            weights.zeros[member], rows.unit_to_flow[member, level], scratch.ids, num,
        )  # fmt: skip


@inlined
def _gather_unit(net: Inference, member: int, level: int, unit: int, entry: int) -> None:
    """Write itself, sum of ends and largest end side by side to row `entry` of `x`."""
    weights, flows, routes, rows, scratch = net
    x, wide = scratch.x, rows.unit.shape[3] // PART
    own, told_by = rows.unit[member, level - 1], rows.flow_to_unit[member, level - 1]
    flow_side, hop_rows = rows.flow_side[member, level], weights.unit_hops[member, level - 1]
    row = 2 * unit + rows.unit_side[member, level - 1, unit]
    for part in range(wide):
        store(x, entry, part, load(own, row, part))
        sums = largest = splat(_ZERO)
        for place in range(flows.read_start[unit], flows.read_start[unit + 1]):
            end = flows.read_ends[place]
            flow = flows.end_flow[end]
            told = add(
                load(told_by, 2 * flow + flow_side[flow], part),
                load(hop_rows, routes.hops[routes.side[flow], end], part),
            )
            told = larger(splat(_ZERO), told)
            sums, largest = add(sums, told), larger(largest, told)
        store(x, entry, wide + part, sums)
        store(x, entry, 2 * wide + part, largest)


@hot_loop
def tell_units(net: Inference) -> None:
    """Work out what units tell others before the first round; no decision changes it."""
    weights, rows, scratch = net.weights, net.rows, net.scratch
    num_units = rows.unit_side.shape[2]
    for unit in range(num_units):
        scratch.ids[unit] = 2 * unit
    if rows.unit_to_flow.shape[1] == 0:
        return
    for member in range(rows.unit.shape[0]):
        dense(
            rows.unit[member, 0], scratch.ids, weights.unit_to_flow[member, 0],
            weights.zeros[member], rows.unit_to_flow[member, 0], scratch.ids, num_units,
        )  # fmt: skip
