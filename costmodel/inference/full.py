"""Predictions of whole decisions, one after the other, by compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.encoding import Encoded, NetlistFeatures
from costmodel.inference.evaluate import predict, turn_routes
from costmodel.inference.rounds import tell_units
from costmodel.inference.state import (
    LongArray,
    Routes,
    Rows,
    Scratch,
    Wiring,
    empty_routes,
    empty_rows,
    empty_scratch,
    wiring_of,
)
from costmodel.inference.vectors import IntArray
from costmodel.inference.weights import Weights, facts_of, weights_of
from costmodel.networks.flow import FlowNetwork
from placer.hot import hot_loop

FloatArray = NDArray[np.float64]


def predict_encoded(
    networks: Sequence[FlowNetwork], features: NetlistFeatures, encoded: Encoded
) -> FloatArray:
    """Log throughput and log sigma of all decisions by each network [num_decisions, M, 2]."""
    result = np.zeros((len(encoded), len(networks), 2))
    if not len(encoded):
        return result
    room = Room(
        num_lanes=int(np.diff(encoded.lane_start).max()),
        num_links=int(np.diff(encoded.link_start).max()),
        num_visits=int(np.diff(encoded.visit_start).max()),
        max_hops=int(encoded.end_hops.max(initial=0)),
    )
    full = FullPass(networks, features, room)
    predict_all(
        *full.state, encoded.visit_start, encoded.visit_flow, encoded.visit_lane,
        encoded.visit_before, encoded.lane_start, encoded.lane_kind, encoded.lane_link,
        encoded.end_hops, result,
    )  # fmt: skip
    if networks[0].config.rules:
        result[:, :, 0] += encoded.log_rules[:, None]
    return result


class Room(NamedTuple):
    """The most that a decision has of everything."""

    num_lanes: int
    num_links: int
    num_visits: int
    max_hops: int


class FullPass:
    """What a full pass over the decisions of one netlist works on."""

    def __init__(
        self, networks: Sequence[FlowNetwork], features: NetlistFeatures, room: Room
    ) -> None:
        weights, wiring = weights_of(networks, room.max_hops), wiring_of(features)
        lanes = np.zeros(room.num_lanes, np.int32)
        routes = empty_routes(
            lanes, lanes.copy(), np.zeros(len(features.flow), np.int64), room.num_visits,
            len(features.end_unit),
        )  # fmt: skip
        rows = empty_rows(weights, wiring, room.num_lanes, facts_of(networks, features))
        scratch = empty_scratch(weights, wiring, room.num_lanes, room.num_links)
        tell_units(weights, rows, scratch)
        self.state = weights, wiring, routes, rows, scratch


@hot_loop
def predict_all(
    weights: Weights,
    wiring: Wiring,
    routes: Routes,
    rows: Rows,
    scratch: Scratch,
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
            scratch.changed[flow] = flow
        scratch.num_changed[0] = num_flows
        turn_routes(routes, scratch)
        predict(weights, wiring, routes, rows, scratch, 0.0, result[d])
