"""A decision as one row of numbers: statistics of its units, flows, lanes and links.

The same facts as the networks get, and no predicted times. `load` of a lane or link is the sum of
the loads (tokens / bound) of the flows on it; what a flow *meets* is the load of others on the
lanes of its route.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from costmodel.encoding.batch import Batch, make_batch
from costmodel.encoding.features import (
    FLOW_COLUMNS,
    LANE_KINDS,
    OPS,
    UNIT_COLUMNS,
)
from costmodel.encoding.graph_set import GraphSet
from placer.fabric import SiteKind

FloatArray = NDArray[np.float64]
LongArray = NDArray[np.int64]

QUANTILES = (0.5, 0.75, 0.9, 0.97)
NUM_STATISTICS = 2 + len(QUANTILES)  # mean, maximum, quantiles
_CHUNK = 512  # decisions at once: memory stays flat


def pooled_features(data: GraphSet, ids: LongArray) -> FloatArray:
    """[num_decisions, num_features] of the decisions `ids`."""
    chunks = np.split(ids, np.arange(_CHUNK, len(ids), _CHUNK))
    return np.concatenate([_pool(_Tables.of(make_batch(data, chunk))) for chunk in chunks])


@dataclass(frozen=True, slots=True)
class _Tables:
    """What is known of each unit, flow, end, lane and link, and the decision it belongs to."""

    num: int  # decisions
    unit_of: LongArray
    unit: FloatArray
    unit_op: LongArray
    flow_of: LongArray
    flow: FloatArray
    flow_source: LongArray
    flow_hops: FloatArray  # links between switches in its route tree
    flow_meets: FloatArray  # load of others, summed over its lanes
    flow_lane: FloatArray  # highest load of its lanes
    flow_link: FloatArray  # highest load of its links
    end_flow: LongArray
    end_unit: LongArray
    end_hops: FloatArray
    lane_of: LongArray
    lane_kind: LongArray
    lane_load: FloatArray
    lane_flows: FloatArray
    link_of: LongArray
    link_kind: LongArray
    link_load: FloatArray
    link_flows: FloatArray
    num_switches: LongArray

    @staticmethod
    def of(batch: Batch) -> _Tables:
        columns = {name: getattr(batch, name).numpy() for name in batch.__slots__}
        of = {
            name: np.repeat(np.arange(len(batch)), columns[f"num_{name}s"])
            for name in ("unit", "flow", "lane", "link")
        }
        flow, visit_flow, visit_lane = columns["flow"], columns["visit_flow"], columns["visit_lane"]
        num_flows, num_lanes, num_links = len(flow), len(of["lane"]), len(of["link"])
        load = flow[:, FLOW_COLUMNS.index("load")].astype(np.float64)
        lane_load = _sum(visit_lane, load[visit_flow], num_lanes)
        link_load = _sum(columns["lane_link"], lane_load, num_links)
        link_kind = np.zeros(num_links, np.int64)
        link_kind[columns["lane_link"]] = columns["lane_kind"]
        is_hop = (columns["lane_kind"] == 0)[visit_lane].astype(np.float64)
        others = lane_load[visit_lane] - load[visit_flow]
        visit_link = link_load[columns["lane_link"][visit_lane]]
        return _Tables(
            num=len(batch),
            unit_of=of["unit"],
            unit=columns["unit"].astype(np.float64),
            unit_op=columns["unit_op"],
            flow_of=of["flow"],
            flow=flow.astype(np.float64),
            flow_source=columns["flow_source"],
            flow_hops=_sum(visit_flow, is_hop, num_flows),
            flow_meets=_sum(visit_flow, others, num_flows),
            flow_lane=_most(visit_flow, lane_load[visit_lane], num_flows),
            flow_link=_most(visit_flow, visit_link, num_flows),
            end_flow=columns["end_flow"],
            end_unit=columns["end_unit"],
            end_hops=columns["end_hops"].astype(np.float64),
            lane_of=of["lane"],
            lane_kind=columns["lane_kind"],
            lane_load=lane_load,
            lane_flows=_count(visit_lane, num_lanes),
            link_of=of["link"],
            link_kind=link_kind,
            link_load=link_load,
            link_flows=columns["link_flows"].astype(np.float64),
            num_switches=columns["num_switches"],
        )


def _pool(tables: _Tables) -> FloatArray:
    parts = (_netlist_features, _route_features, _resource_features, _input_features)
    return np.hstack([np.column_stack(list(part(tables))) for part in parts])


def _netlist_features(t: _Tables) -> Iterator[FloatArray]:
    """What all decisions of a netlist have in common."""
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
    """How far the vectors travel, and what they meet on the way."""
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
    """How lanes, links and switches are shared."""
    yield t.num_switches.astype(np.float64)
    for kind in range(LANE_KINDS):
        own = t.lane_kind == kind
        yield _count(t.lane_of[own], t.num)
        yield from _all_statistics(t.num, t.lane_of[own], t.lane_load[own], t.lane_flows[own])
        own = t.link_kind == kind
        yield _count(t.link_of[own], t.num)
        yield from _all_statistics(t.num, t.link_of[own], t.link_load[own], t.link_flows[own])


def _input_features(t: _Tables) -> Iterator[FloatArray]:
    """How far away and how contended the inputs of a unit are, busy units and all."""
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
    """Sum of the values of each group."""
    return np.bincount(group, values, num).astype(np.float64, copy=False)


def _weighted_mean(values: FloatArray, weight: FloatArray, of: LongArray, num: int) -> FloatArray:
    total = _sum(of, weight, num)
    return _sum(of, values * weight, num) / np.where(total > 0, total, 1)


def _most(group: LongArray, values: FloatArray, num: int) -> FloatArray:
    """Largest value of each group, 0 where there is none."""
    result = np.zeros(num)
    np.maximum.at(result, group, values)
    return result


def statistics(values: FloatArray, of: LongArray, num: int) -> FloatArray:
    """[num, NUM_STATISTICS] of the values of each decision; zeros where there are none."""
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
