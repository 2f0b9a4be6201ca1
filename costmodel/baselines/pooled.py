"""A decision as one row of numbers: statistics of its units, flows, lanes and links.

The same facts as the networks get, and no predicted times. `load` of a lane or link is the sum of
the loads (tokens / bound) of the flows on it; what a flow *meets* is the load of others on the
lanes of its route.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit

from costmodel.encoding import FLOW_COLUMNS, LANE_KINDS, OPS, UNIT_COLUMNS, Batch, GraphSet, make_batch
from placer.base import FloatArray, LongArray
from placer.fabric import SiteKind

QUANTILES = (0.5, 0.75, 0.9, 0.97)
NUM_STATISTICS = 2 + len(QUANTILES)  # mean, maximum, quantiles
_CHUNK = 512  # decisions at once: memory stays flat


def pooled_features(data: GraphSet, ids: LongArray) -> FloatArray:
    """Return the features [num_decisions, num_features] of the decisions `ids`."""
    chunks = np.split(ids, np.arange(_CHUNK, len(ids), _CHUNK))
    return np.concatenate([_pool(_Tables(make_batch(data, chunk))) for chunk in chunks])


class _Tables:
    """What is known of each unit, flow, end, lane and link, and the decision it belongs to."""

    def __init__(self, batch: Batch) -> None:
        columns = {name: getattr(batch, name).numpy() for name in batch.__slots__}
        visit_flow, visit_lane = columns["visit_flow"], columns["visit_lane"]
        lane_link = columns["lane_link"]
        self.num = len(batch)  # decisions
        self.unit_of, self.flow_of, self.lane_of, self.link_of = (
            np.repeat(np.arange(len(batch)), columns[f"num_{name}s"]) for name in ("unit", "flow", "lane", "link")
        )
        num_flows, num_lanes, num_links = len(self.flow_of), len(self.lane_of), len(self.link_of)
        self.unit = columns["unit"].astype(np.float64)
        self.unit_op: LongArray = columns["unit_op"]
        self.flow = columns["flow"].astype(np.float64)
        self.flow_source: LongArray = columns["flow_source"]
        load = self.flow[:, FLOW_COLUMNS.index("load")]
        self.end_flow: LongArray = columns["end_flow"]
        self.end_unit: LongArray = columns["end_unit"]
        self.end_hops = columns["end_hops"].astype(np.float64)
        self.lane_kind: LongArray = columns["lane_kind"]
        self.lane_load = _sum(visit_lane, load[visit_flow], num_lanes)
        self.lane_flows = _count(visit_lane, num_lanes)
        self.link_kind = np.zeros(num_links, np.int64)
        self.link_kind[lane_link] = self.lane_kind
        self.link_load = _sum(lane_link, self.lane_load, num_links)
        self.link_flows = columns["link_flows"].astype(np.float64)
        is_hop = (self.lane_kind == 0)[visit_lane].astype(np.float64)
        others = self.lane_load[visit_lane] - load[visit_flow]
        self.flow_hops = _sum(visit_flow, is_hop, num_flows)  # links between switches in its tree
        self.flow_meets = _sum(visit_flow, others, num_flows)  # load of others on its lanes
        self.flow_lane = _most(visit_flow, self.lane_load[visit_lane], num_flows)
        self.flow_link = _most(visit_flow, self.link_load[lane_link[visit_lane]], num_flows)
        self.num_switches: LongArray = columns["num_switches"]


def _pool(tables: _Tables) -> FloatArray:
    parts = (_netlist_features, _route_features, _resource_features, _input_features)
    return np.hstack([np.column_stack(list(part(tables))) for part in parts])


def _netlist_features(t: _Tables) -> Iterator[FloatArray]:
    """Yield what all decisions of a netlist have in common."""
    for kind in range(len(SiteKind)):
        yield _count(t.unit_of[t.unit[:, kind] > 0], t.num)
    for op in range(len(OPS)):
        yield _count(t.unit_of[t.unit_op == op], t.num)
    yield _count(t.flow_of, t.num)
    yield _count(t.flow_of[t.end_flow], t.num)
    for values, of in ((t.unit, t.unit_of), (t.flow, t.flow_of)):
        for column in values.T:
            yield _sum(of, column, t.num)
            yield from statistics(column, of, t.num).T[:2]


def _route_features(t: _Tables) -> Iterator[FloatArray]:
    """Yield how far the vectors travel, and what they meet on the way."""
    load, end_of = t.flow[:, FLOW_COLUMNS.index("load")], t.flow_of[t.end_flow]
    end_load = load[t.end_flow]
    yield from _all_statistics(t.num, end_of, t.end_hops, t.end_hops * end_load)
    yield _weighted_mean(t.end_hops, end_load, end_of, t.num)
    columns = (t.flow_hops * load, t.flow_meets, t.flow_meets * load, t.flow_lane, t.flow_link)
    yield from _all_statistics(t.num, t.flow_of, *columns)
    for column in columns:
        yield _sum(t.flow_of, column, t.num)
        yield _weighted_mean(column, load, t.flow_of, t.num)
    for kind in ("from_compute", "from_memory", "from_port"):
        own = t.flow[t.end_flow, FLOW_COLUMNS.index(kind)] > 0
        yield _weighted_mean(t.end_hops[own], end_load[own], end_of[own], t.num)
        yield from _all_statistics(t.num, end_of[own], (t.end_hops * end_load)[own])


def _resource_features(t: _Tables) -> Iterator[FloatArray]:
    """Yield how lanes, links and switches are shared."""
    yield t.num_switches.astype(np.float64)
    for kind in range(LANE_KINDS):
        own = t.lane_kind == kind
        yield _count(t.lane_of[own], t.num)
        yield from _all_statistics(t.num, t.lane_of[own], t.lane_load[own], t.lane_flows[own])
        own = t.link_kind == kind
        yield _count(t.link_of[own], t.num)
        yield from _all_statistics(t.num, t.link_of[own], t.link_load[own], t.link_flows[own])


def _input_features(t: _Tables) -> Iterator[FloatArray]:
    """Yield how far away and how contended the inputs of units are, busy ones and all."""
    num_units = len(t.unit)
    work = t.unit[:, UNIT_COLUMNS.index("work")]
    load = t.flow[t.end_flow, FLOW_COLUMNS.index("load")]
    columns = (
        _most(t.end_unit, t.end_hops, num_units),
        _sum(t.end_unit, t.end_hops * load, num_units),
        _most(t.end_unit, t.flow_lane[t.end_flow], num_units),
        _sum(t.end_unit, t.flow_meets[t.end_flow] * load, num_units),
        _most(t.flow_source, t.flow_hops, num_units),
        _most(t.flow_source, t.flow_lane, num_units),
    )
    waits = t.unit[:, UNIT_COLUMNS.index("waits_for_operands")] > 0
    for column in columns:
        yield from _all_statistics(t.num, t.unit_of[waits], column[waits], (column * work)[waits])
        yield from _all_statistics(t.num, t.unit_of, column * work)


def _all_statistics(num: int, of: LongArray, *columns: FloatArray) -> Iterator[FloatArray]:
    for column in columns:
        yield from statistics(column, of, num).T


def _count(group: LongArray, num: int) -> FloatArray:
    return np.bincount(group, minlength=num).astype(np.float64)


def _sum(group: LongArray, values: FloatArray, num: int) -> FloatArray:
    """Return the sum of the values of each group."""
    return np.bincount(group, values, num).astype(np.float64, copy=False)


def _weighted_mean(values: FloatArray, weight: FloatArray, of: LongArray, num: int) -> FloatArray:
    total = _sum(of, weight, num)
    return _sum(of, values * weight, num) / np.where(total > 0, total, 1)


def _most(group: LongArray, values: FloatArray, num: int) -> FloatArray:
    """Return the largest value of each group, 0 where there is none."""
    result = np.zeros(num)
    np.maximum.at(result, group, values)
    return result


def statistics(values: FloatArray, of: LongArray, num: int) -> FloatArray:
    """Return [num, NUM_STATISTICS] of the values of each decision; zeros for no values."""
    start = np.searchsorted(of, np.arange(num + 1))
    return _statistics_of(np.ascontiguousarray(values), start, np.array(QUANTILES))


@njit(cache=True)
def _statistics_of(values: FloatArray, start: LongArray, quantiles: FloatArray) -> FloatArray:
    result = np.zeros((len(start) - 1, 2 + len(quantiles)))
    for d in range(len(start) - 1):
        own = np.sort(values[start[d] : start[d + 1]])
        if len(own) == 0:
            continue
        result[d, 0] = own.mean()
        result[d, 1] = own[-1]
        for q in range(len(quantiles)):
            result[d, 2 + q] = own[int(quantiles[q] * (len(own) - 1))]
    return result
