"""Name the resource that sets the pace of a simulated decision, in words."""

from __future__ import annotations

from placer.decision import Decisions
from placer.demand import demand_of
from placer.fabric import Fabric
from placer.netlist import Netlist

NEARLY_FULL = 0.9  # a resource that is needed for this share of the period explains it


def describe_critical(
    fabric: Fabric, netlist: Netlist, decision: Decisions, cycles_per_sample: float
) -> str:
    """The resource with the largest demand, and whether it explains the period alone."""
    demand = demand_of(fabric, netlist, decision)
    unit, link, flow = (int(d.argmax()) for d in (demand.unit, demand.link, demand.flow))
    reads, writes = int(demand.read_port.argmax()), int(demand.write_port.argmax())
    candidates = [
        (demand.unit[unit], f"compute unit {netlist.units[unit].name}: its own work"),
        (demand.link[link], f"link {link_name(fabric, link)}: shared by too much traffic"),
        (
            demand.flow[flow],
            f"flow {netlist.flows[flow].name}: round trip over {demand.flow_hops[flow]} hops "
            "is too long for its window",
        ),
        (
            demand.read_port[reads],
            f"read port of {_buffers_on(netlist, decision, reads)}",
        ),
        (
            demand.write_port[writes],
            f"write port of {_buffers_on(netlist, decision, writes)}",
        ),
        (demand.dram, "DRAM bandwidth"),
    ]
    cycles, words = max(candidates, key=lambda candidate: candidate[0])
    share = cycles / cycles_per_sample
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
