"""A plain hill climb on wire length: placements better than random, without any cost model.

Only for studies of how much placement matters; the placer proper anneals.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.base import IntArray
from placer.fabric import Fabric
from placer.netlist import Netlist


def improve(fabric: Fabric, netlist: Netlist, sites: IntArray, steps: int, seed: int) -> IntArray:
    """Try `steps` swaps of whole sites of one kind; keep those that shorten tokens * distance."""
    topology = fabric.topology
    ends = [(flow.source, target) for flow in netlist.flows for target in flow.targets]
    tokens = [flow.tokens for flow in netlist.flows for _ in flow.targets]
    place = np.stack(np.divmod(topology.site_switch, topology.columns), axis=1).astype(np.int64)
    result: IntArray = _climb(
        sites.astype(np.int32), np.array(ends, np.int64), np.array(tokens, np.int64),
        topology.site_kind, place, steps, np.random.default_rng(seed),
    )  # fmt: skip
    return result


@njit(cache=True)
def _length(sites, ends, tokens, place, site_a, site_b):
    """Return the weighted distance of all connections of units on two sites."""
    total = 0
    for k in range(len(ends)):
        source, target = sites[ends[k, 0]], sites[ends[k, 1]]
        if source == site_a or source == site_b or target == site_a or target == site_b:
            rows = abs(place[source, 0] - place[target, 0])
            total += tokens[k] * (rows + abs(place[source, 1] - place[target, 1]))
    return total


@njit(cache=True)
def _climb(sites, ends, tokens, site_kind, place, steps, rng):
    for _ in range(steps):
        site_a = sites[rng.integers(0, len(sites))]
        site_b = rng.integers(0, len(site_kind))
        if site_kind[site_a] != site_kind[site_b] or site_a == site_b:
            continue
        before = _length(sites, ends, tokens, place, site_a, site_b)
        swapped = sites.copy()
        for unit in range(len(sites)):
            if sites[unit] == site_a:
                swapped[unit] = site_b
            elif sites[unit] == site_b:
                swapped[unit] = site_a
        if _length(swapped, ends, tokens, place, site_a, site_b) <= before:
            sites = swapped
    return sites
