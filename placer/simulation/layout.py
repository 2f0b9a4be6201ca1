"""All integers of a simulation in one array, and the record that says where each of them lies.

The engine's functions take two arguments, `cells` (int32) and `at` (one record of offsets and
constants): `cells[at.flow_tokens + flow]` is the number of tokens of a flow. One array instead of
many keeps the compile time of the engine at seconds; with an array per field it was minutes.

The cells come in four parts: static (fabric and netlist), route (one decision), state that starts
at 0, and lists and rings whose old contents do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placer.fabric import Fabric, SiteKind, Topology
from placer.netlist import Netlist

Cells = NDArray[np.int32]

# A *sink* is one (flow, target) pair, sinks are sorted by flow; a *stream* is a flow at a DRAM
# port; a *node* is one link in the route tree of one flow; an *agent* is a compute unit, a memory
# site or the DRAM (ids: units, then sites, then one DRAM).
_ROUTE_FIELDS = {
    "unit_site": "units",
    "flow_root": "flows",  # node of the inject link
    "flow_channel": "flows",
    "sink_credit_cycles": "sinks",  # delay of a credit on its way back
    "site_out_start": "sites",  # into site_out: flows that leave a site, ascending
    "site_out_end": "sites",
    "site_in_start": "sites",  # into site_in: sinks on a site, ascending
    "site_in_end": "sites",
    "site_unit_start": "sites",  # into site_units: units on a site, ascending
    "site_unit_end": "sites",
    "site_out": "flows",
    "site_in": "sinks",
    "site_units": "units",
    "node_flow": "nodes",
    "node_link": "nodes",
    "node_fifo": "nodes",  # FIFO behind the link, -1 behind an eject link
    "node_hops": "nodes",  # mesh links from the source up to and with this node
    "node_child_start": "nodes",  # into children: nodes that follow a node
    "node_child_end": "nodes",
    "node_sink_start": "nodes",  # into node_sinks; only eject nodes have sinks
    "node_sink_end": "nodes",
    "children": "nodes",
    "node_sinks": "sinks",
}
_STATE_FIELDS = {
    "num_active_links": "one",
    "num_now": "one",  # agents to look at in this cycle
    "num_next": "one",  # agents to look at in the next cycle
    "num_pending": "one",  # events in the calendar
    "num_samples": "one",  # complete samples
    "num_acted": "one",  # actions in this cycle
    "num_hops": "one",  # vectors moved over links
    "fifo_head": "fifos",
    "fifo_visible": "fifos",  # vectors that have arrived
    "fifo_occupancy": "fifos",  # vectors that have arrived or are on the wire
    "fifo_unsent": "fifos",  # copies of the head that still must be sent
    "link_requests": "links",  # bit mask of input slots of the source switch
    "link_vectors": "links",  # sent since the statistics began
    "link_is_active": "links",
    "flow_rest": "flows",  # compute source: tokens * releases done, modulo releases
    "flow_sample": "flows",  # memory or port source: sample that is being read
    "flow_token": "flows",
    "flow_head": "flows",  # of the output queue
    "flow_count": "flows",  # vectors in the output queue
    "flow_requests": "flows",  # has a ready head and all credits
    "flow_sinks_without_credit": "flows",
    "sink_rest": "sinks",  # compute target: -tokens * firings done, modulo firings
    "sink_sample": "sinks",  # memory or port target: sample that is being written
    "sink_token": "sinks",
    "sink_arrived": "sinks",  # vectors in the input queue
    "unit_firing": "units",  # number of the next firing in its sample
    "unit_next_start": "units",  # cycle
    "unit_cycle_rest": "units",  # cycles * firings done, modulo firings
    "unit_release_rest": "units",  # releases * firings done, modulo firings
    "unit_written": "units",  # samples
    "unit_freed": "units",  # samples
    "unit_finished": "units",  # samples
    "unit_time_since": "units",  # cycle
    "unit_time_state": "units",  # UnitTime
    "unit_could_act": "units",  # scratch of a step
    "time_spent": "unit_times",  # [unit, 4] cycles by UnitTime
    "site_read_busy_until": "sites",  # cycle
    "site_read_holder": "sites",  # unit that holds the read port
    "channel_busy_until": "dram_channels",  # cycle
    "num_finishers": "samples",  # units that have finished a sample
    "bucket_arrivals": "arrival_horizon",  # calendar: number of events per cycle, rings of cycles
    "bucket_credits": "horizon",
    "bucket_wakes": "horizon",
}
_MINUS_ONE_FIELDS = {
    "dram_last": "one",  # last winner, a flow
    "link_last": "links",
    "site_read_last": "sites",
    "site_write_last": "sites",
    "flow_injected": "flows",  # cycle of the last injection
    "flow_granted": "flows",  # cycle of the last DRAM grant
    "stream_granted": "streams",  # the same per stream: a flow may end in several stores
    "wake_at": "wake_ids",  # last cycle it was entered for
    "queued_for": "agents",  # last cycle in whose agent list it stands
}
_SCRATCH_FIELDS = {
    "sink_credits": "sinks",
    "requested_nodes": "link_slots",  # [link, slot] node over which a requesting head goes
    "active_links": "links",
    "popped_fifos": "fifos",
    "now_agents": "agents",
    "next_agents": "agents",
    "fifo_nodes": "fifo_places",  # [fifo, fifo_depth] rings of nodes
    "queue_ready": "queue_places",  # ready times, a ring per flow
    "finish_cycle": "finishes",  # [unit, max_samples]
    "arrivals": "arrival_places",  # [arrival_horizon, max_arrivals] nodes
    "credit_sink": "credit_places",  # [horizon, num_sinks]
    "credit_number": "credit_places",
    "wakes": "wake_places",  # [horizon, max_wakes] agents, or num_agents + flow
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Cells ready for the engine."""

    cells: Cells  # static part filled in
    at: NDArray[np.void]  # [1] offsets and constants


