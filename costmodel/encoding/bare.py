"""A netlist alone, encoded as a decision of which only the ends of routes are known.

Wherever units sit, a flow leaves its source by the link into a switch and comes to each target by
the link out of one. A *bare* decision has these visits and no others: every end is 0 hops away, and
nobody meets on the way. What the expert's rules are for a decision, the full bound is for a netlist.
So a network that reads decisions can be asked what a good placement of a netlist will reach.
"""

from __future__ import annotations

import math

import numpy as np

from costmodel.encoding.encode import Encoded
from placer.fabric import Fabric
from placer.netlist import Netlist, flows_of, full_bound

_INTO_SWITCH, _OUT_OF_SWITCH = 1, 2  # kinds of lanes


def encode_bare(fabric: Fabric, netlist: Netlist) -> Encoded:
    """Return the bare decision of a netlist, as a stack of one."""
    flows = flows_of(netlist)
    num_units, num_flows, num_ends = netlist.num_units, len(flows.source), len(flows.targets)
    sources, source_lane = np.unique(flows.source, return_inverse=True)
    targets, target_lane = np.unique(flows.targets, return_inverse=True)
    target_lane = target_lane + len(sources)
    num_lanes = len(sources) + len(targets)
    # Of each flow, first its way into a switch, then those to its targets.
    first = flows.target_start[:-1] + np.arange(num_flows)
    others = np.arange(num_ends) + flows.end_flow + 1
    visit_flow, visit_lane, before = (np.full(num_flows + num_ends, -1, np.int32) for _ in range(3))
    visit_flow[first], visit_flow[others] = np.arange(num_flows), flows.end_flow
    visit_lane[first], visit_lane[others] = source_lane, target_lane
    before[others] = source_lane[flows.end_flow]
    units = np.concatenate((sources, targets)).astype(np.int32)  # by lane
    is_source = np.arange(num_lanes) < len(sources)
    bound = full_bound(fabric, netlist).cycles
    return Encoded(
        end_hops=np.zeros((1, num_ends), np.int32),
        unit_switch=np.arange(num_units, dtype=np.int32)[None],
        num_switches=np.array([num_units], np.int32),
        visit_start=np.array([0, len(visit_flow)]),
        visit_flow=visit_flow,
        visit_lane=visit_lane,
        visit_before=before,
        lane_start=np.array([0, num_lanes]),
        lane_kind=np.where(is_source, _INTO_SWITCH, _OUT_OF_SWITCH).astype(np.int32),
        lane_link=np.arange(num_lanes, dtype=np.int32),
        link_start=np.array([0, num_lanes]),
        link_from=np.where(is_source, -1, units).astype(np.int32),
        link_to=np.where(is_source, units, -1).astype(np.int32),
        link_flows=np.bincount(visit_lane, minlength=num_lanes).astype(np.int32),
        link_hops=np.zeros(num_lanes, np.int32),
        log_rules=np.array([math.log(netlist.bound_cycles / bound)], np.float32),
    )
