"""The expert's cost model: how long is each resource needed per sample, taken alone?

Rules, all in cycles per sample, each relative to the bound (work of the slowest compute unit):

- compute: work of a unit (`Unit.cycles`: op-dependent rate, pipeline and row barriers included);
- link: vectors of all flows over a link / its width;
- flow: tokens * round trip / window, since a flow has at most `window` vectors on their way and
  each takes a round trip until its credit is back (docs/simulator.md);
- port: read cycles, and write cycles, of all buffers on a memory site (bank conflicts included);
- DRAM: bursts * burst cycles / channels.

A pipeline runs at the pace of its slowest resource: predicted throughput = bound / max(all).

The maximum is flat almost everywhere, so a search cannot climb it. The annealer descends the
p-norm of the same numbers instead: log(sum over resources of (cycles / bound)^p) / p, which tends
to log(max) from above as p grows, and falls when any resource is relieved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.decision import Decisions
from placer.demand import round_trip_cycles, window_vectors
from placer.errors import InputError
from placer.fabric import Fabric, SiteKind
from placer.hot import hot
from placer.netlist import Netlist
from placer.routing.arrays import Flows, IntArray, LongArray, flows_of, require_routes

FloatArray = NDArray[np.float64]

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
    port_read: LongArray  # [num_units] read-port cycles of a buffer
    port_write: LongArray  # [num_units]
    unit_kind: IntArray  # [num_units]
    constant_max: float  # largest estimate that no placement changes: compute and DRAM
    constant_sum: float  # of their powers
    doublings: int


def tables_of(fabric: Fabric, netlist: Netlist, rules: Rules) -> Tables:
    """The rules as numbers."""
    topology, bound = fabric.topology, netlist.bound_cycles
    trips = np.empty((len(SiteKind), topology.rows * topology.columns + 1))
    for kind in SiteKind:
        for hops in range(trips.shape[1]):
            cycles = round_trip_cycles(fabric, hops) / window_vectors(fabric, kind)
            trips[kind, hops] = rules.flow * cycles / bound
    kinds = np.array([unit.kind for unit in netlist.units], np.int32)
    read, write = np.zeros(netlist.num_units, np.int64), np.zeros(netlist.num_units, np.int64)
    bursts = 0
    for flow in netlist.flows:
        read[flow.source] += flow.tokens * flow.read_cycles
        write[list(flow.targets)] += flow.tokens
        at_ports = int(np.count_nonzero(kinds[[flow.source, *flow.targets]] == SiteKind.PORT))
        bursts += at_ports * -(-flow.tokens // fabric.dram.burst_vectors)
    constant = [u.cycles / bound for u in netlist.units if u.kind == SiteKind.COMPUTE]
    constant.append(bursts * fabric.dram.burst_cycles / fabric.dram.channels / bound)
    is_memory = kinds == SiteKind.MEMORY
    return Tables(
        per_link=np.asarray(rules.link / (topology.link_width * float(bound)), np.float64),
        per_trip=trips,
        per_port=rules.port / bound,
        port_read=np.where(is_memory, read, 0),
        port_write=np.where(is_memory, write, 0),
        unit_kind=kinds,
        constant_max=max(constant),
        constant_sum=float(np.sum(np.array(constant) ** rules.exponent)),
        doublings=rules.doublings,
    )


class HeuristicCost:
    """The expert's rules as a cost model."""

    def __init__(self, fabric: Fabric, rules: Rules | None = None) -> None:
        self.fabric = fabric
        self.rules = rules or Rules()
        self._last: tuple[Netlist, Tables, Flows] | None = None  # a search asks for one netlist

    def score(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        """bound / largest estimate, in (0, 1]."""
        return 1.0 / self._estimates(netlist, decisions)[0]

    def energy(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        """What the annealer descends: log of the p-norm of all estimates / bound."""
        return np.log(self._estimates(netlist, decisions)[1]) / self.rules.exponent

    def _estimates(self, netlist: Netlist, decisions: Decisions) -> tuple[FloatArray, FloatArray]:
        """Largest estimate and sum of powers, [num_decisions] each."""
        require_routes(self.fabric, netlist, decisions)
        if self._last is None or self._last[0] is not netlist:
            self._last = netlist, tables_of(self.fabric, netlist, self.rules), flows_of(netlist)
        _, tables, flows = self._last
        topology = self.fabric.topology
        largest, powers = _estimate_stack(
            tables, flows.tokens, flows.target_start,
            flows.targets, topology.num_mesh_links, topology.num_sites, decisions.sites,
            decisions.route_start, decisions.links, decisions.parents,
        )  # fmt: skip
        return largest, powers


@hot
def power(value: float, doublings: int) -> float:
    """value ^ (2 ^ doublings)"""
    for _ in range(doublings):
        value *= value
    return value


@njit(cache=True)
def _estimate_stack(
    tables: Tables,
    tokens: LongArray,
    target_start: LongArray,
    targets: IntArray,
    num_mesh_links: int,
    num_sites: int,
    sites: IntArray,
    route_start: LongArray,
    links: IntArray,
    parents: IntArray,
) -> tuple[FloatArray, FloatArray]:
    num_decisions, num_flows = len(sites), len(tokens)
    largest = np.full(num_decisions, tables.constant_max)
    powers = np.full(num_decisions, tables.constant_sum)
    site_hops = np.zeros(num_sites, np.int64)
    node_hops = np.zeros(len(links), np.int64)
    first_eject = num_mesh_links + num_sites
    for d in range(num_decisions):
        load = np.zeros(first_eject + num_sites, np.int64)
        for flow in range(num_flows):
            first = route_start[d, flow]
            for node in range(first, route_start[d, flow + 1]):
                link = links[node]
                load[link] += tokens[flow]
                before = 0 if node == first else node_hops[first + parents[node]]
                node_hops[node] = before + (link < num_mesh_links)
                if link >= first_eject:
                    site_hops[link - first_eject] = node_hops[node]
            for end in range(target_start[flow], target_start[flow + 1]):
                hops = site_hops[sites[d, targets[end]]]
                trip = tables.per_trip[tables.unit_kind[targets[end]], hops] * tokens[flow]
                largest[d] = max(largest[d], trip)
                powers[d] += power(trip, tables.doublings)
        for link in range(len(load)):
            value = load[link] * tables.per_link[link]
            largest[d] = max(largest[d], value)
            powers[d] += power(value, tables.doublings)
        ports = np.zeros((2, num_sites), np.int64)
        for unit in range(len(tables.unit_kind)):
            ports[0, sites[d, unit]] += tables.port_read[unit]
            ports[1, sites[d, unit]] += tables.port_write[unit]
        for cycles in ports.flat:
            value = cycles * tables.per_port
            largest[d] = max(largest[d], value)
            powers[d] += power(value, tables.doublings)
    return largest, powers
