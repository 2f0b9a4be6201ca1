"""Why a decision is not faster: the resource that sets its pace, or who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import networkx
import numpy as np

from placer.decision import Decisions
from placer.decision.routing import demand_of
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist
from placer.simulation import records as at
from placer.simulation.machine import Machine

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


def find_critical(fabric: Fabric, netlist: Netlist, decision: Decisions, cycles_per_sample: float) -> CriticalResource:
    """Name the resource with the largest demand, and say whether it explains the period alone."""
    demand = demand_of(fabric, netlist, decision)
    cycles = {
        ResourceKind.UNIT: demand.unit,
        ResourceKind.LINK: demand.link,
        ResourceKind.FLOW: demand.flow,
        ResourceKind.READ_PORT: demand.read_port,
        ResourceKind.WRITE_PORT: demand.write_port,
        ResourceKind.DRAM: np.array([demand.dram]),
    }
    kind = max(cycles, key=lambda kind: float(cycles[kind].max()))
    number = int(cycles[kind].argmax())
    match kind:
        case ResourceKind.UNIT:
            words = f"compute unit {netlist.units[number].name}: its own work"
        case ResourceKind.LINK:
            words = f"link {link_name(fabric, number)}: shared by too much traffic"
        case ResourceKind.FLOW:
            words = (
                f"flow {netlist.flows[number].name}: round trip over {demand.flow_hops[number]} "
                "hops is too long for its window"
            )
        case ResourceKind.DRAM:
            words = "DRAM bandwidth"
        case _:
            on_site = decision.sites[0] == number
            names = [netlist.units[unit].name for unit in np.flatnonzero(on_site)]
            words = f"{kind.replace('_', ' ')} of {', '.join(names)}"
    share = float(cycles[kind][number]) / cycles_per_sample
    return CriticalResource(kind, number, _sentence(words, share))


def _sentence(words: str, share: float) -> str:
    """Say what it means that a resource is needed for this share of the period."""
    if share >= NEARLY_FULL:
        return f"{words} ({share:.0%} of the period)"
    return f"contention: no resource alone explains the period; most needed is {words} ({share:.0%} of the period)"


def link_name(fabric: Fabric, link: int) -> str:
    """Say where a link leads, by (row, column)."""
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


def describe_deadlock(netlist: Netlist, machine: Machine) -> str:
    """Name a cycle of waiting units from the cells of a simulation that ended in a deadlock."""
    graph = networkx.DiGraph(_waits(netlist, machine))
    try:
        cycle = [edge[0] for edge in networkx.find_cycle(graph)]
    except networkx.NetworkXNoCycle:
        return "deadlock: nothing moves, but no cycle of waiting units was found"
    names = [netlist.units[unit].name for unit in [*cycle, cycle[0]]]
    return "deadlock: " + " waits for ".join(names)


def _waits(netlist: Netlist, machine: Machine) -> list[tuple[int, int]]:
    """Return pairs (unit, unit it waits for)."""
    cells, first = machine.cells, int(machine.cells[at.SINKS])
    pairs = [(f, target) for f, flow in enumerate(netlist.flows) for target in flow.targets]
    waits = []
    for number, (flow, target) in enumerate(pairs):
        sink = first + number * at.SINK_SIZE
        source = netlist.flows[flow].source
        if _lacks_data(netlist, machine, sink, target):
            waits.append((target, source))
        if cells[sink + at.SINK_CREDITS] == 0:
            waits.append((source, target))
    return waits


def _lacks_data(netlist: Netlist, machine: Machine, sink: int, target: int) -> bool:
    cells = machine.cells
    if cells[sink + at.SINK_ARRIVED] > 0:
        return False
    if netlist.units[target].kind == SiteKind.COMPUTE:
        return bool(cells[sink + at.SINK_REST] < cells[sink + at.SINK_TOKENS])
    return True
