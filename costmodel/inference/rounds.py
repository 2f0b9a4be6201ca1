"""One round of a `flow` network, for the nodes that a change touches.

A node is worked out again when something that it reads has changed: its own row, a row that it is
told of, or the routes. The result is that of a full pass to the last bit, since every sum is taken
in the order of the flows. With a `tolerance` above 0, a row that changes by less (root mean square)
stays as it was and others are not told: an approximation.
"""

from __future__ import annotations

import math

import numpy as np

from costmodel.inference.compiling import inlined, internal
from costmodel.inference.state import Routes, Rows, Scratch, Wiring
from costmodel.inference.vectors import (
    PART,
    FloatArray,
    IntArray,
    add,
    dense,
    larger,
    load,
    multiply_add,
    splat,
    store,
    subtract,
    total,
)
from costmodel.inference.weights import Weights
from placer.hot import hot_loop

_EPSILON = 1e-5  # of torch's LayerNorm
_ZERO = np.float32(0.0)
_LANES, _FLOWS, _UNITS = 0, 1, 2  # columns of `Rows.num`


@inlined
def normalise(
    x: FloatArray, x_row: int, norm: FloatArray, width: int, y: FloatArray, y_row: int
) -> None:
    """y = (x - mean(x)) / deviation(x) * scale + shift over the first `width` columns."""
    num_parts = norm.shape[1] // PART
    sums = splat(_ZERO)
    for part in range(num_parts):
        sums = add(sums, load(x, x_row, part))
    mean = total(sums) / np.float32(width)
    squares, negative_mean = splat(_ZERO), splat(-mean)
    for part in range(num_parts):
        centred = add(load(x, x_row, part), negative_mean)
        squares = multiply_add(centred, centred, squares)
    num_padding = np.float32(num_parts * PART - width)  # columns of 0
    variance = (total(squares) - num_padding * mean * mean) / np.float32(width)
    factor = splat(np.float32(1.0 / math.sqrt(max(variance, _ZERO) + _EPSILON)))
    nothing = splat(_ZERO)
    for part in range(num_parts):
        centred = add(load(x, x_row, part), negative_mean)
        scale = multiply_add(load(norm, 0, part), factor, nothing)
        store(y, y_row, part, multiply_add(centred, scale, load(norm, 1, part)))


