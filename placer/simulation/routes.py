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
def load_start(cells, start):
    """Go back to the start of cycle 0, without a decision: `start`, and all that follows it empty."""
    for k in range(len(start)):
        cells[k] = start[k]
    for bucket in range(at.NUM_WAYS * (np.int64(cells[at.LINK_MASK]) + 1)):
        cells[cells[at.HEADS] + bucket * cells[at.HEADS_STRIDE]] = 0
    for bucket in range(np.int64(cells[at.LINK_MASK]) + 1):
        cells[cells[at.EJECTED] + bucket * cells[at.EJECTED_STRIDE]] = 0
    for bucket in range(np.int64(cells[at.TIME_MASK]) + 1):
        cells[cells[at.CREDITS] + bucket * cells[at.CREDITS_STRIDE]] = 0
        cells[cells[at.WAKES] + bucket * cells[at.WAKES_STRIDE]] = 0
    num_links = np.int64(cells[at.NUM_LINKS])
    for k in range(num_links):
        cells[cells[at.LINK_OF] + k] = 0
    for k in range(num_links * cells[at.NUM_CHANNELS]):
        cells[cells[at.FIFO_OF] + k] = 0


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
    _count_nodes(cells, channels, route_start, links, parents)
    nodes = _place_links(cells, np.int64(cells[at.ARENA]))
    unused = np.int64(cells[at.LISTS])
    for f in range(len(channels)):
        first, end = route_start[f], route_start[f + 1]
        flow = cells[at.FLOWS] + f * at.FLOW_SIZE
        root = nodes + (first - route_start[0]) * at.NODE_SIZE
        _place_nodes(cells, flow, root, parents[first:end])
        unused = _load_tree(cells, flow, channels[f], links[first:end], parents[first:end], unused)
    _mark_ways(cells, nodes, nodes + (route_start[-1] - route_start[0]) * at.NODE_SIZE)
    _address_agents(cells)
    flows, sinks, units = ((at.FLOWS, at.FLOW_SIZE), (at.SINKS, at.SINK_SIZE), (at.UNITS, at.UNIT_SIZE))
    unused = _list_on_sites(cells, flows, at.FLOW_SOURCE, at.SITE_OUT, unused)
    unused = _list_on_sites(cells, sinks, at.SINK_UNIT, at.SITE_IN, unused)
    _list_on_sites(cells, units, at.UNIT_SELF, at.SITE_UNITS, unused)


@internal
def _count_nodes(cells, channels, route_start, links, parents):
    """Count the nodes of every link, and mark the FIFOs that are used, in place of their records."""
    link_of, fifo_of = np.int64(cells[at.LINK_OF]), np.int64(cells[at.FIFO_OF])
    num_channels = np.int64(cells[at.NUM_CHANNELS])
    for f in range(len(channels)):
        first = route_start[f]
        for k in range(first, route_start[f + 1]):
            channel = channels[f] + _shift(cells, k - first, links[k], parents[k], links[first + max(parents[k], 0)])
            cells[link_of + links[k]] += 1
            cells[fifo_of + links[k] * num_channels + channel] = 1


