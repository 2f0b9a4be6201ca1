"""Command: compile inference once, so that the first real run does not wait for it.

As `placer.warm_up`; `make install` calls both.
"""

from __future__ import annotations

from dataclasses import asdict

from costmodel.learned import LearnedCost
from costmodel.model import Model
from costmodel.networks import build_network
from costmodel.networks.flow import FlowConfig
from costmodel.wafer.cost import LearnedMappingCost
from costmodel.wafer.dataset import WaferHardware
from costmodel.wafer.features import WAFER_FEATURES
from placer.annealing import AnnealOptions, anneal
from placer.annealing.constraints import allowed_sites
from placer.annealing.starts import random_start
from placer.config import load_fabric
from placer.kernels.engines import map_kernels
from placer.kernels.generate import generate
from placer.kernels.problem import Problem
from placer.kernels.search import Search
from placer.lowering import draw_netlist


def warm_up() -> None:
    """Score and search with small networks, on small cases."""
    fabric, config = load_fabric("small"), FlowConfig(width=4, lane_width=4, rounds=1)
    netlist = draw_netlist(fabric, "gemm", 12, seed=0, index=0)
    model = Model(config, build_network(config, seed=0), 1.0, {"fabric": asdict(fabric)})
    cost = LearnedCost(fabric, model)
    start = random_start(fabric, netlist, allowed_sites(fabric, netlist, None), 0)
    result = anneal(fabric, netlist, cost, start, AnnealOptions(max_moves=4), seed=0)
    cost.score(netlist, result.decision)
    cost.session(netlist, start.sites, start.flow_class).score(start.sites, start.flow_class)
    network = build_network(config, 0, WAFER_FEATURES)
    mapping_cost = LearnedMappingCost(
        Model(config, network, 1.0, {"fabric": asdict(WaferHardware())})
    )
    problem = Problem(generate("tiny"))
    map_kernels(Search(problem, 0.5, cost=mapping_cost), "auto")


if __name__ == "__main__":
    warm_up()
