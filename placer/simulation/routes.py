"""One decision as the engine sees it: route trees as nodes, and who sits on which site."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def tree_sizes(route_start, links, parents, num_mesh_links):
    """Most nodes of one decision, and most mesh links between a source and a target."""
    max_nodes, max_hops = 0, 0
    for d in range(len(route_start)):
        max_nodes = max(max_nodes, route_start[d, -1] - route_start[d, 0])
        for flow in range(route_start.shape[1] - 1):
            first, end = route_start[d, flow], route_start[d, flow + 1]
            hops = np.zeros(end - first, np.int64)
            for k in range(end - first):
                hops[k] = 1 if links[first + k] < num_mesh_links else 0
                if parents[first + k] >= 0:
                    hops[k] += hops[parents[first + k]]
                max_hops = max(max_hops, hops[k])
    return max_nodes, max_hops


@njit(cache=True)
def load_decision(cells, at, sites, channels, route_start, links, parents):
    """Fill the route part of the cells; `route_start` is one row of `Decisions.route_start`."""
    for unit in range(at.num_units):
        cells[at.unit_site + unit] = sites[unit]
    base, first_eject = route_start[0], at.num_mesh_links + at.num_sites
    for flow in range(at.num_flows):
        root = route_start[flow] - base
        cells[at.flow_root + flow] = root
        cells[at.flow_channel + flow] = channels[flow]
        for node in range(root, route_start[flow + 1] - base):
            link, parent = links[base + node], parents[base + node]
            cells[at.node_flow + node] = flow
            cells[at.node_link + node] = link
            fifo = link * at.num_channels + channels[flow]
            cells[at.node_fifo + node] = fifo if link < first_eject else -1
            is_mesh = 1 if link < at.num_mesh_links else 0
            before = cells[at.node_hops + root + parent] if parent >= 0 else 0
            cells[at.node_hops + node] = before + is_mesh
    num_nodes = route_start[at.num_flows] - base
    _link_children(cells, at, num_nodes, parents[base : base + num_nodes])
    _list_sinks(cells, at, num_nodes)
    _group_by_site(cells, at, at.flow_source, at.num_flows, at.site_out_start, at.site_out)
    _group_by_site(cells, at, at.sink_unit, at.num_sinks, at.site_in_start, at.site_in)
    _group_by_site(cells, at, -1, at.num_units, at.site_unit_start, at.site_units)


@njit(cache=True)
def _link_children(cells, at, num_nodes, parents):
    """List the children of every node; `parents` counts from the first node of a flow."""
    cells[at.node_child_end : at.node_child_end + num_nodes] = 0
    for node in range(num_nodes):
        if parents[node] >= 0:
            root = cells[at.flow_root + cells[at.node_flow + node]]
            cells[at.node_child_end + root + parents[node]] += 1
    total = 0
    for node in range(num_nodes):
        cells[at.node_child_start + node] = total
        total += cells[at.node_child_end + node]
        cells[at.node_child_end + node] = cells[at.node_child_start + node]
    for node in range(num_nodes):
        if parents[node] >= 0:
            parent = cells[at.flow_root + cells[at.node_flow + node]] + parents[node]
            cells[at.children + cells[at.node_child_end + parent]] = node
            cells[at.node_child_end + parent] += 1


@njit(cache=True)
def _list_sinks(cells, at, num_nodes):
    """List the sinks behind every eject node, and how long their credits travel."""
    first_eject = at.num_mesh_links + at.num_sites
    num_listed = 0
    for node in range(num_nodes):
        cells[at.node_sink_start + node] = num_listed
        site = cells[at.node_link + node] - first_eject
        if site >= 0:
            flow = cells[at.node_flow + node]
            delay = cells[at.node_hops + node] * at.credit_hop_cycles + 1
            for sink in range(cells[at.flow_sink_start + flow], cells[at.flow_sink_end + flow]):
                if cells[at.unit_site + cells[at.sink_unit + sink]] == site:
                    cells[at.node_sinks + num_listed] = sink
                    cells[at.sink_credit_cycles + sink] = delay
                    num_listed += 1
        cells[at.node_sink_end + node] = num_listed


@njit(cache=True)
def _group_by_site(cells, at, owner, num_members, start, members):
    """List members 0 .. n-1 by the site of their owner unit, ascending within a site.

    `start` and `members` are offsets; the ends of the lists follow their starts. `owner` is the
    offset of the owner of a member, -1 if the members are units themselves.
    """
    end = start + at.num_sites
    cells[end : end + at.num_sites] = 0
    for member in range(num_members):
        unit = cells[owner + member] if owner >= 0 else member
        cells[end + cells[at.unit_site + unit]] += 1
    total = 0
    for site in range(at.num_sites):
        cells[start + site] = total
        total += cells[end + site]
        cells[end + site] = cells[start + site]
    for member in range(num_members):
        unit = cells[owner + member] if owner >= 0 else member
        site = cells[at.unit_site + unit]
        cells[members + cells[end + site]] = member
        cells[end + site] += 1
