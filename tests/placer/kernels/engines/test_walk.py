"""Walks over mappings: every state is legal, tables say what layouts say, costs choose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import LongArray
from placer.kernels.engines import (
    Schedule,
    Search,
    State,
    arrange,
    best_rows,
    frames_of,
    map_kernels,
    shelves_of,
    start_state,
    walk,
    walks,
)
from placer.kernels.engines.auto import Portfolio
from placer.kernels.engines.walks import Steering, contest_ticks, frame_of
from placer.kernels.model import (
    H,
    K,
    KernelGraph,
    KernelLayout,
    Mapping,
    Wafer,
    branched,
    extents_of,
    find_faults,
    generate,
    judge,
    layout_of,
    plain,
    table_of,
)
from placer.kernels.sizing import JointSizing, Problem
from placer.kernels.truth import (
    FormulaCost,
    MappingCost,
    Scores,
    SimulatorCost,
    WaferMeasurement,
    simulate_mapping,
    simulation,
)
from placer.kernels.truth.streams import kernel_shape

GRAPHS: dict[str, KernelGraph] = {
    "tiny": generate("tiny"),
    "tiny_convs": generate("tiny_convs"),
    "plain": plain((1, 2), 16, 16, Wafer(120, 90)),
    "branched": branched(1, 16, 8, Wafer(100, 100)),
}
PROBLEMS = {name: Problem(graph) for name, graph in GRAPHS.items()}


def start_of(problem: Problem) -> State:
    """Rows in depth-first order at a long time."""
    for ticks in problem.times[:: max(1, len(problem.times) // 40)].tolist():
        shapes = problem.shapes_at(ticks)
        rows = best_rows(shapes, arrange(problem.edges, problem.depth_first))
        if rows is None:
            continue
        shelves, sizing = shelves_of(rows), JointSizing(problem, ticks, lambda: False)
        sized = sizing.choose_that_fit(frames_of(shapes, shelves), 2, 0)
        state = None if sized is None else start_state(problem, shelves, sized)
        if state is not None:
            return state
    raise AssertionError("no rows")


STARTS = {name: start_of(problem) for name, problem in PROBLEMS.items()}


class RowsCost:
    """Likes large h; all kernels are busy."""

    def score(self, problem: Problem, tables: LongArray) -> Scores:
        liked = 1 - 1 / (1.0 + tables[:, :, H].sum(axis=1))
        return Scores(liked, np.ones(tables.shape[:2]))


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(GRAPHS)), st.integers(0, 2**20), st.floats(1e-3, 1.0))
def test_every_step_is_legal(name: str, seed: int, hot: float) -> None:
    problem = PROBLEMS[name]
    for step in walk(problem, STARTS[name], RowsCost(), Schedule(30, hot, hot / 10), seed):
        assert find_faults(problem.graph, layout_of(step.state.table)) == []


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(sorted(GRAPHS)), st.integers(0, 2**20))
def test_nothing_is_faster_than_its_slowest_kernel(name: str, seed: int) -> None:
    problem = PROBLEMS[name]
    for step in walk(problem, STARTS[name], RowsCost(), Schedule(20, 9.0, 9.0), seed):
        measured = simulate_mapping(problem, layout_of(step.state.table))
        assert measured.cycles_per_sample >= measured.kernel_cycles.max() * (1 - 1e-9)


def test_the_same_seed_takes_the_same_steps() -> None:
    problem, heat = PROBLEMS["tiny"], Schedule(60, 0.01, 0.001)
    one, two = (list(walk(problem, STARTS["tiny"], RowsCost(), heat, 3)) for _ in range(2))
    assert [step.throughput for step in one] == [step.throughput for step in two]
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first.state.table, second.state.table)


def test_a_cold_walk_never_loses() -> None:
    problem = PROBLEMS["branched"]
    steps = walk(problem, STARTS["branched"], RowsCost(), Schedule(200, 1e-9, 1e-9), 0)
    accepted = [step.throughput for step in steps if step.is_accepted]
    assert accepted == sorted(accepted)
    assert accepted[-1] > accepted[0]


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_tables_say_what_layouts_say(name: str) -> None:
    problem, table = PROBLEMS[name], STARTS[name].table
    layout = layout_of(table)
    np.testing.assert_array_equal(table_of(layout), table)
    frame = frame_of(problem)
    for i, (kernel, placed) in enumerate(zip(problem.graph.kernels, layout, strict=True)):
        shape = kernel_shape(kernel, placed)
        assert extents_of(table[i]) == (shape.extent(0), shape.extent(1))
        ticks = contest_ticks(frame, table, i)
        assert ticks / problem.graph.time_scale == pytest.approx(shape.contest_cycles)
        assert (table[i, K:] > 0).sum() == len(kernel.convs)


def test_costs_of_the_truth_model() -> None:
    problem, table = PROBLEMS["branched"], STARTS["branched"].table
    measured = simulate_mapping(problem, layout_of(table))
    simulated, formula = (cost.score(problem, table[None]) for cost in (SimulatorCost(), FormulaCost()))
    assert simulated.throughput[0] == measured.throughput
    np.testing.assert_allclose(simulated.busy[0], measured.kernel_cycles / measured.cycles_per_sample)
    # Nothing is faster than its slowest kernel.
    assert formula.throughput[0] == pytest.approx(measured.bound_cycles / measured.kernel_cycles.max())
    assert formula.throughput[0] >= simulated.throughput[0] - 1e-9
    assert formula.busy.max() == 1.0


def test_the_cost_chooses_in_place_of_the_score() -> None:
    problem = PROBLEMS["tiny"]
    search = Search(problem, 0.0, cost=SimulatorCost())
    for engine in ("strips", "slicing"):
        map_kernels(search, engine)  # type: ignore[arg-type]
    assert search.best is not None
    assert search.best.throughput == pytest.approx(simulate_mapping(problem, search.best.layout).throughput)


class HalfCost:
    """In the right order, and far too low."""

    def score(self, problem: Problem, tables: LongArray) -> Scores:
        throughput, busy = SimulatorCost().score(problem, tables)
        return Scores(throughput / 2, busy)


def test_a_cost_that_says_too_little_still_finds_the_fastest() -> None:
    problem = PROBLEMS["branched"]
    steps = list(walk(problem, STARTS["branched"], SimulatorCost(), Schedule(40, 9.0, 9.0), 1))
    search = Search(problem, 1e9, cost=HalfCost())
    for step in sorted(steps, key=lambda step: step.throughput):
        layout = layout_of(step.state.table)
        search.take(Mapping(layout, judge(problem.graph, layout)))
    assert search.best is not None
    assert search.best.throughput == max(step.throughput for step in steps)
    assert search.best.predicted == search.best.throughput / 2


@pytest.mark.parametrize(("cost", "extra"), [(SimulatorCost(), 0), (FormulaCost(), 1)])
def test_the_truth_model_as_cost_simulates_nothing_twice(
    cost: MappingCost, extra: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, start, simulated = PROBLEMS["tiny"], STARTS["tiny"], list[KernelLayout]()

    def simulate(problem: Problem, layout: KernelLayout) -> WaferMeasurement:
        simulated.append(layout)
        return simulate_mapping(problem, layout)

    monkeypatch.setattr(simulation, "simulate_mapping", simulate)
    monkeypatch.setattr(walks, "STEPS", 20)
    steps = list(walk(problem, start, cost, Schedule(20, walks.HEATS[0], walks.HEATS[0] / 10), 0))
    num_scored = len(simulated)
    assert num_scored == (0 if extra else len(steps))
    search = Search(problem, 1e9, cost=cost)
    Steering(search, cost).walk_from(start, 0)
    assert len(simulated) == 2 * num_scored + extra
    layout = layout_of(start.table)
    Search(problem, 1e9, cost=cost).take(Mapping(layout, judge(problem.graph, layout)))
    assert len(simulated) == 2 * num_scored + extra + 1


@pytest.mark.slow
def test_steered_search_beats_its_own_rows() -> None:
    """A clock that counts questions: the same search on any machine."""
    ticks = iter(range(1 << 30))
    search = Search(PROBLEMS["tiny_convs"], 800, cost=FormulaCost(), clock=lambda: float(next(ticks)))
    first: list[float] = []
    search.on_better = lambda mapping: first.append(mapping.throughput or 0.0)
    Portfolio(search).run()
    assert first == sorted(first)
    assert first[-1] > first[0]
    assert search.best is not None
    assert find_faults(search.problem.graph, search.best.layout) == []
