"""Lanes in one round of a `flow` network, those that a change touches (see `rounds`)."""

from __future__ import annotations

import numpy as np

from costmodel.inference.layers import normalise
from costmodel.inference.state import Inference
from costmodel.inference.vectors import PART, add, dense, larger, load, splat, store
from placer.base import inlined, internal

_ZERO = np.float32(0.0)
_LANES = 0  # column of `Rows.num`


@inlined
def _mark_lanes(net: Inference, level: int) -> None:
    """Mark the lanes and links that are told something new by the level before."""
    routes, scratch = net.routes, net.scratch
    here, was = scratch.new_lane[level & 1], scratch.new_lane[1 - (level & 1)]
    new_flow, new_link = scratch.new_flow[1 - (level & 1)], scratch.new_link
    for lane in range(len(here)):
        here[lane] = was[lane] | routes.on_route[lane]
    for link in range(len(new_link)):
        new_link[link] = routes.on_route_link[link]
    # Without branches but for the loops: whether a lane is new is hard to foretell.
    for flow in range(len(routes.start)):
        side, start, is_new = routes.side[flow], routes.start[flow], new_flow[flow]
        new_link[routes.lane_link[routes.lane[side, start]]] |= is_new  # so all of its lanes
        for visit in range(start + 1, start + routes.size[side, flow]):  # the first has none before
            lane, before = routes.lane[side, visit], routes.before[side, visit]
            new_link[routes.lane_link[lane]] |= is_new
            here[lane] |= was[before]
            here[before] |= was[lane]
    for lane in range(len(here)):
        here[lane] |= new_link[routes.lane_link[lane]]


@inlined
def _sum_lanes(net: Inference, member: int, level: int, num_lanes: int) -> None:
    """Sum what the listed lanes are told in `lane_sum`; other rows of it mean nothing."""
    routes, rows, scratch = net.routes, net.rows, net.scratch
    deep = scratch.lane_sum.shape[1] // PART
    tell, side_of = rows.lane_tell[member, level - 1], rows.lane_side[member, level - 1]
    flow_tell, flow_side = rows.flow_to_lane[member, level - 1], rows.flow_side[member, level - 1]
    lane_sum, link_sum = scratch.lane_sum, scratch.link_sum
    for entry in range(num_lanes):
        lane = rows.lanes[member, level, entry]
        for part in range(deep):
            store(lane_sum, lane, part, load(tell, 2 * lane + side_of[lane], part))
            store(link_sum, routes.lane_link[lane], part, splat(_ZERO))
    new_lane, new_link = scratch.new_lane[level & 1], scratch.new_link
    for flow in range(len(routes.start)):
        side, start = routes.side[flow], routes.start[flow]
        row, before = 2 * flow + flow_side[flow], -1
        for visit in range(start, start + routes.size[side, flow]):
            lane = routes.lane[side, visit]
            link = routes.lane_link[lane]
            if visit > start:
                before = routes.before[side, visit]
                if new_lane[before]:
                    next_row = 2 * lane + side_of[lane]
                    for part in range(deep):
                        told = load(tell, next_row, deep + part)
                        store(lane_sum, before, part, add(load(lane_sum, before, part), told))
            if not new_link[link]:
                continue
            for part in range(deep):
                told = load(flow_tell, row, deep + part)
                store(link_sum, link, part, add(load(link_sum, link, part), told))
            if not new_lane[lane]:
                continue
            for part in range(deep):
                told = load(flow_tell, row, part)
                if before >= 0:
                    before_row = 2 * before + side_of[before]
                    told = add(told, load(tell, before_row, 2 * deep + part))
                store(lane_sum, lane, part, add(load(lane_sum, lane, part), told))


@internal
def exchange_lanes(net: Inference, member: int, level: int) -> None:
    """Take lanes from level - 1 to `level`: h <- norm(h + relu(V h + messages))."""
    weights, routes, rows, scratch = net.weights, net.routes, net.rows, net.scratch
    _mark_lanes(net, level)
    new, listed = scratch.new_lane[level & 1], rows.lanes[member, level]
    num = 0
    for lane in range(len(new)):
        new[lane] &= routes.visits[lane] > 0
        if new[lane]:
            scratch.new_link[routes.lane_link[lane]] = 1
            listed[num] = lane
            num += 1
    _sum_lanes(net, member, level, num)
    before, here = rows.lane[member, level - 1], rows.lane[member, level]
    side_before, side_here = rows.lane_side[member, level - 1], rows.lane_side[member, level]
    norm, lane_sum = weights.lane_norm[member, level - 1], scratch.lane_sum
    for entry in range(num):
        lane = listed[entry]
        link, old = routes.lane_link[lane], 2 * lane + side_before[lane]
        for part in range(norm.shape[1] // PART):
            told = add(load(lane_sum, lane, part), load(scratch.link_sum, link, part))
            store(lane_sum, lane, part, add(load(before, old, part), larger(splat(_ZERO), told)))
        row = 2 * lane + 1 - side_here[lane]
        normalise(lane_sum, lane, norm, weights.lane_width, here, row)
        side_here[lane] = 1 - side_here[lane]
        scratch.lane_ids[entry] = row
    rows.num[member, level, _LANES] = num
    if level < rows.lane_tell.shape[1]:
        tell_lanes(net, member, level, num)


@inlined
def tell_lanes(net: Inference, member: int, level: int, num_lanes: int) -> None:
    """Work out what the lanes in `lane_ids` tell others at a level."""
    weights, rows, scratch = net.weights, net.rows, net.scratch
    dense(
        rows.lane[member, level], scratch.lane_ids, weights.lane_tell[member, level],
        weights.lane_tell_bias[member, level], rows.lane_tell[member, level], scratch.lane_ids,
        num_lanes,
    )  # fmt: skip
