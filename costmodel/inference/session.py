"""Predictions during a walk through placements: each differs from the last by a few routes.

    session = Session(networks, fabric, netlist, sites, flow_class)
    session.score(new_sites, new_class)  # of a neighbour; the session stays where it is
    session.go_to(new_sites, new_class)  # move there

`Engine` is what sessions and the annealer (`search.py`) price placements with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from costmodel.encoding import netlist_features
from costmodel.inference.forward import predict, turn_back, turn_routes, turn_routes_back
from costmodel.inference.rounds import tell_units
from costmodel.inference.state import Inference, empty_routes, open_inference
from costmodel.networks import FlowNetwork
from placer.base import FloatArray, InputError, IntArray, LongArray, hot, hot_loop, inlined
from placer.cost import Rules
from placer.decision.routing import (
    Grid,
    Marks,
    Tables,
    Usage,
    add_node,
    dimension_channels,
    dimension_tree,
    empty_marks,
    estimate,
    grid_of,
    hops,
    require_sites,
    tables_of,
)
from placer.fabric import Fabric
from placer.netlist import Netlist, flows_of


class Engine(NamedTuple):
    """Everything that is known of the current placement."""

    net: Inference
    level: FloatArray  # [2] energy: now, and with the change that was priced last
    is_broken: IntArray  # [1] 1: a prediction was no number
    grid: Grid
    num_channels: int
    channels: IntArray  # [2, num_flows] by turn class
    marks: Marks
    tick: LongArray  # [1] number of the last tree
    links: IntArray  # [longest tree] of the last tree
    parents: IntArray
    result: FloatArray  # [M, 3] log throughput, log sigma and trust in the expert's estimate, by member
    pessimism: float  # deviations between the members that are taken off
    has_rules: bool  # whether predictions are what is lost of the expert's estimate
    tables: Tables  # of that estimate
    usage: Usage  # the same
    ports: LongArray  # [2, num_sites] the same


def open_engine(
    networks: Sequence[FlowNetwork],
    fabric: Fabric,
    netlist: Netlist,
    sites: IntArray,
    flow_class: IntArray,
    pessimism: float = 0.0,
) -> Engine:
    """Return an engine at a placement with dimension-ordered routes, which is priced already.

    Raises InputError when its prediction is not finite.
    """
    topology, flows, grid = fabric.topology, flows_of(netlist), grid_of(fabric)
    features = netlist_features(fabric, netlist)
    num_channels, num_links = fabric.link.channels, topology.num_links
    link = np.repeat(np.arange(num_links, dtype=np.int32), num_channels)
    kind = (link >= topology.num_mesh_links).astype(np.int32)
    kind += link >= topology.num_mesh_links + topology.num_sites
    longest = topology.num_switches + np.diff(flows.target_start)  # every switch is entered once
    num_ends, num_visits = len(flows.targets), int(longest.sum())
    routes = empty_routes(kind, link, num_links, np.cumsum(longest) - longest, num_visits, num_ends)
    max_hops = topology.rows + topology.columns
    classes = np.array([[0], [1]], np.int32).repeat(netlist.num_flows, axis=1)
    engine = Engine(
        net=open_inference(networks, features, flows, routes, max_hops),
        level=np.zeros(2),
        is_broken=np.zeros(1, np.int32),
        grid=grid,
        num_channels=num_channels,
        channels=dimension_channels(classes, num_channels),
        marks=empty_marks(grid),
        tick=np.zeros(1, np.int64),
        links=np.zeros(int(longest.max(initial=1)), np.int32),
        parents=np.zeros(int(longest.max(initial=1)), np.int32),
        result=np.zeros((len(networks), 3)),
        pessimism=pessimism,
        has_rules=networks[0].config.rules,
        tables=tables_of(fabric, netlist, Rules()),
        usage=Usage(np.zeros(num_links, np.int64), np.zeros(num_ends, np.int32)),
        ports=np.zeros((2, topology.num_sites), np.int64),
    )
    tell_units(engine.net)
    routes.changed[:] = np.arange(netlist.num_flows)
    routes.num_changed[0] = netlist.num_flows
    engine.level[0] = price_state(engine, sites, flow_class)
    require_finite(engine)
    engine.net.scratch.is_fresh[0] = 0
    return engine


def require_finite(engine: Engine) -> None:
    """Raise InputError when a prediction was no number."""
    if engine.is_broken[0]:
        raise InputError("the model gives a prediction that is not finite; train it again")


@hot_loop
def price_state(engine: Engine, sites: IntArray, flow_class: IntArray) -> float:
    """Return the energy, also in `level[1]`, when the flows listed in `routes.changed` get new routes."""
    routes = engine.net.routes
    for entry in range(routes.num_changed[0]):
        flow = routes.changed[entry]
        _write_route(engine, sites, flow, flow_class[flow])
    turn_routes(routes)
    predict(engine.net, engine.result)
    log_rules = -math.log(_largest_estimate(engine, sites)) if engine.has_rules else 0.0
    energy = -_log_score(engine.result, log_rules, engine.pessimism)
    if not math.isfinite(energy):
        engine.is_broken[0] = 1
    engine.level[1] = energy
    return energy


@hot_loop
def revert_state(engine: Engine) -> None:
    """Take back what `price_state` did."""
    turn_routes_back(engine.net.routes)
    turn_back(engine.net.rows)


@inlined
def _largest_estimate(engine: Engine, sites: IntArray) -> float:
    """Return 1 / score of `HeuristicCost`, worked out from scratch, which takes 1% of a prediction's time."""
    flows, routes, usage = engine.net.flows, engine.net.routes, engine.usage
    usage.load[:] = 0
    for flow in range(len(routes.side)):
        side, start, tokens = routes.side[flow], routes.start[flow], flows.tokens[flow]
        for visit in range(start, start + routes.size[side, flow]):
            usage.load[routes.lane_link[routes.lane[side, visit]]] += tokens
        for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
            usage.hops[end] = routes.hops[side, end]
    largest, _ = estimate(engine.tables, flows, usage, sites, engine.ports)
    return largest


