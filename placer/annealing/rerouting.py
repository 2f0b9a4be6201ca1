"""Routes of the final placement: those of the search, or better ones around busy links."""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from placer.check import check
from placer.cost import CostModel, ranking_model
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.heuristic import HeuristicCost
from placer.netlist import Netlist
from placer.routing import RoutingMethod, route


class FinalRouting(Enum):
    """How the flows of the final placement travel."""

    DIMENSION_ORDERED = "dimension_ordered"  # as in the search: XY or YX per flow
    NEGOTIATED = "negotiated"  # around busy links, if the cost model scores that better


def energy_of(cost: CostModel, netlist: Netlist, decision: Decisions) -> float:
    """Energy of a stack of one, as the annealer sees it; lower is better."""
    return float(energies_of(cost, netlist, decision)[0])


def energies_of(cost: CostModel, netlist: Netlist, decisions: Decisions) -> NDArray[np.float64]:
    """Energies [num_decisions]. Scores may be equal where these are not: the heuristic's are."""
    cost = ranking_model(cost)
    if isinstance(cost, HeuristicCost):
        return cost.energy(netlist, decisions)
    return -np.log(cost.score(netlist, decisions))


def reroute(
    fabric: Fabric, netlist: Netlist, cost: CostModel, decision: Decisions
) -> tuple[Decisions, FinalRouting]:
    """Negotiated routes for the same placement if their energy is lower, else the decision."""
    rival = route(fabric, netlist, decision.sites, method=RoutingMethod.NEGOTIATED)
    check(fabric, netlist, rival)
    if energy_of(cost, netlist, rival) < energy_of(cost, netlist, decision):
        return rival, FinalRouting.NEGOTIATED
    return decision, FinalRouting.DIMENSION_ORDERED
