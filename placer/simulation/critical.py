"""Name the resource that sets the pace of a simulated decision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from placer.decision import Decisions
from placer.demand import demand_of
from placer.fabric import Fabric
from placer.netlist import Netlist

NEARLY_FULL = 0.9  # a resource that is needed for this share of the period explains it


class ResourceKind(StrEnum):
    """What can set the pace; says what `CriticalResource.resource_id` counts."""

    UNIT = "unit"  # compute units of the netlist
    LINK = "link"  # links of the topology
    FLOW = "flow"  # flows of the netlist
    READ_PORT = "read_port"  # memory sites
    WRITE_PORT = "write_port"  # memory sites
    DRAM = "dram"  # there is one: 0


@dataclass(frozen=True, slots=True)
class CriticalResource:
    """The resource that a decision needs most, and what that means for its period."""

    kind: ResourceKind
    resource_id: int
    sentence: str


def describe_critical(
    fabric: Fabric, netlist: Netlist, decision: Decisions, cycles_per_sample: float
) -> str:
    """The critical resource in words."""
    return find_critical(fabric, netlist, decision, cycles_per_sample).sentence


def find_critical(
    fabric: Fabric, netlist: Netlist, decision: Decisions, cycles_per_sample: float
) -> CriticalResource:
    """The resource with the largest demand, and whether it explains the period alone."""
    demand = demand_of(fabric, netlist, decision)
    unit, link, flow = (int(d.argmax()) for d in (demand.unit, demand.link, demand.flow))
    reads, writes = int(demand.read_port.argmax()), int(demand.write_port.argmax())
    candidates = [
        (
            demand.unit[unit],
            ResourceKind.UNIT,
            unit,
            f"compute unit {netlist.units[unit].name}: its own work",
        ),
        (
            demand.link[link],
            ResourceKind.LINK,
            link,
            f"link {link_name(fabric, link)}: shared by too much traffic",
        ),
        (
            demand.flow[flow],
            ResourceKind.FLOW,
            flow,
            f"flow {netlist.flows[flow].name}: round trip over {demand.flow_hops[flow]} hops "
            "is too long for its window",
        ),
        (
            demand.read_port[reads],
            ResourceKind.READ_PORT,
            reads,
            f"read port of {_buffers_on(netlist, decision, reads)}",
        ),
        (
            demand.write_port[writes],
            ResourceKind.WRITE_PORT,
            writes,
            f"write port of {_buffers_on(netlist, decision, writes)}",
        ),
        (demand.dram, ResourceKind.DRAM, 0, "DRAM bandwidth"),
    ]
    cycles, kind, resource_id, words = max(candidates, key=lambda candidate: candidate[0])
    return CriticalResource(kind, resource_id, _sentence(words, cycles / cycles_per_sample))


def _sentence(words: str, share: float) -> str:
    """What it means that a resource is needed for this share of the period."""
    if share >= NEARLY_FULL:
        return f"{words} ({share:.0%} of the period)"
    return (
        f"contention: no resource alone explains the period; "
        f"most needed is {words} ({share:.0%} of the period)"
    )


def link_name(fabric: Fabric, link: int) -> str:
    """Where a link leads, by (row, column)."""
    topology = fabric.topology
    if link >= topology.num_mesh_links:
        site = (link - topology.num_mesh_links) % topology.num_sites
        way = "from" if link < topology.eject_link(0) else "into"
        return f"{way} the unit at {_place(fabric, topology.site_switch[site])}"
    source, target = topology.link_source[link], topology.link_target[link]
    return f"{_place(fabric, source)} -> {_place(fabric, target)}"


def _place(fabric: Fabric, switch: int) -> str:
    row, column = divmod(int(switch), fabric.columns)
    return f"({row}, {column})"


def _buffers_on(netlist: Netlist, decision: Decisions, site: int) -> str:
    names = [u.name for u, s in zip(netlist.units, decision.sites[0], strict=True) if s == site]
    return ", ".join(names)
