"""The queues of a netlist: where they are, and how many vectors they hold."""

from __future__ import annotations

from placer.fabric import Fabric, SiteKind
from placer.netlist import Flow, Netlist


def sinks_of(netlist: Netlist) -> list[tuple[int, int]]:
    """Return pairs (flow, target unit), sorted by flow."""
    return [(f, target) for f, flow in enumerate(netlist.flows) for target in flow.targets]


def output_capacity(fabric: Fabric, netlist: Netlist, flow: Flow) -> int:
    """Return the vectors that an output queue holds (docs/simulator.md, "Queues of a flow")."""
    source = netlist.units[flow.source]
    if source.kind == SiteKind.COMPUTE:
        release = -(-flow.tokens // source.releases)
        in_pipeline = release * -(-source.depth_cycles * source.releases // source.cycles)
        return max(fabric.compute.output_vectors, 2 * release) + in_pipeline
    if source.kind == SiteKind.MEMORY:
        return fabric.memory.output_vectors
    return fabric.dram.prefetch_vectors