def build_layout(
    fabric: Fabric, netlist: Netlist, *, max_nodes: int, max_hops: int, max_samples: int
) -> Layout:
    """Lay out a simulation whose decisions have at most `max_nodes` route nodes each."""
    static = _static_fields(fabric, netlist)
    constants = _constants(fabric, netlist, static, max_hops, max_samples)
    sizes = _sizes(constants, static, max_nodes)
    offsets: dict[str, int] = {}
    end = 0
    for name, values in static.items():
        offsets[name] = end
        end += len(values)
    marks = {"static_end": end}
    for part, fields in (
        ("route_end", _ROUTE_FIELDS),
        ("zero_end", _STATE_FIELDS),
        ("minus_one_end", _MINUS_ONE_FIELDS),
        ("scratch_end", _SCRATCH_FIELDS),
    ):
        for name, size in fields.items():
            offsets[name] = end
            end += sizes[size]
        marks[part] = end
    values = {**constants, **offsets, **marks}
    at = np.zeros(1, np.dtype([(name, np.int64) for name in values]))
    at[0] = tuple(values.values())
    cells = np.zeros(end, np.int32)
    cells[: marks["static_end"]] = np.concatenate(list(static.values()))
    return Layout(cells=cells, at=at)


def _sizes(constants: dict[str, int], static: dict[str, Cells], max_nodes: int) -> dict[str, int]:
    c = constants
    num_fifos = c["num_links"] * c["num_channels"]
    return {
        "one": 1,
        "units": c["num_units"],
        "unit_times": 4 * c["num_units"],
        "flows": c["num_flows"],
        "sinks": c["num_sinks"],
        "sites": c["num_sites"],
        "links": c["num_links"],
        "fifos": num_fifos,
        "link_slots": c["num_links"] * c["num_slots"],
        "nodes": max_nodes,
        "streams": c["num_streams"],
        "agents": c["num_agents"],
        "wake_ids": c["max_wakes"],
        "dram_channels": c["dram_channels"],
        "samples": c["max_samples"],
        "horizon": c["horizon"],
        "arrival_horizon": c["arrival_horizon"],
        "fifo_places": num_fifos * c["fifo_depth"],
        "queue_places": int(static["flow_capacity"].sum()),
        "finishes": c["num_units"] * c["max_samples"],
        "arrival_places": c["arrival_horizon"] * c["max_arrivals"],
        "credit_places": c["horizon"] * c["num_sinks"],
        "wake_places": c["horizon"] * c["max_wakes"],
    }


def _constants(
    fabric: Fabric, netlist: Netlist, static: dict[str, Cells], max_hops: int, max_samples: int
) -> dict[str, int]:
    topology = fabric.topology
    num_agents = netlist.num_units + topology.num_sites + 1
    longest_delay = max(
        fabric.memory.latency_cycles,
        fabric.dram.latency_cycles + fabric.dram.burst_vectors,
        fabric.dram.burst_cycles,
        int(static["unit_depth"].max(initial=0)),
        int(static["flow_read_cycles"].max(initial=0)),
        max_hops * fabric.link.credit_hop_cycles + 1,
    )
    return {
        "num_units": netlist.num_units,
        "num_flows": netlist.num_flows,
        "num_sinks": len(static["sink_flow"]),
        "num_streams": len(static["stream_flow"]),
        "num_sites": topology.num_sites,
        "num_links": topology.num_links,
        "num_mesh_links": topology.num_mesh_links,
        "num_channels": fabric.link.channels,
        "num_slots": len(static["slot_fifo"]) // topology.num_switches,
        "num_agents": num_agents,
        "max_samples": max_samples,
        "max_arrivals": int(topology.link_width.sum()),
        "max_wakes": num_agents + netlist.num_flows,
        "horizon": _ring(longest_delay),
        "arrival_horizon": _ring(int(topology.link_cycles.max())),
        "fifo_depth": int(static["fifo_capacity"].max()),
        "credit_hop_cycles": fabric.link.credit_hop_cycles,
        "memory_latency": fabric.memory.latency_cycles,
        "dram_latency": fabric.dram.latency_cycles,
        "dram_channels": fabric.dram.channels,
        "dram_burst_vectors": fabric.dram.burst_vectors,
        "dram_burst_cycles": fabric.dram.burst_cycles,
    }


