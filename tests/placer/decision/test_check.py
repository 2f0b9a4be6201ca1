"""The checker refuses every kind of illegal decision and says what is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from placer.base import InputError
from placer.decision import Decisions, check, random_sites
from placer.decision.check import problems
from placer.decision.routing import RoutingMethod, route
from placer.fabric import Direction, DramSpec, Fabric, MemorySpec, SiteKind
from placer.fabric.fabric import LinkSpec
from placer.netlist import Netlist
from tests.placer.decision.test_routing import COMPUTE, MEMORY, PORT, netlist_of, problems_to_route, unit

FABRIC = Fabric("tiny", 4, 4, link=LinkSpec(channels=4), memory=MemorySpec(capacity_bytes=2500, max_buffers=3))


def decision_of(sites: list[int], routes: list[list[int]], parents: list[list[int]]) -> Decisions:
    """One decision from explicit trees, all on channel 0."""
    return Decisions(
        sites=np.array([sites], np.int32),
        channels=np.zeros((1, len(routes)), np.int32),
        route_start=np.cumsum([0] + [len(links) for links in routes])[None],
        links=np.array([link for links in routes for link in links], np.int32),
        parents=np.array([parent for nodes in parents for parent in nodes], np.int32),
    )


def walk(start: int, headings: str, end: int) -> list[int]:
    """Links of a way from site to site, by the initials of its headings."""
    topology = FABRIC.topology
    links, switch = [topology.inject_link(start)], int(topology.site_switch[start])
    for initial in headings:
        heading = {"E": Direction.EAST, "W": Direction.WEST, "N": Direction.NORTH}.get(initial, Direction.SOUTH)
        links.append(int(topology.mesh_link[switch, heading]))
        switch = int(topology.link_target[links[-1]])
    return [*links, topology.eject_link(end)]


def pair(start: int, headings: str, end: int, channel: int = 0) -> tuple[Netlist, Decisions]:
    """A flow between two compute units along an explicit way."""
    netlist = netlist_of([unit("a", COMPUTE), unit("b", COMPUTE)], [(0, (1,), 10)])
    links = walk(start, headings, end)
    decision = decision_of([start, end], [links], [list(range(-1, len(links) - 1))])
    return netlist, replace(decision, channels=np.array([[channel]], np.int32))


def only_problem(netlist: Netlist, decision: Decisions) -> str:
    (found,) = problems(FABRIC, netlist, decision, 0)
    return found


def test_a_legal_way_has_no_problems() -> None:
    netlist, decision = pair(0, "EESS", 10)
    assert problems(FABRIC, netlist, decision, 0) == []
    check(FABRIC, netlist, decision)


@pytest.mark.parametrize(
    ("start", "headings", "end", "is_legal_0", "is_legal_1"),
    [
        (5, "ES", 10, True, True),
        (5, "SE", 10, True, True),
        (7, "WS", 10, True, False),
        (7, "WN", 2, True, False),
        (7, "SW", 10, False, True),
        (7, "NW", 2, False, True),
        (5, "WSEE", 10, True, False),
        (5, "EESW", 10, False, True),
        (10, "SWWN", 8, False, False),
    ],
)
def test_turn_rules(start: int, headings: str, end: int, is_legal_0: bool, is_legal_1: bool) -> None:
    for channel, is_legal in ((0, is_legal_0), (1, is_legal_0), (2, is_legal_1), (3, is_legal_1)):
        netlist, decision = pair(start, headings, end, channel)
        found = problems(FABRIC, netlist, decision, 0)
        assert (found == []) == is_legal
        assert all("must not turn" in problem for problem in found)


def test_u_turn() -> None:
    found = problems(FABRIC, *pair(0, "EEEW", 2), 0)
    assert any("U-turn" in problem for problem in found)
    assert any("row 0, column 2 is entered twice" in problem for problem in found)


def test_a_circle_enters_a_switch_twice() -> None:
    netlist, decision = pair(0, "EESENWS", 10, channel=2)
    assert "switch in row 0, column 2 is entered twice" in " ".join(problems(FABRIC, netlist, decision, 0))


def test_wrong_root_and_missed_target() -> None:
    netlist, decision = pair(0, "EESS", 10)
    elsewhere = replace(decision, sites=np.array([[5, 10]], np.int32))
    found = only_problem(netlist, elsewhere)
    assert "starts with inject link" in found
    assert "source sits on site 5 (row 1, column 1)" in found
    beyond = replace(decision, sites=np.array([[0, 15]], np.int32))
    assert problems(FABRIC, netlist, beyond, 0) == [
        "flow 0 (f0): the route ends with eject link 82 of site 10 (row 2, column 2), where no target sits",
        "flow 0 (f0): the route does not reach its target on site 15 (row 3, column 3)",
    ]


def test_links_must_meet() -> None:
    netlist, decision = pair(0, "EESS", 10)
    links = decision.links.copy()
    links[2] = FABRIC.topology.mesh_link[9, Direction.EAST]
    found = problems(FABRIC, netlist, replace(decision, links=links), 0)
    assert "node 2" in found[0]
    assert "the links do not meet" in found[0]


def test_nothing_follows_an_eject_link() -> None:
    """A second leaf below the first one, on the same switch."""
    netlist = netlist_of([unit("a", COMPUTE), unit("p", PORT), unit("b", COMPUTE)], [(0, (1, 2), 1)])
    links = [*walk(2, "WW", 16), FABRIC.topology.eject_link(0)]
    legal = decision_of([2, 16, 0], [links], [[-1, 0, 1, 2, 2]])
    assert problems(FABRIC, netlist, legal, 0) == []
    nested = decision_of([2, 16, 0], [links], [[-1, 0, 1, 2, 3]])
    assert "eject links only end it" in problems(FABRIC, netlist, nested, 0)[0]


def test_a_leaf_stands_once() -> None:
    netlist = netlist_of([unit("a", COMPUTE), unit("m", MEMORY)], [(0, (1,), 1)])
    links = [*walk(0, "E", 1), FABRIC.topology.eject_link(1)]
    twice = decision_of([0, 1], [links], [[-1, 0, 1, 1]])
    assert "is used twice" in only_problem(netlist, twice)


def test_parents_stand_before_children() -> None:
    netlist, decision = pair(0, "EESS", 10)
    for node, parent in ((0, 0), (2, 2), (2, 4), (3, -1), (3, 99)):
        parents = decision.parents.copy()
        parents[node] = parent
        found = only_problem(netlist, replace(decision, parents=parents))
        assert f"node {node} has parent {parent}" in found


@pytest.mark.parametrize("link", [-1, 96, 2**31 - 1])
def test_link_out_of_range(link: int) -> None:
    netlist, decision = pair(0, "EESS", 10)
    links = decision.links.copy()
    links[1] = link
    assert f"link {link}; allowed 0 to 95" in only_problem(netlist, replace(decision, links=links))


@pytest.mark.parametrize("channel", [-1, 4])
def test_channel_out_of_range(channel: int) -> None:
    netlist, decision = pair(0, "EESS", 10, channel)
    assert f"channel {channel}; allowed 0 to 3" in only_problem(netlist, decision)


def test_missing_route() -> None:
    netlist, _ = pair(0, "EESS", 10)
    assert "no route" in only_problem(netlist, decision_of([0, 10], [[]], [[]]))


@pytest.mark.parametrize(
    ("kinds", "sites", "message"),
    [
        ([COMPUTE], [24], r"unit 0 \(a0\) sits on site 24; allowed 0 to 23"),
        ([COMPUTE], [-1], "sits on site -1"),
        ([COMPUTE], [6], r"a0\) needs a compute site, but site 6 \(row 1, column 2\) is for memory"),
        ([MEMORY], [16], r"needs a memory site, but site 16 \(row 0, column 0\) is for port"),
        ([COMPUTE] * 2, [5, 5], r"site 5 \(row 1, column 1\) holds a0, a1: 2 units, allowed 1"),
        ([MEMORY] * 3, [6, 6, 6], "3000 bytes, allowed 2500"),
        ([PORT] * 5, [17] * 5, r"site 17 \(row 1, column 0\).*5 units, allowed 4 on a port site"),
    ],
)
def test_placement_problems(kinds: list[SiteKind], sites: list[int], message: str) -> None:
    netlist = netlist_of([unit(f"a{i}", kind) for i, kind in enumerate(kinds)], [])
    with pytest.raises(InputError, match=message):
        check(FABRIC, netlist, decision_of(sites, [], []))


def test_buffers_share_a_memory_unit_within_limits() -> None:
    netlist = netlist_of([unit(f"m{i}", MEMORY, 10) for i in range(4)], [])
    check(FABRIC, netlist, decision_of([6, 6, 6, 1], [], []))
    with pytest.raises(InputError, match="4 units, allowed 3 on a memory site"):
        check(FABRIC, netlist, decision_of([6, 6, 6, 6], [], []))


def test_streams_share_a_port_within_limits() -> None:
    fabric = replace(FABRIC, dram=DramSpec(max_streams=2))
    netlist = netlist_of([unit("p", PORT), unit("q", PORT), unit("r", PORT)], [])
    check(fabric, netlist, decision_of([17, 17, 18], [], []))
    with pytest.raises(InputError, match="p, q, r: 3 units, allowed 2"):
        check(fabric, netlist, decision_of([17, 17, 17], [], []))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sites": np.zeros((1, 3), np.int32)}, r"sites has shape \(1, 3\), needed \(1, 2\)"),
        ({"sites": np.zeros((1, 2))}, "sites holds float64"),
        ({"channels": np.zeros((1, 2), np.int32)}, "channels has shape"),
        ({"route_start": np.zeros((1, 3), np.int64)}, "route_start has shape"),
        ({"route_start": np.array([[6, 0]])}, "route_start falls"),
        ({"route_start": np.array([[0, 99]])}, "route_start spans 0 to 99, allowed 0 to 6"),
        ({"links": np.zeros((6, 1), np.int32)}, "links has shape"),
        ({"parents": np.zeros(5, np.int32)}, "parents has shape"),
    ],
)
def test_array_shapes(changes: dict[str, np.ndarray], message: str) -> None:
    netlist, decision = pair(0, "EESS", 10)
    with pytest.raises(InputError, match=message):
        check(FABRIC, netlist, replace(decision, **changes))


def test_the_message_counts_illegal_decisions_and_names_the_first_ones() -> None:
    netlist, legal = pair(0, "EESS", 10)
    illegal = replace(legal, sites=np.array([[0, 15]], np.int32))
    with pytest.raises(InputError, match=r"1 of 3 decisions are illegal: decision 1: flow 0"):
        check(FABRIC, netlist, Decisions.concatenate([legal, illegal, legal]))
    with pytest.raises(InputError, match=r"8 of 8 .* decision 4: .*; and 3 more"):
        check(FABRIC, netlist, Decisions.concatenate([illegal] * 8))


@pytest.mark.slow
@given(problems_to_route(), st.sampled_from(RoutingMethod), st.data())
@settings(max_examples=80, deadline=None)
def test_any_change_of_a_route_is_refused(
    problem: tuple[Fabric, Netlist, int], method: RoutingMethod, data: st.DataObject
) -> None:
    """The tree over given switches is unique, so no single other entry can be legal."""
    fabric, netlist, seed = problem
    assume(netlist.num_flows > 0)
    legal = route(fabric, netlist, random_sites(fabric, netlist, 1, seed), method=method)
    name = data.draw(st.sampled_from(("links", "parents")))
    changed = getattr(legal, name).copy()
    node = data.draw(st.integers(0, len(changed) - 1))
    value = data.draw(st.integers(-2, fabric.topology.num_links))
    assume(value != changed[node])
    changed[node] = value
    with pytest.raises(InputError, match="flow"):
        check(fabric, netlist, replace(legal, **{name: changed}))


@given(problems_to_route(), st.data())
@settings(max_examples=50, deadline=None)
def test_any_move_of_a_unit_with_flows_is_refused(problem: tuple[Fabric, Netlist, int], data: st.DataObject) -> None:
    fabric, netlist, seed = problem
    assume(netlist.num_flows > 0)
    legal = route(fabric, netlist, random_sites(fabric, netlist, 1, seed))
    sites = legal.sites.copy()
    flow = data.draw(st.sampled_from(netlist.flows))
    moved = data.draw(st.sampled_from((flow.source, *flow.targets)))
    sites[0, moved] = data.draw(st.integers(-1, fabric.topology.num_sites))
    assume(sites[0, moved] != legal.sites[0, moved])
    with pytest.raises(InputError):
        check(fabric, netlist, replace(legal, sites=sites))
