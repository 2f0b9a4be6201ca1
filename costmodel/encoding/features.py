"""What the networks see of a netlist, whatever the decision: facts about its units and flows.

Facts only: kinds, operations, stages, counts and sizes as lowering knows them. Nothing here is a
predicted time. Columns named in `ANNOTATIONS` tell of performance (work, sizes, rates); a network
can be told to do without them (`annotations: false`) and then knows tokens alone. Sizes are
relative to the bound (work of the slowest compute unit, in cycles) where that makes them comparable
between netlists, and come as logarithms as well, since throughput is a matter of ratios.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from placer.base import InputError, IntArray, SingleArray
from placer.fabric import SiteKind
from placer.graph import OpKind
from placer.netlist import Flow, Netlist, Unit, flows_of

FEATURE_VERSION = 2  # of all that `encode` gives, the rules' estimate too; models refuse others

OPS = (*(kind.value for kind in OpKind), "buffer", "weights", "gradient")
MAX_STAGE = 63  # later stages share the last embedding

UNIT_COLUMNS = (
    "is_compute", "is_memory", "is_port", "waits_for_operands", "stage_share", "log_inputs",
    "log_outputs", "work", "log_work", "log_firings", "log_releases", "log_depth", "log_bytes",
    "slots", "log_bound",
)  # fmt: skip
FLOW_COLUMNS = (
    "log_targets", "from_compute", "from_memory", "from_port", "stage_distance", "load",
    "log_load", "log_tokens", "read_cycles", "log_bound",
)  # fmt: skip
ANNOTATIONS = frozenset({
    "work", "log_work", "log_depth", "log_bytes", "slots", "log_bound", "load", "log_load",
    "read_cycles",
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

    def is_fact(self, columns: tuple[str, ...]) -> list[float]:
        """Return 1 for facts, 0 for annotations."""
        return [float(name not in self.annotations) for name in columns]


LANE_KINDS = 3  # between switches, unit to switch, switch to unit
FABRIC_FEATURES = FeatureSchema(
    FEATURE_VERSION, "decisions on a fabric", UNIT_COLUMNS, FLOW_COLUMNS, ANNOTATIONS, OPS,
    MAX_STAGE + 1, LANE_KINDS,
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


def netlist_features(netlist: Netlist) -> NetlistFeatures:
    """Return the facts of a netlist. Raises InputError for an unknown operation."""
    bound = netlist.bound_cycles
    inputs, outputs = np.zeros(netlist.num_units), np.zeros(netlist.num_units)
    for flow in netlist.flows:
        outputs[flow.source] += 1
        inputs[list(flow.targets)] += 1
    units, flows, connected = netlist.units, netlist.flows, flows_of(netlist)
    return NetlistFeatures(
        unit=np.array(
            [_unit_row(unit, netlist.num_stages, inputs[i], outputs[i], bound) for i, unit in enumerate(units)],
            np.float32,
        ).reshape(len(units), -1),
        unit_op=np.array([_op_id(unit) for unit in units], np.int32),
        unit_stage=np.minimum([unit.stage for unit in units], MAX_STAGE).astype(np.int32),
        flow=np.array([_flow_row(netlist, flow, bound) for flow in flows], np.float32).reshape(len(flows), -1),
        flow_source=connected.source,
        end_flow=connected.end_flow,
        end_unit=connected.targets,
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


def _one_hot(kind: SiteKind) -> tuple[float, ...]:
    return tuple(float(kind == other) for other in SiteKind)


def _op_id(unit: Unit) -> int:
    try:
        return OPS.index(unit.op)
    except ValueError:
        raise InputError(
            f"unit {unit.name!r}: the model knows no operation {unit.op!r}; allowed: {', '.join(OPS)}"
        ) from None
