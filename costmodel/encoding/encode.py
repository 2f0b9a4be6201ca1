"""Decisions as arrays: which flows share which lanes, in which order, and how far each end is.

A *lane* is a virtual channel of a link that at least one flow of the decision uses: flows on one
lane queue behind each other, lanes of one link share its bandwidth. A route node (a link of the
route tree of a flow, `Decisions.links`) is a *visit* of a lane by a flow. Numbers of lanes, links
and switches count from 0 within a decision, in the order in which the flows first use them; no
number depends on where on the fabric something is, so shifted, mirrored and rotated decisions are
encoded alike up to the order of links.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from numba import njit

from placer.base import InputError, IntArray, LongArray, SingleArray
from placer.cost import HeuristicCost
from placer.decision import Decisions
from placer.decision.routing import require_routes, require_sites
from placer.fabric import Fabric
from placer.netlist import Flows, Netlist, flows_of


@dataclass(frozen=True, slots=True)
class Encoded:
    """A stack of decisions of one netlist; those of decision d start at `*_start[d]`."""

    end_hops: IntArray  # [num_decisions, num_ends] links between switches, source to target
    unit_switch: IntArray  # [num_decisions, num_units]
    num_switches: IntArray  # [num_decisions] used ones
    visit_start: LongArray  # [num_decisions + 1]
    visit_flow: IntArray  # [num_visits]
    visit_lane: IntArray  # [num_visits]
    visit_before: IntArray  # [num_visits] lane that the vectors come from, -1 for the first
    lane_start: LongArray  # [num_decisions + 1]
    lane_kind: IntArray  # [num_lanes] 0 .. features.LANE_KINDS - 1
    lane_link: IntArray  # [num_lanes]
    link_start: LongArray  # [num_decisions + 1]
    link_from: IntArray  # [num_links] switch, -1: a unit
    link_to: IntArray  # [num_links] switch, -1: a unit
    link_flows: IntArray  # [num_links] flows that use it
    link_hops: IntArray  # [num_links] sum over these flows of the links of their route trees
    log_rules: SingleArray  # [num_decisions] log of the expert's estimate, of `HeuristicCost`

    def __len__(self) -> int:
        return len(self.end_hops)


def encode(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> Encoded:
    """Encode decisions. Raises InputError when they do not fit the fabric or the netlist."""
    sites = require_sites(fabric, netlist, decisions.sites)
    require_routes(fabric, netlist, decisions)
    flows, topology = flows_of(netlist), fabric.topology
    encoded = Encoded(
        *_encode(
            flows,
            topology.num_mesh_links,
            topology.num_switches,
            fabric.link.channels,
            topology.site_switch,
            topology.link_source,
            topology.link_target,
            sites,
            decisions.channels,
            decisions.route_start,
            decisions.links,
            decisions.parents,
        ),
        np.log(_rules(fabric, netlist).score(netlist, decisions)).astype(np.float32),
    )
    if (encoded.end_hops < 0).any():
        decision, end = np.argwhere(encoded.end_hops < 0)[0]
        flow = np.searchsorted(flows.target_start, end, side="right") - 1
        raise InputError(
            f"netlist {netlist.name!r}: the route of flow {netlist.flows[flow].name} does not "
            f"reach its target {netlist.units[flows.targets[end]].name} in decision {decision}"
        )
    return encoded


_kept = threading.local()  # the rules of a thread's last netlist, with their tables


def _rules(fabric: Fabric, netlist: Netlist) -> HeuristicCost:
    last: tuple[Fabric, Netlist, HeuristicCost] | None = getattr(_kept, "rules", None)
    if last is None or last[0] is not fabric or last[1] is not netlist:
        _kept.rules = last = fabric, netlist, HeuristicCost(fabric)
    return last[2]


@njit(cache=True)
def _encode(
    flows: Flows,
    num_mesh_links: int,
    num_switches: int,
    num_channels: int,
    site_switch: IntArray,
    link_source: IntArray,
    link_target: IntArray,
    sites: IntArray,
    channels: IntArray,
    route_start: LongArray,
    links: IntArray,
    parents: IntArray,
) -> tuple[
    IntArray, IntArray, IntArray, LongArray, IntArray, IntArray, IntArray, LongArray, IntArray,
    IntArray, LongArray, IntArray, IntArray, IntArray, IntArray,
]:  # fmt: skip
    num, num_flows = len(sites), len(flows.tokens)
    first_eject = num_mesh_links + len(site_switch)
    total = (route_start[:, -1] - route_start[:, 0]).sum()
    end_hops = np.empty((num, len(flows.targets)), np.int32)
    unit_switch = np.empty(sites.shape, np.int32)
    used_switches = np.empty(num, np.int32)
    starts = np.zeros((3, num + 1), np.int64)  # of visits, lanes, links
    visits = np.empty((3, total), np.int32)  # flow, lane, lane before
    lanes = np.empty((2, total), np.int32)  # kind, link
    ends = np.empty((4, total), np.int32)  # of links: from, to, flows, hops
    node_hops = np.empty(len(links), np.int32)
    site_hops = np.empty(len(site_switch), np.int32)
    lane_of = np.empty(len(link_source) * num_channels, np.int32)
    link_of = np.empty(len(link_source), np.int32)
    switch_of = np.empty(num_switches + 1, np.int32)  # the last: no switch
    visit = lane = link = 0
    for d in range(num):
        first_lane, first_link, switches = lane, link, 0
        lane_of[:], link_of[:], switch_of[:] = -1, -1, -1
        for flow in range(num_flows):
            first, last = route_start[d, flow], route_start[d, flow + 1]
            for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
                site_hops[sites[d, flows.targets[end]]] = -1
            flow_hops = 0
            for node in range(first, last):
                flow_hops += links[node] < num_mesh_links
            for node in range(first, last):
                here = links[node]
                if link_of[here] < 0:
                    link_of[here] = link - first_link
                    for side, switch in enumerate((link_source[here], link_target[here])):
                        if switch >= 0 and switch_of[switch] < 0:
                            switch_of[switch] = switches
                            switches += 1
                        ends[side, link] = switch_of[switch]
                    ends[2:, link] = 0
                    link += 1
                ends[2, first_link + link_of[here]] += 1
                ends[3, first_link + link_of[here]] += flow_hops
                key = here * num_channels + channels[d, flow]
                if lane_of[key] < 0:
                    lane_of[key] = lane - first_lane
                    lanes[0, lane] = (here >= num_mesh_links) + (here >= first_eject)
                    lanes[1, lane] = link_of[here]
                    lane += 1
                before, hops = -1, 0
                if node > first:
                    before = visits[1, visit - node + first + parents[node]]
                    hops = node_hops[first + parents[node]]
                node_hops[node] = hops + (here < num_mesh_links)
                if here >= first_eject:
                    site_hops[here - first_eject] = node_hops[node]
                visits[0, visit], visits[1, visit], visits[2, visit] = flow, lane_of[key], before
                visit += 1
            for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
                end_hops[d, end] = site_hops[sites[d, flows.targets[end]]]
        for unit in range(sites.shape[1]):
            switch = site_switch[sites[d, unit]]
            if switch_of[switch] < 0:  # the unit has no flows
                switch_of[switch] = switches
                switches += 1
            unit_switch[d, unit] = switch_of[switch]
        used_switches[d] = switches
        starts[0, d + 1], starts[1, d + 1], starts[2, d + 1] = visit, lane, link
    return (
        end_hops, unit_switch, used_switches, starts[0], visits[0], visits[1], visits[2],
        starts[1], lanes[0, :lane].copy(), lanes[1, :lane].copy(), starts[2], ends[0, :link].copy(),
        ends[1, :link].copy(), ends[2, :link].copy(), ends[3, :link].copy(),
    )  # fmt: skip
