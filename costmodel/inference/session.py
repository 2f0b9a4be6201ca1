"""Predictions during a walk through placements: each differs from the last by a few routes.

    session = Session(networks, fabric, netlist, sites, flow_class)
    session.score(new_sites, new_class)  # of a neighbour; the session stays where it is
    session.go_to(new_sites, new_class)  # move there

`Engine` and the functions below are the same for compiled searches: apply a change to the state,
`price_state`, then keep it or `take_back`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.encoding import netlist_features
from costmodel.inference.compiling import inlined
from costmodel.inference.evaluate import predict, take_back, turn_routes
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
from placer.errors import InputError
from placer.fabric import Fabric
from placer.heuristic import Rules, Tables, tables_of
from placer.hot import hot, hot_loop
from placer.netlist import Netlist
from placer.routing.arrays import Flows, Grid, flows_of, grid_of, require_sites
from placer.routing.dimension_ordered import dimension_channels, dimension_tree
from placer.routing.trees import Marks, empty_marks, hops

FloatArray = NDArray[np.float64]


class Engine(NamedTuple):
    """Everything that is known of the current placement."""

    weights: Weights
    wiring: Wiring
    routes: Routes
    rows: Rows
    scratch: Scratch
    grid: Grid
    flows: Flows
    num_channels: int
    channels: IntArray  # [2, num_flows] by turn class
    marks: Marks
    tick: LongArray  # [1] number of the last tree
    links: IntArray  # [longest tree] of the last tree
    parents: IntArray
    result: FloatArray  # [M, 2] log throughput and log sigma, by member
    pessimism: float  # deviations between the members that are taken off
    tolerance: float  # changes of rows that are not told on, see `rounds`
    has_rules: bool  # whether predictions are what is lost of the expert's estimate
    tables: Tables  # of that estimate
    load: LongArray  # [num_links] vectors per sample
    ports: LongArray  # [2, num_sites] read and write cycles per sample


def open_engine(
    networks: Sequence[FlowNetwork],
    fabric: Fabric,
    netlist: Netlist,
    sites: IntArray,
    flow_class: IntArray,
    pessimism: float = 0.0,
    tolerance: float = 0.0,
) -> Engine:
    """At a placement with dimension-ordered routes; its prediction stands in `result`."""
    topology, features, flows = fabric.topology, netlist_features(netlist), flows_of(netlist)
    grid, wiring = grid_of(fabric), wiring_of(features)
    weights = weights_of(networks, topology.rows + topology.columns)
    num_channels, num_links = fabric.link.channels, topology.num_links
    link = np.repeat(np.arange(num_links, dtype=np.int32), num_channels)
    kind = (link >= topology.num_mesh_links).astype(np.int32)
    kind += link >= topology.num_mesh_links + topology.num_sites
    longest = topology.num_switches + np.diff(flows.target_start)  # every switch is entered once
    routes = empty_routes(
        kind, link, np.cumsum(longest) - longest, int(longest.sum()), len(flows.targets)
    )
    classes = np.array([[0], [1]], np.int32).repeat(netlist.num_flows, axis=1)
    engine = Engine(
        weights=weights,
        wiring=wiring,
        routes=routes,
        rows=empty_rows(weights, wiring, len(link), facts_of(networks, features)),
        scratch=empty_scratch(weights, wiring, len(link), num_links),
        grid=grid,
        flows=flows,
        num_channels=num_channels,
        channels=dimension_channels(classes, num_channels),
        marks=empty_marks(grid),
        tick=np.zeros(1, np.int64),
        links=np.zeros(int(longest.max(initial=1)), np.int32),
        parents=np.zeros(int(longest.max(initial=1)), np.int32),
        result=np.zeros((len(networks), 2)),
        pessimism=pessimism,
        tolerance=tolerance,
        has_rules=networks[0].config.rules,
        tables=tables_of(fabric, netlist, Rules()),
        load=np.zeros(num_links, np.int64),
        ports=np.zeros((2, topology.num_sites), np.int64),
    )
    tell_units(weights, engine.rows, engine.scratch)
    engine.scratch.changed[:] = np.arange(netlist.num_flows)
    engine.scratch.num_changed[0] = netlist.num_flows
    price_state(engine, sites, flow_class, 0.0)
    engine.scratch.is_fresh[0] = 0
    return engine


@hot_loop
def price_state(engine: Engine, sites: IntArray, flow_class: IntArray, tolerance: float) -> float:
    """Log of the score when the flows listed in `scratch.changed` get new routes."""
    for entry in range(engine.scratch.num_changed[0]):
        flow = engine.scratch.changed[entry]
        _write_route(engine, sites, flow, flow_class[flow])
    turn_routes(engine.routes, engine.scratch)
    predict(
        engine.weights, engine.wiring, engine.routes, engine.rows, engine.scratch, tolerance,
        engine.result,
    )  # fmt: skip
    if engine.has_rules:
        log_estimate = math.log(_largest_estimate(engine, sites))
        for member in range(len(engine.result)):
            engine.result[member, 0] -= log_estimate
    return log_score(engine.result, engine.pessimism)


@inlined
def _largest_estimate(engine: Engine, sites: IntArray) -> float:
    """1 / score of `HeuristicCost`; from scratch, since that takes 1% of a prediction's time."""
    tables, routes, load, ports = engine.tables, engine.routes, engine.load, engine.ports
    largest = tables.constant_max
    load[:] = 0
    ports[:, :] = 0
    for flow in range(len(routes.side)):
        side, start, tokens = routes.side[flow], routes.start[flow], engine.flows.tokens[flow]
        for visit in range(start, start + routes.size[side, flow]):
            load[routes.lane_link[routes.lane[side, visit]]] += tokens
        for end in range(engine.flows.target_start[flow], engine.flows.target_start[flow + 1]):
            kind = tables.unit_kind[engine.flows.targets[end]]
            largest = max(largest, tables.per_trip[kind, routes.hops[side, end]] * tokens)
    for link in range(len(load)):
        largest = max(largest, load[link] * tables.per_link[link])
    for unit in range(len(sites)):
        ports[0, sites[unit]] += tables.port_read[unit]
        ports[1, sites[unit]] += tables.port_write[unit]
    for site in range(ports.shape[1]):
        largest = max(largest, max(ports[0, site], ports[1, site]) * tables.per_port)
    return largest


