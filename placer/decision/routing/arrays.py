"""The grid as arrays that the compiled routers read, and checks of what comes in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import InputError, IntArray, LongArray
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.netlist import Netlist


class Grid(NamedTuple):
    """Switches, sites and mesh links of a fabric."""

    num_mesh_links: int
    num_sites: int
    switch_row: IntArray  # [num_switches]
    switch_column: IntArray  # [num_switches]
    site_switch: IntArray  # [num_sites]
    mesh_link: IntArray  # [num_switches, 4] by Direction, -1 at the border
    link_target: IntArray  # [num_links] switch, -1 for eject links
    link_direction: IntArray  # [num_links] Direction


def grid_of(fabric: Fabric) -> Grid:
    """Return the grid of a fabric as arrays."""
    topology = fabric.topology
    row, column = np.divmod(np.arange(topology.num_switches, dtype=np.int32), topology.columns)
    return Grid(
        num_mesh_links=topology.num_mesh_links,
        num_sites=topology.num_sites,
        switch_row=row.astype(np.int32),
        switch_column=column.astype(np.int32),
        site_switch=topology.site_switch,
        mesh_link=topology.mesh_link,
        link_target=topology.link_target,
        link_direction=topology.link_direction,
    )


def capacity_of(fabric: Fabric, netlist: Netlist) -> LongArray:
    """Return the vectors per sample that each link can carry when samples follow at the bound."""
    return fabric.topology.link_width.astype(np.int64) * netlist.bound_cycles


def require_sites(fabric: Fabric, netlist: Netlist, sites: IntArray) -> IntArray:
    """Return a copy that compiled code can read; raise InputError for a wrong shape or a wrong id."""
    if sites.ndim != 2 or sites.shape[1] != netlist.num_units:
        raise InputError(
            f"netlist {netlist.name!r}: sites have shape {sites.shape}; "
            f"needed [num_decisions, {netlist.num_units} units]"
        )
    if not np.issubdtype(sites.dtype, np.integer):
        raise InputError(f"netlist {netlist.name!r}: sites are {sites.dtype}, needed integers")
    num_sites = fabric.topology.num_sites
    wrong = sites[(sites < 0) | (sites >= num_sites)]
    if wrong.size:
        raise InputError(f"fabric {fabric.name!r} has no site {wrong[0]}; allowed 0 to {num_sites - 1}")
    return np.array(sites, dtype=np.int32, order="C")


def require_routes(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> None:
    """Raise InputError when compiled code could not walk the routes without leaving an array."""
    where = f"decisions of netlist {netlist.name!r}"
    shape = (len(decisions), netlist.num_flows)
    starts = decisions.route_start
    if decisions.channels.shape != shape or starts.shape != (shape[0], shape[1] + 1):
        raise InputError(
            f"{where}: channels have shape {decisions.channels.shape} and route_start "
            f"{starts.shape}; needed {shape} and {(shape[0], shape[1] + 1)}"
        )
    num_nodes = len(decisions.links)
    if len(decisions.parents) != num_nodes:
        raise InputError(f"{where}: {num_nodes} links but {len(decisions.parents)} parents")
    if starts.size and (starts.min() < 0 or starts.max() > num_nodes or (np.diff(starts, axis=1) < 0).any()):
        raise InputError(f"{where}: route_start must rise from 0 to {num_nodes} at most")
    num_links = fabric.topology.num_links
    if num_nodes and not 0 <= decisions.links.min() <= decisions.links.max() < num_links:
        raise InputError(
            f"{where}: links {decisions.links.min()} to {decisions.links.max()}; "
            f"fabric {fabric.name!r} has 0 to {num_links - 1}"
        )
    num_channels = fabric.link.channels
    if decisions.channels.size and not (0 <= decisions.channels.min() <= decisions.channels.max() < num_channels):
        raise InputError(f"{where}: channels must lie in 0 to {num_channels - 1}")
    if not _parents_come_first(starts, decisions.parents):
        raise InputError(f"{where}: a parent is no earlier node of its route; parents stand before children")


@njit(cache=True)
def _parents_come_first(starts: LongArray, parents: IntArray) -> bool:
    for d in range(starts.shape[0]):
        for flow in range(starts.shape[1] - 1):
            for node in range(starts[d, flow] + 1, starts[d, flow + 1]):
                if not 0 <= parents[node] < node - starts[d, flow]:
                    return False
    return True
