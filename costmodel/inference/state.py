"""What compiled inference works on: the routes, and what every node knows.

Everything that a change of the decision changes has two *sides*. A change writes the other side of
what it touches and turns it over; to take the change back, it is turned back. Nothing is copied,
and nothing is summed up over many changes, so there is nothing that could drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from costmodel.encoding import NetlistFeatures
from costmodel.inference.vectors import aligned_zeros
from costmodel.inference.weights import Facts, Weights, facts_of, weights_of
from costmodel.networks import FlowNetwork
from placer.base import ByteArray, IntArray, LongArray, SingleArray
from placer.netlist import Flows


class Routes(NamedTuple):
    """A decision: visits of lanes by flows, in two sides per flow; and its last change."""

    lane_kind: IntArray  # [num_lanes]
    lane_link: IntArray  # [num_lanes]
    start: LongArray  # [num_flows] first visit of a flow in `lane` and `before`
    side: IntArray  # [num_flows] 0 or 1: which one counts
    size: LongArray  # [2, num_flows] visits
    lane: IntArray  # [2, num_visits]
    before: IntArray  # [2, num_visits] lane that the vectors come from, -1: none
    hops: IntArray  # [2, num_ends]
    visits: IntArray  # [num_lanes] of all flows; 0: the lane is not used
    num_changed: LongArray  # [1]
    changed: IntArray  # [num_flows] flows with new routes
    on_route: ByteArray  # [num_lanes] on an old or a new one of these
    on_route_link: ByteArray  # [num_links]
    more_visits: IntArray  # [num_lanes]


class Rows(NamedTuple):
    """What nodes know at each level, by member of the ensemble; row 2 i + side counts."""

    lane: SingleArray  # [M, rounds + 1, 2 num_lanes, D]
    lane_tell: SingleArray  # [M, rounds, 2 num_lanes, 3 D]
    flow: SingleArray  # [M, rounds + 1, 2 num_flows, W]
    flow_to_lane: SingleArray  # [M, rounds, 2 num_flows, 2 D]
    flow_to_unit: SingleArray  # [M, rounds, 2 num_flows, 2 W]
    unit: SingleArray  # [M, rounds + 1, 2 num_units, W]
    unit_to_flow: SingleArray  # [M, rounds, 2 num_units, 2 W]
    flow_static: SingleArray  # [M, num_flows, W] first layer of level 0, without hops
    lane_side: IntArray  # [M, rounds + 1, num_lanes]
    flow_side: IntArray  # [M, rounds + 1, num_flows]
    unit_side: IntArray  # [M, rounds + 1, num_units]
    # Nodes whose side the last change turned:
    lanes: IntArray  # [M, rounds + 1, num_lanes]
    flows: IntArray  # [M, rounds + 1, num_flows]
    units: IntArray  # [M, rounds + 1, num_units]
    num: LongArray  # [M, rounds + 1, 3] how many lanes, flows, units


class Scratch(NamedTuple):
    """Room to work out what a change does."""

    is_fresh: ByteArray  # [1] whether nothing was known before
    # One member at one level and the one before (by parity): is it new?
    new_lane: ByteArray  # [2, num_lanes]
    new_flow: ByteArray  # [2, num_flows]
    new_unit: ByteArray  # [2, num_units]
    new_link: ByteArray  # [num_links]
    lane_sum: SingleArray  # [num_lanes, D]
    link_sum: SingleArray  # [num_links, D]
    x: SingleArray  # [rows, inputs of a layer]
    y: SingleArray  # [rows, W]
    z: SingleArray  # [rows, W]
    lane_ids: IntArray  # [num_lanes]
    ids: IntArray  # [rows]
    in_order: IntArray  # [rows] 0, 1, 2, ...
    pooled: SingleArray  # [1, 2 (2 W + D)]
    hidden: SingleArray  # [3, 2 W]


class Inference(NamedTuple):
    """Everything that compiled inference works on."""

    weights: Weights
    flows: Flows
    routes: Routes
    rows: Rows
    scratch: Scratch


def open_inference(
    networks: Sequence[FlowNetwork], features: NetlistFeatures, flows: Flows, routes: Routes, max_hops: int
) -> Inference:
    """Return what is known of a netlist while no flow has a route yet."""
    weights, num_lanes = weights_of(networks, features.hardware, max_hops), len(routes.lane_kind)
    rows = _empty_rows(weights, flows, num_lanes, facts_of(networks, features))
    scratch = _empty_scratch(weights, flows, num_lanes, len(routes.on_route_link))
    return Inference(weights, flows, routes, rows, scratch)


def empty_routes(
    lane_kind: IntArray, lane_link: IntArray, num_links: int, start: LongArray, num_visits: int, num_ends: int
) -> Routes:
    """Return routes while no flow has one yet."""
    num_flows, num_lanes = len(start), len(lane_kind)
    return Routes(
        lane_kind=lane_kind,
        lane_link=lane_link,
        start=start,
        side=np.zeros(num_flows, np.int32),
        size=np.zeros((2, num_flows), np.int64),
        lane=np.zeros((2, num_visits), np.int32),
        before=np.zeros((2, num_visits), np.int32),
        hops=np.zeros((2, num_ends), np.int32),
        visits=np.zeros(num_lanes, np.int32),
        num_changed=np.zeros(1, np.int64),
        changed=np.zeros(num_flows, np.int32),
        on_route=np.zeros(num_lanes, np.uint8),
        on_route_link=np.zeros(num_links, np.uint8),
        more_visits=np.zeros(num_lanes, np.int32),
    )


def _empty_rows(weights: Weights, flows: Flows, num_lanes: int, facts: Facts) -> Rows:
    """Return what is known before any decision: the facts of the netlist."""
    members, rounds, deep, _ = weights.lane_tell.shape
    wide = weights.body.shape[2]
    num_units, num_flows = len(flows.read_start) - 1, len(flows.source)
    unit = aligned_zeros(members, rounds + 1, 2 * num_units, wide)
    unit[:, 0, ::2] = facts.unit
    return Rows(
        lane=aligned_zeros(members, rounds + 1, 2 * num_lanes, deep),
        lane_tell=aligned_zeros(members, rounds, 2 * num_lanes, 3 * deep),
        flow=aligned_zeros(members, rounds + 1, 2 * num_flows, wide),
        flow_to_lane=aligned_zeros(members, rounds, 2 * num_flows, 2 * deep),
        flow_to_unit=aligned_zeros(members, rounds, 2 * num_flows, 2 * wide),
        unit=unit,
        unit_to_flow=aligned_zeros(members, rounds, 2 * num_units, 2 * wide),
        flow_static=facts.flow,
        lane_side=np.zeros((members, rounds + 1, num_lanes), np.int32),
        flow_side=np.zeros((members, rounds + 1, num_flows), np.int32),
        unit_side=np.zeros((members, rounds + 1, num_units), np.int32),
        lanes=np.zeros((members, rounds + 1, num_lanes), np.int32),
        flows=np.zeros((members, rounds + 1, num_flows), np.int32),
        units=np.zeros((members, rounds + 1, num_units), np.int32),
        num=np.zeros((members, rounds + 1, 3), np.int64),
    )


def _empty_scratch(weights: Weights, flows: Flows, num_lanes: int, num_links: int) -> Scratch:
    """Return room to work out what a change does."""
    deep, wide = weights.lane_tell.shape[2], weights.body.shape[2]
    num_units, num_flows = len(flows.read_start) - 1, len(flows.source)
    rows = max(num_units, num_flows, num_lanes)
    return Scratch(
        is_fresh=np.ones(1, np.uint8),
        new_lane=np.zeros((2, num_lanes), np.uint8),
        new_flow=np.zeros((2, num_flows), np.uint8),
        new_unit=np.zeros((2, num_units), np.uint8),
        new_link=np.zeros(num_links, np.uint8),
        lane_sum=aligned_zeros(num_lanes, deep),
        link_sum=aligned_zeros(num_links, deep),
        x=aligned_zeros(rows, max(2 * wide + 2 * deep, 3 * wide)),
        y=aligned_zeros(rows, wide),
        z=aligned_zeros(rows, wide),
        lane_ids=np.zeros(num_lanes, np.int32),
        ids=np.zeros(rows, np.int32),
        in_order=np.arange(rows, dtype=np.int32),
        pooled=aligned_zeros(1, 2 * (2 * wide + deep)),
        hidden=aligned_zeros(3, 2 * wide),
    )