@hot
def log_score(result: FloatArray, pessimism: float) -> float:
    """Mean of the log throughputs of the members, less `pessimism` deviations between them."""
    num, mean, square = len(result), 0.0, 0.0
    for member in range(num):
        mean += result[member, 0] / num
    for member in range(num):
        square += (result[member, 0] - mean) ** 2 / num
    return mean - pessimism * math.sqrt(square)


@inlined
def _write_route(engine: Engine, sites: IntArray, flow: int, turn_class: int) -> None:
    """The dimension-ordered tree of a flow, on the side that does not count yet."""
    grid, routes = engine.grid, engine.routes
    engine.tick[0] += 1
    size = dimension_tree(
        grid, engine.flows, sites, flow, turn_class, engine.marks, engine.tick[0], engine.links,
        engine.parents,
    )  # fmt: skip
    side, start = 1 - routes.side[flow], routes.start[flow]
    channel, num_channels = engine.channels[turn_class, flow], engine.num_channels
    routes.size[side, flow] = size
    for node in range(size):
        routes.lane[side, start + node] = engine.links[node] * num_channels + channel
        parent = engine.parents[node]
        routes.before[side, start + node] = (
            engine.links[parent] * num_channels + channel if parent >= 0 else -1
        )
    source = grid.site_switch[sites[engine.flows.source[flow]]]
    for end in range(engine.flows.target_start[flow], engine.flows.target_start[flow + 1]):
        target = grid.site_switch[sites[engine.flows.targets[end]]]
        routes.hops[side, end] = hops(grid, source, target)


@hot_loop
def _list_changed(
    wiring: Wiring,
    scratch: Scratch,
    old_sites: IntArray,
    old_class: IntArray,
    sites: IntArray,
    flow_class: IntArray,
) -> None:
    """List the flows that must be routed anew."""
    num = 0
    for flow in range(len(flow_class)):
        unit = wiring.flow_source[flow]
        has_moved = sites[unit] != old_sites[unit] or flow_class[flow] != old_class[flow]
        for end in range(wiring.end_start[flow], wiring.end_start[flow + 1]):
            unit = wiring.end_unit[end]
            has_moved = has_moved or sites[unit] != old_sites[unit]
        if has_moved:
            scratch.changed[num] = flow
            num += 1
    scratch.num_changed[0] = num


def _throughput(log_throughput: float) -> float:
    if not math.isfinite(log_throughput):
        raise InputError("the model gives a prediction that is not finite; train it again")
    return math.exp(log_throughput)


class Session:
    """A walk through placements with dimension-ordered routes; see the text above."""

    def __init__(
        self,
        networks: Sequence[FlowNetwork],
        fabric: Fabric,
        netlist: Netlist,
        sites: IntArray,
        flow_class: IntArray,
        pessimism: float = 0.0,
    ) -> None:
        self._fabric, self._netlist = fabric, netlist
        self.sites = require_sites(fabric, netlist, sites[None])[0]
        self.flow_class = (flow_class != 0).astype(np.int32)
        self._engine = open_engine(
            networks, fabric, netlist, self.sites, self.flow_class, pessimism
        )
        self.current = _throughput(log_score(self._engine.result, pessimism))

    def score(self, sites: IntArray, flow_class: IntArray) -> float:
        """Of a placement that differs in few units and turns, which makes it fast."""
        score = self._move(sites, flow_class)
        take_back(self._engine.routes, self._engine.rows, self._engine.scratch)
        return score

    def go_to(self, sites: IntArray, flow_class: IntArray) -> float:
        """Move there; its score."""
        self.current = self._move(sites, flow_class)
        self.sites, self.flow_class = sites.copy(), flow_class.copy()
        return self.current

    def _move(self, sites: IntArray, flow_class: IntArray) -> float:
        engine = self._engine
        _list_changed(engine.wiring, engine.scratch, self.sites, self.flow_class, sites, flow_class)
        return _throughput(price_state(engine, sites, flow_class, 0.0))
