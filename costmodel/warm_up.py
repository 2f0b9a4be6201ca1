"""Command: compile the inference of the learned model once, so that no search waits for it.

As `placer.warm_up`; `make install` runs both at the same time.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from costmodel.inference import LearnedCost
from costmodel.model import Model
from costmodel.networks import FlowConfig, FlowNetwork, build_network
from placer.annealing import AnnealOptions, anneal, random_start
from placer.decision import allowed_sites
from placer.fabric import load_fabric
from placer.netlist.lowering import draw_netlist


def warm_up() -> None:
    """Score and search with a small network, on a small case."""
    fabric, config = load_fabric("small"), FlowConfig(width=4, lane_width=4, rounds=1)
    netlist = draw_netlist(fabric, "gemm", 12, seed=0, index=0)
    network = build_network(config, seed=0)
    assert isinstance(network, FlowNetwork)
    model = Model(config, network, 1.0, {"fabric": asdict(fabric)})
    cost = LearnedCost(fabric, model)
    taught = LearnedCost(fabric, replace(model, student=network))
    start = random_start(fabric, netlist, allowed_sites(fabric, netlist, None), 0)
    options = AnnealOptions(max_moves=4)
    result = anneal(fabric, netlist, cost, start, options, seed=0)
    anneal(fabric, netlist, taught, start, options, seed=0)
    cost.score(netlist, result.decision)
    cost.session(netlist, start.sites, start.flow_class).score(start.sites, start.flow_class)


if __name__ == "__main__":
    warm_up()
