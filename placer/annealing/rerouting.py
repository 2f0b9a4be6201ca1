"""Routes of the final placement: those of the search, or better ones around busy links."""

from __future__ import annotations

from enum import Enum

from placer.cost import CostModel, energy_of
from placer.decision import Decisions, check
from placer.decision.routing import RoutingMethod, route
from placer.fabric import Fabric
from placer.netlist import Netlist


class FinalRouting(Enum):
    """How the flows of the final placement travel."""

    DIMENSION_ORDERED = "dimension_ordered"  # as in the search: XY or YX per flow
    NEGOTIATED = "negotiated"  # around busy links, if the cost model scores that better


def reroute(fabric: Fabric, netlist: Netlist, cost: CostModel, decision: Decisions) -> tuple[Decisions, FinalRouting]:
    """Return the placement with negotiated routes if their energy is lower, else as it is."""
    rival = route(fabric, netlist, decision.sites, method=RoutingMethod.NEGOTIATED)
    check(fabric, netlist, rival)
    if energy_of(cost, netlist, rival) < energy_of(cost, netlist, decision):
        return rival, FinalRouting.NEGOTIATED
    return decision, FinalRouting.DIMENSION_ORDERED
