"""How long each resource is needed per sample by a decision, taken alone and without contention.

The period of a decision is at least the largest of these demands; the resource that it belongs to
is the critical one. All in cycles per sample:

- compute unit: its work;
- link: vectors of all flows over it / width;
- flow: tokens * round trip / window (it cannot exceed window / round trip, docs/simulator.md);
- memory site: read-port cycles, and write-port cycles, of all buffers on it;
- DRAM: bursts * burst cycles / channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placer.decision import Decisions
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Demand:
    """Cycles per sample that each resource is needed for."""

    unit: FloatArray  # [num_units] compute units, 0 for others
    link: FloatArray  # [num_links]
    flow: FloatArray  # [num_flows] of its farthest target
    read_port: FloatArray  # [num_sites]
    write_port: FloatArray  # [num_sites]
    dram: float
    flow_hops: NDArray[np.int64]  # [num_flows] mesh links to the farthest target


def demand_of(fabric: Fabric, netlist: Netlist, decision: Decisions) -> Demand:
    """Demand of a single decision (a stack of one)."""
    topology = fabric.topology
    link = np.zeros(topology.num_links)
    read_port, write_port = np.zeros(topology.num_sites), np.zeros(topology.num_sites)
    flow_demand = np.zeros(netlist.num_flows)
    flow_hops = np.zeros(netlist.num_flows, np.int64)
    bursts = 0
    sites = decision.sites[0]
    for flow_id, flow in enumerate(netlist.flows):
        links, parents = decision.route(flow_id)
        link[links] += flow.tokens / topology.link_width[links]
        hops = _target_hops(fabric, links, parents)
        flow_hops[flow_id] = max(hops.values())
        source = netlist.units[flow.source]
        if source.kind == SiteKind.MEMORY:
            read_port[sites[flow.source]] += flow.tokens * flow.read_cycles
        if source.kind == SiteKind.PORT:
            bursts += -(-flow.tokens // fabric.dram.burst_vectors)
        for target in flow.targets:
            kind = netlist.units[target].kind
            if kind == SiteKind.MEMORY:
                write_port[sites[target]] += flow.tokens
            if kind == SiteKind.PORT:
                bursts += -(-flow.tokens // fabric.dram.burst_vectors)
            round_trip = round_trip_cycles(fabric, hops[int(sites[target])])
            flow_demand[flow_id] = max(
                flow_demand[flow_id], flow.tokens * round_trip / window_vectors(fabric, kind)
            )
    return Demand(
        unit=np.array(
            [u.cycles if u.kind == SiteKind.COMPUTE else 0 for u in netlist.units], float
        ),
        link=link,
        flow=flow_demand,
        read_port=read_port,
        write_port=write_port,
        dram=bursts * fabric.dram.burst_cycles / fabric.dram.channels,
        flow_hops=flow_hops,
    )


def round_trip_cycles(fabric: Fabric, hops: int) -> int:
    """Cycles from the injection of a vector until its credit is back, nothing in the way."""
    there = 2 * fabric.local.hop_cycles + hops * fabric.link.hop_cycles
    return there + hops * fabric.link.credit_hop_cycles + 1


def window_vectors(fabric: Fabric, kind: SiteKind) -> int:
    """End-to-end credits of a flow into a unit of this kind."""
    windows = (fabric.compute, fabric.memory, fabric.dram)
    return windows[kind].window_vectors


def _target_hops(
    fabric: Fabric, links: NDArray[np.int32], parents: NDArray[np.int32]
) -> dict[int, int]:
    """Mesh links from the source to each target site."""
    topology = fabric.topology
    first_eject = topology.eject_link(0)
    hops = np.zeros(len(links), np.int64)
    reached = {}
    for node, link in enumerate(links):
        before = hops[parents[node]] if parents[node] >= 0 else 0
        hops[node] = before + (link < topology.num_mesh_links)
        if link >= first_eject:
            reached[int(link) - first_eject] = int(hops[node])
    return reached
