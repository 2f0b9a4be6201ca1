"""The expert's cost model: predicted throughput = bound / the largest demand.

`placer.decision.routing.demand` says what the rules are; each demand is taken relative to the bound
(work of the slowest compute unit). The largest one is flat almost everywhere, so a search cannot
climb it. The annealer descends the p-norm of the same numbers instead: log(sum over resources of
(cycles / bound)^p) / p, which tends to log(max) from above as p grows, and falls when any resource
is relieved.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from placer.base import FloatArray, IntArray, LongArray
from placer.cost.cost import CostModel, ranking_model
from placer.decision import Decisions
from placer.decision.routing import Rules, Tables, estimate, require_routes, tables_of, usage_of
from placer.fabric import Fabric
from placer.netlist import Flows, Netlist, flows_of, full_bound

USUAL_SHARE = 0.93  # of the full bound that a short anneal reaches on sections of networks


class HeuristicCost:
    """The expert's rules as a cost model."""

    def __init__(self, fabric: Fabric, rules: Rules | None = None) -> None:
        self.fabric = fabric
        self.rules = rules or Rules()
        self._last: tuple[Netlist, Tables, Flows] | None = None  # a search asks for one netlist

    def score(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        """Return bound / largest estimate, in (0, 1]."""
        return 1.0 / self._estimates(netlist, decisions)[0]

    def potential(self, netlists: Sequence[Netlist]) -> FloatArray:
        """Return what good placements usually reach: a little less than the full bound allows."""
        return np.array([USUAL_SHARE * one.bound_cycles / full_bound(self.fabric, one).cycles for one in netlists])

    def energy(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        """Return what the annealer descends: log of the p-norm of all estimates / bound."""
        return np.log(self._estimates(netlist, decisions)[1]) / self.rules.exponent

    def _estimates(self, netlist: Netlist, decisions: Decisions) -> tuple[FloatArray, FloatArray]:
        """Return largest estimate and sum of powers, [num_decisions] each."""
        require_routes(self.fabric, netlist, decisions)
        if self._last is None or self._last[0] is not netlist:
            self._last = netlist, tables_of(self.fabric, netlist, self.rules), flows_of(netlist)
        _, tables, flows = self._last
        topology = self.fabric.topology
        largest, powers = _estimate_stack(
            tables, flows, topology.num_mesh_links, topology.num_sites, decisions.sites,
            decisions.route_start, decisions.links, decisions.parents,
        )  # fmt: skip
        return largest, powers


def energy_of(cost: CostModel, netlist: Netlist, decision: Decisions) -> float:
    """Return the energy of a stack of one, as the annealer sees it; lower is better."""
    return float(energies_of(cost, netlist, decision)[0])


def energies_of(cost: CostModel, netlist: Netlist, decisions: Decisions) -> FloatArray:
    """Return energies [num_decisions]; those of the heuristic differ where its scores do not."""
    cost = ranking_model(cost)
    if isinstance(cost, HeuristicCost):
        return cost.energy(netlist, decisions)
    return -np.log(cost.score(netlist, decisions))


@njit(cache=True)
def _estimate_stack(
    tables: Tables,
    flows: Flows,
    num_mesh_links: int,
    num_sites: int,
    sites: IntArray,
    route_start: LongArray,
    links: IntArray,
    parents: IntArray,
) -> tuple[FloatArray, FloatArray]:
    largest, powers = np.empty(len(sites)), np.empty(len(sites))
    ports = np.zeros((2, num_sites), np.int64)
    for d in range(len(sites)):
        usage = usage_of(flows, num_mesh_links, num_sites, sites[d], route_start[d], links, parents)
        largest[d], powers[d] = estimate(tables, flows, usage, sites[d], ports)
    return largest, powers
