"""Moves: whatever is proposed is legal, keeps to the constraints, and does what its kind says."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.annealing import Refusal, Start
from placer.annealing.moves import LEGAL, Move
from placer.decision import check
from placer.fabric import Fabric, MemorySpec, SiteKind
from placer.graph.workloads import FAMILIES
from placer.netlist import Netlist, Unit
from tests.placer.annealing.cases import SMALL, Walk, drawn, free_start, random_start
from tests.placer.hand_cases import compute, flow, memory

SEEDS = st.integers(0, 2**32 - 1)


def seats(walk: Walk) -> dict[int, set[int]]:
    """Units on each occupied site, from the sites of the units alone."""
    tenants: defaultdict[int, set[int]] = defaultdict(set)
    for unit, site in enumerate(walk.state.sites.tolist()):
        tenants[site].add(unit)
    return dict(tenants)


def require_consistent(walk: Walk) -> None:
    """Who sits where agrees with the sites of the units, and all of it is legal."""
    check(walk.fabric, walk.netlist, walk.decision())
    expected, state = seats(walk), walk.state
    for site in range(walk.fabric.topology.num_sites):
        units = expected.get(site, set())
        used = sum(walk.netlist.units[unit].bytes for unit in units)
        assert state.num_tenants[site] == len(units)
        assert set(state.tenants[site, : len(units)].tolist()) == units
        assert state.used_bytes[site] == used


def steps(walk: Walk) -> dict[int, tuple[int, int]]:
    """Rows and columns that each unit of the proposed change goes."""
    number, change = int(walk.change.num_units[0]), walk.change
    switch = walk.fabric.topology.site_switch
    old = np.divmod(switch[change.old_sites[:number]], walk.fabric.columns)
    new = np.divmod(switch[change.new_sites[:number]], walk.fabric.columns)
    rows, columns = new[0] - old[0], new[1] - old[1]
    return {
        int(unit): (int(row), int(column))
        for unit, row, column in zip(change.units[:number], rows, columns, strict=True)
    }


@settings(max_examples=40)
@given(SEEDS)
def test_any_walk_stays_legal_and_keeps_to_the_constraints(seed: int) -> None:
    fabric, netlist, start = random_start(seed, is_constrained=bool(seed % 2))
    walk, rng = Walk.begin(fabric, netlist, start, seed), np.random.default_rng(seed)
    for number in range(60):
        reach = int(rng.integers(1, walk.farthest + 1))
        growth = walk.try_move(int(rng.integers(len(Move))), reach)
        if growth is None:
            continue
        assert start.is_allowed[np.arange(netlist.num_units), walk.state.sites].all()
        if rng.random() < 0.7:
            walk.accept()
        else:
            walk.reject()
        if number % 20 == 0:
            require_consistent(walk)
    require_consistent(walk)


@settings(max_examples=40)
@given(SEEDS, st.sampled_from(Move))
def test_a_proposal_changes_nothing(seed: int, move: Move) -> None:
    fabric, netlist, start = random_start(seed, is_constrained=True)
    walk = Walk.begin(fabric, netlist, start, seed)
    before = [array.copy() for array in walk.state]
    for _ in range(10):
        walk.propose(move, walk.farthest)
        for array, copy in zip(walk.state, before, strict=True):
            np.testing.assert_array_equal(array, copy)


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([Move.SWAP, Move.GROUP_SWAP, Move.STAGE_SHIFT]))
def test_an_exchange_moves_the_contents_of_sites(seed: int, move: Move) -> None:
    """What sits together stays together: only whole sites change places.

    A swap with an empty site takes one unit there and may leave others behind.
    """
    fabric, netlist, start = random_start(seed)
    walk = Walk.begin(fabric, netlist, start, seed)
    for _ in range(10):
        before = seats(walk)
        if walk.try_move(move, walk.farthest) is None:
            continue
        after = seats(walk)
        goals = {int(site) for site in walk.change.new_sites[: walk.change.num_units[0]]}
        if move != Move.SWAP or goals & before.keys():
            assert sorted(map(sorted, after.values())) == sorted(map(sorted, before.values()))
        walk.accept()


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([Move.RELOCATE, Move.SWAP]), st.integers(1, 5))
def test_a_unit_goes_no_farther_than_the_reach(seed: int, move: Move, reach: int) -> None:
    fabric, netlist, start = random_start(seed)
    walk = Walk.begin(fabric, netlist, start, seed)
    reach = min(reach, walk.farthest)
    for _ in range(10):
        if walk.propose(move, reach) != LEGAL:
            continue
        distances = [max(abs(row), abs(column)) for row, column in steps(walk).values()]
        assert distances
        assert max(distances) <= reach
        if move == Move.RELOCATE:
            assert len(distances) == 1


@settings(max_examples=20)
@given(SEEDS)
def test_neighbours_are_the_other_sites_of_the_kind_within_the_reach(seed: int) -> None:
    fabric, netlist, start = random_start(seed)
    board, topology = Walk.begin(fabric, netlist, start, seed).board, fabric.topology
    row, column = np.divmod(topology.site_switch, topology.columns)
    for site in range(topology.num_sites):
        distance = np.maximum(abs(row - row[site]), abs(column - column[site]))
        is_other = (topology.site_kind == topology.site_kind[site]) & (np.arange(topology.num_sites) != site)
        for reach in range(max(topology.rows, topology.columns) + 1):
            near = board.near[site, : board.num_near[site, reach]]
            assert sorted(near) == np.flatnonzero(is_other & (distance <= reach)).tolist()


@settings(max_examples=40)
@given(SEEDS)
def test_a_reroute_turns_one_flow(seed: int) -> None:
    fabric, netlist, start = random_start(seed)
    walk = Walk.begin(fabric, netlist, start, seed)
    growth = walk.try_move(Move.REROUTE, 1)
    assert growth is not None
    assert (walk.state.flow_class != start.flow_class).sum() == 1
    np.testing.assert_array_equal(walk.state.sites, start.sites)


@settings(max_examples=40)
@given(SEEDS)
def test_a_stage_goes_the_same_way(seed: int) -> None:
    fabric, netlist, start = random_start(seed)
    walk = Walk.begin(fabric, netlist, start, seed)
    stages: defaultdict[int, list[int]] = defaultdict(list)
    for unit_id, unit in enumerate(netlist.units):
        if unit.kind != SiteKind.PORT:
            stages[unit.stage].append(unit_id)
    for _ in range(10):
        if walk.try_move(Move.STAGE_SHIFT, 1) is None:
            continue
        moved = steps(walk)
        ways = [{moved.get(unit, (0, 0)) for unit in units} for units in stages.values()]
        # Two tiles along a row or a column, or one step along a diagonal.
        assert any(len(way) == 1 and sum(map(abs, next(iter(way)))) == 2 for way in ways)
        walk.accept()


@pytest.mark.parametrize("family", FAMILIES)
def test_moves_of_lowered_netlists(family: str) -> None:
    netlist = drawn(family)
    walk = Walk.begin(SMALL, netlist, free_start(SMALL, netlist), seed=1)
    done: Counter[Move] = Counter()
    for move in Move:
        for _ in range(200):
            if walk.try_move(move, walk.farthest) is not None:
                walk.accept()
                done[move] += 1
    require_consistent(walk)
    # The stages of a random placement spread over the fabric and can hardly be shifted.
    assert set(done) >= set(Move) - {Move.STAGE_SHIFT}


# Compute sites 0, 2, 4, 6, 8 and memory sites 1, 3, 5, 7 of a 3 x 3 checkerboard.
TINY = Fabric("tiny", columns=3, rows=3, memory=MemorySpec(capacity_bytes=100, max_buffers=2))


def buffer(name: str, size: int) -> Unit:
    return replace(memory(name=name), bytes=size)


def tiny_walk(units: list[Unit], sites: list[int], allowed: dict[int, list[int]] | None = None) -> Walk:
    """Units in a chain of flows on the tiny fabric; `allowed` holds the sites of some units."""
    flows = [flow(unit, unit + 1, tokens=4) for unit in range(len(units) - 1)]
    netlist = Netlist("tiny", "hand", TINY.name, tuple(units), tuple(flows))
    is_allowed = np.ones((len(units), TINY.topology.num_sites), np.bool_)
    for unit, only in (allowed or {}).items():
        is_allowed[unit] = np.isin(np.arange(TINY.topology.num_sites), only)
    start = Start(np.array(sites, np.int32), np.zeros(len(flows), np.int32), is_allowed)
    return Walk.begin(TINY, netlist, start, seed=0)


def reasons(walk: Walk, move: Move, reach: int = 3) -> set[int]:
    return {walk.propose(move, reach) for _ in range(100)}


def test_units_with_one_site_have_nowhere_to_go() -> None:
    walk = tiny_walk([compute(4), compute(4)], [0, 2], {0: [0], 1: [2]})
    assert reasons(walk, Move.RELOCATE) == reasons(walk, Move.SWAP) == {Refusal.NOWHERE}


def test_a_full_site_has_no_room() -> None:
    two_each = [buffer("a", 1), buffer("b", 1), buffer("c", 1), buffer("d", 1)]
    sites_only = {unit: [1, 3] for unit in range(4)}
    walk = tiny_walk(two_each, [1, 1, 3, 3], sites_only)
    # Other memory sites have room, but are not allowed.
    assert reasons(walk, Move.RELOCATE) == {Refusal.NO_ROOM, Refusal.FORBIDDEN}
    assert reasons(walk, Move.SWAP) == {LEGAL, Refusal.FORBIDDEN}


def test_bytes_are_room_too() -> None:
    large = [buffer("a", 60), buffer("b", 41)]
    walk = tiny_walk(large, [1, 3], {0: [1, 3], 1: [1, 3]})
    assert Refusal.NO_ROOM in reasons(walk, Move.RELOCATE)
    assert LEGAL not in reasons(walk, Move.RELOCATE)
    fitting = [buffer("a", 60), buffer("b", 40)]
    walk = tiny_walk(fitting, [1, 3], {0: [1, 3], 1: [1, 3]})
    assert LEGAL in reasons(walk, Move.RELOCATE)


def test_a_swap_does_not_push_a_fixed_unit_away() -> None:
    walk = tiny_walk([compute(4), compute(4)], [0, 2], {0: [0, 2], 1: [2]})
    assert reasons(walk, Move.SWAP) == {Refusal.FORBIDDEN}


def test_a_shift_does_not_leave_the_grid() -> None:
    corners = [compute(4), compute(4), compute(4), compute(4)]
    walk = tiny_walk(corners, [0, 2, 6, 8])
    assert reasons(walk, Move.STAGE_SHIFT) == {Refusal.OFF_GRID}
    walk = tiny_walk([compute(4)], [4])  # the centre: diagonal steps only
    assert reasons(walk, Move.STAGE_SHIFT) == {LEGAL, Refusal.OFF_GRID}


def test_a_shifted_stage_changes_places_with_what_is_in_its_way() -> None:
    centre, corner = compute(4, name="first"), replace(compute(4, name="second"), stage=1)
    walk, reached = tiny_walk([centre, corner], [4, 8]), set()
    for _ in range(200):
        if walk.try_move(Move.STAGE_SHIFT, 1) is not None:
            reached.add(tuple(walk.state.sites.tolist()))
            walk.reject()
    first_goes = {(0, 8), (2, 8), (6, 8), (8, 4)}
    second_goes = {(8, 4), (4, 6), (4, 2)}
    assert reached == first_goes | second_goes


def test_groups_exchange_their_places_member_by_member() -> None:
    early = [replace(compute(4), op="first", name=name) for name in "ab"]
    late = [replace(compute(4), op="second", name=name) for name in "cd"]
    walk = tiny_walk([*early, *late], [0, 2, 6, 8])
    growth = None
    while growth is None:  # the draw may hit one group twice
        growth = walk.try_move(Move.GROUP_SWAP, 1)
    assert walk.state.sites.tolist() == [6, 8, 0, 2]


def test_a_group_without_a_partner_stays() -> None:
    walk = tiny_walk([compute(4), compute(4)], [0, 2])  # one operation, one group
    assert reasons(walk, Move.GROUP_SWAP) == {Refusal.NOWHERE}
