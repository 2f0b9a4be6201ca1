"""The full bound: the least cycles per sample that any placement and any routes could reach.

The compute-only bound of a netlist (`Netlist.bound_cycles`) is the work of its slowest compute
unit. A placement cannot change more than that:

- ports: a buffer's reads (bank conflicts included) and writes pass its memory's ports one by one,
  and all buffers together share the ports of all memories;
- DRAM: bursts * burst cycles / channels;
- local links: what a unit sends and receives passes the links between it and its switch;
- flows: a flow carries at most one vector per cycle, and at most a window per round trip to its
  farthest target, which cannot be nearer than the geometry allows for so many targets;
- mesh links: a flow to n other sites takes at least n links, and all links share the load.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placer.fabric import Fabric, SiteKind, nearest_hops, round_trip_cycles, window_vectors
from placer.netlist.netlist import Flow, Netlist


class Bound(NamedTuple):
    """The least cycles per sample, and the resource that asks for them."""

    cycles: float
    resource: str


def full_bound(fabric: Fabric, netlist: Netlist) -> Bound:
    """Return the full bound of a netlist; never below its compute-only bound."""
    found = Bound(1.0, "nothing")
    for bound in _all_bounds(fabric, netlist):
        found = max(found, bound, key=lambda one: one.cycles)
    return found


def _all_bounds(fabric: Fabric, netlist: Netlist) -> list[Bound]:
    units, flows = netlist.units, netlist.flows
    num = len(units)
    sent, received, reads = np.zeros(num), np.zeros(num), np.zeros(num)
    bursts = 0
    for flow in flows:
        sent[flow.source] += flow.tokens
        reads[flow.source] += flow.tokens * flow.read_cycles
        for target in flow.targets:
            received[target] += flow.tokens
            bursts += (units[target].kind == SiteKind.PORT) * -(-flow.tokens // fabric.dram.burst_vectors)
        bursts += (units[flow.source].kind == SiteKind.PORT) * -(-flow.tokens // fabric.dram.burst_vectors)
    kinds = np.array([unit.kind for unit in units])
    cycles = np.array([unit.cycles for unit in units], float)
    is_memory, width = kinds == SiteKind.MEMORY, fabric.local.vectors_per_cycle
    bounds = [
        _largest(netlist, cycles * (kinds == SiteKind.COMPUTE), "work of"),
        _largest(netlist, reads * is_memory, "read port of"),
        _largest(netlist, received * is_memory, "write port of"),
        _largest(netlist, sent / width, "injection link of"),
        _largest(netlist, received / width, "ejection link of"),
        Bound(bursts * fabric.dram.burst_cycles / fabric.dram.channels, "DRAM"),
    ]
    memories = fabric.num_sites(SiteKind.MEMORY)
    bounds.append(Bound(float((reads * is_memory).sum()) / memories, "read ports of all memories"))
    bounds.append(Bound(float((received * is_memory).sum()) / memories, "write ports of all memories"))
    return bounds + _flow_bounds(fabric, netlist)


def _largest(netlist: Netlist, demand: np.ndarray, what: str) -> Bound:
    unit = int(np.argmax(demand))
    return Bound(float(demand[unit]), f"{what} {netlist.units[unit].name}")


def _flow_bounds(fabric: Fabric, netlist: Netlist) -> list[Bound]:
    """Return the bound of the slowest flow at its shortest distance, and that of all links together."""
    nearest = {(a, b): nearest_hops(fabric, a, b) for a in SiteKind for b in SiteKind}
    slowest, links = Bound(0.0, ""), 0.0
    for flow in netlist.flows:
        least, switches = float(flow.tokens), 0
        for kind, sites in _sites_needed(fabric, netlist, flow).items():
            ways = nearest[netlist.units[flow.source].kind, kind]
            trip = round_trip_cycles(fabric, int(ways[min(sites, len(ways)) - 1]))
            least = max(least, flow.tokens * trip / window_vectors(fabric, kind))
            switches = max(switches, sites - int(ways[0] == 0))
        links += flow.tokens * switches
        if least > slowest.cycles:
            slowest = Bound(least, f"flow {flow.name}")
    capacity = fabric.topology.num_mesh_links * fabric.link.vectors_per_cycle
    return [slowest, Bound(links / capacity, "all links together")]


def _sites_needed(fabric: Fabric, netlist: Netlist, flow: Flow) -> dict[SiteKind, int]:
    """Return how many sites of each kind the targets of a flow take at least."""
    counts: dict[SiteKind, int] = {}
    for target in flow.targets:
        kind = netlist.units[target].kind
        counts[kind] = counts.get(kind, 0) + 1
    return {kind: -(-count // fabric.max_units(kind)) for kind, count in counts.items()}
