"""Rows, floorplans and alignment: exact on small cases, legal always."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placer.kernels.engines import (
    Floorplan,
    Schedule,
    anneal_shelves,
    anneal_twins,
    arrange,
    best_rows,
    fill_rows,
    floorplan_of,
    shelves_of,
    slice_wafer,
)
from placer.kernels.engines.floorplan import align, is_legal, wire_length
from placer.kernels.engines.search import scan
from placer.kernels.engines.shelves import place_shelves
from placer.kernels.sizing import Problem
from tests.placer.kernels.cases import small_graphs

GRAPHS = small_graphs()


def problem_and_order(name: str) -> tuple[Problem, np.ndarray]:
    problem = Problem(GRAPHS[name])
    return problem, problem.depth_first


def never() -> bool:
    return False


def test_edges_along_an_order_by_hand() -> None:
    # 0 -> 1 -> 2 with a skip 0 -> 2
    arranged = arrange(np.array([(0, 1), (1, 2), (0, 2)]), np.arange(3))
    assert arranged.cover.tolist() == [1.0, 2.0, 1.0]
    assert arranged.crossing.tolist() == [2, 2, 0]
    assert arranged.adjacent.tolist() == [1, 1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_every_way_to_make_a_floorplan_is_legal(name: str) -> None:
    problem, order = problem_and_order(name)
    arranged = arrange(problem.edges, order)
    for ticks in problem.times[:: max(1, len(problem.times) // 5)].tolist():
        shapes = problem.shapes_at(ticks)
        width = problem.tables.width
        plans = [slice_wafer(shapes, order, width), anneal_twins(problem, shapes, 300, 0, never)]
        for rows in (best_rows(shapes, arranged), fill_rows(shapes, arranged)):
            if rows is not None:
                shelves = shelves_of(rows)
                plans.append(floorplan_of(shapes, shelves))
                schedule = Schedule(300, 10.0, 0.5)
                found = anneal_shelves(shapes, shelves, schedule, 1, never)
                assert found is not None
                before, plan = plans[-1], floorplan_of(shapes, found)
                assert before is not None
                assert wire_length(plan, problem.edges) <= wire_length(before, problem.edges)
                plans.append(plan)
        for plan in plans:
            if plan is not None:
                assert is_legal(plan, width, problem.tables.height)
                for kernel in range(problem.num):
                    least = shapes.widths[kernel, plan.extent_y[kernel]]
                    assert least <= plan.extent_x[kernel]


@pytest.mark.parametrize("name", GRAPHS)
def test_rows_without_stacks_are_never_better_than_with(name: str) -> None:
    problem, order = problem_and_order(name)
    arranged = arrange(problem.edges, order)
    for ticks in problem.times[:: max(1, len(problem.times) // 6)].tolist():
        shapes = problem.shapes_at(ticks)
        alone = best_rows(shapes, arranged, max_stack=1)
        greedy = fill_rows(shapes, arranged)
        stacked = best_rows(shapes, arranged)
        if greedy is not None:
            assert alone is not None
            assert alone.cost <= greedy.cost + 1e-9
        if alone is not None:
            assert stacked is not None


@pytest.mark.parametrize("name", GRAPHS)
def test_places_of_shelves_are_those_of_the_compiled_layout(name: str) -> None:
    problem, order = problem_and_order(name)
    shapes = problem.shapes_at(int(problem.times[-1]))
    rows = best_rows(shapes, arrange(problem.edges, order))
    assert rows is not None
    shelves = shelves_of(rows)
    plan = floorplan_of(shapes, shelves)
    width = problem.tables.width
    same = place_shelves(shelves, plan.extent_x, plan.extent_y, width)
    assert np.array_equal(same.x, plan.x)
    assert np.array_equal(same.y, plan.y)


@pytest.mark.slow
@given(st.data())
def test_alignment_of_a_row_of_two_is_optimal(data: st.DataObject) -> None:
    extent_x = np.array(data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=2)))
    extent_y = np.array(data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=2)))
    plan = Floorplan(np.array([0, 20]), np.array([0, 9]), extent_x, extent_y)
    aligned = align(plan, np.array([(0, 1)]), 30, 20)
    # side by side, centres level up to parity
    least = extent_x.sum() / 2 + (extent_y.sum() % 2) / 2
    stacked = extent_y.sum() / 2 + (extent_x.sum() % 2) / 2
    assert wire_length(aligned, np.array([(0, 1)])) in (least, stacked)
    assert is_legal(aligned, 30, 20)


def test_scan_finds_the_best_time_of_any_falling_cost() -> None:
    problem, _ = problem_and_order("chain")
    generator = np.random.default_rng(0)
    for _ in range(20):
        drops = generator.integers(0, 200, len(problem.times))
        costs = np.sort(np.cumsum(drops))[::-1].astype(float)
        infeasible = int(generator.integers(len(problem.times)))
        table = dict(zip(problem.times.tolist(), costs.tolist(), strict=True))

        def evaluate(ticks: int, first: int = infeasible, table: dict[int, float] = table) -> tuple[float, int] | None:
            is_early = ticks < problem.times[first]
            return None if is_early else (table[ticks], ticks)

        found = min(score for score, _, _ in scan(problem, evaluate, never))
        assert found == min((problem.times + costs)[infeasible:])
