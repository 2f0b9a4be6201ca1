"""Routers: legal, deterministic, never worse than XY; and random placements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from placer.base import DoesNotFitError, InputError
from placer.decision import Decisions, check, random_sites
from placer.decision.routing import RoutingMethod, grid_of, link_load, reroute, route
from placer.decision.routing.cheapest import empty_scratch, grow_tree
from placer.fabric import Direction, DramSpec, Fabric, MemorySpec, SiteKind
from placer.fabric.fabric import LinkSpec
from placer.netlist import Flow, Netlist, Unit

BOUND = 100  # cycles per sample of the slowest unit in these netlists

COMPUTE, MEMORY, PORT = SiteKind.COMPUTE, SiteKind.MEMORY, SiteKind.PORT


def unit(name: str, kind: SiteKind, num_bytes: int = 1000) -> Unit:
    if kind == COMPUTE:
        work = {"firings": BOUND, "cycles": BOUND, "releases": BOUND, "depth_cycles": 6}
        return Unit(name, kind, "relu", 0, **work)
    if kind == MEMORY:
        return Unit(name, kind, "buffer", 0, bytes=num_bytes, slots=2)
    return Unit(name, kind, "load", 0)


def netlist_of(units: list[Unit], flows: list[tuple[int, tuple[int, ...], int]]) -> Netlist:
    """A netlist from units and flows (source, targets, tokens)."""
    named = tuple(Flow(f"f{i}", *flow) for i, flow in enumerate(flows))
    return Netlist("by hand", "test", "tiny", tuple(units), named)


@st.composite
def problems_to_route(draw: st.DrawFn) -> tuple[Fabric, Netlist, int]:
    """A small fabric, a random netlist that fits it, and a seed."""
    fabric = Fabric(
        "tiny",
        columns=draw(st.integers(2, 6)),
        rows=draw(st.integers(2, 5)),
        link=LinkSpec(channels=draw(st.sampled_from((2, 4)))),
    )
    units = [unit(f"c{i}", COMPUTE) for i in range(draw(st.integers(1, fabric.num_sites(COMPUTE))))]
    units += [unit(f"m{i}", MEMORY) for i in range(draw(st.integers(1, 8)))]
    units += [unit(f"p{i}", PORT) for i in range(draw(st.integers(0, 4)))]
    ends = st.lists(st.integers(0, len(units) - 1), min_size=2, max_size=6, unique=True)
    flow = st.tuples(ends, st.integers(1, BOUND)).map(lambda f: (f[0][0], tuple(f[0][1:]), f[1]))
    flows = draw(st.lists(flow, max_size=24))
    return fabric, netlist_of(units, flows), draw(st.integers(0, 2**32))


def same(left: Decisions, right: Decisions) -> bool:
    names = ("sites", "channels", "route_start", "links", "parents")
    return all(
        getattr(left, name).tobytes() == getattr(right, name).tobytes()
        and getattr(left, name).dtype == getattr(right, name).dtype
        for name in names
    )


def num_mesh_links(fabric: Fabric, decision: Decisions, flow: int) -> int:
    links, _ = decision.route(flow)
    return int(np.count_nonzero(links < fabric.topology.num_mesh_links))


def distance(fabric: Fabric, site: int, other: int) -> int:
    row, column = divmod(int(fabric.topology.site_switch[site]), fabric.columns)
    other_row, other_column = divmod(int(fabric.topology.site_switch[other]), fabric.columns)
    return abs(row - other_row) + abs(column - other_column)


def headings(fabric: Fabric, decision: Decisions, flow: int = 0) -> list[Direction]:
    links, _ = decision.route(flow)
    return [Direction(d) for d in fabric.topology.link_direction[links]]


def cheapest(fabric: Fabric, turn_class: int, sites: NDArray[np.int32], prices: NDArray[np.float64]) -> float:
    """Price of the cheapest way between two sites: class 0 goes west first, class 1 west last."""
    topology = fabric.topology
    start, goal = topology.site_switch[sites].tolist()
    cost = {(start, Direction.INJECT): 0.0}
    pending = list(cost)
    while pending:
        switch, heading = pending.pop()
        for turn in Direction:
            link = topology.mesh_link[switch, turn] if turn < 4 else -1
            is_bend = heading not in (turn, Direction.INJECT)
            is_west = (heading if turn_class else turn) == Direction.WEST
            if link < 0 or (is_bend and (is_west or turn == heading ^ 1)):
                continue
            state = (int(topology.link_target[link]), turn)
            price = cost[switch, heading] + prices[link]
            if price < cost.get(state, np.inf):
                cost[state] = price
                pending.append(state)
    return min(price for (switch, _), price in cost.items() if switch == goal)


def pair_on_grid() -> tuple[Netlist, NDArray[np.int32]]:
    """A flow from the north-eastern to the south-western corner region of a 4 x 4 fabric."""
    netlist = netlist_of([unit("a", COMPUTE), unit("b", COMPUTE)], [(0, (1,), 10)])
    return netlist, np.array([[2, 13]], np.int32)  # (row 0, column 2) -> (row 3, column 1)


class TestDimensionOrdered:
    def test_xy_goes_along_the_row_first(self) -> None:
        fabric = Fabric("tiny", 4, 4)
        netlist, sites = pair_on_grid()
        decision = route(fabric, netlist, sites, method=RoutingMethod.XY)
        south = [Direction.SOUTH] * 3
        expected = [Direction.INJECT, Direction.WEST, *south, Direction.EJECT]
        assert headings(fabric, decision) == expected
        assert decision.parents.tolist() == [-1, 0, 1, 2, 3, 4]
        assert decision.channels.tolist() == [[0]]

    def test_yx_goes_along_the_column_first(self) -> None:
        fabric = Fabric("tiny", 4, 4, link=LinkSpec(channels=4))
        netlist, sites = pair_on_grid()
        decision = route(fabric, netlist, sites, method=RoutingMethod.YX)
        south = [Direction.SOUTH] * 3
        expected = [Direction.INJECT, *south, Direction.WEST, Direction.EJECT]
        assert headings(fabric, decision) == expected
        assert decision.channels.tolist() == [[2]]

    def test_units_on_one_site_share_one_leaf(self) -> None:
        fabric = Fabric("tiny", 4, 4)
        units = [unit("a", MEMORY), unit("b", MEMORY), unit("c", MEMORY)]
        netlist = netlist_of(units, [(0, (1, 2), 10)])
        decision = route(fabric, netlist, np.array([[1, 3, 3]], np.int32))
        topology = fabric.topology
        assert headings(fabric, decision) == [Direction.INJECT, *[Direction.EAST] * 2, Direction.EJECT]
        assert decision.links[-1] == topology.eject_link(3)

    def test_source_and_target_on_one_site(self) -> None:
        fabric = Fabric("tiny", 4, 4)
        netlist = netlist_of([unit("a", MEMORY), unit("b", MEMORY)], [(0, (1,), 10)])
        sites = np.array([[3, 3]], np.int32)
        for method in RoutingMethod:
            decision = route(fabric, netlist, sites, method=method)
            assert headings(fabric, decision) == [Direction.INJECT, Direction.EJECT]
            check(fabric, netlist, decision)

    def test_flows_take_the_channels_of_their_class_in_turn(self) -> None:
        fabric = Fabric("tiny", 4, 4, link=LinkSpec(channels=4))
        netlist = netlist_of([unit("a", COMPUTE), unit("b", COMPUTE)], [(0, (1,), 1)] * 5)
        sites = np.array([[2, 13]], np.int32)
        assert route(fabric, netlist, sites).channels.tolist() == [[0, 1, 0, 1, 0]]
        yx = route(fabric, netlist, sites, method=RoutingMethod.YX)
        assert yx.channels.tolist() == [[2, 3, 2, 3, 2]]

    def test_mixed_depends_on_seed_and_flow_only(self) -> None:
        fabric = Fabric("tiny", 4, 4, link=LinkSpec(channels=4))
        units = [unit("a", COMPUTE), unit("b", COMPUTE)]
        sites = np.array([[2, 13]], np.int32)

        def classes(num_flows: int, seed: int) -> list[bool]:
            netlist = netlist_of(units, [(0, (1,), 1)] * num_flows)
            mixed = route(fabric, netlist, sites, method=RoutingMethod.MIXED, seed=seed)
            return [channel >= 2 for channel in mixed.channels[0].tolist()]

        assert classes(40, seed=3) == classes(200, seed=3)[:40]
        assert classes(200, seed=3) != classes(200, seed=4)
        assert 70 <= sum(classes(200, seed=3)) <= 130

    @given(problems_to_route())
    @settings(max_examples=40, deadline=None)
    def test_a_multicast_tree_needs_no_more_links_than_unicasts(self, problem: tuple[Fabric, Netlist, int]) -> None:
        fabric, netlist, seed = problem
        sites = random_sites(fabric, netlist, 1, seed)
        for method in (RoutingMethod.XY, RoutingMethod.YX, RoutingMethod.MIXED):
            decision = route(fabric, netlist, sites, method=method, seed=seed)
            for flow_id, flow in enumerate(netlist.flows):
                hops = [distance(fabric, sites[0, flow.source], sites[0, t]) for t in flow.targets]
                assert max(hops) <= num_mesh_links(fabric, decision, flow_id) <= sum(hops)


class TestEveryMethod:
    @given(problems_to_route())
    @settings(max_examples=40, deadline=None)
    def test_passes_the_checker(self, problem: tuple[Fabric, Netlist, int]) -> None:
        fabric, netlist, seed = problem
        sites = random_sites(fabric, netlist, 3, seed)
        for method in RoutingMethod:
            decisions = route(fabric, netlist, sites, method=method, seed=seed)
            assert len(decisions) == 3
            check(fabric, netlist, decisions)

    @given(problems_to_route())
    @settings(max_examples=25, deadline=None)
    def test_same_bytes_again_and_one_by_one(self, problem: tuple[Fabric, Netlist, int]) -> None:
        fabric, netlist, seed = problem
        sites = random_sites(fabric, netlist, 3, seed)
        for method in RoutingMethod:
            batch = route(fabric, netlist, sites, method=method, seed=seed)
            ones = [route(fabric, netlist, sites[i : i + 1], method=method, seed=seed) for i in range(3)]
            assert same(batch, Decisions.concatenate(ones))
            assert same(batch, route(fabric, netlist, sites, method=method, seed=seed))

    @pytest.mark.parametrize("method", RoutingMethod)
    def test_does_not_alias_its_input(self, method: RoutingMethod) -> None:
        fabric = Fabric("tiny", 4, 4)
        netlist, sites = pair_on_grid()
        decision = route(fabric, netlist, sites, method=method)
        sites[:] = 0
        assert decision.sites.tolist() == [[2, 13]]

    @pytest.mark.parametrize("method", RoutingMethod)
    def test_nothing_to_route(self, method: RoutingMethod) -> None:
        fabric = Fabric("tiny", 4, 4)
        netlist = netlist_of([unit("a", COMPUTE)], [])
        assert len(route(fabric, netlist, np.array([[2]], np.int32), method=method).links) == 0
        assert len(route(fabric, netlist, np.empty((0, 1), np.int32), method=method)) == 0

    @pytest.mark.parametrize("method", RoutingMethod)
    @pytest.mark.parametrize(
        ("sites", "message"),
        [
            (np.array([[0, 24]], np.int32), "no site 24; allowed 0 to 23"),
            (np.array([[-1, 2]], np.int32), "no site -1"),
            (np.array([[0, 2, 5]], np.int32), "shape"),
            (np.array([0, 2], np.int32), "shape"),
            (np.array([[0.0, 2.0]]), "float64"),
        ],
    )
    def test_wrong_sites_are_refused(self, method: RoutingMethod, sites: NDArray[np.int32], message: str) -> None:
        fabric = Fabric("tiny", 4, 4)
        netlist = netlist_of([unit("a", COMPUTE), unit("b", COMPUTE)], [(0, (1,), 10)])
        with pytest.raises(InputError, match=message):
            route(fabric, netlist, sites, method=method)


class TestNegotiated:
    def test_two_heavy_flows_part(self) -> None:
        """XY puts 0.8 + 0.8 vectors per cycle on the link out of the shared switch."""
        fabric = Fabric("tiny", 4, 4)
        units = [unit("a", COMPUTE), unit("b", COMPUTE), unit("p", PORT), unit("q", COMPUTE)]
        netlist = netlist_of(units, [(0, (1,), 80), (2, (3,), 80)])
        sites = np.array([[0, 2, 16, 10]], np.int32)  # the port hangs on the switch of site 0
        xy = link_load(fabric, netlist, route(fabric, netlist, sites))
        decision = route(fabric, netlist, sites, method=RoutingMethod.NEGOTIATED)
        assert xy.max() == 1.6
        assert link_load(fabric, netlist, decision).max() == 0.8
        assert num_mesh_links(fabric, decision, 0) == 2  # a detour would not pay
        assert num_mesh_links(fabric, decision, 1) == 4

    def test_a_detour_avoids_an_overload(self) -> None:
        """Both flows go straight along one row; one of them must leave it."""
        fabric = Fabric("tiny", 4, 4)
        units = [unit("a", COMPUTE), unit("b", COMPUTE), unit("p", PORT), unit("q", PORT)]
        netlist = netlist_of(units, [(0, (1,), 80), (2, (3,), 70)])
        sites = np.array([[8, 10, 18, 22]], np.int32)  # all in row 2
        decision = route(fabric, netlist, sites, method=RoutingMethod.NEGOTIATED)
        assert link_load(fabric, netlist, route(fabric, netlist, sites)).max() == 1.5
        assert link_load(fabric, netlist, decision).max() == 0.8
        assert num_mesh_links(fabric, decision, 0) + num_mesh_links(fabric, decision, 1) == 7

    def test_equal_flows_spread_over_the_channels(self) -> None:
        fabric = Fabric("tiny", 4, 4, link=LinkSpec(channels=4))
        netlist = netlist_of([unit("a", COMPUTE), unit("b", COMPUTE)], [(0, (1,), 10)] * 4)
        sites = np.array([[0, 2]], np.int32)
        decision = route(fabric, netlist, sites, method=RoutingMethod.NEGOTIATED)
        assert sorted(decision.channels[0].tolist()) == [0, 1, 2, 3]

    @given(problems_to_route())
    @settings(max_examples=40, deadline=None)
    def test_busiest_link_never_carries_more_than_with_xy(self, problem: tuple[Fabric, Netlist, int]) -> None:
        fabric, netlist, seed = problem
        sites = random_sites(fabric, netlist, 3, seed)
        decisions = route(fabric, netlist, sites, method=RoutingMethod.NEGOTIATED)
        load = link_load(fabric, netlist, decisions)
        xy_load = link_load(fabric, netlist, route(fabric, netlist, sites))
        assert (load.max(axis=1) <= xy_load.max(axis=1)).all()

    @given(problems_to_route())
    @settings(max_examples=40, deadline=None)
    def test_light_unicasts_take_shortest_routes(self, problem: tuple[Fabric, Netlist, int]) -> None:
        fabric, netlist, seed = problem
        light = tuple(replace(f, targets=f.targets[:1], tokens=1) for f in netlist.flows)
        netlist = replace(netlist, flows=light)
        sites = random_sites(fabric, netlist, 1, seed)
        decision = route(fabric, netlist, sites, method=RoutingMethod.NEGOTIATED)
        for flow_id, flow in enumerate(netlist.flows):
            hops = distance(fabric, sites[0, flow.source], sites[0, flow.targets[0]])
            assert num_mesh_links(fabric, decision, flow_id) == hops

    @given(problems_to_route(), st.integers(0, 1), st.data())
    @settings(max_examples=25, deadline=None)
    def test_a_way_to_one_target_is_the_cheapest(
        self, problem: tuple[Fabric, Netlist, int], turn_class: int, data: st.DataObject
    ) -> None:
        """One sweep over the links finds what relaxing them until nothing changes finds."""
        fabric, _, seed = problem
        grid = grid_of(fabric)
        scratch = empty_scratch(grid)
        prices = np.random.default_rng(seed).uniform(1, 9, grid.num_mesh_links)
        scratch.price[:-1] = prices
        site = st.integers(0, fabric.topology.num_sites - 1)
        sites = np.array([data.draw(site), data.draw(site)], np.int32)
        links, parents = np.empty((2, 99), np.int32)
        size, cost = grow_tree(grid, turn_class, sites, 0, np.array([1], np.int32), scratch, links, parents)
        assert cost == pytest.approx(cheapest(fabric, turn_class, sites, prices))
        mesh = links[:size][links[:size] < grid.num_mesh_links]
        assert prices[mesh].sum() == pytest.approx(cost)

    def test_needs_an_iteration(self) -> None:
        fabric = Fabric("tiny", 4, 4)
        netlist, sites = pair_on_grid()
        with pytest.raises(InputError, match="max_iterations=0"):
            route(fabric, netlist, sites, method=RoutingMethod.NEGOTIATED, max_iterations=0)


class TestReroute:
    @given(problems_to_route(), st.sampled_from(RoutingMethod), st.data())
    @settings(max_examples=40, deadline=None)
    def test_touched_flows_change_and_others_keep_their_bytes(
        self, problem: tuple[Fabric, Netlist, int], method: RoutingMethod, data: st.DataObject
    ) -> None:
        fabric, netlist, seed = problem
        before = route(fabric, netlist, random_sites(fabric, netlist, 1, seed), method=method)
        target = random_sites(fabric, netlist, 1, seed + 1)[0]
        kind = data.draw(st.sampled_from(SiteKind))
        has_kind = np.array([u.kind == kind for u in netlist.units])
        sites = np.where(has_kind, target, before.sites[0]).astype(np.int32)
        moved = np.flatnonzero(sites != before.sites[0])
        ends = [{flow.source, *flow.targets} for flow in netlist.flows]
        touched = [f for f in range(netlist.num_flows) if ends[f] & set(moved.tolist())]

        after = reroute(fabric, netlist, before, sites, np.array(touched, np.int64))

        check(fabric, netlist, after)
        assert (after.sites[0] == sites).all()
        for flow in set(range(netlist.num_flows)) - set(touched):
            assert after.channels[0, flow] == before.channels[0, flow]
            for old, new in zip(before.route(flow), after.route(flow), strict=True):
                assert old.tobytes() == new.tobytes()
        again = reroute(fabric, netlist, before, sites, np.array(touched[::-1], np.int64))
        assert same(after, again)

    def test_avoids_the_load_of_the_others(self) -> None:
        fabric = Fabric("tiny", 4, 4)
        units = [unit("a", COMPUTE), unit("b", COMPUTE), unit("p", PORT), unit("q", COMPUTE)]
        netlist = netlist_of(units, [(0, (1,), 80), (2, (3,), 80)])
        sites = np.array([[0, 2, 16, 10]], np.int32)
        xy = route(fabric, netlist, sites)
        after = reroute(fabric, netlist, xy, sites[0], np.array([1]))
        assert link_load(fabric, netlist, xy).max() == 1.6
        assert link_load(fabric, netlist, after).max() == 0.8

    def test_no_flow_listed_changes_nothing(self) -> None:
        fabric = Fabric("tiny", 4, 4)
        netlist, sites = pair_on_grid()
        before = route(fabric, netlist, sites)
        assert same(before, reroute(fabric, netlist, before, sites[0], np.array([], np.int64)))

    def test_a_moved_end_must_be_listed(self) -> None:
        fabric = Fabric("tiny", 4, 4)
        netlist, sites = pair_on_grid()
        before = route(fabric, netlist, sites)
        moved = np.array([2, 15], np.int32)
        with pytest.raises(InputError, match=r"flow 0 \(f0\) .* unit b changed"):
            reroute(fabric, netlist, before, moved, np.array([], np.int64))

    def test_unknown_flow_and_stack_are_refused(self) -> None:
        fabric = Fabric("tiny", 4, 4)
        netlist, sites = pair_on_grid()
        before = route(fabric, netlist, sites)
        with pytest.raises(InputError, match="no flow 1; allowed 0 to 0"):
            reroute(fabric, netlist, before, sites[0], np.array([1]))
        with pytest.raises(InputError, match="stack of one decision, got 2"):
            reroute(fabric, netlist, Decisions.concatenate([before] * 2), sites[0], np.array([0]))


class TestLinkLoad:
    @given(problems_to_route())
    @settings(max_examples=25, deadline=None)
    def test_is_the_sum_over_the_trees(self, problem: tuple[Fabric, Netlist, int]) -> None:
        fabric, netlist, seed = problem
        decisions = route(fabric, netlist, random_sites(fabric, netlist, 2, seed))
        expected = np.zeros((2, fabric.topology.num_links))
        for index in range(2):
            for flow_id, flow in enumerate(netlist.flows):
                expected[index, decisions.route(flow_id, index)[0]] += flow.tokens / BOUND
        np.testing.assert_allclose(link_load(fabric, netlist, decisions), expected, atol=1e-12)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"links": np.array([999] * 6, np.int32)}, "links 999 to 999"),
            ({"links": np.zeros(5, np.int32)}, "5 links but 6 parents"),
            ({"route_start": np.array([[0, 7]])}, "route_start"),
            ({"route_start": np.array([[6, 0]])}, "route_start"),
            ({"channels": np.zeros((1, 2), np.int32)}, "channels have shape"),
            ({"channels": np.full((1, 1), 4, np.int32)}, "0 to 3"),
        ],
    )
    def test_routes_of_another_fabric_are_refused(self, changes: dict[str, Any], message: str) -> None:
        fabric = Fabric("tiny", 4, 4, link=LinkSpec(channels=4))
        netlist, sites = pair_on_grid()
        decisions = replace(route(fabric, netlist, sites), **changes)
        with pytest.raises(InputError, match=message):
            link_load(fabric, netlist, decisions)


class TestRandomSites:
    @given(problems_to_route())
    @settings(max_examples=40, deadline=None)
    def test_legal_and_spread(self, problem: tuple[Fabric, Netlist, int]) -> None:
        fabric, netlist, seed = problem
        for sites in random_sites(fabric, netlist, 3, seed):
            check(fabric, netlist, route(fabric, netlist, sites[None]))
            for kind in SiteKind:
                used = {s for s, u in zip(sites, netlist.units, strict=True) if u.kind == kind}
                assert len(used) == min(netlist.count(kind), fabric.num_sites(kind))

    def test_row_depends_on_seed_and_index_only(self) -> None:
        fabric = Fabric("tiny", 6, 6)
        netlist = netlist_of([unit(f"c{i}", COMPUTE) for i in range(10)], [])
        many = random_sites(fabric, netlist, 9, seed=5)
        assert (many[:4] == random_sites(fabric, netlist, 4, seed=5)).all()
        assert (many != random_sites(fabric, netlist, 9, seed=6)).any()
        assert len(np.unique(many, axis=0)) == 9

    def test_every_site_is_equally_likely(self) -> None:
        fabric = Fabric("tiny", 2, 4)
        netlist = netlist_of([unit("a", COMPUTE)], [])
        _, counts = np.unique(random_sites(fabric, netlist, 2000, seed=0), return_counts=True)
        assert len(counts) == 4
        assert (abs(counts - 500) < 100).all()

    def test_packs_tightly_when_spreading_fails(self) -> None:
        """5 + 5 and 4 + 4 + 2 fill two sites of 10; one large buffer on each leaves no room."""
        fabric = Fabric("tiny", 2, 2, memory=MemorySpec(capacity_bytes=10))
        units = [unit(f"m{i}", MEMORY, size) for i, size in enumerate((4, 5, 2, 5, 4))]
        netlist = netlist_of(units, [])
        for sites in random_sites(fabric, netlist, 5, seed=1):
            check(fabric, netlist, route(fabric, netlist, sites[None]))
            used = np.zeros(fabric.topology.num_sites, int)
            np.add.at(used, sites, (4, 5, 2, 5, 4))
            assert sorted(used[used > 0]) == [10, 10]

    @pytest.mark.parametrize(
        ("units", "resource", "demand", "limit"),
        [
            ([unit(f"c{i}", COMPUTE) for i in range(3)], "compute sites", 3, 2),
            ([unit(f"m{i}", MEMORY) for i in range(9)], "memory sites", 3, 2),
            ([unit(f"m{i}", MEMORY, 300_000) for i in range(3)], "memory sites", 3, 2),
            ([unit("big", MEMORY, 600_000)], "buffer big", 600_000, 524_288),
            ([unit(f"p{i}", PORT) for i in range(9)], "port sites", 5, 4),
        ],
    )
    def test_does_not_fit(self, units: list[Unit], resource: str, demand: int, limit: int) -> None:
        fabric = Fabric("tiny", 2, 2, dram=DramSpec(max_streams=2))
        with pytest.raises(DoesNotFitError) as caught:
            random_sites(fabric, netlist_of(units, []), 1, seed=0)
        assert resource in caught.value.resource
        assert (caught.value.demand, caught.value.limit) == (demand, limit)
        assert caught.value.advice

    def test_negative_seed_is_refused(self) -> None:
        with pytest.raises(InputError, match="seed=-1"):
            random_sites(Fabric("tiny", 2, 2), netlist_of([], []), 1, seed=-1)
