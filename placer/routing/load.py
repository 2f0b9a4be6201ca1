"""What the routes ask of the links."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.decision import Decisions
from placer.fabric import Fabric
from placer.netlist import Netlist
from placer.routing.arrays import IntArray, LongArray, flows_of, require_routes


def link_load(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> NDArray[np.float64]:
    """Demand [num_decisions, num_links] in vectors per cycle when samples follow at the bound.

    Raises InputError when the decisions do not belong to this fabric and netlist.
    """
    require_routes(fabric, netlist, decisions)
    tokens = _tokens_per_link(
        fabric.topology.num_links,
        flows_of(netlist).tokens,
        decisions.route_start,
        decisions.links,
    )
    return tokens / np.float64(netlist.bound_cycles)


@njit(cache=True)
def _tokens_per_link(
    num_links: int, tokens: LongArray, route_start: LongArray, links: IntArray
) -> LongArray:
    total = np.zeros((len(route_start), num_links), np.int64)
    for decision in range(len(route_start)):
        for flow in range(len(tokens)):
            for node in range(route_start[decision, flow], route_start[decision, flow + 1]):
                total[decision, links[node]] += tokens[flow]
    return total
