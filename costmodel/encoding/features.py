"""What the networks see of a netlist, whatever the decision: facts about its units, flows and fabric.

Facts only: kinds, operations, stages, counts and sizes as lowering knows them, and the constants of
the hardware. Nothing here is a predicted time. Columns named in `ANNOTATIONS` tell of performance
(work, sizes, rates, hardware); a network can be told to do without them (`annotations: false`) and
then knows tokens alone. Sizes are relative to the bound (work of the slowest compute unit, in
cycles) where that makes them comparable between netlists, and come as logarithms as well, since
throughput is a matter of ratios. Constants are relative to what they serve: cycles over the bound,
tokens over windows, loads over rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from placer.base import InputError, IntArray, SingleArray
from placer.fabric import Fabric, SiteKind, round_trip_cycles, window_vectors
from placer.graph import OpKind
from placer.netlist import Flow, Netlist, Unit, flows_of

FEATURE_VERSION = 3  # of all that `encode` gives, the rules' estimate too; models refuse others

OPS = (*(kind.value for kind in OpKind), "buffer", "weights", "gradient")
MAX_STAGE = 63  # later stages share the last embedding

UNIT_HARDWARE = (
    "log_window",  # input queue of each flow, vectors
    "log_queue",  # output queue of each flow, vectors
    "log_operands",  # vectors of each input before a product starts a sample; 0: it does not wait
    "log_delay",  # pipeline depth, or latency of memory or DRAM, over the bound
    "reads",  # cycles per sample that its reads take the port of a memory or a DRAM channel, over the bound
    "writes",  # the same of what it is written
    "capacity_share",  # bytes over those of a memory unit
    "site_share",  # units of its kind over those that the fabric can hold
    "dram_load",  # vectors per sample that all loads and stores move, over what DRAM can move in the bound
    "log_span",  # columns and rows of the fabric together
)
FLOW_HARDWARE = (
    "log_window",  # least window of its targets, vectors
    "log_need",  # load over that window: times the round trip, the share of the window that is needed
    "log_windows",  # tokens per sample over that window
    "link_load",  # load over the vectors per cycle of a link between switches
    "local_load",  # load over those of a link between a unit and its switch
    "port_load",  # cycles per sample of the read port of its source, or of a DRAM channel, over the bound
    "log_hop",  # cycles of a hop over the bound
    "log_fifo",  # vectors that wait per channel
    "log_channels",  # virtual channels of a link
)
LANE_HARDWARE = (  # of each kind of lane, around the values of the presets
    "log_width",  # vectors per cycle
    "log_hop",  # cycles
    "log_fifo",  # vectors that wait
    "log_channels",  # lanes of its link
)
UNIT_COLUMNS = (
    "is_compute", "is_memory", "is_port", "waits_for_operands", "stage_share", "log_inputs",
    "log_outputs", "work", "log_work", "log_firings", "log_releases", "log_depth", "log_bytes",
    "slots", "log_bound", *UNIT_HARDWARE,
)  # fmt: skip
FLOW_COLUMNS = (
    "log_targets", "from_compute", "from_memory", "from_port", "stage_distance", "load",
    "log_load", "log_tokens", "read_cycles", "log_bound", *FLOW_HARDWARE,
)  # fmt: skip
ANNOTATIONS = frozenset({
    "work", "log_work", "log_depth", "log_bytes", "slots", "log_bound", "load", "log_load",
    "read_cycles", *UNIT_HARDWARE, *FLOW_HARDWARE,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class FeatureSchema:
    """The columns that networks read; `flow` networks are built for one of these."""

    version: int | str  # a model refuses what was encoded with another one
    subject: str  # what is encoded, for messages
    unit_columns: tuple[str, ...]
    flow_columns: tuple[str, ...]
    annotations: frozenset[str]  # columns of both that networks can do without
    ops: tuple[str, ...]  # operations of units
    num_stages: int
    lane_kinds: int
    lane_columns: tuple[str, ...] = ()  # constants of each kind of lane; without any, none of the hardware is told

    def is_fact(self, columns: tuple[str, ...]) -> list[float]:
        """Return 1 for facts, 0 for annotations."""
        return [float(name not in self.annotations) for name in columns]


LANE_KINDS = 3  # between switches, unit to switch, switch to unit
FABRIC_FEATURES = FeatureSchema(
    FEATURE_VERSION, "decisions on a fabric", UNIT_COLUMNS, FLOW_COLUMNS, ANNOTATIONS, OPS,
    MAX_STAGE + 1, LANE_KINDS, LANE_HARDWARE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NetlistFeatures:
    """One netlist. An end is a (flow, target) pair; ends are numbered flow by flow."""

    unit: SingleArray  # [num_units, UNIT_COLUMNS]
    unit_op: IntArray  # [num_units] index into OPS
    unit_stage: IntArray  # [num_units] 0 .. MAX_STAGE
    flow: SingleArray  # [num_flows, FLOW_COLUMNS]
    flow_source: IntArray  # [num_flows] unit
    end_flow: IntArray  # [num_ends]
    end_unit: IntArray  # [num_ends]
    # [1, 2 + lane kinds x lane columns] cycles of a round trip without hops, and for each hop; then of lanes
    hardware: SingleArray


NO_HARDWARE: SingleArray = np.zeros((1, 2), np.float32)  # where nothing is told of it


def netlist_features(fabric: Fabric, netlist: Netlist) -> NetlistFeatures:
    """Return the facts of a netlist on a fabric. Raises InputError for an unknown operation."""
    bound = netlist.bound_cycles
    inputs, outputs = np.zeros(netlist.num_units), np.zeros(netlist.num_units)
    for flow in netlist.flows:
        outputs[flow.source] += 1
        inputs[list(flow.targets)] += 1
    units, flows, connected = netlist.units, netlist.flows, flows_of(netlist)
    of_units = _unit_hardware(fabric, netlist)
    return NetlistFeatures(
        unit=np.array(
            [
                (*_unit_row(unit, netlist.num_stages, inputs[i], outputs[i], bound), *of_units[i])
                for i, unit in enumerate(units)
            ],
            np.float32,
        ).reshape(len(units), -1),
        unit_op=np.array([_op_id(unit) for unit in units], np.int32),
        unit_stage=np.minimum([unit.stage for unit in units], MAX_STAGE).astype(np.int32),
        flow=np.array(
            [(*_flow_row(netlist, flow, bound), *_flow_hardware(fabric, netlist, flow, bound)) for flow in flows],
            np.float32,
        ).reshape(len(flows), -1),
        flow_source=connected.source,
        end_flow=connected.end_flow,
        end_unit=connected.targets,
        hardware=np.array([_hardware_row(fabric)], np.float32),
    )


def _unit_row(unit: Unit, num_stages: int, inputs: float, outputs: float, bound: int) -> tuple[float, ...]:
    """Return the UNIT_COLUMNS of one unit."""
    return (
        *_one_hot(unit.kind),
        float(unit.waits_for_operands),
        unit.stage / num_stages,
        math.log1p(inputs),
        math.log1p(outputs),
        unit.cycles / bound,
        math.log((unit.cycles + 1) / bound),
        math.log1p(unit.firings),
        math.log1p(unit.releases),
        math.log1p(unit.depth_cycles),
        math.log1p(unit.bytes),
        float(min(unit.slots, 16)),
        math.log(bound),
    )


def _flow_row(netlist: Netlist, flow: Flow, bound: int) -> tuple[float, ...]:
    """Return the FLOW_COLUMNS of one flow."""
    source = netlist.units[flow.source]
    last_stage = max(netlist.units[target].stage for target in flow.targets)
    return (
        math.log(len(flow.targets)),
        *_one_hot(source.kind),
        float(last_stage - source.stage),
        flow.tokens / bound,
        math.log(flow.tokens / bound),
        math.log(flow.tokens),
        float(flow.read_cycles),
        math.log(bound),
    )


def _unit_hardware(fabric: Fabric, netlist: Netlist) -> list[tuple[float, ...]]:
    """Return the UNIT_HARDWARE of all units."""
    bound, per_vector = netlist.bound_cycles, fabric.dram.burst_cycles / fabric.dram.burst_vectors
    reads, writes = np.zeros(netlist.num_units), np.zeros(netlist.num_units)
    for flow in netlist.flows:
        reads[flow.source] += flow.tokens * flow.read_cycles
        writes[list(flow.targets)] += flow.tokens
    is_port = np.array([unit.kind == SiteKind.PORT for unit in netlist.units], np.bool_)
    in_dram = (reads + writes)[is_port].sum() / (bound * fabric.dram_vectors_per_cycle)
    factor = np.where(is_port, per_vector, 1.0) / bound
    room = {kind: fabric.num_sites(kind) * fabric.max_units(kind) for kind in SiteKind}
    share = {kind: netlist.count(kind) / room[kind] for kind in SiteKind}
    queue = (fabric.compute.output_vectors, fabric.memory.output_vectors, fabric.dram.prefetch_vectors)
    operands = math.log(min(fabric.compute.operand_vectors, fabric.compute.window_vectors))
    rows: list[tuple[float, ...]] = []
    for i, unit in enumerate(netlist.units):
        delay = (unit.depth_cycles, fabric.memory.latency_cycles, fabric.dram.latency_cycles)[unit.kind]
        is_compute = unit.kind == SiteKind.COMPUTE
        rows.append(
            (
                math.log(window_vectors(fabric, unit.kind)),
                math.log(queue[unit.kind]),
                operands * unit.waits_for_operands,
                math.log((delay + 1) / bound),
                0.0 if is_compute else reads[i] * factor[i],
                0.0 if is_compute else writes[i] * factor[i],
                unit.bytes / fabric.memory.capacity_bytes,
                share[unit.kind],
                in_dram,
                math.log(fabric.columns + fabric.rows),
            )
        )
    return rows


def _flow_hardware(fabric: Fabric, netlist: Netlist, flow: Flow, bound: int) -> tuple[float, ...]:
    """Return the FLOW_HARDWARE of one flow."""
    load, kind = flow.tokens / bound, netlist.units[flow.source].kind
    window = min(window_vectors(fabric, netlist.units[target].kind) for target in flow.targets)
    port_cycles = (0.0, flow.read_cycles, fabric.dram.burst_cycles / fabric.dram.burst_vectors)[kind]
    return (
        math.log(window),
        math.log(load / window),
        math.log(flow.tokens / window),
        load / fabric.link.vectors_per_cycle,
        load / fabric.local.vectors_per_cycle,
        load * port_cycles,
        math.log(fabric.link.hop_cycles / bound),
        math.log(fabric.link.fifo_vectors),
        math.log(fabric.link.channels),
    )


def _hardware_row(fabric: Fabric) -> tuple[float, ...]:
    """Return how long round trips take, and the LANE_HARDWARE of lanes between switches and of the two others."""
    first = float(round_trip_cycles(fabric, 0))
    every = float(round_trip_cycles(fabric, 1)) - first
    link, local = fabric.link, fabric.local
    queue = (math.log(link.fifo_vectors / 2), math.log(link.channels / 2))
    of_mesh = (math.log(link.vectors_per_cycle), math.log(link.hop_cycles / 4), *queue)
    of_local = (math.log(local.vectors_per_cycle / 2), math.log(local.hop_cycles), *queue)
    return (first, every, *of_mesh, *of_local, *of_local)


def _one_hot(kind: SiteKind) -> tuple[float, ...]:
    return tuple(float(kind == other) for other in SiteKind)


def _op_id(unit: Unit) -> int:
    try:
        return OPS.index(unit.op)
    except ValueError:
        raise InputError(
            f"unit {unit.name!r}: the model knows no operation {unit.op!r}; allowed: {', '.join(OPS)}"
        ) from None
