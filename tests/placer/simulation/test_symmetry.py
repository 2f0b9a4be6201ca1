"""Mirrored, turned and transposed decisions behave exactly alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import IntArray
from placer.decision import Decisions, check
from placer.decision.routing import RoutingMethod
from placer.fabric import Fabric, SiteKind, Topology
from placer.fabric.fabric import ComputeSpec, LinkSpec
from placer.netlist import Netlist
from placer.simulation import Limits, simulate_stack
from tests.placer.hand_cases import compute, flow, memory, placed
from tests.placer.lowered_cases import SMALL, netlist_of, random_decisions
from tests.placer.random_cases import random_decision, random_fabric, random_netlist

Place = tuple[int, int]  # row, column


def moved(topology: Topology, decisions: Decisions, move: Callable[[Place], Place]) -> Decisions:
    """A decision with all sites and links moved by a symmetry of the fabric."""
    switch_map = _switch_map(topology, move)
    site_map = _site_map(topology, switch_map)
    link_map = _link_map(topology, switch_map, site_map)
    return replace(decisions, sites=site_map[decisions.sites], links=link_map[decisions.links])


def _switch_map(topology: Topology, move: Callable[[Place], Place]) -> IntArray:
    places = [divmod(switch, topology.columns) for switch in range(topology.num_switches)]
    goals = [row * topology.columns + column for row, column in map(move, places)]
    return np.array(goals, np.int32)


def _site_map(topology: Topology, switch_map: IntArray) -> IntArray:
    """A symmetry takes a site to the one of its kind on the new switch, -1 if there is none."""
    keys = list(zip(topology.site_kind.tolist(), topology.site_switch.tolist(), strict=True))
    goals = [(kind, int(switch_map[switch])) for kind, switch in keys]
    return np.array([keys.index(goal) if goal in keys else -1 for goal in goals], np.int32)


def _link_map(topology: Topology, switch_map: IntArray, site_map: IntArray) -> IntArray:
    num_mesh = topology.num_mesh_links
    sources, targets = topology.link_source[:num_mesh], topology.link_target[:num_mesh]
    ends = list(zip(sources.tolist(), targets.tolist(), strict=True))
    mesh = [ends.index((switch_map[a], switch_map[b])) for a, b in ends]
    inject = [topology.inject_link(int(site)) for site in site_map]
    eject = [topology.eject_link(int(site)) for site in site_map]
    return np.array([*mesh, *inject, *eject], np.int32)


def assert_behave_alike(fabric: Fabric, netlist: Netlist, one: Decisions, two: Decisions) -> None:
    check(fabric, netlist, two)
    limits = Limits(max_cycles=50_000)
    outcomes = [simulate_stack(fabric, netlist, decisions, limits) for decisions in (one, two)]
    for name in outcomes[0]._fields:
        values, others = (getattr(outcome, name)[0] for outcome in outcomes)
        if name == "link_vectors":
            values, others = np.sort(values), np.sort(others)
        np.testing.assert_array_equal(values, others, err_msg=name)


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_mirrored_and_turned_decisions_behave_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # With odd numbers of rows and columns a mirror image has the same kinds of tiles.
    fabric = replace(random_fabric(rng), rows=3, columns=5, ports_per_side=3)
    netlist = random_netlist(rng, fabric)
    decisions = random_decision(rng, fabric, netlist)
    last_row, last_column = fabric.rows - 1, fabric.columns - 1
    moves: list[Callable[[Place], Place]] = [
        lambda place: (place[0], last_column - place[1]),
        lambda place: (last_row - place[0], place[1]),
        lambda place: (last_row - place[0], last_column - place[1]),
    ]
    for move in moves:
        other = moved(fabric.topology, decisions, move)
        assert_behave_alike(fabric, netlist, decisions, other)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "training"), [("gemm", True), ("mha", False)])
def test_workload_turned_by_half_behaves_alike(family: str, training: bool) -> None:
    netlist = netlist_of(family, training)
    decisions = random_decisions(netlist, 1, seed=0, method=RoutingMethod.MIXED)
    turned = moved(SMALL.topology, decisions, lambda place: (7 - place[0], 7 - place[1]))
    assert not np.array_equal(turned.sites, decisions.sites)
    assert_behave_alike(SMALL, netlist, decisions, turned)


def test_transposed_decision_behaves_alike() -> None:
    # Rows become columns: XY routes become YX routes, in the other class of channels. Ports are
    # only in the west and the east, so there are none in this netlist.
    rng = np.random.default_rng(0)
    fabric = Fabric(name="square", columns=6, rows=6, link=LinkSpec(channels=4), compute=ComputeSpec(window_vectors=8))
    kind_of = fabric.topology.site_kind
    tiles = [rng.permutation(np.flatnonzero(kind_of == kind)).tolist() for kind in SiteKind]
    units = [memory() if k % 2 else compute(30, cycles=45) for k in range(36)]
    flows = [flow(k, k + 1, tokens=20 + k % 10) for k in range(35)]
    sites = [tiles[unit.kind].pop() for unit in units]
    _, netlist, decisions = placed(fabric, units, flows, sites, [k % 2 for k in range(35)])
    other = moved(fabric.topology, decisions, lambda place: (place[1], place[0]))
    other = replace(other, channels=decisions.channels + fabric.link.channels // 2)
    assert_behave_alike(fabric, netlist, decisions, other)
