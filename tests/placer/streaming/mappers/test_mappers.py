"""Every mapper: legal, right in values, deterministic, and as good as it must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.streaming.mappers import NotFoundError, Result, find_front, map_program, mappers, require_legal
from placer.streaming.mappers.result_file import spoke_ram
from placer.streaming.model import (
    PROGRAMS,
    Budget,
    Device,
    Found,
    InfeasibleError,
    MapOptions,
    Program,
    growing_network,
    load_program,
    meaning_of,
    require_same_values,
)
from placer.streaming.model.programs import distance, fft, matrix_vector, sorting_network
from placer.streaming.search import (
    Problem,
    anneal,
    anneal_slots,
    evolve,
    improve_mapping,
    list_schedule,
    make_problem,
    random_mapping,
    repair,
    solve,
)
from placer.streaming.search.construct import begin_search, found_by
from placer.streaming.search.plans import _anneal_moves, plan_of
from tests import ROOT
from tests.placer.streaming.cases import graph, problems

pytestmark = pytest.mark.slow

SHARED = ROOT.parent / "shared/data/streaming_engine/random"
SEARCHES = (random_mapping, list_schedule, anneal, evolve, anneal_slots)


@settings(max_examples=6)
@given(problems(), st.integers(0, 100))
def test_searches_keep_all_rules_and_values(problem: Problem, seed: int) -> None:
    for search in SEARCHES:
        found = search(problem, Budget(20.0, 300), seed)
        if found.mapping is None:
            continue  # with max_hop a greedy mapper may come to dead ends only
        verdict = require_legal(problem, found.mapping)
        assert problem.bounds.total <= verdict.cycles <= found.mapping.cycles
        tile, spoke = found.mapping.tile.tolist(), found.mapping.spoke.tolist()
        meaning = meaning_of(problem.program)
        require_same_values(meaning, problem.device, tile, spoke, verdict.start, seed)


@pytest.mark.parametrize("search", SEARCHES)
def test_same_seed_same_mapping(search: object) -> None:
    problem = make_problem(growing_network(16, np.random.default_rng(0)), Device())
    first, second = (search(problem, Budget(60.0, 2000), 5) for _ in range(2))  # type: ignore[operator]
    assert first.mapping.tile.tolist() == second.mapping.tile.tolist()
    assert first.mapping.start.tolist() == second.mapping.start.tolist()
    assert first.tries == second.tries


def test_exact_timing_leaves_no_waits() -> None:
    problem = make_problem(fft(), Device(timing="exact"))
    for found in (anneal(problem, Budget(20.0, 3000), 0), solve(problem, Budget(20.0), 0)):
        assert found.mapping is not None
        require_legal(problem, found.mapping)


def test_annealing_reaches_the_optimum_of_the_own_programs() -> None:
    for build in PROGRAMS:
        problem = make_problem(build(), Device())
        best = solve(problem, Budget(30.0), 0)
        assert best.is_optimal
        assert best.mapping is not None
        found = anneal(problem, Budget(30.0, 20_000), 0).mapping
        assert found is not None
        assert best.bound <= found.cycles <= best.bound + 1, build.__name__


def test_more_tiles_or_longer_hops_never_hurt() -> None:
    def cycles(**device: int) -> int:
        found = solve(make_problem(sorting_network(), Device(**device)), Budget(60.0), 0)
        assert found.is_optimal
        return found.bound

    assert cycles(tiles=16) <= cycles(tiles=4)
    assert cycles(tiles=16) <= cycles(tiles=16, max_hop=2)


def test_front_is_not_monotone_in_the_interval() -> None:
    """A longer interval has more slots, but slots repeat in another way."""
    options = MapOptions("exact", time_limit=60.0)
    front = find_front(matrix_vector(), Device(), options, lambda: False)
    assert [point.ii for point in front] == [1, 2, 3, 4, 5, 6]
    assert [point.cycles for point in front] == [17, 15, 15, 13, 13, 14]
    assert all(point.bound == point.cycles for point in front)
    with pytest.raises(InfeasibleError, match="16 slots"):
        map_program(fft(), Device(ii=1), options)


def test_front_goes_on_where_an_interval_has_no_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fft has too many instructions for ii 1; a mapper may also run out of time."""
    real = mappers.map_program

    def no_luck(program: Program, device: Device, options: MapOptions, **others: Any) -> Result:
        if device.ii == 3:
            raise NotFoundError("no mapping in time")
        return real(program, device, options, **others)

    monkeypatch.setattr(mappers, "map_program", no_luck)
    front = find_front(fft(), Device(ii=4), MapOptions("list", time_limit=0.01), lambda: False)
    assert [point.cycles is None for point in front] == [True, False, True, False]
    assert "16 slots" in front[0].reason
    assert front[2].reason == "no mapping in time"


