"""Who waits for whom when a simulation has come to a standstill."""

from __future__ import annotations

import networkx

from placer.fabric import SiteKind
from placer.netlist import Netlist
from placer.simulation.layout import Layout


def describe_deadlock(netlist: Netlist, layout: Layout) -> str:
    """Name a cycle of waiting units from the cells of a simulation that ended in a deadlock."""
    graph = networkx.DiGraph(_waits(netlist, layout))
    try:
        cycle = [edge[0] for edge in networkx.find_cycle(graph)]
    except networkx.NetworkXNoCycle:
        return "deadlock: nothing moves, but no cycle of waiting units was found"
    names = [netlist.units[unit].name for unit in [*cycle, cycle[0]]]
    return "deadlock: " + " waits for ".join(names)


def _waits(netlist: Netlist, layout: Layout) -> list[tuple[int, int]]:
    """Pairs (unit, unit it waits for)."""
    at, cells = layout.at[0], layout.cells
    waits = []
    for sink in range(at["num_sinks"]):
        flow = int(cells[at["sink_flow"] + sink])
        target = int(cells[at["sink_unit"] + sink])
        source = netlist.flows[flow].source
        if _lacks_data(netlist, layout, sink, flow, target):
            waits.append((target, source))
        if cells[at["sink_credits"] + sink] == 0:
            waits.append((source, target))
    return waits


def _lacks_data(netlist: Netlist, layout: Layout, sink: int, flow: int, target: int) -> bool:
    at, cells = layout.at[0], layout.cells
    if cells[at["sink_arrived"] + sink] > 0:
        return False
    if netlist.units[target].kind == SiteKind.COMPUTE:
        return bool(cells[at["sink_rest"] + sink] < netlist.flows[flow].tokens)
    return True
