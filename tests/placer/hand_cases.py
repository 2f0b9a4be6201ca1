"""Units, flows and decisions for netlists that are small enough to be worked out on paper."""

from __future__ import annotations

from collections.abc import Sequence

from placer.decision import Decisions
from placer.fabric import Fabric, SiteKind
from placer.netlist import Flow, Netlist, Unit
from tests.placer.random_cases import dimension_ordered


def compute(firings: int, *, cycles: int = 0, releases: int = 0, depth: int = 6, name: str = "compute") -> Unit:
    """A compute unit; one firing per cycle and streaming results if not told otherwise."""
    return Unit(
        name=name,
        kind=SiteKind.COMPUTE,
        op="op",
        stage=0,
        firings=firings,
        cycles=cycles or firings,
        releases=releases or firings,
        depth_cycles=depth,
    )


def memory(slots: int = 2, *, name: str = "memory") -> Unit:
    return Unit(name, SiteKind.MEMORY, "buffer", 0, slots=slots)


def port(*, name: str = "port") -> Unit:
    return Unit(name, SiteKind.PORT, "load", 0)


def flow(source: int, *targets: int, tokens: int, read_cycles: int = 1) -> Flow:
    return Flow(f"{source}>{','.join(map(str, targets))}", source, targets, tokens, read_cycles)


def placed(
    fabric: Fabric,
    units: Sequence[Unit],
    flows: Sequence[Flow],
    sites: Sequence[int],
    channels: Sequence[int] | None = None,
) -> tuple[Fabric, Netlist, Decisions]:
    """Fabric, netlist and one decision with XY routes, all in channel 0 if not told otherwise."""
    netlist = Netlist("hand", "hand", fabric.name, tuple(units), tuple(flows))
    channels = channels or [0] * len(flows)
    decisions = dimension_ordered(fabric, netlist, sites, [False] * len(flows), channels)
    return fabric, netlist, decisions
