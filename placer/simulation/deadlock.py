"""Who waits for whom when a simulation has come to a standstill."""

from __future__ import annotations

import networkx

from placer.fabric import SiteKind
from placer.netlist import Netlist
from placer.simulation import records as at
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
    cells, first = layout.cells, int(layout.cells[at.SINKS])
    pairs = [(f, target) for f, flow in enumerate(netlist.flows) for target in flow.targets]
    waits = []
    for number, (flow, target) in enumerate(pairs):
        sink = first + number * at.SINK_SIZE
        source = netlist.flows[flow].source
        if _lacks_data(netlist, layout, sink, target):
            waits.append((target, source))
        if cells[sink + at.SINK_CREDITS] == 0:
            waits.append((source, target))
    return waits


def _lacks_data(netlist: Netlist, layout: Layout, sink: int, target: int) -> bool:
    cells = layout.cells
    if cells[sink + at.SINK_ARRIVED] > 0:
        return False
    if netlist.units[target].kind == SiteKind.COMPUTE:
        return bool(cells[sink + at.SINK_REST] < cells[sink + at.SINK_TOKENS])
    return True
