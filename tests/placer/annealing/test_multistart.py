"""Several starts: the best counts, processes do not matter, Ctrl-C keeps what is finished."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from placer.annealing import (
    AnnealOptions,
    AnnealStatus,
    Elite,
    FinalRouting,
    MultiStartResult,
    Round,
    Schedule,
    StartJob,
    StartKind,
    Strategy,
    Task,
    finalists,
    fit_schedule,
    pool,
    random_start,
    reroute,
    search_once,
    search_starts,
)
from placer.annealing import multistart as module
from placer.annealing.finalists import Judge
from placer.base import InputError
from placer.cost import CostModel, HeuristicCost, Rules, SimulatorCost, energy_of
from placer.cost.cost import RandomCost
from placer.decision import Decisions, allowed_sites, check
from placer.decision.routing import RoutingMethod, route
from placer.fabric import Fabric
from placer.netlist import Netlist
from placer.simulation import PRECISE_LIMITS
from tests.placer.lowered_cases import SMALL, netlist_of, random_decisions

SHORT = AnnealOptions(max_moves=2_000)
FEW = AnnealOptions(max_moves=20, start_temperature=0.01, schedule=Schedule(end=5e-4))


class Asked(NamedTuple):
    """What to search, and how."""

    task: Task
    strategy: Strategy

    def changed(self, **more: Any) -> Asked:
        return Asked(self.task, replace(self.strategy, **more))


def ask(cost: CostModel | None = None, options: AnnealOptions = SHORT, **more: Any) -> Asked:
    netlist = netlist_of("gemm", False)
    mask = more.pop("is_allowed", allowed_sites(SMALL, netlist, None))
    task = Task(SMALL, netlist, cost or HeuristicCost(SMALL), mask)
    return Asked(task, Strategy(options, **more))


def same(one: Decisions, two: Decisions) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(two, name))
        for name in ("sites", "channels", "route_start", "links", "parents")
    )


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing() -> None:
    alone = [search_once(StartJob(*ask(), number, 7)) for number in range(3)]
    finished: list[int] = []
    for workers in (1, 2):
        result = search_starts(*ask(), 7, starts=3, workers=workers, on_finish=lambda s: finished.append(s.number))
        assert [start.number for start in result.starts] == [0, 1, 2]
        assert not result.is_interrupted
        energies = [start.result.energy for start in result.starts]
        assert energies == [start.result.energy for start in alone]
        assert result.best.number == int(np.argmin(energies))
        assert same(result.best.result.decision, alone[result.best.number].result.decision)
    assert sorted(finished) == [0, 0, 1, 1, 2, 2]


def test_starts_differ_and_repeat() -> None:
    first, second = (search_once(StartJob(*ask(), number, 3)) for number in (0, 1))
    assert not same(first.start, second.start)
    again = search_starts(*ask(), 3)
    assert same(again.best.result.decision, first.result.decision)
    assert (
        again.best.result.energy
        == first.result.energy
        < energy_of(HeuristicCost(SMALL), netlist_of("gemm", False), first.start)
    )


def test_equal_energies_go_to_the_lowest_number() -> None:
    one = search_once(StartJob(*ask(options=AnnealOptions(max_moves=1)), 0, 0))
    two = module.StartResult(1, one.start, one.result, one.favourite)
    assert MultiStartResult((one, two), False).best is one


def interrupt_after(number: int) -> Callable[..., Iterator[tuple[int, Any]]]:
    """Stands in for `run_local`: some results, the last tasks first, then Ctrl-C."""

    def run(function: Any, tasks: Any, *args: Any, **options: Any) -> Iterator[tuple[int, Any]]:
        for index in reversed(range(len(tasks) - number, len(tasks))):
            yield index, function(tasks[index])
        raise KeyboardInterrupt

    return run


def test_ctrl_c_keeps_the_finished_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_local", interrupt_after(2))
    result = search_starts(*ask(), 1, starts=4, workers=2)
    assert result.is_interrupted
    assert [start.number for start in result.starts] == [2, 3]


def test_ctrl_c_before_the_first_result_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_local", interrupt_after(0))
    with pytest.raises(KeyboardInterrupt):
        search_starts(*ask(), 1, starts=4)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["heuristic", "search"])
def test_ctrl_c_in_a_single_start_keeps_the_best_so_far(phase: str) -> None:
    def press(seen: str, point: Round) -> None:
        if seen == phase:
            raise KeyboardInterrupt

    cost = SimulatorCost(SMALL)
    asked = ask(cost, FEW, start=StartKind.HEURISTIC)
    result = search_starts(*asked, 0, watch=press)
    assert result.is_interrupted
    best = result.best.result
    assert best.status is AnnealStatus.INTERRUPTED
    assert best.energy == pytest.approx(energy_of(cost, asked.task.netlist, best.decision))


@pytest.mark.slow
@pytest.mark.parametrize("kind", StartKind)
def test_a_search_is_never_worse_than_its_start(kind: StartKind) -> None:
    cost = SimulatorCost(SMALL)
    asked = ask(cost, FEW, start=kind)
    phases: list[str] = []
    only = search_starts(*asked, 0, watch=lambda phase, point: phases.append(phase)).best
    assert only.result.energy <= energy_of(cost, asked.task.netlist, only.start)
    assert ("heuristic" in phases) == (kind is StartKind.HEURISTIC)
    assert only.result.moves <= 20


def test_a_warm_start_begins_where_it_says() -> None:
    netlist = netlist_of("gemm", False)
    warm = random_start(SMALL, netlist, allowed_sites(SMALL, netlist, None), seed=99)
    asked = ask(RandomCost(), FEW, start=StartKind.HEURISTIC, warm_start=warm)
    assert (search_once(StartJob(*asked, 0, 0)).start.sites[0] == warm.sites).all()


def test_every_step_keeps_to_the_constraints() -> None:
    netlist = netlist_of("gemm", False)
    mask = allowed_sites(SMALL, netlist, None)
    compute = [u for u, unit in enumerate(netlist.units) if unit.kind == 0]
    mask[compute[:4], 32:] = False
    for cost, options in ((HeuristicCost(SMALL), SHORT), (RandomCost(), FEW)):
        result = search_starts(*ask(cost, options, is_allowed=mask), 0).best.result
        assert mask[np.arange(netlist.num_units), result.decision.sites[0]].all()


def test_a_limit_of_moves_shortens_the_rounds() -> None:
    options = AnnealOptions(max_moves=1000, start_temperature=0.01, schedule=Schedule(end=5e-4))
    fitted = fit_schedule(options, num_units=90)
    rounds = math.ceil(math.log(20) / -math.log(0.8))
    assert fitted.schedule.round_moves(90, 1.0) == pytest.approx(1000 / rounds, abs=1)
    assert fit_schedule(AnnealOptions(max_moves=1000), 90).schedule == Schedule()
    long = AnnealOptions(max_moves=10**9, start_temperature=0.01)
    assert fit_schedule(long, 90) == long


def test_no_starts_are_refused() -> None:
    with pytest.raises(InputError, match="starts=0 is out of range"):
        search_starts(*ask(), 0, starts=0)


class _Favours:
    """Prefers one of two sets of routes, told apart by their channels and links."""

    def __init__(self, favourite: Decisions) -> None:
        self._favourite = favourite

    def score(self, netlist: Netlist, decisions: Decisions) -> Any:
        return np.array([0.9 if same(decisions, self._favourite) else 0.5])


def test_rerouting_keeps_what_the_cost_model_likes_better() -> None:
    netlist = netlist_of("gemm", False)
    simple = random_decisions(netlist, 1, seed=0)
    negotiated = route(SMALL, netlist, simple.sites, method=RoutingMethod.NEGOTIATED)
    assert not same(simple, negotiated)
    for favourite, name in ((simple, FinalRouting.DIMENSION_ORDERED), (negotiated, FinalRouting.NEGOTIATED)):
        chosen, kind = reroute(SMALL, netlist, _Favours(favourite), simple)
        assert same(chosen, favourite)
        assert kind is name


@pytest.mark.slow
def test_the_cost_model_chooses_the_start_from_the_pool() -> None:
    is_better = []
    for taste in range(3):
        asked = ask(RandomCost(taste), FEW, start=StartKind.HEURISTIC)
        tasks = [StartJob(*asked.changed(pool=pool), 0, 5) for pool in (1, 4)]
        alone, chosen = (asked.task.cost.score(asked.task.netlist, search_once(t).start)[0] for t in tasks)
        assert alone <= chosen, "the first of the pool is the start of the search alone"
        is_better.append(alone < chosen)
    assert any(is_better)


@pytest.mark.slow
def test_the_fastest_finalist_in_simulation_is_the_result() -> None:
    truth = SimulatorCost(SMALL, PRECISE_LIMITS)
    asked = ask(RandomCost(3), FEW, start=StartKind.HEURISTIC, pool=3)
    plain = search_once(StartJob(*asked, 0, 5))
    judged = search_once(StartJob(*asked.changed(finalists=50), 0, 5))
    speed = float(truth.score(asked.task.netlist, judged.result.decision)[0])
    assert plain.simulated is None and judged.simulated == speed
    for decision in (judged.start, judged.favourite):
        assert speed >= truth.score(asked.task.netlist, decision)[0]
    assert judged.result.energy == energy_of(asked.task.cost, asked.task.netlist, judged.result.decision)
    slower = replace(judged, number=0, simulated=speed / 2)
    assert MultiStartResult((slower, replace(judged, number=1))).best.number == 1


def test_placements_that_cannot_win_are_not_simulated_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    netlist = netlist_of("ffn", False)
    decisions = random_decisions(netlist, 6, seed=0)
    truth = SimulatorCost(SMALL).score(netlist, decisions)
    seen: list[Decisions] = []

    class Recorded(SimulatorCost):
        def score(self, netlist: Netlist, decisions: Decisions) -> Any:
            seen.append(decisions)
            return super().score(netlist, decisions)

    monkeypatch.setattr(finalists, "SimulatorCost", Recorded)
    monkeypatch.setattr(finalists, "LONG_SAMPLE_CYCLES", 1)
    judge = Judge(SMALL, netlist)
    speeds = [judge.simulate(decisions[int(k)]) for k in np.argsort(-truth)]
    assert judge.throughput == speeds[0] == truth.max() and len(seen) < len(decisions)
    np.testing.assert_allclose(speeds, -np.sort(-truth), rtol=0.25)


@pytest.mark.slow
def test_with_finalists_the_simulator_chooses_the_start_from_the_pool() -> None:
    asked = ask(RandomCost(3), FEW, start=StartKind.HEURISTIC, pool=4, finalists=1)
    elite = Elite()
    judged = search_once(StartJob(*asked, 0, 5), elite=elite)
    truth = SimulatorCost(SMALL, PRECISE_LIMITS)
    speeds = [truth.score(asked.task.netlist, decision)[0] for decision in elite.decisions[:4]]
    assert len(set(speeds)) > 1
    assert same(judged.start, elite.decisions[int(np.argmax(speeds))])


class _Slow(Judge):
    """Has time for a simulation after some searches only."""

    def __init__(self, asked: Asked, is_affordable: Callable[[], bool]) -> None:
        super().__init__(asked.task.fabric, asked.task.netlist)
        self._is_affordable, self.simulated = is_affordable, list[Decisions]()

    @property
    def seconds(self) -> float:
        return 0.0 if self._is_affordable() else math.inf

    def simulate(self, decision: Decisions) -> float:
        self.simulated.append(decision)
        return super().simulate(decision)


@pytest.mark.slow
@pytest.mark.parametrize("affordable_after", [5, 100])
def test_where_simulations_are_slow_predictions_choose(affordable_after: int) -> None:
    """The first result is simulated, and the others in the order of their predictions."""
    cost, elite = RandomCost(4), Elite()
    options = replace(FEW, time_limit=60.0)
    asked = ask(cost, options, start=StartKind.HEURISTIC, pool=5, finalists=1)
    judge = _Slow(asked, lambda: len(elite.decisions) >= affordable_after)
    seeds = StartJob(*asked, 0, 5).seeds()[1]
    first = pool.search_pool(*asked, seeds, elite, judge, lambda point, search: None)
    scores = np.array([cost.score(asked.task.netlist, decision)[0] for decision in elite.decisions])
    assert len(scores) == 5 and same(judge.simulated[0], elite.decisions[0])
    if affordable_after == 100:
        assert len(judge.simulated) == 1
        assert same(first.decision, elite.decisions[int(np.argmax(scores))])
        return
    for decision, k in zip(judge.simulated[1:], 1 + np.argsort(-scores[1:]), strict=True):
        assert same(decision, elite.decisions[k])
    assert judge.best is not None and same(first.decision, judge.best)


@pytest.mark.slow
def test_a_deadlock_does_not_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is simulated and deadlocks; predictions choose among the others."""
    monkeypatch.setattr(Judge, "simulate", lambda self, decision: np.finfo(float).tiny)
    cost, elite = RandomCost(4), Elite()
    options = replace(FEW, time_limit=60.0)
    asked = ask(cost, options, start=StartKind.HEURISTIC, pool=4, finalists=1)
    seeds = StartJob(*asked, 0, 5).seeds()[1]
    judge = _Slow(asked, lambda: False)
    first = pool.search_pool(*asked, seeds, elite, judge, lambda point, search: None)
    scores = [cost.score(asked.task.netlist, decision)[0] for decision in elite.decisions[1:]]
    assert same(first.decision, elite.decisions[1 + int(np.argmax(scores))])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pool", "warm start", "random start"])
