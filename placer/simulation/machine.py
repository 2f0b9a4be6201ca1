"""The machine that the engine steps: where each record lies, and the state at cycle 0.

One array holds all integers (records.py says how). One array instead of many keeps the compile
time of the engine at seconds; with an array per field it was minutes. The cells are unsigned
because compiled code checks every signed index for negative values. Beware: numba gives a sum of
two unsigned integers the type uint64, and uint64 with int64 becomes a float; where a third term
follows, one of the two is cast to int64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from placer.base import LongArray
from placer.decision import Decisions
from placer.fabric import FULL_PACE, Fabric, SiteKind, pace_of, window_vectors
from placer.netlist import Netlist
from placer.simulation import records as at
from placer.simulation.records import Cells, Table, Tables, group
from placer.simulation.routes import tree_sizes
from placer.simulation.traffic import Traffic, What
from placer.simulation.warm import WarmState, output_capacity, sinks_of, warm_up


@dataclass(frozen=True, slots=True)
class Machine:
    """A netlist on a fabric, as cells ready for the engine."""

    cells: Cells  # as the last decision left them
    start: Cells  # the first of them at the start of cycle 0, without a decision

    def another(self) -> Machine:
        """Return one with the same start and cells of its own."""
        return Machine(_aligned(len(self.cells)), self.start)


def build_machine(
    fabric: Fabric,
    netlist: Netlist,
    decisions: Decisions,
    max_samples: int,
    warm: WarmState | None = None,
    traffic: Traffic | None = None,
) -> Machine:
    """Lay out a simulation of any of the decisions, or a replay of traffic; it starts empty, or in a warm state."""
    max_nodes, max_hops = tree_sizes(
        decisions.route_start, decisions.links, decisions.parents, fabric.topology.num_mesh_links
    )
    capacity = np.array([output_capacity(fabric, netlist, flow) for flow in netlist.flows], np.int64)
    shapes = _start_shapes(fabric, netlist, int(capacity.sum()), max_samples, traffic)
    tables, header, start_end = _lay_out(shapes, at.HEADER_END)
    shapes = _later_shapes(fabric, netlist, max_nodes, max_hops, max_samples, traffic)
    later_tables, later_header, end = _lay_out(shapes, start_end)
    tables |= later_tables
    header |= later_header
    del header[at.NONE]
    start = np.zeros(start_end, np.uint32)
    start[list(header)] = list(header.values())
    _fill_header(start, fabric, tables, max_samples)
    _fill_units(start, netlist, tables)
    _fill_flows(start, netlist, tables, capacity)
    _fill_sinks(start, fabric, netlist, tables)
    _fill_streams(start, netlist, tables)
    _fill_fabric(start, fabric, tables)
    if warm is not None:
        warm_up(start, netlist, tables, warm)
    _fill_needs(start, fabric, netlist, tables)
    if traffic is not None:
        _fill_traffic(start, traffic, tables)
    return Machine(cells=_aligned(end), start=start)


def _aligned(number: int) -> Cells:
    """Return cells, not set, that begin with a cache line."""
    cells = np.empty(number + at.LINE, np.uint32)
    skipped = -(cells.ctypes.data // cells.itemsize) % at.LINE
    return cells[skipped : skipped + number]


def _lay_out(shapes: dict[str, tuple[int, ...]], end: int) -> tuple[dict[str, Table], dict[int, int], int]:
    """Place tables from an address on, each in cache lines of its own: tables, header, end."""
    tables: dict[str, Table] = {}
    header: dict[int, int] = {at.NONE: 0}
    for name, (number, size, *fields) in shapes.items():
        table = tables[name] = Table(-(-end // at.LINE) * at.LINE, number, size)
        end = table.end
        header |= dict(zip(fields, (table.first, end, size), strict=False))
    return tables, header, end


def _start_shapes(
    fabric: Fabric, netlist: Netlist, queue_places: int, max_samples: int, traffic: Traffic | None
) -> dict[str, tuple[int, ...]]:
    """Return the tables that are not empty at the start: number and size of records, fields of the header.

    These fields hold the address of the first record, the end of the last, and the size.
    """
    topology, num_units, num_flows = fabric.topology, netlist.num_units, netlist.num_flows
    num_sinks, num_streams = len(sinks_of(netlist)), len(_streams(netlist))
    return {
        "flows": (num_flows, at.FLOW_SIZE, at.FLOWS, at.FLOWS_END),  # first: known by their handle
        "sinks": (num_sinks, at.SINK_SIZE, at.SINKS, at.SINKS_END),
        "units": (num_units, at.UNIT_SIZE, at.UNITS, at.UNITS_END),
        "sites": (topology.num_sites, at.SITE_SIZE, at.SITES, at.SITES_END),
        "streams": (num_streams, at.STREAM_SIZE, at.STREAMS, at.STREAMS_END),
        "dram": (1, at.DRAM_SIZE, at.DRAM),
        "open": (1, at.LINE, at.OPEN),
        "channels": (fabric.dram.channels, 1, at.CHANNELS, at.CHANNELS_END),
        "finishers": (max_samples, 1, at.NUM_FINISHERS),
        "widths": (topology.num_links, 1, at.WIDTHS),
        "latencies": (topology.num_links, 1, at.LATENCIES),
        "unit_in": (num_sinks, 1),
        "unit_out": (num_flows, 1),
        "queues": (queue_places, 1),  # rings of all output queues
        "crosses": (topology.num_links, 1, at.CROSSES),
        "directions": (topology.num_links, 1, at.DIRECTIONS),
        "banks": (len(traffic.bank_pace) if traffic else 0, at.BANK_SIZE, at.BANKS, at.BANKS_END),
        "gates": (len(traffic.gate_bank) if traffic else 0, at.GATE_SIZE, at.GATES, at.GATES_END),
        "processors": (
            traffic.num_scripts if traffic else 0, at.PROCESSOR_SIZE, at.PROCESSORS, at.PROCESSORS_END
        ),
        "steps": (traffic.num_steps if traffic else 0, at.STEP_SIZE, at.STEPS, at.STEPS_END),
    }  # fmt: skip


def _later_shapes(
    fabric: Fabric, netlist: Netlist, max_nodes: int, max_hops: int, max_samples: int, traffic: Traffic | None
) -> dict[str, tuple[int, ...]]:
    """Return the tables that are empty at the start, as `_start_shapes` does."""
    topology, num_units, num_flows = fabric.topology, netlist.num_units, netlist.num_flows
    num_sinks, num_fifos = len(sinks_of(netlist)), topology.num_links * fabric.link.channels
    num_agents = num_units + topology.num_sites + 1
    longest = _longest_delay(fabric, netlist, max_hops)
    if traffic is not None:
        num_agents += len(traffic.bank_pace) + traffic.num_scripts + num_flows  # each read wakes a bank
        longest = max(longest, int(traffic.request_cycles.max(initial=0)))
    num_eject = int(topology.link_width[topology.eject_link(0) :].sum())
    link_buckets = _ring(int(topology.link_cycles.max()) + 1)
    buckets = _ring(longest + 1)
    used_fifos, used_links = min(num_fifos, max_nodes), min(topology.num_links, max_nodes)
    return {
        "injects": (used_links + 1, 1, at.INJECTS),
        "meshes": (used_links + 1, 1, at.MESHES),
        "ejects": (used_links + 1, 1, at.EJECTS),
        "alone": (used_fifos + 1, 1, at.ALONE),
        "granting": (max(used_links, used_fifos) + 1, 1, at.GRANTING),
        "choosing": (used_links + 1, 1, at.CHOOSING),
        "leaving": (num_flows, 1, at.LEAVING),
        "now": (num_agents + 1, 1, at.NOW),
        "next": (num_agents + 1, 1, at.NEXT),
        "finishes": (num_units, max_samples),  # finish cycles of a unit
        "link_of": (topology.num_links, 1, at.LINK_OF),
        "fifo_of": (num_fifos, 1, at.FIFO_OF),
        "node_of": (max_nodes, 1, at.NODE_OF),
        "child_of": (max_nodes, 1, at.CHILD_OF),
        "hops_of": (max_nodes, 1, at.HOPS_OF),
        "shift_of": (max_nodes, 1, at.SHIFT_OF),
        "gate_queues": (2 * num_flows if traffic else 0, 1),
        "lists": (max_nodes + 2 * num_sinks + num_flows + num_units, 1, at.LISTS),
        "arena": (_arena_cells(fabric, max_nodes, used_links, used_fifos), 1, at.ARENA),
        # Buckets of the calendar.
        "heads": (at.NUM_WAYS * link_buckets, 2 + used_fifos, at.HEADS, at.NONE, at.HEADS_STRIDE),
        "ejected": (link_buckets, 1 + num_eject, at.EJECTED, at.NONE, at.EJECTED_STRIDE),
        "credits": (buckets, 3 + 2 * num_sinks, at.CREDITS, at.NONE, at.CREDITS_STRIDE),
        "wakes": (buckets, 1 + num_agents + num_flows, at.WAKES, at.NONE, at.WAKES_STRIDE),
    }


def _arena_cells(fabric: Fabric, max_nodes: int, used_links: int, used_fifos: int) -> int:
    """Return the cells that nodes, links and FIFOs need at most, with gaps up to the next line."""
    gaps = 2 * at.LINE
    links = (at.LINK_REQUESTS + gaps) * used_links + at.REQUEST_SIZE * max_nodes
    fifos = (at.FIFO_RING + 2 * _max_capacity(fabric) + gaps) * used_fifos
    return links + fifos + at.LINE + at.NODE_SIZE * max_nodes


def _ring(least: int) -> int:
    """Return the length of a ring with at least so many places: a power of two."""
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


def _max_heads(fabric: Fabric) -> int:
    """Return the most FIFOs at one switch."""
    targets = fabric.topology.link_target
    return int(np.bincount(targets[targets >= 0]).max()) * fabric.link.channels


def _max_capacity(fabric: Fabric) -> int:
    return fabric.link.fifo_vectors + int(fabric.topology.link_cycles.max())


def _streams(netlist: Netlist) -> list[tuple[int, int, int]]:
    """Return (flow, sink, unit) of all flows at ports, sorted; sink -1 for a load."""
    loads = [(f, -1, flow.source) for f, flow in enumerate(netlist.flows)]
    stores = [(f, s, unit) for s, (f, unit) in enumerate(sinks_of(netlist))]
    return sorted(x for x in loads + stores if netlist.units[x[2]].kind == SiteKind.PORT)


def _fill_header(cells: Cells, fabric: Fabric, tables: Tables, max_samples: int) -> None:
    """Set what is no table: lists that are empty, constants of the fabric, masks of rings."""
    values = {
        at.INJECTS_END: tables["injects"].first,
        at.MESHES_END: tables["meshes"].first,
        at.EJECTS_END: tables["ejects"].first,
        at.ALONE_END: tables["alone"].first,
        at.LEAVING_END: tables["leaving"].first,
        at.NOW_END: tables["now"].first,
        at.NEXT_END: tables["next"].first,
        at.NUM_UNITS: tables["units"].number,
        at.NUM_LINKS: fabric.topology.num_links,
        at.NUM_MESH_LINKS: fabric.topology.num_mesh_links,
        at.NUM_SITES: fabric.topology.num_sites,
        at.NUM_CHANNELS: fabric.link.channels,
        at.CREDIT_HOP_CYCLES: fabric.link.credit_hop_cycles,
        at.MEMORY_LATENCY: fabric.memory.latency_cycles,
        at.DRAM_LATENCY: fabric.dram.latency_cycles,
        at.DRAM_BURST_VECTORS: fabric.dram.burst_vectors,
        at.DRAM_BURST_CYCLES: fabric.dram.burst_cycles,
        at.MAX_SAMPLES: max_samples,
        at.FIFO_VECTORS: fabric.link.fifo_vectors,
        at.MAX_HEADS: _max_heads(fabric),
        at.LINK_MASK: tables["ejected"].number - 1,
        at.TIME_MASK: tables["credits"].number - 1,
        at.MESH_PACE: _mesh_pace(fabric),
        at.TURNS_BY_FIFO: fabric.cores is not None,
    }
    cells[list(values)] = list(values.values())
    for name in ("dram", "units", "sites"):
        tables[name].fill(cells, {at.QUEUED_FOR: at.NEVER, at.WAKE_AT: at.NEVER})


def _mesh_pace(fabric: Fabric) -> int:
    """Return how often links between switches grant: 1024 is in every cycle."""
    if fabric.cores is None:
        return FULL_PACE
    return pace_of(fabric.cores.link_bytes_per_cycle / fabric.link.vectors_per_cycle, fabric.vector_bytes)


def _fill_units(cells: Cells, netlist: Netlist, t: Tables) -> None:
    units, unit_table = netlist.units, t["units"]
    in_bounds, unit_in = group([unit for _, unit in sinks_of(netlist)], len(units))
    out_bounds, unit_out = group([flow.source for flow in netlist.flows], len(units))
    cells[t["unit_in"].handles] = t["sinks"].handles[unit_in]
    cells[t["unit_out"].handles] = t["flows"].handles[unit_out]
    has_inputs = np.diff(in_bounds) > 0
    fields: dict[int, ArrayLike] = {
        at.KIND: [at.COMPUTE_UNIT if unit.kind == SiteKind.COMPUTE else at.OTHER_UNIT for unit in units],
        at.UNIT_FIRINGS: [unit.firings for unit in units],
        at.UNIT_INTERVAL: [unit.cycles // max(1, unit.firings) for unit in units],
        at.UNIT_INTERVAL_REST: [unit.cycles % max(1, unit.firings) for unit in units],
        at.UNIT_RELEASES: [unit.releases for unit in units],
        at.UNIT_DEPTH: [unit.depth_cycles for unit in units],
        at.UNIT_SLOTS: [unit.slots for unit in units],
        at.UNIT_SETS_PERIOD: sets_period(netlist),
        at.UNIT_IN: t["unit_in"].first + in_bounds[:-1],
        at.UNIT_IN_END: t["unit_in"].first + in_bounds[1:],
        at.UNIT_OUT: t["unit_out"].first + out_bounds[:-1],
        at.UNIT_OUT_END: t["unit_out"].first + out_bounds[1:],
        at.UNIT_FINISHES: t["finishes"].handles,
        at.UNIT_SELF: unit_table.handles,
        at.UNIT_WRITTEN: np.where(has_inputs, 0, at.INFINITE),  # resident weights
    }
    unit_table.fill(cells, fields)


def sets_period(netlist: Netlist) -> list[bool]:
    """Mark pacing units: those without output, and the compute units with the most work."""
    sources = {flow.source for flow in netlist.flows}
    most_work = netlist.bound_cycles
    return [number not in sources or unit.cycles == most_work for number, unit in enumerate(netlist.units)]


def _fill_flows(cells: Cells, netlist: Netlist, t: Tables, capacity: LongArray) -> None:
    flows = netlist.flows
    queue = t["queues"].first + np.cumsum(capacity) - capacity
    num_sinks = np.array([len(flow.targets) for flow in flows], np.int64)
    sinks_end = t["sinks"].first + at.SINK_SIZE * np.cumsum(num_sinks)
    fields: dict[int, ArrayLike] = {
        at.WAKE_AT: at.NEVER,
        at.FLOW_TOKENS: [flow.tokens for flow in flows],
        at.FLOW_SOURCE: t["units"].handles[[flow.source for flow in flows]],
        at.FLOW_SINKS: sinks_end - at.SINK_SIZE * num_sinks,
        at.FLOW_SINKS_END: sinks_end,
        at.FLOW_READ_CYCLES: [flow.read_cycles for flow in flows],
        at.FLOW_QUEUE: queue,
        at.FLOW_QUEUE_END: queue + capacity,
        at.FLOW_CAPACITY: capacity,
        at.HEAD: queue,
        at.FLOW_TAIL: queue,
        at.FLOW_GRANTED: at.NEVER,
    }
    t["flows"].fill(cells, fields)


def _fill_sinks(cells: Cells, fabric: Fabric, netlist: Netlist, t: Tables) -> None:
    operand_vectors = min(fabric.compute.operand_vectors, fabric.compute.window_vectors)
    sinks = sinks_of(netlist)
    fields: dict[int, ArrayLike] = {
        at.SINK_FLOW: t["flows"].handles[[f for f, _ in sinks]],
        at.SINK_UNIT: t["units"].handles[[unit for _, unit in sinks]],
        at.SINK_TOKENS: [netlist.flows[f].tokens for f, _ in sinks],
        at.SINK_START: [
            min(netlist.flows[f].tokens, operand_vectors) if netlist.units[unit].waits_for_operands else 0
            for f, unit in sinks
        ],
        at.SINK_CREDITS: [window_vectors(fabric, netlist.units[unit].kind) for _, unit in sinks],
    }
    t["sinks"].fill(cells, fields)


def _fill_needs(cells: Cells, fabric: Fabric, netlist: Netlist, t: Tables) -> None:
    """Set the vectors that every sink waits for, and count at compute units the inputs that lack some."""
    sinks = t["sinks"].handles
    targets = np.array([unit for _, unit in sinks_of(netlist)], np.int64)
    kinds = np.array([unit.kind for unit in netlist.units])[targets]
    units, tokens = t["units"].handles[targets], cells[sinks + at.SINK_TOKENS].astype(np.int64)
    takes_one = cells[sinks + at.SINK_REST] < tokens
    at_start = np.where(cells[units + at.UNIT_FIRING] == 0, cells[sinks + at.SINK_START], 0)
    burst = np.minimum(fabric.dram.burst_vectors, tokens - cells[sinks + at.SINK_TOKEN])
    needed = np.select(
        [kinds == SiteKind.COMPUTE, kinds == SiteKind.PORT], [np.maximum(takes_one, at_start), burst], default=1
    )
    cells[sinks + at.SINK_NEEDED] = needed
    cells[sinks + at.SINK_IS_COUNTED] = kinds == SiteKind.COMPUTE
    lacks = (kinds == SiteKind.COMPUTE) & (cells[sinks + at.SINK_ARRIVED] < needed)
    np.add.at(cells, units[lacks] + at.MISSING, np.uint32(1))


def _fill_streams(cells: Cells, netlist: Netlist, t: Tables) -> None:
    flows, sinks, units = np.array(_streams(netlist), np.int64).reshape(-1, 3).T
    fields: dict[int, ArrayLike] = {
        at.STREAM_FLOW: t["flows"].handles[flows],
        at.STREAM_SINK: np.where(sinks < 0, at.NONE, t["sinks"].handles[sinks]),
        at.STREAM_UNIT: t["units"].handles[units],
        at.STREAM_GRANTED: at.NEVER,
    }
    t["streams"].fill(cells, fields)


def _fill_fabric(cells: Cells, fabric: Fabric, t: Tables) -> None:
    topology = fabric.topology
    is_memory = topology.site_kind == SiteKind.MEMORY
    t["dram"].fill(cells, {at.KIND: at.DRAM_AGENT})
    t["sites"].fill(cells, {at.KIND: np.where(is_memory, at.MEMORY_SITE, at.OTHER_SITE)})
    t["open"].fill(cells, {at.FIFO_CAPACITY: 1})
    t["widths"].fill(cells, {0: topology.link_width})
    t["latencies"].fill(cells, {0: topology.link_cycles})
    t["crosses"].fill(cells, {0: topology.link_crosses})
    t["directions"].fill(cells, {0: topology.link_direction})


def _fill_traffic(cells: Cells, traffic: Traffic, t: Tables) -> None:
    """Set banks, gates, processors and their scripts, and where reads begin and end."""
    cells[at.WAIT_CYCLES] = traffic.wait_cycles
    gate_bounds, _ = group(traffic.gate_bank.tolist(), len(traffic.bank_pace))
    reader_bounds, _ = group(traffic.script_bank.tolist(), len(traffic.bank_pace))
    gates, processors = t["gates"], t["processors"]
    idle = {at.QUEUED_FOR: at.NEVER, at.WAKE_AT: at.NEVER}
    banks: dict[int, ArrayLike] = {
        at.KIND: at.BANK,
        at.BANK_PACE: traffic.bank_pace,
        at.BANK_GATES: gates.first + at.GATE_SIZE * gate_bounds[:-1],
        at.BANK_GATES_END: gates.first + at.GATE_SIZE * gate_bounds[1:],
        at.BANK_READERS: processors.first + at.PROCESSOR_SIZE * reader_bounds[:-1],
        at.BANK_READERS_END: processors.first + at.PROCESSOR_SIZE * reader_bounds[1:],
    }
    t["banks"].fill(cells, banks | idle)
    queue_bounds, _ = group(traffic.flow_gate.tolist(), len(traffic.gate_bank))
    queues = t["gate_queues"].first + 2 * queue_bounds[:-1]
    gate_fields: dict[int, ArrayLike] = {
        at.GATE_BANK: t["banks"].handles[traffic.gate_bank],
        at.GATE_TAKE_PACE: traffic.gate_take_pace,
        at.GATE_TAKEN: at.NEVER,
        at.GATE_QUEUE: queues,
        at.GATE_QUEUE_END: queues,
    }
    gates.fill(cells, gate_fields)
    t["flows"].fill(
        cells,
        {
            at.FLOW_GATE: gates.handles[traffic.flow_gate],
            at.FLOW_PACE: traffic.flow_pace,
            at.FLOW_REQUEST_CYCLES: traffic.request_cycles,
        },
    )
    t["sinks"].fill(cells, {at.SINK_GATE: gates.handles[traffic.sink_gate]})
    _fill_scripts(cells, traffic, t)
    processors.fill(cells, idle)


def _fill_scripts(cells: Cells, traffic: Traffic, t: Tables) -> None:
    steps, what = t["steps"], traffic.step_what
    is_read = what >= 0
    reads_before = np.concatenate([[0], np.cumsum(is_read)])[traffic.step_start[:-1]]
    first_sink = t["sinks"].first + at.SINK_SIZE * reads_before
    has_steps = np.diff(traffic.step_start) > 0
    gaps = np.append(traffic.step_gap, 0)
    fields: dict[int, ArrayLike] = {
        at.KIND: at.PROCESSOR,
        at.PROCESSOR_STEP: steps.first + at.STEP_SIZE * traffic.step_start[:-1],
        at.PROCESSOR_STEPS_END: steps.first + at.STEP_SIZE * traffic.step_start[1:],
        at.PROCESSOR_DUE: np.where(has_steps, gaps[traffic.step_start[:-1]], 0),
        at.PROCESSOR_WRITTEN: at.NEVER,
        at.PROCESSOR_READS: first_sink,
        at.PROCESSOR_READS_END: first_sink,
    }
    t["processors"].fill(cells, fields)
    handles = t["flows"].handles[np.where(is_read, what, 0)] if is_read.any() else np.zeros(len(what), np.int64)
    others = np.where(what == int(What.WAIT), at.WAIT, at.MARK)
    steps.fill(cells, {at.STEP_GAP: traffic.step_gap, at.STEP_WHAT: np.where(is_read, handles, others)})