def test_a_wrong_bound_is_an_error() -> None:
    problem = make_problem(distance(), Device())
    mapping = list_schedule(problem, Budget(5.0, 1), 0).mapping
    assert mapping is not None
    with pytest.raises(RuntimeError, match="bound is wrong: 99 cycles, but a mapping takes"):
        Found(mapping, 99, 1)


def test_annealing_keeps_the_fewest_cycles_whatever_the_energy() -> None:
    """Energy adds the mean lateness, which may be above a cycle; here every move is refused."""
    problem = make_problem(growing_network(40, np.random.default_rng(3)), Device(tiles=64))
    start = random_mapping(problem, Budget(5.0, 1), 0).mapping
    assert start is not None
    search = begin_search(problem, 0, start)
    plan, trial, best = (plan_of(problem, start) for _ in range(3))
    _anneal_moves(search, plan, trial, best, np.full(2, -1e9), 1.0, 500)
    assert search.cycles[0] < start.cycles
    found = found_by(problem, search, 500).mapping
    assert found is not None
    assert require_legal(problem, found).cycles == search.cycles[0] == found.cycles


def test_exact_proves_that_there_is_no_mapping() -> None:
    # Two clusters of three on two tiles with three slots, but each holds a sibling of the other
    # and of a seventh instruction.
    program = graph(4, (0, 1), (0, 2), (0, 3), (1, 2), (2, 3))
    with pytest.raises(InfeasibleError, match="no mapping exists"):
        map_program(program, Device(tiles=3, ii=2, max_hop=1, timing="exact", depth=2), MapOptions("exact"))


def test_repair_moves_only_what_is_free() -> None:
    problem = make_problem(growing_network(15, np.random.default_rng(1)), Device())
    start = random_mapping(problem, Budget(5.0, 1), 0).mapping
    assert start is not None
    free = set(range(10))
    better = repair(problem, start, free, Budget(5.0), 0, 1)
    assert better is not None
    require_legal(problem, better)
    kept = [n for n in range(15) if int(problem.tables.cluster[n]) not in free]
    apart = np.diff(start.tile[kept])
    assert np.diff(better.tile[kept]).tolist() in (apart.tolist(), (-apart).tolist())


def test_hybrid_steps_never_lose() -> None:
    problem = make_problem(growing_network(28, np.random.default_rng(2)), Device(tiles=64))
    start = random_mapping(problem, Budget(5.0, 1), 0)
    assert start.mapping is not None
    found = improve_mapping(problem, start, Budget(6.0), 0, workers=1)
    assert found.mapping is not None
    require_legal(problem, found.mapping)
    assert found.mapping.cycles < start.mapping.cycles
    assert found.bound >= problem.bounds.total


@pytest.mark.skipif(not SHARED.exists(), reason="needs the published random graphs")
@pytest.mark.parametrize(
    ("name", "optimum"),
    [("gn_n10_s0", 18), ("gn_n10_s1", 18), ("gn_n15_s0", 22), ("gn_n15_s1", 21),
     ("gn_n20_s0", 24), ("gn_n20_s1", 24)],
)  # fmt: skip
def test_published_graphs_are_solved(name: str, optimum: int) -> None:
    result = map_program(load_program(SHARED / f"{name}.json"), Device(), MapOptions("exact"))
    assert (result.cycles, result.bound) == (optimum, optimum)


def test_spoke_ram_by_hand() -> None:
    program = graph(3, (0, 1), (0, 2))
    problem = make_problem(program, Device())
    found = Found(None, 0, 0)
    assert not found.is_optimal
    mapping = solve(problem, Budget(5.0), 0).mapping
    assert mapping is not None
    entries = {
        entry["instruction"]: (tile["tile"], entry) for tile in spoke_ram(program, mapping) for entry in tile["entries"]
    }
    assert entries.keys() == {0, 1, 2}
    assert entries[0][1]["master_input"] == "base"
    assert sorted(entries[0][1]["outputs"]) in (["down1", "feedback"], ["feedback", "up1"])
    assert {entries[n][1]["master_input"] for n in (1, 2)} < {"feedback", "up1", "down1"}
