"""The cells of a simulation: where each record lies, and the state at the start of cycle 0.

One array holds all integers (records.py says how). One array instead of many keeps the compile
time of the engine at seconds; with an array per field it was minutes. The cells are unsigned
because compiled code checks every signed index for negative values. Beware: numba gives a sum of
two unsigned integers the type uint64, and uint64 with int64 becomes a float; where a third term
follows, one of the two is cast to int64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist
from placer.simulation import records as at

Cells = NDArray[np.uint32]
IntArray = NDArray[np.int64]

_UNIT_KIND = {SiteKind.COMPUTE: at.COMPUTE_UNIT}
_SITE_KIND = {SiteKind.MEMORY: at.MEMORY_SITE}


@dataclass(frozen=True, slots=True)
class Layout:
    """Cells ready for the engine."""

    cells: Cells  # as the last decision left them
    start: Cells  # at the start of cycle 0, without a decision


class _Table:
    """Equal records one after the other, while cells are laid out."""

    def __init__(self, first: int, number: int, size: int) -> None:
        self.first, self.number, self.size = first, number, size
        self.end = first + number * size
        self.handles = first + size * np.arange(number)

    def fill(self, cells: Cells, field: int, values: ArrayLike) -> None:
        """Set one field of all records."""
        cells[self.handles + field] = np.asarray(values)


@dataclass(frozen=True, slots=True)
class _Tables:
    """Where the records and lists of a simulation lie, in this order."""

    units: _Table
    flows: _Table
    sinks: _Table
    sites: _Table
    streams: _Table
    links: _Table
    fifos: _Table
    nodes: _Table
    dram: _Table
    channels: _Table
    finishers: _Table
    active_links: _Table
    leaving: _Table
    now: _Table
    next: _Table
    unit_in: _Table
    unit_out: _Table
    queues: _Table  # rings of all output queues
    finishes: _Table  # finish cycles of a unit
    lists: _Table  # lists of a decision
    heads: _Table  # buckets of the calendar, from here on
    ejected: _Table
    credits: _Table
    wakes: _Table


def build_layout(
    fabric: Fabric, netlist: Netlist, *, max_nodes: int, max_hops: int, max_samples: int
) -> Layout:
    """Lay out a simulation whose decisions have at most `max_nodes` route nodes each."""
    capacity = [_output_capacity(fabric, netlist, f) for f in range(netlist.num_flows)]
    tables = _place_tables(fabric, netlist, sum(capacity), max_nodes, max_hops, max_samples)
    start = np.zeros(tables.wakes.end, np.uint32)
    _fill_header(start, fabric, tables, max_samples)
    _fill_units(start, netlist, tables)
    _fill_flows(start, netlist, tables, np.array(capacity, np.int64))
    _fill_sinks(start, fabric, netlist, tables)
    _fill_streams(start, netlist, tables)
    _fill_fabric(start, fabric, tables)
    return Layout(cells=start.copy(), start=start)


def _place_tables(
    fabric: Fabric,
    netlist: Netlist,
    queue_places: int,
    max_nodes: int,
    max_hops: int,
    max_samples: int,
) -> _Tables:
    """Decide where everything lies."""
    topology, num_units, num_flows = fabric.topology, netlist.num_units, netlist.num_flows
    num_sinks, num_streams = len(_sinks(netlist)), len(_streams(netlist))
    num_fifos = topology.num_links * fabric.link.channels
    num_agents = num_units + topology.num_sites + 1
    num_eject = int(topology.link_width[topology.eject_link(0) :].sum())
    link_buckets = _ring(int(topology.link_cycles.max()) + 1)
    buckets = _ring(_longest_delay(fabric, netlist, max_hops) + 1)
    shapes = {
        "units": (num_units, at.UNIT_SIZE),
        "flows": (num_flows, at.FLOW_SIZE),
        "sinks": (num_sinks, at.SINK_SIZE),
        "sites": (topology.num_sites, at.SITE_SIZE),
        "streams": (num_streams, at.STREAM_SIZE),
        "links": (topology.num_links, at.LINK_REQUESTS + _max_requests(fabric, netlist)),
        "fifos": (num_fifos, at.FIFO_RING + 2 * _ring(_max_capacity(fabric))),
        "nodes": (max_nodes, at.NODE_SIZE),
        "dram": (1, at.DRAM_SIZE),
        "channels": (fabric.dram.channels, 1),
        "finishers": (max_samples, 1),
        "active_links": (topology.num_links, 1),
        "leaving": (num_fifos + num_flows, 1),
        "now": (num_agents, 1),
        "next": (num_agents, 1),
        "unit_in": (num_sinks, 1),
        "unit_out": (num_flows, 1),
        "queues": (queue_places, 1),
        "finishes": (num_units, max_samples),
        "lists": (max_nodes + 2 * num_sinks + num_flows + num_units, 1),
        "heads": (link_buckets, 1 + num_fifos),
        "ejected": (link_buckets, 1 + num_eject),
        "credits": (buckets, 1 + 2 * num_sinks),
        "wakes": (buckets, 1 + num_agents + num_flows),
    }
    tables: dict[str, _Table] = {}
    end = at.HEADER_END
    for name, (number, size) in shapes.items():
        tables[name] = _Table(end, number, size)
        end = tables[name].end
    return _Tables(**tables)


def _ring(least: int) -> int:
    """Length of a ring with at least so many places: a power of two."""
    return 1 << (least - 1).bit_length()


def _longest_delay(fabric: Fabric, netlist: Netlist, max_hops: int) -> int:
    return max(
        fabric.memory.latency_cycles,
        fabric.dram.latency_cycles + fabric.dram.burst_vectors,
        fabric.dram.burst_cycles,
        max((unit.depth_cycles for unit in netlist.units), default=0),
        max((flow.read_cycles for flow in netlist.flows), default=0),
        max_hops * fabric.link.credit_hop_cycles + 1,
    )


def _max_requests(fabric: Fabric, netlist: Netlist) -> int:
    """Most requests for one link: heads at the inputs of a switch, or flows of a site."""
    targets = fabric.topology.link_target
    inputs = np.bincount(targets[targets >= 0])
    return max(int(inputs.max()) * fabric.link.channels, netlist.num_flows)


def _max_capacity(fabric: Fabric) -> int:
    return fabric.link.fifo_vectors + int(fabric.topology.link_cycles.max())


def _sinks(netlist: Netlist) -> list[tuple[int, int]]:
    """Pairs (flow, target unit), sorted by flow."""
    return [(f, target) for f, flow in enumerate(netlist.flows) for target in flow.targets]


def _streams(netlist: Netlist) -> list[tuple[int, int]]:
    """Pairs (flow, sink) at ports, sorted; sink -1 for a load."""
    units = netlist.units
    loads = [
        (f, -1) for f, flow in enumerate(netlist.flows) if units[flow.source].kind == SiteKind.PORT
    ]
    stores = [
        (f, s) for s, (f, unit) in enumerate(_sinks(netlist)) if units[unit].kind == SiteKind.PORT
    ]
    return sorted(loads + stores)


def _fill_header(cells: Cells, fabric: Fabric, tables: _Tables, max_samples: int) -> None:
    t, topology = tables, fabric.topology
    values = {
        at.UNITS: t.units.first,
        at.UNITS_END: t.units.end,
        at.FLOWS: t.flows.first,
        at.FLOWS_END: t.flows.end,
        at.SINKS: t.sinks.first,
        at.SINKS_END: t.sinks.end,
        at.SITES: t.sites.first,
        at.SITES_END: t.sites.end,
        at.STREAMS: t.streams.first,
        at.STREAMS_END: t.streams.end,
        at.LINKS: t.links.first,
        at.LINKS_END: t.links.end,
        at.LINK_SIZE: t.links.size,
        at.FIFOS: t.fifos.first,
        at.FIFO_SIZE: t.fifos.size,
        at.NODES: t.nodes.first,
        at.DRAM: t.dram.first,
        at.CHANNELS: t.channels.first,
        at.CHANNELS_END: t.channels.end,
        at.NUM_FINISHERS: t.finishers.first,
        at.ACTIVE_LINKS: t.active_links.first,
        at.ACTIVE_LINKS_END: t.active_links.first,
        at.LEAVING: t.leaving.first,
        at.NOW: t.now.first,
        at.NOW_END: t.now.first,
        at.NEXT: t.next.first,
        at.NEXT_END: t.next.first,
        at.LISTS: t.lists.first,
        at.NUM_UNITS: t.units.number,
        at.NUM_LINKS: topology.num_links,
        at.NUM_MESH_LINKS: topology.num_mesh_links,
        at.NUM_SITES: topology.num_sites,
        at.NUM_CHANNELS: fabric.link.channels,
        at.CREDIT_HOP_CYCLES: fabric.link.credit_hop_cycles,
        at.MEMORY_LATENCY: fabric.memory.latency_cycles,
        at.DRAM_LATENCY: fabric.dram.latency_cycles,
        at.DRAM_BURST_VECTORS: fabric.dram.burst_vectors,
        at.DRAM_BURST_CYCLES: fabric.dram.burst_cycles,
        at.MAX_SAMPLES: max_samples,
        at.RING_MASK: _ring(_max_capacity(fabric)) - 1,
        at.LINK_MASK: t.heads.number - 1,
        at.HEADS: t.heads.first,
        at.HEADS_STRIDE: t.heads.size,
        at.EJECTED: t.ejected.first,
        at.EJECTED_STRIDE: t.ejected.size,
        at.TIME_MASK: t.credits.number - 1,
        at.CREDITS: t.credits.first,
        at.CREDITS_STRIDE: t.credits.size,
        at.WAKES: t.wakes.first,
        at.WAKES_STRIDE: t.wakes.size,
    }
    cells[list(values)] = list(values.values())
    t.dram.fill(cells, at.KIND, at.DRAM_AGENT)
    for table in (t.dram, t.units, t.sites):
        table.fill(cells, at.QUEUED_FOR, at.NEVER)
        table.fill(cells, at.WAKE_AT, at.NEVER)


def _fill_units(cells: Cells, netlist: Netlist, t: _Tables) -> None:
    units = netlist.units
    in_bounds, unit_in = _group([unit for _, unit in _sinks(netlist)], len(units))
    out_bounds, unit_out = _group([flow.source for flow in netlist.flows], len(units))
    cells[t.unit_in.handles] = t.sinks.handles[unit_in]
    cells[t.unit_out.handles] = t.flows.handles[unit_out]
    has_inputs = np.diff(in_bounds) > 0
    fields: dict[int, ArrayLike] = {
        at.KIND: [_UNIT_KIND.get(unit.kind, at.OTHER_UNIT) for unit in units],
        at.UNIT_FIRINGS: [unit.firings for unit in units],
        at.UNIT_INTERVAL: [unit.cycles // max(1, unit.firings) for unit in units],
        at.UNIT_INTERVAL_REST: [unit.cycles % max(1, unit.firings) for unit in units],
        at.UNIT_RELEASES: [unit.releases for unit in units],
        at.UNIT_DEPTH: [unit.depth_cycles for unit in units],
        at.UNIT_SLOTS: [unit.slots for unit in units],
        at.UNIT_SETS_PERIOD: _sets_period(netlist),
        at.UNIT_IN: t.unit_in.first + in_bounds[:-1],
        at.UNIT_IN_END: t.unit_in.first + in_bounds[1:],
        at.UNIT_OUT: t.unit_out.first + out_bounds[:-1],
        at.UNIT_OUT_END: t.unit_out.first + out_bounds[1:],
        at.UNIT_FINISHES: t.finishes.handles,
        at.UNIT_SELF: t.units.handles,
        at.UNIT_WRITTEN: np.where(has_inputs, 0, at.INFINITE),  # resident weights
    }
    for field, values in fields.items():
        t.units.fill(cells, field, values)


def _sets_period(netlist: Netlist) -> list[bool]:
    """Pacing units: those without output, and the compute units with the most work."""
    sources = {flow.source for flow in netlist.flows}
    most_work = netlist.bound_cycles
    return [
        number not in sources or unit.cycles == most_work
        for number, unit in enumerate(netlist.units)
    ]


def _group(owner: list[int], num_owners: int) -> tuple[IntArray, IntArray]:
    """Offsets and members of each owner, members in ascending order."""
    owners = np.array(owner, np.int64)
    order = np.argsort(owners, kind="stable")
    return np.searchsorted(owners[order], np.arange(num_owners + 1)), order


def _fill_flows(cells: Cells, netlist: Netlist, t: _Tables, capacity: IntArray) -> None:
    flows = netlist.flows
    queue = t.queues.first + np.cumsum(capacity) - capacity
    num_sinks = np.array([len(flow.targets) for flow in flows], np.int64)
    sinks_end = t.sinks.first + at.SINK_SIZE * np.cumsum(num_sinks)
    fields: dict[int, ArrayLike] = {
        at.KIND: at.FLOW,
        at.WAKE_AT: at.NEVER,
        at.FLOW_TOKENS: [flow.tokens for flow in flows],
        at.FLOW_SOURCE: t.units.handles[[flow.source for flow in flows]],
        at.FLOW_SINKS: sinks_end - at.SINK_SIZE * num_sinks,
        at.FLOW_SINKS_END: sinks_end,
        at.FLOW_READ_CYCLES: [flow.read_cycles for flow in flows],
        at.FLOW_QUEUE: queue,
        at.FLOW_QUEUE_END: queue + capacity,
        at.FLOW_CAPACITY: capacity,
        at.FLOW_HEAD: queue,
        at.FLOW_TAIL: queue,
        at.FLOW_GRANTED: at.NEVER,
    }
    for field, values in fields.items():
        t.flows.fill(cells, field, values)


def _output_capacity(fabric: Fabric, netlist: Netlist, flow_id: int) -> int:
    """Vectors that the output queue of a flow holds (docs/simulator.md, "Queues of a flow")."""
    flow = netlist.flows[flow_id]
    source = netlist.units[flow.source]
    if source.kind == SiteKind.COMPUTE:
        release = -(-flow.tokens // source.releases)
        in_pipeline = release * -(-source.depth_cycles * source.releases // source.cycles)
        return max(fabric.compute.output_vectors, 2 * release) + in_pipeline
    if source.kind == SiteKind.MEMORY:
        return fabric.memory.output_vectors
    return fabric.dram.prefetch_vectors


def _fill_sinks(cells: Cells, fabric: Fabric, netlist: Netlist, t: _Tables) -> None:
    window = {
        SiteKind.COMPUTE: fabric.compute.window_vectors,
        SiteKind.MEMORY: fabric.memory.window_vectors,
        SiteKind.PORT: fabric.dram.window_vectors,
    }
    sinks = _sinks(netlist)
    fields: dict[int, ArrayLike] = {
        at.SINK_FLOW: t.flows.handles[[f for f, _ in sinks]],
        at.SINK_UNIT: t.units.handles[[unit for _, unit in sinks]],
        at.SINK_TOKENS: [netlist.flows[f].tokens for f, _ in sinks],
        at.SINK_START: [
            min(netlist.flows[f].tokens, fabric.compute.operand_vectors, window[SiteKind.COMPUTE])
            if netlist.units[unit].waits_for_operands
            else 0
            for f, unit in sinks
        ],
        at.SINK_CREDITS: [window[netlist.units[unit].kind] for _, unit in sinks],
    }
    for field, values in fields.items():
        t.sinks.fill(cells, field, values)


def _fill_streams(cells: Cells, netlist: Netlist, t: _Tables) -> None:
    sinks = _sinks(netlist)
    for stream, (f, s) in zip(t.streams.handles, _streams(netlist), strict=True):
        unit = netlist.flows[f].source if s < 0 else sinks[s][1]
        cells[stream + at.STREAM_FLOW] = t.flows.handles[f]
        cells[stream + at.STREAM_SINK] = at.NONE if s < 0 else t.sinks.handles[s]
        cells[stream + at.STREAM_UNIT] = t.units.handles[unit]
        cells[stream + at.STREAM_GRANTED] = at.NEVER


def _fill_fabric(cells: Cells, fabric: Fabric, t: _Tables) -> None:
    topology = fabric.topology
    t.sites.fill(
        cells, at.KIND, [_SITE_KIND.get(SiteKind(k), at.OTHER_SITE) for k in topology.site_kind]
    )
    t.links.fill(cells, at.LINK_WIDTH, topology.link_width)
    t.links.fill(cells, at.LINK_CYCLES, topology.link_cycles)
    t.fifos.fill(cells, at.KIND, at.FIFO)
    capacity = topology.link_cycles + fabric.link.fifo_vectors
    t.fifos.fill(cells, at.FIFO_CAPACITY, np.repeat(capacity, fabric.link.channels))
