"""Some decisions of a `GraphSet` as one large graph without edges between them, in torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from torch import Tensor

from costmodel.encoding.graph_set import GraphSet
from placer.base import IntArray, LongArray


@dataclass(frozen=True, slots=True)
class Batch:
    """Columns as in `GraphSet`, numbered through over all decisions of the batch."""

    log_throughput: Tensor  # [num_decisions]
    log_rules: Tensor  # [num_decisions]
    graph: Tensor  # [num_decisions] number of the netlist
    hardware: Tensor  # [num_decisions, columns]
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
        """Return the same batch on another device."""
        return Batch(*(getattr(self, name).to(device) for name in self.__slots__))


# Of each column of a `GraphSet`: by which `*_start` its rows are found, and what its values number
# in a decision (None: nothing, they stay as they are).
_COLUMNS: dict[str, tuple[str, str | None]] = {
    "unit": ("unit", None), "unit_op": ("unit", None), "unit_stage": ("unit", None),
    "flow": ("flow", None), "flow_source": ("flow", "unit"),
    "end_flow": ("end", "flow"), "end_unit": ("end", "unit"), "end_hops": ("hops", None),
    "unit_switch": ("placed", "switch"), "unit_stalls": ("placed", None),
    "visit_flow": ("visit", "flow"), "visit_lane": ("visit", "lane"),
    "visit_before": ("visit", "lane"),
    "lane_kind": ("lane", None), "lane_link": ("lane", "link"),
    "link_from": ("link", "switch"), "link_to": ("link", "switch"),
    "link_flows": ("link", None), "link_hops": ("link", None),
}  # fmt: skip
_OF_FACTS = ("unit", "flow", "end")  # the other tables have rows of their own for each decision


def make_batch(data: GraphSet, ids: LongArray) -> Batch:
    """Return the decisions `ids` as a batch, in that order."""
    facts, switches = data.facts_of[ids], data.num_switches[ids].astype(np.int64)
    rows = {
        table: _Rows.of(getattr(data, f"{table}_start"), facts if table in _OF_FACTS else ids)
        for table in dict(_COLUMNS.values())
    }
    first = {table: part.first for table, part in rows.items()}
    first["switch"] = np.cumsum(switches) - switches
    arrays = {
        "log_throughput": data.log_throughput[ids],
        "log_rules": data.log_rules[ids],
        "graph": data.netlist_of[ids],
        "hardware": data.hardware[facts],
        "num_switches": switches,
        **{f"num_{table}s": rows[table].size for table in ("unit", "flow", "lane", "link")},
    }
    for name, (table, numbered) in _COLUMNS.items():
        column, part = getattr(data, name), rows[table]
        arrays[name] = part.take(column, first[numbered]) if numbered else column[part.rows]
    return Batch(**{name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})


@dataclass(frozen=True, slots=True)
class _Rows:
    """Which rows of a table make the batch."""

    start: LongArray  # [num_decisions] first row in the table
    size: LongArray  # [num_decisions]
    first: LongArray  # [num_decisions] first row in the batch
    rows: LongArray  # [rows of the batch]

    @staticmethod
    def of(start: LongArray, ids: LongArray) -> _Rows:
        first_row, size = start[ids], start[ids + 1] - start[ids]
        first = np.cumsum(size) - size
        rows = np.repeat(first_row - first, size) + np.arange(size.sum())
        return _Rows(first_row, size, first, rows)

    def take(self, column: IntArray, shift: LongArray) -> LongArray:
        """Return numbers of a column, moved on by `shift` of their decision; -1 stays."""
        return _take_shifted(column, self.start, self.size, shift)


@njit(cache=True)
def _take_shifted(column: IntArray, start: LongArray, size: LongArray, shift: LongArray) -> LongArray:
    result = np.empty(size.sum(), np.int64)
    k = 0
    for d in range(len(start)):
        for row in range(start[d], start[d] + size[d]):
            value = column[row]
            result[k] = value if value < 0 else value + shift[d]
            k += 1
    return result
