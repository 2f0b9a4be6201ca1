"""How long a trip takes, and how near units can be to each other at best."""

from __future__ import annotations

from typing import Any

import numpy as np

from placer.base import IntArray
from placer.fabric.fabric import Fabric, SiteKind


def round_trip_cycles(fabric: Fabric, hops: Any) -> Any:
    """Return the cycles from the injection of a vector until its credit is back, if unhindered.

    `hops` is a number or an array of numbers.
    """
    there = 2 * fabric.local.hop_cycles + hops * fabric.link.hop_cycles
    return there + hops * fabric.link.credit_hop_cycles + 1


def window_vectors(fabric: Fabric, kind: SiteKind) -> int:
    """Return the end-to-end credits of a flow into a unit of this kind."""
    windows = (fabric.compute, fabric.memory, fabric.dram)
    return windows[kind].window_vectors


def nearest_hops(fabric: Fabric, source: SiteKind, target: SiteKind) -> IntArray:
    """Return for n = 1, 2, ... the hops from a site to the n-th nearest one of another kind, at best.

    No placement brings n units that need a site each nearer to the source of their flow: for every
    n the site with the shortest way is taken, and the source's own site does not count.
    """
    topology = fabric.topology
    switches = [np.flatnonzero(topology.site_kind == kind) for kind in (source, target)]
    (row, column), (rows, columns) = (np.divmod(topology.site_switch[sites], topology.columns) for sites in switches)
    hops = np.abs(row[:, None] - rows) + np.abs(column[:, None] - columns)  # [sources, targets]
    if source == target:
        hops = hops + (switches[0][:, None] == switches[1]) * (topology.rows + topology.columns)
    ordered: IntArray = np.sort(hops, axis=1).min(axis=0).astype(np.int32)
    return ordered
