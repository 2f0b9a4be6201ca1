"""Command: compile the hot loops of the placer once, so that the first run does not wait for it.

Everything that is compiled lands in the cache (placer/base/compile_cache.py). `make install` calls
this. The mappers are compiled when they are first used.
"""

from __future__ import annotations

import numpy as np

from placer.annealing import AnnealOptions, Start, anneal
from placer.cost import CostModel, HeuristicCost, SimulatorCost
from placer.decision import random_sites
from placer.decision.routing import RoutingMethod, link_load, reroute, route
from placer.fabric import load_fabric
from placer.netlist.lowering import draw_netlist
from placer.simulation import simulate


def warm_up() -> None:
    """Use every compiled part of the placer once, on a small case."""
    fabric = load_fabric("small")
    netlist = draw_netlist(fabric, "gemm", 12, seed=0, index=0)
    sites = random_sites(fabric, netlist, 1, seed=0)
    decisions = route(fabric, netlist, sites)
    route(fabric, netlist, sites, method=RoutingMethod.NEGOTIATED)
    reroute(fabric, netlist, decisions, sites[0], np.arange(1))
    link_load(fabric, netlist, decisions)
    simulate(fabric, netlist, decisions)
    is_allowed = np.ones((netlist.num_units, fabric.topology.num_sites), np.bool_)
    start = Start(sites[0], np.zeros(netlist.num_flows, np.int32), is_allowed)
    costs: tuple[CostModel, ...] = (HeuristicCost(fabric), SimulatorCost(fabric))
    for cost in costs:
        anneal(fabric, netlist, cost, start, AnnealOptions(max_moves=4), seed=0)


if __name__ == "__main__":
    warm_up()
