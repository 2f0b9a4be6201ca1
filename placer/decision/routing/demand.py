"""The expert's rules: how long is each resource needed per sample, taken alone?

All in cycles per sample, without contention:

- compute: work of a unit (`Unit.cycles`: op-dependent rate, pipeline and row barriers included);
- link: vectors of all flows over a link / its width;
- flow: tokens * round trip / window, since a flow has at most `window` vectors on their way and
  each takes a round trip until its credit is back (docs/simulator.md);
- port: read cycles, and write cycles, of all buffers on a memory site (bank conflicts included);
- DRAM: bursts * burst cycles / channels.

A pipeline runs at the pace of its slowest resource: the period of a decision is at least the
largest of these demands, and the resource that it belongs to is the critical one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.base import FloatArray, InputError, IntArray, LongArray, hot
from placer.decision import Decisions
from placer.decision.routing.load import Usage, usage_of
from placer.fabric import Fabric, SiteKind, round_trip_cycles, window_vectors
from placer.netlist import Flows, Netlist, flows_of

MAX_DOUBLINGS = 5


@dataclass(frozen=True, slots=True)
class Rules:
    """Weights of the rules; 1 is what the hardware says."""

    link: float = 1.0
    flow: float = 1.0
    port: float = 1.0
    doublings: int = 2  # the search descends the p-norm with p = 2^doublings

    def __post_init__(self) -> None:
        for name in ("link", "flow", "port"):
            if not 0 <= getattr(self, name) <= 100:
                raise InputError(f"rules.{name}={getattr(self, name)}; allowed 0 to 100")
        if not 0 <= self.doublings <= MAX_DOUBLINGS:
            raise InputError(f"rules.doublings={self.doublings}; allowed 0 to {MAX_DOUBLINGS}")

    @property
    def exponent(self) -> int:
        return 1 << self.doublings


class Tables(NamedTuple):
    """The rules for one fabric and netlist; multiply a count to get cycles / bound."""

    per_link: FloatArray  # [num_links] per vector over the link
    per_trip: FloatArray  # [3, max hops + 1] per token, by kind of the target and hops
    per_port: float  # per cycle of a memory port
    port_cycles: LongArray  # [2, num_units] read-port and write-port cycles of a buffer
    unit_kind: IntArray  # [num_units]
    constant_max: float  # largest estimate that no placement changes: compute and DRAM
    constant_sum: float  # of their powers
    doublings: int


def tables_of(fabric: Fabric, netlist: Netlist, rules: Rules) -> Tables:
    """Return the rules as numbers."""
    topology, bound = fabric.topology, netlist.bound_cycles
    hops = np.arange(topology.rows * topology.columns + 1)
    windows = np.array([window_vectors(fabric, kind) for kind in SiteKind])
    constant = [u.cycles / bound for u in netlist.units if u.kind == SiteKind.COMPUTE]
    constant.append(_dram_cycles(fabric, netlist) / bound)
    return Tables(
        per_link=np.asarray(rules.link / (topology.link_width * float(bound)), np.float64),
        per_trip=rules.flow * (round_trip_cycles(fabric, hops) / windows[:, None]) / bound,
        per_port=rules.port / bound,
        port_cycles=_port_cycles(netlist),
        unit_kind=np.array([unit.kind for unit in netlist.units], np.int32),
        constant_max=max(constant),
        constant_sum=float(np.sum(np.array(constant) ** rules.exponent)),
        doublings=rules.doublings,
    )


@hot
def power(value: float, doublings: int) -> float:
    """Return value ^ (2 ^ doublings)."""
    for _ in range(doublings):
        value *= value
    return value


@hot
def estimate(tables: Tables, flows: Flows, usage: Usage, sites: IntArray, ports: LongArray) -> tuple[float, float]:
    """Return the largest estimate / bound, and the sum of the powers of all.

    `ports` [2, num_sites] is room to work in.
    """
    largest, powers = tables.constant_max, tables.constant_sum
    for flow in range(len(flows.source)):
        for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
            kind = tables.unit_kind[flows.targets[end]]
            trip = tables.per_trip[kind, usage.hops[end]] * flows.tokens[flow]
            largest = max(largest, trip)
            powers += power(trip, tables.doublings)
    for link in range(len(usage.load)):
        value = usage.load[link] * tables.per_link[link]
        largest = max(largest, value)
        powers += power(value, tables.doublings)
    ports[:, :] = 0
    for unit in range(len(sites)):
        ports[0, sites[unit]] += tables.port_cycles[0, unit]
        ports[1, sites[unit]] += tables.port_cycles[1, unit]
    for port in range(2):
        for site in range(ports.shape[1]):
            value = ports[port, site] * tables.per_port
            largest = max(largest, value)
            powers += power(value, tables.doublings)
    return largest, powers


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
    """Return the demand of a single decision (a stack of one)."""
    topology, flows, sites = fabric.topology, flows_of(netlist), decision.sites[0]
    usage = usage_of(
        flows, topology.num_mesh_links, topology.num_sites, sites, decision.route_start[0],
        decision.links, decision.parents,
    )  # fmt: skip
    windows = np.array([window_vectors(fabric, unit.kind) for unit in netlist.units])
    trips = flows.tokens[flows.end_flow] * round_trip_cycles(fabric, usage.hops)
    flow, flow_hops = np.zeros(netlist.num_flows), np.zeros(netlist.num_flows, np.int64)
    np.maximum.at(flow, flows.end_flow, trips / windows[flows.targets])
    np.maximum.at(flow_hops, flows.end_flow, usage.hops)
    ports = np.zeros((2, topology.num_sites))
    for port, cycles in zip(ports, _port_cycles(netlist), strict=True):
        np.add.at(port, sites, cycles)
    return Demand(
        unit=np.array([u.cycles * (u.kind == SiteKind.COMPUTE) for u in netlist.units], float),
        link=usage.load / topology.link_width,
        flow=flow,
        read_port=ports[0],
        write_port=ports[1],
        dram=_dram_cycles(fabric, netlist),
        flow_hops=flow_hops,
    )


def _port_cycles(netlist: Netlist) -> LongArray:
    """Return the read-port and write-port cycles [2, num_units] of buffers, 0 for other units."""
    cycles = np.zeros((2, netlist.num_units), np.int64)
    for flow in netlist.flows:
        cycles[0, flow.source] += flow.tokens * flow.read_cycles
        cycles[1, list(flow.targets)] += flow.tokens
    cycles[:, [unit.kind != SiteKind.MEMORY for unit in netlist.units]] = 0
    return cycles


def _dram_cycles(fabric: Fabric, netlist: Netlist) -> float:
    """Return the cycles per sample in which the DRAM is busy with bursts."""
    bursts = 0
    for flow in netlist.flows:
        ends = (netlist.units[unit].kind for unit in (flow.source, *flow.targets))
        bursts += sum(kind == SiteKind.PORT for kind in ends) * -(-flow.tokens // fabric.dram.burst_vectors)
    return bursts * fabric.dram.burst_cycles / fabric.dram.channels
