"""Routes for placements: one function over all methods."""

from __future__ import annotations

from enum import Enum

import numpy as np

from placer.base import InputError, IntArray
from placer.decision import Decisions
from placer.decision.routing.arrays import capacity_of, grid_of, require_sites
from placer.decision.routing.dimension_ordered import dimension_channels, mixed_classes, route_dimension_ordered
from placer.decision.routing.negotiated import route_negotiated
from placer.fabric import Fabric
from placer.netlist import Netlist, flows_of


class RoutingMethod(Enum):
    """How flows find their way."""

    XY = "xy"  # along the row, then along the column
    YX = "yx"  # along the column, then along the row
    MIXED = "mixed"  # XY or YX per flow, by a hash of seed and flow
    NEGOTIATED = "negotiated"  # around overloaded links, by negotiated congestion


def route(
    fabric: Fabric,
    netlist: Netlist,
    sites: IntArray,
    *,
    method: RoutingMethod = RoutingMethod.XY,
    seed: int = 0,
    max_iterations: int = 12,
) -> Decisions:
    """Route all flows for each placement in `sites` [num_decisions, num_units].

    `seed` only matters to MIXED, `max_iterations` (rounds of rip-up and reroute) to NEGOTIATED.
    The result of a placement does not depend on the others in the batch.
    Raises InputError for sites that the fabric does not have; whether units may sit there is
    asked by `placer.decision.check`.
    """
    sites = require_sites(fabric, netlist, sites)
    grid, flows = grid_of(fabric), flows_of(netlist)
    if method == RoutingMethod.NEGOTIATED:
        if max_iterations < 1:
            raise InputError(f"max_iterations={max_iterations}; allowed 1 and more")
        channels, route_start, links, parents = route_negotiated(
            grid, flows, sites, capacity_of(fabric, netlist), fabric.link.channels, max_iterations
        )
        return Decisions(sites, channels, route_start, links, parents)
    flow_class = _flow_class(method, seed, netlist.num_flows)
    return route_turns(fabric, netlist, sites, np.repeat(flow_class[None], len(sites), axis=0))


def route_turns(fabric: Fabric, netlist: Netlist, sites: IntArray, flow_class: IntArray) -> Decisions:
    """Return dimension-ordered routes with a turn class per decision and flow: 0 goes XY, 1 goes YX."""
    sites = require_sites(fabric, netlist, sites)
    if flow_class.shape != (len(sites), netlist.num_flows):
        raise InputError(
            f"netlist {netlist.name!r}: turn classes have shape {flow_class.shape}; "
            f"needed ({len(sites)}, {netlist.num_flows} flows)"
        )
    flow_class = (flow_class != 0).astype(np.int32)
    route_start, links, parents = route_dimension_ordered(grid_of(fabric), flows_of(netlist), sites, flow_class)
    channels = dimension_channels(flow_class, fabric.link.channels)
    return Decisions(sites, channels, route_start, links, parents)


def _flow_class(method: RoutingMethod, seed: int, num_flows: int) -> IntArray:
    """Return the channel class of each flow: 0 goes XY, 1 goes YX."""
    if method == RoutingMethod.MIXED:
        return mixed_classes(seed, num_flows)
    return np.full(num_flows, method == RoutingMethod.YX, np.int32)
