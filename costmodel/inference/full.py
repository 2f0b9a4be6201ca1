"""Predictions of whole decisions, one after the other, by compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from costmodel.encoding import Encoded, NetlistFeatures
from costmodel.inference.forward import predict, turn_routes
from costmodel.inference.rounds import tell_units
from costmodel.inference.state import Inference, empty_routes, open_inference
from costmodel.networks import FlowNetwork
from placer.base import FloatArray, IntArray, LongArray, hot_loop
from placer.netlist import connect


def predict_encoded(networks: Sequence[FlowNetwork], features: NetlistFeatures, encoded: Encoded) -> FloatArray:
    """Return log throughput and log sigma by decision and network [num_decisions, M, 2]."""
    result = np.zeros((len(encoded), len(networks), 3))
    if not len(encoded):
        return result[:, :, :2]
    room = Room(
        num_lanes=int(np.diff(encoded.lane_start).max()),
        num_links=int(np.diff(encoded.link_start).max()),
        num_visits=int(np.diff(encoded.visit_start).max()),
        max_hops=int(encoded.end_hops.max(initial=0)),
    )
    net = open_pass(networks, features, room)
    predict_all(
        net, encoded.visit_start, encoded.visit_flow, encoded.visit_lane, encoded.visit_before,
        encoded.lane_start, encoded.lane_kind, encoded.lane_link,
        encoded.end_hops, result,
    )  # fmt: skip
    if networks[0].config.rules:
        result[:, :, 0] += result[:, :, 2] * encoded.log_rules[:, None]
    return result[:, :, :2]


class Room(NamedTuple):
    """The most that a decision has of everything."""

    num_lanes: int
    num_links: int
    num_visits: int
    max_hops: int


def open_pass(networks: Sequence[FlowNetwork], features: NetlistFeatures, room: Room) -> Inference:
    """Return what full passes over the decisions of one netlist work on."""
    lanes, starts = np.zeros(room.num_lanes, np.int32), np.zeros(len(features.flow), np.int64)
    ends = features.flow_source, features.end_flow, features.end_unit
    flows = connect(*ends, np.zeros_like(starts), len(features.unit))  # tokens do not matter
    routes = empty_routes(lanes, lanes.copy(), room.num_links, starts, room.num_visits, len(features.end_unit))
    net = open_inference(networks, features, flows, routes, room.max_hops)
    tell_units(net)
    return net


@hot_loop
def predict_all(
    net: Inference,
    visit_start: LongArray,
    visit_flow: IntArray,
    visit_lane: IntArray,
    visit_before: IntArray,
    lane_start: LongArray,
    lane_kind: IntArray,
    lane_link: IntArray,
    end_hops: IntArray,
    result: FloatArray,
) -> None:
    """Predict decisions one after the other; `Encoded` explains the arrays."""
    routes = net.routes
    num_flows = len(routes.start)
    for d in range(len(end_hops)):
        routes.visits[:] = 0
        routes.side[:] = 0  # the new routes go to side 1, which `turn_routes` turns up
        routes.size[:, :] = 0
        for lane in range(lane_start[d], lane_start[d + 1]):
            routes.lane_kind[lane - lane_start[d]] = lane_kind[lane]
            routes.lane_link[lane - lane_start[d]] = lane_link[lane]
        for visit in range(visit_start[d], visit_start[d + 1]):  # in the order of the flows
            place, flow = visit - visit_start[d], visit_flow[visit]
            if routes.size[1, flow] == 0:
                routes.start[flow] = place
            routes.size[1, flow] += 1
            routes.lane[1, place], routes.before[1, place] = visit_lane[visit], visit_before[visit]
        for end in range(end_hops.shape[1]):
            routes.hops[1, end] = end_hops[d, end]
        for flow in range(num_flows):
            routes.changed[flow] = flow
        routes.num_changed[0] = num_flows
        turn_routes(routes)
        predict(net, result[d])
