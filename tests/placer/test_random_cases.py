"""Laws that hold for every decision, on random cases, and the legality of these cases."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import IntArray
from placer.decision import Decisions
from placer.fabric import Direction, Fabric, SiteKind
from placer.netlist import Netlist
from placer.simulation import Status
from placer.simulation.reference import simulate_reference
from placer.simulation.reference.engine import ReferenceResult
from tests.placer.random_cases import dimension_ordered, random_case, random_fabric, random_netlist, random_placement

seeds = st.integers(0, 2**32 - 1)


def simulate_briefly(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> ReferenceResult:
    return simulate_reference(
        fabric, netlist, decisions, warmup_samples=1, window_samples=1, tolerance=0.05, max_cycles=800, max_samples=8
    )


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(seeds)
def test_every_cycle_and_vector_is_accounted_for(seed: int) -> None:
    fabric, netlist, decisions = random_case(seed)
    result = simulate_briefly(fabric, netlist, decisions)
    assert all(sum(times) == result.cycles_simulated for times in result.unit_time)
    for unit, finish in zip(netlist.units, result.finish, strict=True):
        least = unit.cycles if unit.kind == SiteKind.COMPUTE else 1
        assert all(b - a >= least for a, b in pairwise(finish))
    vectors = np.zeros(fabric.topology.num_links, int)
    for flow_id, one_flow in enumerate(netlist.flows):
        np.add.at(vectors, decisions.route(flow_id)[0], result.samples * one_flow.tokens)
    # Vectors of samples that are not complete come on top.
    assert (np.array(result.link_vectors) >= vectors).all()


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(seeds)
def test_safe_cases_do_not_deadlock(seed: int) -> None:
    case = random_case(seed, deadlock_free=True)
    result = simulate_briefly(*case)
    assert result.status != Status.DEADLOCK
    assert not result.cycles_per_sample < case[1].bound_cycles


def mirrored(fabric: Fabric, site: int) -> int:
    """The site on the other side of the middle column."""
    num_tiles, num_ports = fabric.topology.num_switches, fabric.num_ports_per_side
    if site >= num_tiles:
        return num_tiles + (site - num_tiles + num_ports) % (2 * num_ports)
    row, column = divmod(site, fabric.columns)
    return row * fabric.columns + fabric.columns - 1 - column


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(seeds)
def test_mirrored_decision_behaves_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # With an odd number of columns the mirror keeps compute and memory sites apart.
    fabric = replace(random_fabric(rng), columns=int(rng.choice([3, 5])))
    netlist = random_netlist(rng, fabric)
    sites = random_placement(rng, fabric, netlist)
    yx = [bool(rng.integers(2)) for _ in netlist.flows]
    channels = [fabric.link.channels // 2 * is_yx for is_yx in yx]
    mirror_sites = [mirrored(fabric, site) for site in sites]
    result, mirror_result = (
        simulate_briefly(fabric, netlist, dimension_ordered(fabric, netlist, placed, yx, channels))
        for placed in (sites, mirror_sites)
    )
    assert mirror_result.finish == result.finish
    assert mirror_result.unit_time == result.unit_time
    assert sorted(mirror_result.link_vectors) == sorted(result.link_vectors)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_random_decisions_are_legal(seed: int) -> None:
    fabric, netlist, decisions = random_case(seed)
    topology = fabric.topology
    sites = decisions.sites[0]
    assert (topology.site_kind[sites] == [unit.kind for unit in netlist.units]).all()
    limits = np.array([1, fabric.memory.max_buffers, fabric.dram.max_streams])
    shared = np.bincount(sites, minlength=topology.num_sites)
    assert (shared <= limits[topology.site_kind]).all()
    for flow_id, one_flow in enumerate(netlist.flows):
        links, parents = decisions.route(flow_id)
        assert links[0] == topology.inject_link(sites[one_flow.source])
        assert (topology.link_source[links[1:]] == topology.link_target[links[parents[1:]]]).all()
        leaves = set(links.tolist()) - set(links[parents[1:]].tolist())
        assert leaves == {topology.eject_link(sites[target]) for target in one_flow.targets}
        is_yx = decisions.channels[0, flow_id] >= fabric.link.channels // 2
        assert not _forbidden_turns(topology.link_direction[links], parents, is_yx)


def _forbidden_turns(headings: IntArray, parents: IntArray, is_yx: bool) -> bool:
    """Whether a route leaves the turns that its channel class allows."""
    vertical, west = (Direction.NORTH, Direction.SOUTH), (Direction.WEST,)
    before, after = (west, vertical) if is_yx else (vertical, west)
    return bool((np.isin(headings[parents[1:]], before) & np.isin(headings[1:], after)).any())