@inlined
def is_near(rows: FloatArray, first: int, second: int, width: int, tolerance: float) -> bool:
    """Whether two rows differ by at most `tolerance`, root mean square."""
    squares = splat(_ZERO)
    for part in range(rows.shape[1] // PART):
        difference = subtract(load(rows, first, part), load(rows, second, part))
        squares = multiply_add(difference, difference, squares)
    return bool(total(squares) <= tolerance * tolerance * width)


@inlined
def _mark_lanes(routes: Routes, scratch: Scratch, level: int) -> None:
    """Which lanes and links are told something new by the level before."""
    here, was = scratch.new_lane[level & 1], scratch.new_lane[1 - (level & 1)]
    new_flow, new_link = scratch.new_flow[1 - (level & 1)], scratch.new_link
    for lane in range(len(here)):
        here[lane] = was[lane] | scratch.on_route[lane]
    for link in range(len(new_link)):
        new_link[link] = scratch.on_route_link[link]
    for flow in range(len(routes.start)):
        side, start = routes.side[flow], routes.start[flow]
        for visit in range(start, start + routes.size[side, flow]):
            lane, before = routes.lane[side, visit], routes.before[side, visit]
            if new_flow[flow]:
                new_link[routes.lane_link[lane]] = 1  # and so all of its lanes
            if before >= 0:
                here[lane] |= was[before]
                here[before] |= was[lane]
    for lane in range(len(here)):
        here[lane] |= new_link[routes.lane_link[lane]]


@inlined
def _sum_lanes(
    routes: Routes, rows: Rows, scratch: Scratch, member: int, level: int, num_lanes: int
) -> None:
    """What the listed lanes are told, summed up in `lane_sum`."""
    deep = scratch.lane_sum.shape[1] // PART
    tell, side_of = rows.lane_tell[member, level - 1], rows.lane_side[member, level - 1]
    flow_tell, flow_side = rows.flow_to_lane[member, level - 1], rows.flow_side[member, level - 1]
    lane_sum, link_sum, place = scratch.lane_sum, scratch.link_sum, scratch.place
    for entry in range(num_lanes):
        lane = rows.lanes[member, level, entry]
        for part in range(deep):
            store(lane_sum, entry, part, load(tell, 2 * lane + side_of[lane], part))
            store(link_sum, routes.lane_link[lane], part, splat(_ZERO))
    for flow in range(len(routes.start)):
        side, start = routes.side[flow], routes.start[flow]
        row = 2 * flow + flow_side[flow]
        for visit in range(start, start + routes.size[side, flow]):
            lane, before = routes.lane[side, visit], routes.before[side, visit]
            if place[lane] >= 0:
                entry, link = place[lane], routes.lane_link[lane]
                for part in range(deep):
                    told = load(flow_tell, row, part)
                    store(lane_sum, entry, part, add(load(lane_sum, entry, part), told))
            if scratch.new_link[routes.lane_link[lane]]:
                link = routes.lane_link[lane]
                for part in range(deep):
                    told = load(flow_tell, row, deep + part)
                    store(link_sum, link, part, add(load(link_sum, link, part), told))
            if before >= 0 and place[lane] >= 0:
                entry, sender = place[lane], 2 * before + side_of[before]
                for part in range(deep):
                    told = load(tell, sender, 2 * deep + part)
                    store(lane_sum, entry, part, add(load(lane_sum, entry, part), told))
            if before >= 0 and place[before] >= 0:
                entry, sender = place[before], 2 * lane + side_of[lane]
                for part in range(deep):
                    told = load(tell, sender, deep + part)
                    store(lane_sum, entry, part, add(load(lane_sum, entry, part), told))


@internal
def exchange_lanes(
    weights: Weights, routes: Routes, rows: Rows, scratch: Scratch, member: int, level: int,
    tolerance: float,
) -> None:  # fmt: skip
    """Lanes from level - 1 to `level`: h <- norm(h + relu(V h + messages))."""
    _mark_lanes(routes, scratch, level)
    new, listed = scratch.new_lane[level & 1], rows.lanes[member, level]
    num = 0
    for lane in range(len(new)):
        new[lane] &= routes.visits[lane] > 0
        scratch.place[lane] = -1
        if new[lane]:
            scratch.new_link[routes.lane_link[lane]] = 1
            scratch.place[lane], listed[num] = num, lane
            num += 1
    _sum_lanes(routes, rows, scratch, member, level, num)
    before, here = rows.lane[member, level - 1], rows.lane[member, level]
    side_before, side_here = rows.lane_side[member, level - 1], rows.lane_side[member, level]
    norm, lane_sum, kept = weights.lane_norm[member, level - 1], scratch.lane_sum, 0
    for entry in range(num):
        lane = listed[entry]
        link, old = routes.lane_link[lane], 2 * lane + side_before[lane]
        for part in range(norm.shape[1] // PART):
            told = add(load(lane_sum, entry, part), load(scratch.link_sum, link, part))
            store(lane_sum, entry, part, add(load(before, old, part), larger(splat(_ZERO), told)))
        row = 2 * lane + 1 - side_here[lane]
        normalise(lane_sum, entry, norm, weights.lane_width, here, row)
        if (
            tolerance > 0
            and not scratch.on_route[lane]
            and is_near(here, row, row ^ 1, weights.lane_width, tolerance)
        ):
            new[lane] = 0
            continue
        side_here[lane] = 1 - side_here[lane]
        listed[kept], scratch.lane_ids[kept] = lane, row
        kept += 1
    rows.num[member, level, _LANES] = kept
    if level < rows.lane_tell.shape[1]:
        tell_lanes(weights, rows, scratch, member, level, kept)


@inlined
def tell_lanes(
    weights: Weights, rows: Rows, scratch: Scratch, member: int, level: int, num_lanes: int
) -> None:
    """What the lanes in `lane_ids` tell others at a level."""
    dense(
        rows.lane[member, level], scratch.lane_ids, weights.lane_tell[member, level],
        weights.lane_tell_bias[member, level], rows.lane_tell[member, level], scratch.lane_ids,
        num_lanes,
    )  # fmt: skip


@inlined
def _reads_news(wiring: Wiring, routes: Routes, scratch: Scratch, flow: int, level: int) -> bool:
    if scratch.new_flow[1 - (level & 1), flow]:  # flows with new routes are new at all levels
        return True
    new_lane, new_unit = scratch.new_lane[level & 1], scratch.new_unit[1 - (level & 1)]
    if new_unit[wiring.flow_source[flow]]:
        return True
    for end in range(wiring.end_start[flow], wiring.end_start[flow + 1]):
        if new_unit[wiring.end_unit[end]]:
            return True
    side, start = routes.side[flow], routes.start[flow]
    for visit in range(start, start + routes.size[side, flow]):
        if new_lane[routes.lane[side, visit]]:
            return True
    return False


@inlined
def _gather_flow(
    weights: Weights, wiring: Wiring, routes: Routes, rows: Rows, scratch: Scratch, member: int,
    level: int, flow: int, entry: int,
) -> None:  # fmt: skip
    """Itself, largest end, sum of lanes, largest lane, side by side in row `entry` of `x`."""
    x, side = scratch.x, routes.side[flow]
    wide, deep = rows.flow.shape[3] // PART, rows.lane.shape[3] // PART
    own, units = rows.flow[member, level - 1], rows.unit_to_flow[member, level - 1]
    unit_side, hop_rows = rows.unit_side[member, level - 1], weights.flow_hops[member, level - 1]
    row = 2 * flow + rows.flow_side[member, level - 1, flow]
    for part in range(wide):
        store(x, entry, part, load(own, row, part))
        largest = splat(_ZERO)
        for end in range(wiring.end_start[flow], wiring.end_start[flow + 1]):
            unit = wiring.end_unit[end]
            told = add(
                load(units, 2 * unit + unit_side[unit], wide + part),
                load(hop_rows, routes.hops[side, end], part),
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
def exchange_flows(
    weights: Weights, wiring: Wiring, routes: Routes, rows: Rows, scratch: Scratch, member: int,
    level: int, tolerance: float,
) -> None:  # fmt: skip
    """Flows from level - 1 to `level`: h <- norm(h + W relu(V h + messages))."""
    new, listed, num = scratch.new_flow[level & 1], rows.flows[member, level], 0
    for flow in range(len(new)):
        new[flow] = _reads_news(wiring, routes, scratch, flow, level)
        if new[flow]:
            _gather_flow(weights, wiring, routes, rows, scratch, member, level, flow, num)
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
        unit = wiring.flow_source[listed[entry]]
        for part in range(wide):
            told = load(sources, 2 * unit + unit_side[unit], part)
            store(y, entry, part, larger(splat(_ZERO), add(load(y, entry, part), told)))
    dense(
        y, order, weights.flow_out[member, number], weights.flow_out_bias[member, number],
        scratch.z, order, num,
    )  # fmt: skip
    kept = _settle(
        rows.flow[member, number], rows.flow_side[member, number], rows.flow[member, level],
        rows.flow_side[member, level], weights.flow_norm[member, number], weights.width, listed,
        num, new, scratch, tolerance, True,
    )  # fmt: skip
    rows.num[member, level, _FLOWS] = kept
    ids = scratch.ids
    dense(
        rows.flow[member, level], ids, weights.flow_to_unit[member, number],
        weights.zeros[member], rows.flow_to_unit[member, number], ids, kept,
    )  # fmt: skip
    if level < rows.flow_to_lane.shape[1]:
        dense(
            rows.flow[member, level], ids, weights.flow_to_lane[member, level],
            weights.zeros[member], rows.flow_to_lane[member, level], ids, kept,
        )  # fmt: skip


@inlined
def _settle(
    before: FloatArray, side_before: IntArray, here: FloatArray, side_here: IntArray,
    norm: FloatArray, width: int, listed: IntArray, num: int, new: IntArray, scratch: Scratch,
    tolerance: float, is_flow: bool,
) -> int:  # fmt: skip
    """norm(row before + z) for the listed nodes; how many changed and are still listed."""
    z, wide, kept = scratch.z, norm.shape[1] // PART, 0
    for entry in range(num):
        node = listed[entry]
        old, row = 2 * node + side_before[node], 2 * node + 1 - side_here[node]
        for part in range(wide):
            store(z, entry, part, add(load(z, entry, part), load(before, old, part)))
        normalise(z, entry, norm, width, here, row)
        must = tolerance <= 0 or (is_flow and scratch.is_changed[node] != 0)
        if not must and is_near(here, row, row ^ 1, width, tolerance):
            new[node] = 0
            continue
        side_here[node] = 1 - side_here[node]
        listed[kept], scratch.ids[kept] = node, row
        kept += 1
    return kept


@internal
def exchange_units(
    weights: Weights, wiring: Wiring, routes: Routes, rows: Rows, scratch: Scratch, member: int,
    level: int, tolerance: float,
) -> None:  # fmt: skip
    """Units from level - 1 to `level`: h <- norm(h + W relu(V h + messages))."""
    new, was = scratch.new_unit[level & 1], scratch.new_unit[1 - (level & 1)]
    new_flow, number = scratch.new_flow[level & 1], level - 1
    is_fresh = scratch.is_fresh[0]
    for unit in range(len(new)):
        new[unit] = was[unit] | is_fresh
    for flow in range(len(new_flow)):
        if new_flow[flow]:
            new[wiring.flow_source[flow]] = 1
            for end in range(wiring.end_start[flow], wiring.end_start[flow + 1]):
                new[wiring.end_unit[end]] = 1
    listed, num = rows.units[member, level], 0
    for unit in range(len(new)):
        if new[unit]:
            _gather_unit(weights, wiring, routes, rows, scratch, member, level, unit, num)
            listed[num] = unit
            num += 1
    y, order, wide = scratch.y, scratch.in_order, scratch.y.shape[1] // PART
    dense(
        scratch.x, order, weights.unit_in[member, number], weights.unit_in_bias[member, number],
        y, order, num,
    )  # fmt: skip
    flows, flow_side = rows.flow_to_unit[member, number], rows.flow_side[member, level]
    for entry in range(num):
        unit = listed[entry]
        for part in range(wide):
            told = load(y, entry, part)
            for place in range(wiring.write_start[unit], wiring.write_start[unit + 1]):
                flow = wiring.write_flows[place]
                told = add(told, load(flows, 2 * flow + flow_side[flow], wide + part))
            store(y, entry, part, larger(splat(_ZERO), told))
    dense(
        y, order, weights.unit_out[member, number], weights.unit_out_bias[member, number],
        scratch.z, order, num,
    )  # fmt: skip
    kept = _settle(
        rows.unit[member, number], rows.unit_side[member, number], rows.unit[member, level],
        rows.unit_side[member, level], weights.unit_norm[member, number], weights.width, listed,
        num, new, scratch, -1.0 if is_fresh else tolerance, False,
    )  # fmt: skip
    rows.num[member, level, _UNITS] = kept
    if level < rows.unit_to_flow.shape[1]:
        dense(
            rows.unit[member, level], scratch.ids, weights.unit_to_flow[member, level],
            weights.zeros[member], rows.unit_to_flow[member, level], scratch.ids, kept,
        )  # fmt: skip


@inlined
def _gather_unit(
    weights: Weights, wiring: Wiring, routes: Routes, rows: Rows, scratch: Scratch, member: int,
    level: int, unit: int, entry: int,
) -> None:  # fmt: skip
    """Itself, sum of ends, largest end, side by side in row `entry` of `x`."""
    x, wide = scratch.x, rows.unit.shape[3] // PART
    own, flows = rows.unit[member, level - 1], rows.flow_to_unit[member, level - 1]
    flow_side, hop_rows = rows.flow_side[member, level], weights.unit_hops[member, level - 1]
    row = 2 * unit + rows.unit_side[member, level - 1, unit]
    for part in range(wide):
        store(x, entry, part, load(own, row, part))
        sums = largest = splat(_ZERO)
        for place in range(wiring.read_start[unit], wiring.read_start[unit + 1]):
            end = wiring.read_ends[place]
            flow = wiring.end_flow[end]
            told = add(
                load(flows, 2 * flow + flow_side[flow], part),
                load(hop_rows, routes.hops[routes.side[flow], end], part),
            )
            told = larger(splat(_ZERO), told)
            sums, largest = add(sums, told), larger(largest, told)
        store(x, entry, wide + part, sums)
        store(x, entry, 2 * wide + part, largest)


@hot_loop
def tell_units(weights: Weights, rows: Rows, scratch: Scratch) -> None:
    """What units tell others before the first round; no decision changes it."""
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
