"""Command: compile the hot loops once, so that the first real run does not wait for it.

Everything that is compiled lands in the cache (placer/compile_cache.py). `make install` calls this.
"""

from __future__ import annotations

import numpy as np

from placer.annealing import AnnealOptions, Start, anneal
from placer.config import load_fabric
from placer.cost import CostModel, SimulatorCost
from placer.heuristic import HeuristicCost
from placer.kernels.warm_up import warm_up as warm_up_kernels
from placer.lowering import draw_netlist
from placer.placement import random_sites
from placer.routing import RoutingMethod, link_load, reroute, route
from placer.simulation import simulate
from placer.stencil.mapper import warm_up as warm_up_stencil
from placer.streaming.annealing import anneal as anneal_instructions
from placer.streaming.construct import list_schedule
from placer.streaming.device import Device
from placer.streaming.evolution import evolve
from placer.streaming.mapping import Budget
from placer.streaming.problem import make_problem
from placer.streaming.programs import softmax_row
from placer.streaming.rl.environment import BatchEnv
from placer.streaming.slots import anneal_slots


def warm_up() -> None:
    """Use every compiled part once, on a small case."""
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
    warm_up_stencil()
    _warm_up_streaming()
    warm_up_kernels()


def _warm_up_streaming() -> None:
    problem = make_problem(softmax_row(), Device())
    for mapper in (list_schedule, anneal_instructions, evolve, anneal_slots):
        mapper(problem, Budget(60.0, 1), 0)
    env = BatchEnv([problem], np.zeros(2, np.int64))
    env.step(env.reset().mask.argmax(axis=1))


if __name__ == "__main__":
    warm_up()