def test_ctrl_c_during_a_simulation_ends_the_search(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated: list[Decisions] = []

    class Interrupted(SimulatorCost):
        def score(self, netlist: Netlist, decisions: Decisions) -> Any:
            simulated.append(decisions)
            os.kill(os.getpid(), signal.SIGINT)
            return super().score(netlist, decisions)

    monkeypatch.setattr(finalists, "SimulatorCost", Interrupted)
    asked = ask(RandomCost(), FEW, finalists=2)
    if kind == "pool":
        asked = asked.changed(start=StartKind.HEURISTIC, pool=3)
    elif kind == "warm start":
        asked = asked.changed(warm_start=random_start(SMALL, asked.task.netlist, asked.task.is_allowed, 1))
    result = search_starts(*asked, seed=5)
    assert result.is_interrupted and len(simulated) == 1
    best = result.best
    assert same(best.result.decision, simulated[0]) and best.simulated is not None
    if kind == "warm start":
        assert best.result.moves <= 1, "there is no search after it"
    check(asked.task.fabric, asked.task.netlist, best.result.decision)


@pytest.mark.slow
def test_searches_of_the_pool_have_rules_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Rules] = []

    class Recorded(HeuristicCost):
        def __init__(self, fabric: Fabric, rules: Rules | None = None) -> None:
            super().__init__(fabric, rules)
            seen.append(self.rules)

    monkeypatch.setattr(pool, "HeuristicCost", Recorded)
    given = Rules(link=2.0, flow=0.0)
    asked = ask(RandomCost(), FEW, start=StartKind.HEURISTIC, pool=5, rules=given)
    search_once(StartJob(*asked, 0, 5))
    *searched, judge = seen
    assert searched[0] == searched[2] == searched[4] == judge == given
    assert len(set(searched)) == 3
    assert all(rules.flow == 0 and rules.link > 0 for rules in searched), "factors keep a rule off"
    again = list(searched)
    seen.clear()
    search_once(StartJob(*asked, 0, 5))
    assert seen[:-1] == again