@internal
def _shift(cells, k, link, parent, link_before):
    """Note whether position k of a route lies behind a date line; returns the channels to add there."""
    is_behind = np.int64(cells[cells[at.CROSSES] + link])
    if parent >= 0 and cells[cells[at.DIRECTIONS] + link] == cells[cells[at.DIRECTIONS] + link_before]:
        is_behind |= np.int64(cells[cells[at.SHIFT_OF] + parent])
    cells[cells[at.SHIFT_OF] + k] = is_behind
    return is_behind * (np.int64(cells[at.NUM_CHANNELS]) // 2)


@internal
def _place_links(cells, unused):
    """Place a record for every link that is used, its FIFOs behind it; returns their end."""
    link_of, fifo_of = np.int64(cells[at.LINK_OF]), np.int64(cells[at.FIFO_OF])
    num_channels, num_mesh = np.int64(cells[at.NUM_CHANNELS]), np.int64(cells[at.NUM_MESH_LINKS])
    first_eject = num_mesh + cells[at.NUM_SITES]
    for k in range(np.int64(cells[at.NUM_LINKS])):
        requests = np.int64(cells[link_of + k])
        if requests == 0:
            continue
        if k < num_mesh or k >= first_eject:
            requests = min(requests, np.int64(cells[at.MAX_HEADS]))
        cycles = np.int64(cells[cells[at.LATENCIES] + k])
        link, unused = _place_record(cells, at.LINK_REQUESTS + at.REQUEST_SIZE * requests, unused)
        cells[link_of + k] = link
        cells[link + at.LINK_WIDTH] = cells[cells[at.WIDTHS] + k]
        cells[link + at.LINK_CYCLES] = cycles
        cells[link + at.LINK_IS_EJECT] = 1 if k >= first_eject else 0
        capacity = cycles + cells[at.FIFO_VECTORS]
        for place in range(fifo_of + k * num_channels, fifo_of + (k + 1) * num_channels):
            if k >= first_eject:
                cells[place] = cells[at.OPEN]
            elif cells[place]:
                fifo, unused = _place_record(cells, at.FIFO_RING + 2 * capacity, unused)
                cells[place] = fifo
                cells[fifo + at.FIFO_CAPACITY] = capacity
    return (unused + at.LINE - 1) // at.LINE * at.LINE


@internal
def _place_record(cells, size, unused):
    """Place a record of zeros that shares no cache line if it need not; returns it and its end."""
    unit = at.LINE // 2 if size <= at.LINE // 2 else at.LINE
    record = (unused + unit - 1) // unit * unit
    end = record + (size + unit - 1) // unit * unit
    for k in range(record, end):
        cells[k] = 0
    return record, end


@internal
def _place_nodes(cells, flow, root, parents):
    """Place the nodes of one flow; those that follow the same node stand side by side."""
    node_of, child_of = np.int64(cells[at.NODE_OF]), np.int64(cells[at.CHILD_OF])
    cells[flow + at.FLOW_ROOT] = root
    cells[root + at.NODE_KEY] = flow | at.IS_LAST
    for k in range(len(parents)):
        cells[child_of + k] = 0
        if parents[k] >= 0:
            cells[child_of + parents[k]] += 1
    unused = root + at.NODE_SIZE
    for k in range(len(parents)):
        node = root
        if parents[k] >= 0:
            node = np.int64(cells[child_of + parents[k]])
            cells[child_of + parents[k]] = node + at.NODE_SIZE
        number = np.int64(cells[child_of + k])
        cells[node_of + k] = node
        cells[child_of + k] = unused
        cells[node + at.NODE_NEXT] = unused
        for _ in range(number):
            cells[unused + at.NODE_KEY] = flow
            unused += at.NODE_SIZE
        if number > 0:
            cells[unused - at.NODE_SIZE + at.NODE_KEY] = flow | at.IS_LAST


@internal
def _load_tree(cells, flow, channel, links, parents, unused):
    """Write links and FIFOs of the nodes of one flow, and list its sinks; returns the lists' end."""
    num_mesh, num_channels = np.int64(cells[at.NUM_MESH_LINKS]), np.int64(cells[at.NUM_CHANNELS])
    hops_of, first_eject = np.int64(cells[at.HOPS_OF]), num_mesh + cells[at.NUM_SITES]
    for k in range(len(links)):
        link, node = np.int64(links[k]), np.int64(cells[cells[at.NODE_OF] + k])
        cells[node + at.NODE_LINK] = cells[cells[at.LINK_OF] + link]
        shifted = channel + _shift(cells, k, links[k], parents[k], links[max(parents[k], 0)])
        cells[node + at.NODE_FIFO] = cells[cells[at.FIFO_OF] + link * num_channels + shifted]
        hops = np.int64(1 if link < num_mesh else 0)
        if parents[k] >= 0:
            hops += cells[hops_of + parents[k]]
            parent = cells[cells[at.NODE_OF] + parents[k]]
            _count_source(cells, cells[node + at.NODE_LINK], cells[parent + at.NODE_FIFO])
            if cells[at.TURNS_BY_FIFO]:
                cells[node + at.NODE_KEY] = cells[parent + at.NODE_FIFO] | (cells[node + at.NODE_KEY] & at.IS_LAST)
        cells[hops_of + k] = hops
        if link >= first_eject:
            site = cells[at.SITES] + (link - first_eject) * at.SITE_SIZE
            unused = _list_sinks(cells, flow, node, site, hops, unused)
    return unused


@internal
def _count_source(cells, link, fifo):
    """Count the FIFOs that use a link, up to three, in the place of its requests."""
    first, number = link + at.LINK_REQUESTS, cells[link + at.LINK_NUM_REQUESTS]
    is_known = (number > 0 and cells[first] == fifo) or (number > 1 and cells[first + 1] == fifo)
    if number < 3 and not is_known:
        if number < 2:
            cells[first + np.int64(number)] = fifo
        cells[link + at.LINK_NUM_REQUESTS] = number + 1


@internal
def _mark_ways(cells, first, end):
    """Mark eject nodes whose link is free, and nodes after which a head has a way of its own."""
    for node in range(first, end, at.NODE_SIZE):
        link = cells[node + at.NODE_LINK]
        is_free = cells[link + at.LINK_NUM_REQUESTS] <= min(np.uint32(2), cells[link + at.LINK_WIDTH])
        if cells[link + at.LINK_IS_EJECT] and is_free:
            cells[node + at.NODE_KEY] |= at.IS_FREE
    for node in range(first, end, at.NODE_SIZE):
        if cells[cells[node + at.NODE_LINK] + at.LINK_IS_EJECT]:
            continue
        following = np.int64(cells[node + at.NODE_NEXT])
        key, link = cells[following + at.NODE_KEY], cells[following + at.NODE_LINK]
        is_eject = cells[link + at.LINK_IS_EJECT]
        if key & at.IS_LAST and key & at.IS_FREE:
            cells[node + at.NODE_NEXT] = following | at.EJECT_WAY
        elif key & at.IS_LAST:
            is_alone = not is_eject and cells[link + at.LINK_NUM_REQUESTS] == 1
            cells[node + at.NODE_NEXT] = following | (at.ALONE_WAY if is_alone else at.ONE_WAY)
    for node in range(first, end, at.NODE_SIZE):
        cells[cells[node + at.NODE_LINK] + at.LINK_NUM_REQUESTS] = 0


@internal
def _list_sinks(cells, flow, node, site, hops, unused):
    """Note the sinks behind an eject node, and how long their credits travel; returns the lists' end."""
    end = unused + 1
    for sink in range(cells[flow + at.FLOW_SINKS], cells[flow + at.FLOW_SINKS_END], at.SINK_SIZE):
        if cells[cells[sink + at.SINK_UNIT] + at.UNIT_SITE] == site:
            cells[sink + at.SINK_CREDIT_CYCLES] = hops * cells[at.CREDIT_HOP_CYCLES] + 1
            cells[end] = sink
            end += 1
    number = end - unused - 1
    cells[unused] = number
    cells[node + at.NODE_NEXT] = cells[unused + 1] if number == 1 else unused
    return end


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
