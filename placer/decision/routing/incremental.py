"""New routes for a few flows of a decision while all others keep theirs."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.base import InputError, IntArray, LongArray
from placer.decision import Decisions
from placer.decision.routing.arrays import Grid, capacity_of, grid_of, require_routes, require_sites
from placer.decision.routing.cheapest import empty_scratch
from placer.decision.routing.load import add_load
from placer.decision.routing.negotiated import Board, add_flow, empty_congestion, empty_routes, route_flow
from placer.decision.routing.trees import copy_entries
from placer.fabric import Fabric
from placer.netlist import Flows, Netlist, flows_of

# Higher than in the first round of a negotiation: no later round raises it.
_PRESSURE = 8.0


def reroute(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, sites: IntArray, flows: NDArray[np.integer]
) -> Decisions:
    """Return the one decision in the stack, moved to `sites` [num_units], with new routes for `flows`.

    Each listed flow takes its cheapest tree against the load of all others, heavy flows first;
    the others keep route and channel.
    Raises InputError when a flow that is not listed has an end whose site changed.
    """
    if len(decisions) != 1:
        raise InputError(f"reroute needs a stack of one decision, got {len(decisions)}")
    require_routes(fabric, netlist, decisions)
    old_sites = require_sites(fabric, netlist, decisions.sites)[0]
    new_sites = require_sites(fabric, netlist, np.asarray(sites)[None])[0]
    is_listed = _listed(netlist, flows)
    _require_listed(netlist, old_sites != new_sites, is_listed)
    channels, route_start, links, parents = _reroute(
        grid_of(fabric),
        flows_of(netlist),
        new_sites,
        capacity_of(fabric, netlist),
        fabric.link.channels,
        is_listed,
        decisions.channels[0],
        decisions.route_start[0],
        decisions.links,
        decisions.parents,
    )
    return Decisions(new_sites[None], channels[None], route_start[None], links, parents)


def _listed(netlist: Netlist, flows: NDArray[np.integer]) -> NDArray[np.bool_]:
    ids = np.asarray(flows, np.int64).reshape(-1)
    wrong = ids[(ids < 0) | (ids >= netlist.num_flows)]
    if wrong.size:
        raise InputError(f"netlist {netlist.name!r} has no flow {wrong[0]}; allowed 0 to {netlist.num_flows - 1}")
    is_listed = np.zeros(netlist.num_flows, np.bool_)
    is_listed[ids] = True
    return is_listed


def _require_listed(netlist: Netlist, has_moved: NDArray[np.bool_], is_listed: NDArray[np.bool_]) -> None:
    for flow_id in np.flatnonzero(~is_listed):
        flow = netlist.flows[flow_id]
        for unit in (flow.source, *flow.targets):
            if has_moved[unit]:
                raise InputError(
                    f"flow {flow_id} ({flow.name}) would keep its route, but the site of its unit "
                    f"{netlist.units[unit].name} changed; list the flow as well"
                )


@njit(cache=True)
def _reroute(
    grid: Grid,
    flows: Flows,
    sites: IntArray,
    capacity: LongArray,
    num_channels: int,
    is_listed: NDArray[np.bool_],
    old_channels: IntArray,
    old_start: LongArray,
    old_links: IntArray,
    old_parents: IntArray,
) -> tuple[IntArray, LongArray, IntArray, IntArray]:
    """Return channels, route start, links and parents of the new decision."""
    num_flows = len(flows.source)
    board = Board(grid, flows, sites, empty_scratch(grid))
    congestion = empty_congestion(capacity, num_channels)
    channels, sizes = old_channels.copy(), old_start[1:] - old_start[:-1]
    for flow in range(num_flows):
        if not is_listed[flow]:
            first, size, tokens = old_start[flow], sizes[flow], flows.tokens[flow]
            add_load(congestion.load, old_links, first, size, tokens)
            channel_load = congestion.channel_load[:, channels[flow]]
            add_load(channel_load, old_links, first, size, tokens)
    routes = empty_routes(grid, flows)
    for flow in flows.heavy_first:
        if is_listed[flow]:
            route_flow(board, routes, flow, congestion, _PRESSURE)
            add_flow(flows, routes, flow, congestion, 1)
            channels[flow], sizes[flow] = routes.channel[flow], routes.size[flow]
    route_start = np.zeros(num_flows + 1, np.int64)
    for flow in range(num_flows):
        route_start[flow + 1] = route_start[flow] + sizes[flow]
    links = np.empty(route_start[num_flows], np.int32)
    parents = np.empty(route_start[num_flows], np.int32)
    for flow in range(num_flows):
        new, size = route_start[flow], sizes[flow]
        if is_listed[flow]:
            copy_entries(routes.links, routes.first[flow], links, new, size)
            copy_entries(routes.parents, routes.first[flow], parents, new, size)
        else:
            copy_entries(old_links, old_start[flow], links, new, size)
            copy_entries(old_parents, old_start[flow], parents, new, size)
    return channels, route_start, links, parents
