"""Blocks of today's networks, imported from PyTorch, are lowered and run to a steady state."""

from __future__ import annotations

import pytest
import torch

from placer.decision import check, random_sites
from placer.decision.routing import route
from placer.fabric import Fabric, load_fabric
from placer.graph import DataflowGraph
from placer.graph.importing import NetworkChoice, import_network
from placer.netlist.lowering import lower_sections
from placer.simulation import Status, simulate
from tests.placer.graph.importing.blocks import BLOCKS

TINY = ("columns=3", "rows=2")  # most blocks must be cut to fit


def imported(name: str) -> DataflowGraph:
    torch.manual_seed(1)
    block = BLOCKS[name]
    return import_network(NetworkChoice(block.make(), {}, block.shapes)).graph


def require_steady(fabric: Fabric, graph: DataflowGraph) -> int:
    """Lower a graph and simulate a random placement of each section; return how many there are."""
    sections = lower_sections(fabric, graph)
    for section in sections:
        netlist = section.netlist
        decision = route(fabric, netlist, random_sites(fabric, netlist, 1, seed=0))
        check(fabric, netlist, decision)
        measured = simulate(fabric, netlist, decision)[0]
        assert measured.status == Status.STEADY, netlist.name
        assert measured.cycles_per_sample >= netlist.bound_cycles * (1 - 1e-9), netlist.name
    work = sum(section.repeats * section.samples * section.macs for section in sections)
    assert work == sum(graph.macs(op) for op in graph.ops)
    return len(sections)


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_runs_on_small(name: str) -> None:
    require_steady(load_fabric("small"), imported(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_runs_in_sections(name: str) -> None:
    sections = require_steady(load_fabric("small", TINY), imported(name))
    assert sections > 1 or name == "separable"
