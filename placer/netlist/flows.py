"""Who is connected to whom: the flows of a netlist as arrays, for all compiled code.

An *end* is a (flow, target) pair; ends are numbered flow by flow, in the order of `targets`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placer.base import IntArray, LongArray
from placer.netlist.netlist import Netlist


class Flows(NamedTuple):
    """Ends and demands of the flows of a netlist, and the flows at each unit."""

    source: IntArray  # [num_flows] unit
    target_start: LongArray  # [num_flows + 1] into targets
    targets: IntArray  # [num_ends] unit
    end_flow: IntArray  # [num_ends]
    tokens: LongArray  # [num_flows] vectors per sample
    heavy_first: LongArray  # [num_flows] flows in the order in which they choose their routes
    unit_start: LongArray  # [num_units + 1] into unit_flows
    unit_flows: IntArray  # flows that begin or end at a unit, heavy ones first
    read_start: LongArray  # [num_units + 1] into read_ends
    read_ends: LongArray  # [num_ends] ends at a unit
    write_start: LongArray  # [num_units + 1] into write_flows
    write_flows: LongArray  # [num_flows] flows that begin at a unit


def flows_of(netlist: Netlist) -> Flows:
    """Return the flows of a netlist as arrays."""
    flows = netlist.flows
    return connect(
        np.array([flow.source for flow in flows], np.int32),
        np.repeat(np.arange(len(flows)), [len(flow.targets) for flow in flows]).astype(np.int32),
        np.array([unit for flow in flows for unit in flow.targets], np.int32),
        np.array([flow.tokens for flow in flows], np.int64),
        netlist.num_units,
    )


def connect(source: IntArray, end_flow: IntArray, targets: IntArray, tokens: LongArray, num_units: int) -> Flows:
    """Return flows with these ends; `end_flow` rises."""
    flow = np.concatenate((np.arange(len(source), dtype=np.int32), end_flow))
    unit = np.concatenate((source, targets))
    at_unit = np.lexsort((flow, -tokens[flow], unit))
    read_start, read_ends = _grouped(targets, num_units)
    write_start, write_flows = _grouped(source, num_units)
    return Flows(
        source=source,
        target_start=_starts(end_flow, len(source)),
        targets=targets,
        end_flow=end_flow,
        tokens=tokens,
        heavy_first=np.argsort(-tokens, kind="stable"),
        unit_start=_starts(unit, num_units),
        unit_flows=flow[at_unit],
        read_start=read_start,
        read_ends=read_ends,
        write_start=write_start,
        write_flows=write_flows,
    )


def _starts(keys: IntArray, num_groups: int) -> LongArray:
    """Return where each group begins when its members stand side by side."""
    return np.cumsum(np.bincount(keys + 1, minlength=num_groups + 1), dtype=np.int64)


def _grouped(keys: IntArray, num_groups: int) -> tuple[LongArray, LongArray]:
    """Return the start of each group, and the numbers of its members in order."""
    return _starts(keys, num_groups), np.argsort(keys, kind="stable").astype(np.int64)