@pytest.mark.slow
def test_the_favourite_of_the_heuristic_is_always_simulated() -> None:
    asked = ask(RandomCost(3), FEW, start=StartKind.HEURISTIC, pool=4, finalists=1)
    heuristic = HeuristicCost(SMALL)
    elite = Elite()
    judged = search_once(StartJob(*asked, 0, 5), elite=elite)
    energies = [energy_of(heuristic, asked.task.netlist, d) for d in elite.decisions[:4]]
    favourite = elite.decisions[int(np.argmin(energies))]
    assert elite.favourite is favourite
    speed = SimulatorCost(SMALL, PRECISE_LIMITS).score(asked.task.netlist, favourite)[0]
    assert judged.simulated is not None and judged.simulated >= speed


@pytest.mark.slow
def test_without_a_pool_only_results_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Decisions] = []

    class Recorded(SimulatorCost):
        def score(self, netlist: Netlist, decisions: Decisions) -> Any:
            seen.append(decisions)
            return super().score(netlist, decisions)

    monkeypatch.setattr(finalists, "SimulatorCost", Recorded)
    judged = search_once(StartJob(*ask(options=FEW, finalists=1), 0, 5))
    assert all(same(decision, judged.result.decision) for decision in seen) and seen


def test_wrong_numbers_are_refused() -> None:
    for wrong in ({"pool": 0}, {"finalists": -1}):
        with pytest.raises(InputError, match="allowed: 1 or more, 0 or more"):
            ask(**wrong)
