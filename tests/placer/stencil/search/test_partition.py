"""Partitions: exact statistics, exact differences of moves, legality, and that search helps."""

from __future__ import annotations

import gc
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import rng_state
from placer.stencil.judge import score
from placer.stencil.judge.kernels import tile_terms
from placer.stencil.model import INPUTS, Problem, ball, sampling_unit
from placer.stencil.model.generate import flat, hollow_sphere, make_problem, torus
from placer.stencil.search import Clock
from placer.stencil.search.moves import anneal_sweep, candidates_of, fill_by_yield, new_heap
from placer.stencil.search.netlist import find_tiles, netlist_of
from placer.stencil.search.partition import anneal, coarsest, evaluate, fill, finer, lowest_limit
from placer.stencil.search.places import best_layout, refine, solution_of, wire_cost
from placer.stencil.search.plan import Plan, make_plans, summarise
from placer.stencil.search.pyramid import STRADDLES, Pyramid, build_pyramid
from placer.stencil.search.search import most_cells, search
from placer.stencil.search.tree import count


def spots(seed: int, dimension: int) -> Problem:
    """A few hot lattice points in a cold volume, some of it without heat."""
    rng = np.random.default_rng(seed)
    volume = tuple(int(v) for v in rng.integers(2, 6, dimension))
    shape = (volume[2] + 1 if dimension == 3 else 1, volume[1] + 1, volume[0] + 1)
    heat = np.where(rng.random(shape) < 0.3, rng.random(shape), 0.0)
    heat.ravel()[rng.integers(heat.size)] = 1.0
    return make_problem(volume, (100, 100), heat)


def pyramid_of(problem: Problem, seed: int) -> Pyramid:
    rng = np.random.default_rng(seed)
    unit = sampling_unit(problem.volume)
    sampling = unit * max(1, 20 // unit)
    shift = tuple(int(k) for k in rng.integers(0, 4, 3))
    return build_pyramid(problem, sampling, (shift[0], shift[1], shift[2] * (problem.dimension > 2)))


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([2, 3]))
def test_statistics_of_blocks_are_those_of_the_checker(seed: int, dimension: int) -> None:
    problem = spots(seed, dimension)
    pyramid = pyramid_of(problem, seed)
    for level in range(pyramid.num_levels):
        blocks = np.arange(pyramid.base[level], pyramid.base[level + 1])
        high = pyramid.high[blocks]
        blocks = blocks[(high >= 0) & (high < STRADDLES)]
        nx, ny, _ = pyramid.dims[level]
        place = blocks - pyramid.base[level]
        place = np.stack([place % nx, place // nx % ny, place // (nx * ny)], axis=1)
        edges = np.array([2**level, 2**level, 2**level if dimension == 3 else 1])
        origin = place * edges - np.array(pyramid.offset)
        tiles = np.column_stack([np.full(len(blocks), level), origin]).astype(np.int32)
        means, ratios = np.zeros(len(blocks)), np.zeros(len(blocks))
        unit = 10 / pyramid.sampling
        tile_terms(problem.heat, tiles, unit, means, ratios)
        np.testing.assert_allclose(pyramid.mean[blocks], means, atol=1e-6)
        np.testing.assert_allclose(pyramid.high[blocks], ratios / 2**level, atol=1e-6)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([2, 3]), st.floats(0.02, 0.6))
def test_running_totals_equal_a_count_from_scratch(seed: int, dimension: int, price: float) -> None:
    problem = spots(seed, dimension)
    draft = coarsest(pyramid_of(problem, seed), 2.0)
    _, tree, ledger = draft
    candidates, rng = candidates_of(tree), rng_state(seed)
    if not len(candidates):
        return
    for temperature in (1.0, 1.0, 1.0, 0.1, 0.1, 0.1):
        anneal_sweep(tree, ledger, candidates, 0, 1, rng, temperature, price, 1e9)
    room = draft.pes + 50
    fill_by_yield(tree, ledger, candidates, new_heap(len(candidates)), 0.01, room)
    assert draft.pes <= room
    fresh = np.zeros(2)
    count(tree, fresh)
    np.testing.assert_allclose(ledger.totals, fresh, rtol=1e-6)
    is_tile, num_adapters = find_tiles(tree)
    assert is_tile.sum() + num_adapters >= fresh[1]


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([2, 3]))
def test_every_partition_makes_a_legal_solution(seed: int, dimension: int) -> None:
    problem = spots(seed, dimension)
    pyramid = pyramid_of(problem, seed)
    partition = anneal(coarsest(pyramid, 2.0), problem.num_pes, 4, seed)
    if partition is None:
        return
    netlist = netlist_of(pyramid, partition.tree)
    placed = best_layout(netlist, problem.fabric)
    result = score(problem, solution_of(netlist, placed))
    assert result.accuracy == pytest.approx(partition.accuracy, rel=1e-5)
    assert result.used_pes == partition.used_pes <= problem.num_pes
    assert result.wires == pytest.approx(placed.cost)


