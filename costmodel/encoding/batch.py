"""Some decisions of a `GraphSet` as one large graph without edges between them, in torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from costmodel.encoding.graph_set import GraphSet, IntArray, LongArray


@dataclass(frozen=True, slots=True)
class Batch:
    """Columns as in `GraphSet`, numbered through over all decisions of the batch."""

    log_throughput: Tensor  # [num_decisions]
    log_rules: Tensor  # [num_decisions]
    graph: Tensor  # [num_decisions] number of the netlist
    num_units: Tensor  # [num_decisions] and so on: rows per decision
    num_flows: Tensor
    num_lanes: Tensor
    num_links: Tensor
    num_switches: Tensor
    unit: Tensor
    unit_op: Tensor
    unit_stage: Tensor
    unit_switch: Tensor
    unit_stalls: Tensor
    flow: Tensor
    flow_source: Tensor
    end_flow: Tensor
    end_unit: Tensor
    end_hops: Tensor
    visit_flow: Tensor
    visit_lane: Tensor
    visit_before: Tensor  # -1: none
    lane_kind: Tensor
    lane_link: Tensor
    link_from: Tensor  # -1: none
    link_to: Tensor  # -1: none
    link_flows: Tensor
    link_hops: Tensor

    def __len__(self) -> int:
        return len(self.log_throughput)

    def to(self, device: torch.device) -> Batch:
        """On another device."""
        return Batch(*(getattr(self, name).to(device) for name in self.__slots__))


def make_batch(data: GraphSet, ids: LongArray) -> Batch:
    """The decisions `ids`, in that order."""
    facts = data.facts_of[ids]
    units = _Rows.of(data.unit_start, facts)
    flows = _Rows.of(data.flow_start, facts)
    ends = _Rows.of(data.end_start, facts)
    placed, hops = _Rows.of(data.placed_start, ids), _Rows.of(data.hops_start, ids)
    visits, lanes = _Rows.of(data.visit_start, ids), _Rows.of(data.lane_start, ids)
    links = _Rows.of(data.link_start, ids)
    switches = data.num_switches[ids].astype(np.int64)
    first_switch = np.cumsum(switches) - switches
    arrays = {
        "log_throughput": data.log_throughput[ids],
        "log_rules": data.log_rules[ids],
        "graph": data.netlist_of[ids],
        "num_units": units.size,
        "num_flows": flows.size,
        "num_lanes": lanes.size,
        "num_links": links.size,
        "num_switches": switches,
        "unit": data.unit[units.rows],
        "unit_op": data.unit_op[units.rows],
        "unit_stage": data.unit_stage[units.rows],
        "unit_switch": placed.take(data.unit_switch, first_switch),
        "unit_stalls": data.unit_stalls[placed.rows],
        "flow": data.flow[flows.rows],
        "flow_source": flows.take(data.flow_source, units.first),
        "end_flow": ends.take(data.end_flow, flows.first),
        "end_unit": ends.take(data.end_unit, units.first),
        "end_hops": data.end_hops[hops.rows],
        "visit_flow": visits.take(data.visit_flow, flows.first),
        "visit_lane": visits.take(data.visit_lane, lanes.first),
        "visit_before": visits.take(data.visit_before, lanes.first),
        "lane_kind": data.lane_kind[lanes.rows],
        "lane_link": lanes.take(data.lane_link, links.first),
        "link_from": links.take(data.link_from, first_switch),
        "link_to": links.take(data.link_to, first_switch),
        "link_flows": data.link_flows[links.rows],
        "link_hops": data.link_hops[links.rows],
    }
    return Batch(**{name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})


@dataclass(frozen=True, slots=True)
class _Rows:
    """Which rows of a table make the batch."""

    start: LongArray  # [num_decisions] first row in the table
    size: LongArray  # [num_decisions]
    first: LongArray  # [num_decisions] first row in the batch
    rows: LongArray  # [rows of the batch]

    @staticmethod
    def of(start: LongArray, ids: NDArray[np.int64]) -> _Rows:
        first_row, size = start[ids], start[ids + 1] - start[ids]
        first = np.cumsum(size) - size
        return _Rows(first_row, size, first, np.repeat(first_row - first, size) + _count(size))

    def take(self, column: IntArray, shift: LongArray) -> LongArray:
        """Numbers of a column, moved on by `shift` of their decision; -1 stays."""
        return _take_shifted(column, self.start, self.size, shift)


def _count(size: LongArray) -> LongArray:
    return np.arange(size.sum(), dtype=np.int64)


@njit(cache=True)
def _take_shifted(
    column: IntArray, start: LongArray, size: LongArray, shift: LongArray
) -> LongArray:
    result = np.empty(size.sum(), np.int64)
    k = 0
    for d in range(len(start)):
        for row in range(start[d], start[d] + size[d]):
            value = column[row]
            result[k] = value if value < 0 else value + shift[d]
            k += 1
    return result
