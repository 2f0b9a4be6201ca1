"""One decision as the engine sees it: route trees as nodes, and who sits on which site."""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.base import internal
from placer.simulation import records as at


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


@internal
def load_decision(cells, sites, channels, route_start, links, parents):
    """Write one decision into the cells; `route_start` is one row of `Decisions.route_start`."""
    for u in range(len(sites)):
        unit = cells[at.UNITS] + u * at.UNIT_SIZE
        site = cells[at.SITES] + sites[u] * at.SITE_SIZE
        cells[unit + at.UNIT_SITE] = site
        kind, site_kind = cells[unit + at.KIND], cells[site + at.KIND]
        is_buffer = site_kind == at.MEMORY_SITE
        other = site if is_buffer else np.int64(cells[at.DRAM])
        cells[unit + at.UNIT_AGENT] = unit if kind == at.COMPUTE_UNIT else other
    num_nodes = route_start[-1] - route_start[0]
    for f in range(len(channels)):
        first, end = route_start[f], route_start[f + 1]
        flow = cells[at.FLOWS] + f * at.FLOW_SIZE
        root = cells[at.NODES] + (first - route_start[0]) * at.NODE_SIZE
        _load_tree(cells, flow, root, channels[f], links[first:end], parents[first:end])
    unused = _link_children(cells, num_nodes)
    unused = _list_sinks(cells, num_nodes, unused)
    _address_agents(cells)
    flows, sinks, units = ((at.FLOWS, at.FLOW_SIZE), (at.SINKS, at.SINK_SIZE), (at.UNITS, at.UNIT_SIZE))
    unused = _list_on_sites(cells, flows, at.FLOW_SOURCE, at.SITE_OUT, unused)
    unused = _list_on_sites(cells, sinks, at.SINK_UNIT, at.SITE_IN, unused)
    _list_on_sites(cells, units, at.UNIT_SELF, at.SITE_UNITS, unused)


@internal
def _load_tree(cells, flow, root, channel, links, parents):
    """Write the nodes of one flow; `parents` counts from the root."""
    num_mesh = np.int64(cells[at.NUM_MESH_LINKS])
    first_eject = num_mesh + cells[at.NUM_SITES]
    cells[flow + at.FLOW_ROOT] = root
    for k in range(len(links)):
        link, node = np.int64(links[k]), root + k * at.NODE_SIZE
        fifo = cells[at.FIFOS] + (link * cells[at.NUM_CHANNELS] + channel) * cells[at.FIFO_SIZE]
        cells[node + at.NODE_FLOW] = flow
        cells[node + at.NODE_LINK] = cells[at.LINKS] + link * cells[at.LINK_SIZE]
        cells[node + at.NODE_FIFO] = fifo if link < first_eject else at.NONE
        cells[node + at.NODE_HOPS] = 1 if link < num_mesh else 0
        cells[node + at.NODE_SOURCE] = flow
        if parents[k] >= 0:
            parent = root + parents[k] * at.NODE_SIZE
            cells[node + at.NODE_PARENT] = parent
            cells[node + at.NODE_SOURCE] = cells[parent + at.NODE_FIFO]
            cells[node + at.NODE_HOPS] += cells[parent + at.NODE_HOPS]
            cells[parent + at.NODE_NEXT_END] += 1  # counts children until they are listed


@internal
def _link_children(cells, num_nodes):
    """List the children of every node; returns the end of the lists."""
    first = np.int64(cells[at.NODES])
    end = first + num_nodes * at.NODE_SIZE
    unused = np.int64(cells[at.LISTS])
    for node in range(first, end, at.NODE_SIZE):
        number = cells[node + at.NODE_NEXT_END]
        cells[node + at.NODE_NEXT] = unused
        cells[node + at.NODE_NEXT_END] = unused
        unused += number
    for node in range(first, end, at.NODE_SIZE):
        parent = cells[node + at.NODE_PARENT]
        if parent != at.NONE:
            cells[cells[parent + at.NODE_NEXT_END]] = node
            cells[parent + at.NODE_NEXT_END] += 1
    return unused


@internal
def _list_sinks(cells, num_nodes, unused):
    """List the sinks behind every eject node, and how long their credits travel."""
    first = np.int64(cells[at.NODES])
    first_eject = np.int64(cells[at.NUM_MESH_LINKS]) + cells[at.NUM_SITES]
    for node in range(first, first + num_nodes * at.NODE_SIZE, at.NODE_SIZE):
        if cells[node + at.NODE_FIFO] != at.NONE:
            continue
        link = (np.int64(cells[node + at.NODE_LINK]) - cells[at.LINKS]) // cells[at.LINK_SIZE]
        site = cells[at.SITES] + (link - first_eject) * at.SITE_SIZE
        flow = cells[node + at.NODE_FLOW]
        cells[node + at.NODE_NEXT] = unused
        for sink in range(cells[flow + at.FLOW_SINKS], cells[flow + at.FLOW_SINKS_END], at.SINK_SIZE):
            if cells[cells[sink + at.SINK_UNIT] + at.UNIT_SITE] == site:
                hops = cells[node + at.NODE_HOPS]
                cells[sink + at.SINK_CREDIT_CYCLES] = hops * cells[at.CREDIT_HOP_CYCLES] + 1
                cells[unused] = sink
                unused += 1
        cells[node + at.NODE_NEXT_END] = unused
    return unused


@internal
def _address_agents(cells):
    """Note at every flow and sink which agent acts for its unit."""
    for flow in range(cells[at.FLOWS], cells[at.FLOWS_END], at.FLOW_SIZE):
        cells[flow + at.FLOW_AGENT] = cells[cells[flow + at.FLOW_SOURCE] + at.UNIT_AGENT]
    for sink in range(cells[at.SINKS], cells[at.SINKS_END], at.SINK_SIZE):
        cells[sink + at.SINK_AGENT] = cells[cells[sink + at.SINK_UNIT] + at.UNIT_AGENT]


@internal
def _list_on_sites(cells, records, owner, field, unused):
    """List records on the site of their owner unit, ascending; returns the end of the lists.

    `records` are the field of the header with the first (the next one has the end) and the size,
    `owner` is the field of a record with its unit, `field` the one of a site with its list.
    """
    first, end, size = cells[records[0]], cells[records[0] + 1], records[1]
    sites, sites_end = cells[at.SITES], cells[at.SITES_END]
    for member in range(first, end, size):
        site = cells[cells[member + owner] + at.UNIT_SITE]
        cells[site + field + 1] += 1
    for site in range(sites, sites_end, at.SITE_SIZE):
        number = cells[site + field + 1]
        cells[site + field] = unused
        cells[site + field + 1] = unused
        unused += number
    for member in range(first, end, size):
        site = cells[cells[member + owner] + at.UNIT_SITE]
        cells[cells[site + field + 1]] = member
        cells[site + field + 1] += 1
    return unused
