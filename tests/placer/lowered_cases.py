"""Lowered workloads of all families, small enough to simulate many of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from placer.decision import Decisions, random_sites
from placer.decision.routing import RoutingMethod, route
from placer.fabric import load_fabric
from placer.graph import DataflowGraph
from placer.graph.workloads import FAMILIES, build, default_spec, sample_spec
from placer.netlist import Netlist
from placer.netlist.lowering import lower, macs_for_cycles, plan_section

SMALL = load_fabric("small")
SAMPLE_CYCLES = 300  # about the bound of the netlists: short samples keep the tests fast
TRAINING_WORK = 3  # a training step has about three times the work of the forward pass

# Family and whether the graph has the backward pass too.
KINDS = [(family, training) for family in FAMILIES for training in (False, True)]


@cache
def graph_of(family: str, training: bool, seed: int | None = None) -> DataflowGraph:
    """The typical graph of a family, or with a seed a random one."""
    budget = macs_for_cycles(SMALL, SAMPLE_CYCLES) // (TRAINING_WORK if training else 1)
    if seed is None:
        spec = default_spec(family, budget)
    else:
        spec = sample_spec(family, budget, np.random.default_rng(seed))
    return build(replace(spec, training=training))


@cache
def netlist_of(family: str, training: bool, seed: int | None = None) -> Netlist:
    graph = graph_of(family, training, seed)
    return lower(SMALL, graph, plan_section(SMALL, graph))


def random_decisions(netlist: Netlist, num: int, seed: int, method: RoutingMethod = RoutingMethod.XY) -> Decisions:
    """`num` random placements of a netlist on the small fabric, routed."""
    return route(SMALL, netlist, random_sites(SMALL, netlist, num, seed), method=method, seed=seed)
