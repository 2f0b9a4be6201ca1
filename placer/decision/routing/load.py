"""What the routes of a decision ask of the fabric: counts of vectors and cycles per sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import FloatArray, IntArray, LongArray, hot
from placer.decision import Decisions
from placer.decision.routing.arrays import require_routes
from placer.fabric import Fabric
from placer.netlist import Flows, Netlist, flows_of


class Usage(NamedTuple):
    """How much a decision uses of everything, per sample."""

    load: LongArray  # [num_links] vectors over a link
    hops: IntArray  # [num_ends] mesh links from the source to a target


@hot
def add_load(load: LongArray, links: IntArray, first: int, size: int, tokens: int) -> None:
    """Put `tokens` vectors on each link of a tree, or with a negative number take them away."""
    for node in range(first, first + size):
        load[links[node]] += tokens


@njit(cache=True)
def usage_of(
    flows: Flows,
    num_mesh_links: int,
    num_sites: int,
    sites: IntArray,
    route_start: LongArray,
    links: IntArray,
    parents: IntArray,
) -> Usage:
    """Return what one decision uses; its routes are those of `route_start` [num_flows + 1]."""
    first_eject = num_mesh_links + num_sites
    usage = Usage(np.zeros(first_eject + num_sites, np.int64), np.zeros(len(flows.targets), np.int32))
    largest = 0
    for flow in range(len(flows.source)):
        largest = max(largest, route_start[flow + 1] - route_start[flow])
    node_hops = np.zeros(largest, np.int32)
    site_hops = np.zeros(num_sites, np.int32)
    for flow in range(len(flows.source)):
        first, size = route_start[flow], route_start[flow + 1] - route_start[flow]
        add_load(usage.load, links, first, size, flows.tokens[flow])
        for node in range(size):
            link = links[first + node]
            before = 0 if node == 0 else node_hops[parents[first + node]]
            node_hops[node] = before + (link < num_mesh_links)
            if link >= first_eject:
                site_hops[link - first_eject] = node_hops[node]
        for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
            usage.hops[end] = site_hops[sites[flows.targets[end]]]
    return usage


def link_load(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> FloatArray:
    """Return the demand [num_decisions, num_links] in vectors per cycle at the bound.

    Raises InputError when the decisions do not belong to this fabric and netlist.
    """
    require_routes(fabric, netlist, decisions)
    load = np.zeros((len(decisions), fabric.topology.num_links), np.int64)
    tokens = flows_of(netlist).tokens
    for total, starts in zip(load, decisions.route_start, strict=True):
        nodes = decisions.links[starts[0] : starts[-1]]
        np.add.at(total, nodes, np.repeat(tokens, np.diff(starts)))
    return load / np.float64(netlist.bound_cycles)
