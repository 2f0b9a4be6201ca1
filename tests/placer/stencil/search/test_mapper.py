"""Whole mappings: legal on awkward input, full where accuracy binds, never worse with time."""

from __future__ import annotations

import time

import numpy as np
import pytest

from placer.stencil.judge import score
from placer.stencil.model import ObjectiveName, Problem, ball, make_objective
from placer.stencil.model.generate import flat, hollow_sphere, make_problem, torus
from placer.stencil.search import Clock, Mapping, accuracy_ceiling, map_volume
from placer.stencil.search.netlist import MAX_LENGTH
from placer.stencil.search.partition import coarsest
from placer.stencil.search.plan import Correction, learn, make_plans, summarise
from placer.stencil.search.pyramid import build_pyramid


class Steps(Clock):
    """A clock that ticks when it is asked."""

    def __init__(self, limit: int) -> None:
        super().__init__(1e9, 1)
        self._left = limit

    def has_time(self, seconds: float = 0.0) -> bool:
        self._left -= 1
        return self._left >= 0


def mapped(problem: Problem, limit: int, seed: int = 0) -> Mapping:
    mapping = map_volume(problem, Steps(limit), seed)
    assert score(problem, mapping.solution) == mapping.score
    return mapping


HARD = {
    "zero heat": flat((4, 4, 4), (8, 8), 0.0),
    "zero heat, awkward volume": flat((9, 7), (3, 3), 0.0),
    "one PE": flat((10, 10), (1, 1)),
    "a line of PEs": flat((5, 5, 5), (1, 200)),
    "low heat": flat((4, 4), (10, 10), 0.3),
    "next to no heat": flat((4, 4, 4), (10, 10), 1e-8),
    "the smallest heat of 32 bits": flat((3, 4), (10, 10), 1.5e-45),
    "one hot point": make_problem((6, 6, 6), (12, 12), np.pad([[[1.0]]], 3)),
    "one hot corner": make_problem((64, 64), (12, 12), np.pad([[[1.0]]], ((0, 0), (0, 64), (0, 64)))),
    "volume of 9, 3, 11": ball((9, 3, 11), (30, 30), (4, 1, 5), 9.0),
    "volume of 64": ball((64, 64), (40, 40), (30, 30), 500.0),
    "volume of 99": ball((99, 99), (40, 40), (30, 30), 900.0, 0.0),
    "thin volume": ball((40, 1), (20, 20), (10, 0), 200.0),
    "fabric that is hardly large enough": flat((7, 3), (4, 4)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_hard_problems_get_legal_solutions(name: str) -> None:
    problem = HARD[name]
    mapping = mapped(problem, 30)
    assert (mapping.score.accuracy > 0) == bool(problem.heat.any())
    assert mapping.solution.sampling * max(problem.volume) <= MAX_LENGTH


@pytest.mark.parametrize("heat", [0.3, 0.01])
def test_low_heat_is_worth_as_much_as_high_heat(heat: float) -> None:
    """The score divides by max(1, scale): levels are lifted until the scale counts."""
    low, high = (mapped(flat((4, 4), (10, 10), value), 4).score for value in (heat, 1.0))
    assert low.accuracy_norm == pytest.approx(high.accuracy_norm, rel=1e-6)


FULL = {
    "ball in 3-D": ball((10, 10, 10), (80, 80), (5, 5, 5), 12.0),
    "ball in 2-D": ball((9, 9), (80, 80), (5, 5), 10.0),
    "cube of 64": flat((64, 64, 64), (80, 80)),
    "hollow sphere of 99": hollow_sphere(99, (60, 60)),
    "torus": torus((40, 40, 20), (120, 80)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_the_fabric_is_full_where_accuracy_binds(name: str) -> None:
    result = mapped(FULL[name], 40).score
    assert result.accuracy_norm <= result.wires_norm
    one_split = 13  # PEs of a split with adapters on all sides
    assert result.num_pes - result.used_pes <= max(0.001 * result.num_pes, one_split)
    assert result.accuracy_norm <= accuracy_ceiling(FULL[name])


@pytest.mark.slow
@pytest.mark.parametrize("problem", [flat((5, 5, 5), (1, 1000)), hollow_sphere(20, (40, 40))])
def test_more_steps_are_never_worse(problem: Problem) -> None:
    """Where wires bind (a line of PEs) and where accuracy does."""
    scores = [mapped(problem, limit).score.total for limit in (0, 2, 5, 10, 20, 40)]
    assert scores == sorted(scores)
    assert scores[-1] > scores[0]


def test_strips_without_heat_cost_nothing() -> None:
    """33 cells per edge leave strips along the border, where a hollow sphere has no heat."""
    hollow, full = hollow_sphere(33, (60, 60), 0.3, 0.35), flat((33, 33, 33), (60, 60))
    plans = [make_plans(summarise(p), p.num_pes, 10**7) for p in (hollow, full)]
    best = [max((plan.accuracy for plan in of_one), default=0.0) for of_one in plans]
    assert best[0] > 0.3
    assert best[1] < 0.1  # 33 * 33 smallest tiles on each of three sides: hardly anything fits


def test_plans_are_made_for_the_pes_that_are_asked_for() -> None:
    problem = ball((8, 8, 8), (100, 100), (4, 4, 4), 9.0)
    summary = summarise(problem)
    few, many = (make_plans(summary, pes, 10**7)[0] for pes in (1250, 10_000))
    density = [plan.sampling / plan.finest_limit for plan in (few, many)]
    assert density[1] / density[0] == pytest.approx(2.0, rel=0.2)


def test_plans_learn_from_what_was_tried() -> None:
    """A thin shell takes more tiles than its volume says; the next plan knows."""
    problem = hollow_sphere(20, (60, 60), 0.3, 0.4)
    summary, needed, corrections = summarise(problem), [], list[Correction]()
    for _ in range(3):
        plan = make_plans(summary, problem.num_pes, 10**6, corrections)[0]
        tree = coarsest(build_pyramid(problem, plan.sampling), plan.finest_limit)
        corrections.append(learn(summary, plan, tree.value, tree.pes))
        needed.append(tree.pes / problem.num_pes)
    assert needed[0] > 1.3
    assert needed[-1] < 1.1


def test_ceilings_by_hand() -> None:
    assert accuracy_ceiling(flat((4, 4), (4, 4))) == pytest.approx(1.0)
    assert accuracy_ceiling(flat((4, 4), (4, 4), 0.0)) == 0.0
    # Between R / 2 and R, heat that rises evenly is worth 3/4 on average.
    rising = make_problem((30, 30), (4, 4), 0.5 + np.arange(31.0)[None, :, None] / 60)
    assert accuracy_ceiling(rising) == pytest.approx(0.75, abs=0.01)


def test_objectives_are_exchangeable() -> None:
    problem = Problem((4, 4), (30, 2), flat((4, 4), (1, 1)).heat, weights=(0.0, 1.0))
    weighted = make_objective(ObjectiveName.WEIGHTED, problem)
    assert weighted(0.5, 0.25) == 0.25
    assert make_objective(ObjectiveName.CONTEST, problem)(0.5, 0.75) == 0.5
    by_wires = map_volume(problem, Steps(20), 0, weighted).score
    assert weighted(by_wires.accuracy_norm, by_wires.wires_norm) == 1.0


def test_a_busy_machine_gets_more_time_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now, computing = [0.0], [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "process_time", lambda: computing[0])
    clock = Clock(100.0, 1, ending=10.0)
    now[0], computing[0] = 80.0, 80.0
    assert clock.has_time(8.0)
    computing[0] = 30.0  # what follows takes 27 s and more
    assert not clock.has_time()


def test_a_limit_that_is_too_short_gets_no_extra_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    clock = Clock(10.0, 10**6, begin=-8.0, ending=1.0)  # 8 s were spent on reading
    assert clock.least_limit(10**6) > 10.0
    assert not clock.has_time()
    assert Clock(60.0, 10**6, begin=-8.0, ending=1.0).has_time(40.0)


def test_the_least_limit_follows_from_how_busy_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "process_time", lambda: now[0] / 6)
    free, busy = (Clock(20.0, 160_000, 0.0, 2.0, slowness=slowness) for slowness in (1.0, 6.0))
    assert free.least_limit(4096) < 5.0
    assert busy.least_limit(4096) == pytest.approx(6 * free.least_limit(4096))
    assert free.has_time(10.0)
    assert not busy.has_time(10.0)  # the end alone takes 15 s
    now[0] = 18.0  # what was measured in the meantime counts more and more
    assert busy.slowness == pytest.approx(6.0)


def test_an_interrupt_ends_the_search_with_a_solution() -> None:
    problem = ball((10, 10, 10), (80, 80), (5, 5, 5), 12.0)
    clock = Clock(1e9, problem.num_pes, is_interrupted=lambda: clock.seconds > 0.2)
    mapping = map_volume(problem, clock, 0)
    assert score(problem, mapping.solution).total > 0.3