def _ring(longest_delay: int) -> int:
    """Length of a ring of cycles: a power of two above the longest delay."""
    return 1 << longest_delay.bit_length()


def _static_fields(fabric: Fabric, netlist: Netlist) -> dict[str, Cells]:
    topology, units, flows = fabric.topology, netlist.units, netlist.flows
    window = {
        SiteKind.COMPUTE: fabric.compute.window_vectors,
        SiteKind.MEMORY: fabric.memory.window_vectors,
        SiteKind.PORT: fabric.dram.window_vectors,
    }
    sinks = [(f, target) for f, flow in enumerate(flows) for target in flow.targets]
    sink_flow, sink_unit = _ints([f for f, _ in sinks]), _ints([unit for _, unit in sinks])
    flow_source = _ints([flow.source for flow in flows])
    in_bounds, unit_in = _group(sink_unit, len(units))
    out_bounds, unit_out = _group(flow_source, len(units))
    sink_bounds = np.searchsorted(sink_flow, np.arange(len(flows) + 1)).astype(np.int32)
    capacity = _ints([_output_capacity(fabric, netlist, f) for f in range(len(flows))])
    pacing = pacing_units(netlist)
    channels = fabric.link.channels
    slot_fifo, fifo_slot = _input_slots(topology, channels)
    loads = [(f, -1) for f, flow in enumerate(flows) if units[flow.source].kind == SiteKind.PORT]
    stores = [(f, s) for s, (f, unit) in enumerate(sinks) if units[unit].kind == SiteKind.PORT]
    streams = sorted(loads + stores)
    return {
        "link_source": _ints(topology.link_source),  # switch, -1 for inject links
        "link_cycles": _ints(topology.link_cycles),
        "link_width": _ints(topology.link_width),
        "fifo_capacity": np.repeat(_ints(topology.link_cycles), channels) + fabric.link.fifo_vectors,
        "fifo_slot": fifo_slot,  # input slot at its switch
        "slot_fifo": slot_fifo,  # [switch, slot] FIFO id of an input slot, or -1
        "unit_kind": _ints([unit.kind for unit in units]),
        "unit_firings": _ints([unit.firings for unit in units]),
        "unit_cycles": _ints([unit.cycles for unit in units]),
        "unit_releases": _ints([unit.releases for unit in units]),
        "unit_depth": _ints([unit.depth_cycles for unit in units]),
        "unit_slots": _ints([unit.slots for unit in units]),
        "unit_sets_period": _ints([unit in pacing for unit in range(len(units))]),
        "unit_in_start": in_bounds[:-1],  # into unit_in: sinks of a unit by flow id
        "unit_in_end": in_bounds[1:],
        "unit_out_start": out_bounds[:-1],  # into unit_out: flows of a unit
        "unit_out_end": out_bounds[1:],
        "unit_in": unit_in,
        "unit_out": unit_out,
        "flow_tokens": _ints([flow.tokens for flow in flows]),
        "flow_source": flow_source,
        "flow_read_cycles": _ints([flow.read_cycles for flow in flows]),
        "flow_capacity": capacity,  # vectors in the output queue
        "flow_queue_start": np.cumsum(capacity) - capacity,  # into queue_ready
        "flow_sink_start": sink_bounds[:-1],
        "flow_sink_end": sink_bounds[1:],
        "sink_flow": sink_flow,
        "sink_unit": sink_unit,
        "sink_window": _ints([window[units[unit].kind] for _, unit in sinks]),
        "stream_flow": _ints([flow for flow, _ in streams]),
        "stream_sink": _ints([sink for _, sink in streams]),  # -1 for a load
    }


def pacing_units(netlist: Netlist) -> set[int]:
    """Units whose finishes define the period: those without output, and the slowest compute units."""
    sources = {flow.source for flow in netlist.flows}
    return {
        number
        for number, unit in enumerate(netlist.units)
        if number not in sources or unit.cycles == netlist.bound_cycles
    }


def _ints(values: object) -> Cells:
    return np.asarray(values, np.int32)


def _group(owner: Cells, num_owners: int) -> tuple[Cells, Cells]:
    """Offsets and members of each owner, members in ascending order."""
    order = np.argsort(owner, kind="stable")
    return _ints(np.searchsorted(owner[order], np.arange(num_owners + 1))), _ints(order)


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


def _input_slots(topology: Topology, num_channels: int) -> tuple[Cells, Cells]:
    """Number the FIFOs at the inputs of each switch, so that requests fit a bit mask."""
    incoming: list[list[int]] = [[] for _ in range(topology.num_switches)]
    fifo_slot = np.full(topology.num_links * num_channels, -1, np.int32)
    for link, switch in enumerate(topology.link_target):
        if switch >= 0:
            for fifo in range(link * num_channels, (link + 1) * num_channels):
                fifo_slot[fifo] = len(incoming[switch])
                incoming[switch].append(fifo)
    num_slots = max(len(fifos) for fifos in incoming)
    slot_fifo = np.full((topology.num_switches, num_slots), -1, np.int32)
    for switch, fifos in enumerate(incoming):
        slot_fifo[switch, : len(fifos)] = fifos
    return slot_fifo.ravel(), fifo_slot