@hot
def _log_score(result: FloatArray, log_rules: float, pessimism: float) -> float:
    """Return the mean log throughput of the members, less `pessimism` deviations between them."""
    num, mean, square = len(result), 0.0, 0.0
    for member in range(num):
        result[member, 0] += result[member, 2] * log_rules
        mean += result[member, 0] / num
    for member in range(num):
        square += (result[member, 0] - mean) ** 2 / num
    return mean - pessimism * math.sqrt(square)


@inlined
def _write_route(engine: Engine, sites: IntArray, flow: int, turn_class: int) -> None:
    """Write the dimension-ordered tree of a flow to the side that does not count yet."""
    grid, flows, routes = engine.grid, engine.net.flows, engine.net.routes
    engine.tick[0] += 1
    size, _ = dimension_tree(
        add_node, engine, grid, flows, sites, flow, turn_class, engine.marks, engine.tick[0], 0,
        0.0,
    )  # fmt: skip
    side, start = 1 - routes.side[flow], routes.start[flow]
    channel, num_channels = engine.channels[turn_class, flow], engine.num_channels
    routes.size[side, flow] = size
    for node in range(size):
        routes.lane[side, start + node] = engine.links[node] * num_channels + channel
        parent = engine.parents[node]
        routes.before[side, start + node] = engine.links[parent] * num_channels + channel if parent >= 0 else -1
    source = grid.site_switch[sites[flows.source[flow]]]
    for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
        target = grid.site_switch[sites[flows.targets[end]]]
        routes.hops[side, end] = hops(grid, source, target)


class Session:
    """A walk through placements with dimension-ordered routes, as the text above shows."""

    def __init__(
        self,
        networks: Sequence[FlowNetwork],
        fabric: Fabric,
        netlist: Netlist,
        sites: IntArray,
        flow_class: IntArray,
        pessimism: float = 0.0,
    ) -> None:
        self.sites = require_sites(fabric, netlist, sites[None])[0]
        self.flow_class = (flow_class != 0).astype(np.int32)
        self._engine = open_engine(networks, fabric, netlist, self.sites, self.flow_class, pessimism)
        self.current = math.exp(-self._engine.level[0])

    def score(self, sites: IntArray, flow_class: IntArray) -> float:
        """Return the score of a placement; few different units and turns make it fast."""
        score = self._move(sites, flow_class)
        revert_state(self._engine)
        return score

    def go_to(self, sites: IntArray, flow_class: IntArray) -> float:
        """Move to a placement and return its score."""
        self.current = self._move(sites, flow_class)
        self.sites, self.flow_class = sites.copy(), flow_class.copy()
        return self.current

    def _move(self, sites: IntArray, flow_class: IntArray) -> float:
        engine = self._engine
        flows, routes, has_moved = engine.net.flows, engine.net.routes, sites != self.sites
        is_changed = (flow_class != self.flow_class) | has_moved[flows.source]
        is_changed[flows.end_flow[has_moved[flows.targets]]] = True
        changed = np.flatnonzero(is_changed)
        routes.changed[: len(changed)], routes.num_changed[0] = changed, len(changed)
        energy = price_state(engine, sites, flow_class)
        require_finite(engine)
        return math.exp(-energy)