def test_annealed_wires_keep_their_books() -> None:
    problem = ball((4, 4, 4), (40, 40), (2, 2, 2), 6.0)
    pyramid = build_pyramid(problem, 20)
    netlist = netlist_of(pyramid, coarsest(pyramid, 1.0).tree)
    start = best_layout(netlist, problem.fabric)
    rounds = refine(netlist, problem.fabric, start, 0)
    costs = [start.cost]
    for _ in range(20):
        placed = next(rounds)
        costs.append(placed.cost)
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 0.9 * costs[0]
    assert placed.cost == pytest.approx(wire_cost(netlist.wires, placed.places))
    assert score(problem, solution_of(netlist, placed)).wires == pytest.approx(placed.cost)


def test_leftover_pes_are_filled() -> None:
    problem = INPUTS["small_sphere"]()
    draft = coarsest(build_pyramid(problem, 48), 2.0)
    assert draft.pes < 0.9 * problem.num_pes
    partition = fill(draft, problem.num_pes)
    assert partition is not None
    assert partition.used_pes >= 0.999 * problem.num_pes


def test_the_lowest_resolution_is_found_where_pes_hardly_fall_with_it() -> None:
    problem = hollow_sphere(50, (200, 100))
    pyramid = build_pyramid(problem, 20)
    first, before, last = (coarsest(pyramid, limit).pes for limit in (1.0, 1.08, 1.1))
    assert 0.98 * first < last < before
    limit = lowest_limit(pyramid, Plan(20, 0, 1.0, 0.0), 1.0, int(last), lambda: False)
    assert limit is not None
    assert 1.08 < limit <= 1.1


def test_plans_of_a_flat_volume_begin_with_the_sampling_that_fits_exactly() -> None:
    problem = flat((20, 40, 200), (400, 400))
    plans = make_plans(summarise(problem), problem.num_pes, 10**7)
    assert plans[0].sampling == 10
    assert plans[0].accuracy == pytest.approx(1.0)


def test_cells_without_heat_do_not_limit_the_sampling() -> None:
    dense, spot = flat((64, 64), (20, 20)), ball((64, 64), (20, 20), (10, 10), 1.0, floor=0.0)
    assert most_cells(summarise(dense), 400) == 400_000
    assert most_cells(summarise(spot), 400) > 20_000_000


def test_leftover_pes_go_to_smaller_tiles_or_to_a_finer_level() -> None:
    pyramid = build_pyramid(flat((2, 2), (4, 4)), 10)
    found = evaluate(pyramid, Plan(10, 0, 1.0, 0.0), 1.0, 16)
    assert found is not None
    assert found.base == (4.0, 4.0)
    assert finer(found.plan, found.base[1], 2, 16) == Plan(20, 0, 1.0, 0.0)  # all four can be split
    assert finer(found.plan, found.base[1], 2, 15) == Plan(20, 1, 2.0, 0.0)


@pytest.mark.slow
def test_search_gets_better_and_is_a_function_of_the_seed() -> None:
    problem = torus((20, 20, 10), (60, 40))
    runs = []
    for _ in range(2):
        clock = Clock(1e9, problem.num_pes)
        steps = search(problem, summarise(problem), problem.num_pes, 3, clock)
        runs.append([next(steps).accuracy for _ in range(12)])
    assert runs[0] == runs[1]
    assert runs[0] == sorted(runs[0])
    assert runs[0][-1] > runs[0][0]


def test_statistics_of_one_sampling_are_kept_beside_those_that_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take 550 MB each where volumes are large."""
    problem = torus((20, 20, 10), (60, 40))
    kept: list[int] = []

    def build(*arguments: Any) -> Pyramid:
        gc.collect()
        kept.append(sum(type(one) is Pyramid for one in gc.get_objects()))
        return build_pyramid(*arguments)

    monkeypatch.setattr("placer.stencil.search.search.build_pyramid", build)
    before = sum(type(one) is Pyramid for one in gc.get_objects())
    steps = search(problem, summarise(problem), problem.num_pes, 3, Clock(1e9, problem.num_pes))
    accuracies = [partition.accuracy for partition in islice(steps, 40)]
    assert accuracies == sorted(accuracies)
    assert len(kept) > 10
    assert max(kept) <= before + 2  # that of the best, and that of the best before it, which the caller may hold
