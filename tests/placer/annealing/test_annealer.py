"""The annealer: limits, repeatability, legal results, and results that are worth the moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.annealing import AnnealOptions, AnnealResult, AnnealStatus, MoveMix, Round, Schedule, Search, anneal
from placer.base import InputError
from placer.cost import CostModel, HeuristicCost, Rules, SimulatorCost
from placer.cost.cost import RandomCost
from placer.decision import Decisions, check, random_sites
from placer.decision.routing import RoutingMethod, route, route_turns
from placer.fabric import Fabric, load_fabric
from placer.graph.workloads import FAMILIES, build, default_spec
from placer.netlist import Netlist
from placer.netlist.lowering import lower, macs_for_cycles
from tests.placer.annealing.cases import SAMPLE_CYCLES, SMALL, EnergyCost, drawn, free_start, random_start

SEEDS = st.integers(0, 2**32 - 1)
QUICK = AnnealOptions(effort=0.02, schedule=Schedule(cooling=4))


class StubCost:
    """Throughput by the sum of all site ids: a cost model with one clear optimum."""

    def score(self, netlist: Netlist, decisions: Decisions) -> np.ndarray:
        result: np.ndarray = 1 / (1 + decisions.sites.sum(axis=1))
        return result


def models(fabric: Fabric) -> list[CostModel]:
    return [HeuristicCost(fabric), EnergyCost(fabric), StubCost(), RandomCost(), SimulatorCost(fabric)]


@pytest.mark.slow
@settings(max_examples=15)
@given(SEEDS, st.integers(0, 4))
def test_result_is_legal_and_no_worse_than_the_start(seed: int, model: int) -> None:
    fabric, netlist, start = random_start(seed, is_constrained=bool(seed % 2))
    cost, first = (models(fabric)[model], route_turns(fabric, netlist, start.sites[None], start.flow_class[None]))
    result = anneal(fabric, netlist, cost, start, replace(QUICK, max_moves=200), seed)
    check(fabric, netlist, result.decision)
    assert len(result.decision) == 1
    assert start.is_allowed[np.arange(netlist.num_units), result.decision.sites[0]].all()
    if isinstance(cost, RandomCost):
        return  # scores a decision anew each time
    energies = [energy_of(cost, netlist, one) for one in (result.decision, first)]
    assert result.energy == pytest.approx(energies[0], abs=1e-9)
    assert energies[0] <= energies[1] + 1e-9


def energy_of(cost: CostModel, netlist: Netlist, decision: Decisions) -> float:
    """What the annealer descends."""
    if isinstance(cost, HeuristicCost):
        return float(cost.energy(netlist, decision)[0])
    return float(-np.log(cost.score(netlist, decision))[0])


@settings(max_examples=10)
@given(SEEDS, st.integers(0, 3))
def test_the_curve_tells_the_story(seed: int, model: int) -> None:
    fabric, netlist, start = random_start(seed)
    result = anneal(fabric, netlist, models(fabric)[model], start, QUICK, seed)
    curve = result.curve
    assert result.status == AnnealStatus.COOLED
    assert (np.diff([point.best_energy for point in curve]) <= 0).all()
    assert (np.diff([point.temperature for point in curve]) < 0).all()
    assert (np.diff([point.moves for point in curve]) > 0).all()
    assert (np.diff([point.seconds for point in curve]) >= 0).all()
    assert all(point.best_energy <= point.energy + 1e-9 for point in curve)
    assert all(0 <= point.acceptance <= 1 for point in curve)
    assert curve[-1].best_energy == result.energy
    assert curve[-1].moves == result.moves
    assert sum(result.accepted.values()) + sum(result.refused.values()) == result.moves


@pytest.mark.slow
@pytest.mark.parametrize("model", range(5))
def test_same_seed_same_bytes(model: int) -> None:
    netlist = drawn("mlp")
    max_moves = 8 if isinstance(models(SMALL)[model], SimulatorCost) else 120
    start, options = free_start(SMALL, netlist), replace(QUICK, max_moves=max_moves)

    def contents(seed: int) -> tuple[object, ...]:
        result = anneal(SMALL, netlist, models(SMALL)[model], start, options, seed)
        decision = result.decision
        arrays = (decision.sites, decision.channels, decision.route_start, decision.links)
        curve = tuple(replace(point, seconds=0) for point in result.curve)
        return (*(array.tobytes() for array in arrays), result.energy, result.accepted, curve)

    assert contents(1) == contents(1)
    assert contents(1) != contents(2)


@pytest.mark.parametrize("max_moves", [1, 20, 150])
@pytest.mark.parametrize("model", [0, 1])
def test_no_more_moves_than_allowed(max_moves: int, model: int) -> None:
    netlist = drawn("gemm")
    assert netlist.num_units > 20  # the first temperature alone would ask for more moves
    options = AnnealOptions(max_moves=max_moves)
    result = anneal(SMALL, netlist, models(SMALL)[model], free_start(SMALL, netlist), options, 0)
    assert result.moves == max_moves
    assert result.status == AnnealStatus.MOVE_LIMIT


@pytest.mark.parametrize("model", range(5))
def test_time_may_run_out_at_once(model: int) -> None:
    fabric, netlist, start = random_start(1)
    options = AnnealOptions(time_limit=1e-9)
    result = anneal(fabric, netlist, models(fabric)[model], start, options, 0)
    assert result.status == AnnealStatus.TIME_LIMIT
    assert result.moves <= netlist.num_units  # those that measure the start temperature
    check(fabric, netlist, result.decision)


@pytest.mark.parametrize("model", [0, 1])
def test_an_interrupt_gives_the_best_so_far(model: int) -> None:
    netlist, seen = drawn("ffn"), []

    def interrupt(point: Round, search: Search) -> None:
        check(SMALL, netlist, search.current())
        seen.append(point)
        if len(seen) == 3:
            raise KeyboardInterrupt

    start, cost = free_start(SMALL, netlist), models(SMALL)[model]
    result = anneal(SMALL, netlist, cost, start, QUICK, 0, interrupt)
    assert result.status == AnnealStatus.INTERRUPTED
    assert list(result.curve) == seen
    assert result.energy == seen[-1].best_energy
    check(SMALL, netlist, result.decision)


def test_an_error_of_the_watcher_is_not_swallowed() -> None:
    def fail(point: Round, search: Search) -> None:
        raise ZeroDivisionError

    fabric, netlist, start = random_start(1)
    with pytest.raises(ZeroDivisionError):
        anneal(fabric, netlist, HeuristicCost(fabric), start, QUICK, 0, fail)


def test_a_start_temperature_is_taken() -> None:
    fabric, netlist, start = random_start(1)
    cost = HeuristicCost(fabric)
    result = anneal(fabric, netlist, cost, start, replace(QUICK, start_temperature=0.125), 0)
    assert result.curve[0].temperature == 0.125
    cold = anneal(fabric, netlist, cost, start, replace(QUICK, start_temperature=1e-9), 0)
    assert (cold.status, cold.moves, cold.curve) == (AnnealStatus.COOLED, 0, ())
    np.testing.assert_array_equal(cold.decision.sites[0], start.sites)


@settings(max_examples=10)
@given(SEEDS, st.integers(0, 1))
def test_only_moves_of_the_mix_are_tried(seed: int, model: int) -> None:
    fabric, netlist, start = random_start(seed)
    cost = models(fabric)[model]
    turns = MoveMix(relocate=0, swap=0, group_swap=0, stage_shift=0)
    result = anneal(fabric, netlist, cost, start, replace(QUICK, moves=turns), seed)
    np.testing.assert_array_equal(result.decision.sites[0], start.sites)
    assert sum(result.accepted.values()) == result.accepted["reroute"]
    sites_only = replace(QUICK, moves=MoveMix(reroute=0))
    result = anneal(fabric, netlist, cost, start, sites_only, seed)
    assert result.accepted["reroute"] == 0
    half = fabric.link.channels // 2
    np.testing.assert_array_equal(result.decision.channels[0] >= half, start.flow_class == 1)


@pytest.mark.parametrize("doublings", [0, 5])
def test_flat_and_steep_norms_can_be_annealed(doublings: int) -> None:
    """A steep norm falls by many powers of ten: the running total must stay exact enough."""
    netlist = drawn("mha")
    cost = HeuristicCost(SMALL, Rules(doublings=doublings))
    start = free_start(SMALL, netlist)
    result = anneal(SMALL, netlist, cost, start, AnnealOptions(effort=0.1), 0)
    assert result.energy == pytest.approx(cost.energy(netlist, result.decision)[0], abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"effort": 0},
        {"effort": float("inf")},
        {"time_limit": -1.0},
        {"time_limit": float("nan")},
        {"start_temperature": 0.0},
        {"max_moves": 0},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    [(name, value)] = options.items()
    with pytest.raises(InputError, match=f"{name}={value} is out of range; allowed"):
        AnnealOptions(**options)


@pytest.mark.parametrize("share", [-1.0, float("nan"), float("inf")])
def test_shares_out_of_range_are_refused(share: float) -> None:
    for name in ("relocate", "reroute"):
        with pytest.raises(InputError, match="allowed 0 or more each, and one above 0"):
            MoveMix(**{name: share})


def test_a_mix_needs_a_move() -> None:
    with pytest.raises(InputError, match="one above 0"):
        MoveMix(relocate=0, swap=0, group_swap=0, stage_shift=0, reroute=0)


def annealed(fabric: Fabric, netlist: Netlist, effort: float, seed: int) -> AnnealResult:
    start, options = free_start(fabric, netlist, seed), AnnealOptions(effort=effort)
    return anneal(fabric, netlist, HeuristicCost(fabric), start, options, seed)


@pytest.mark.parametrize(("effort", "num_random"), [(0.05, 100), pytest.param(1.0, 1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", FAMILIES)
def test_annealing_beats_random_placements(family: str, effort: float, num_random: int) -> None:
    netlist = drawn(family)
    sites = random_sites(SMALL, netlist, num_random, seed=1)
    random = route(SMALL, netlist, sites, method=RoutingMethod.MIXED, seed=1)
    best = HeuristicCost(SMALL).energy(netlist, random).min()
    # More than 5% faster by the p-norm than the best of them.
    assert annealed(SMALL, netlist, effort, seed=0).energy < best - np.log(1.05)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_annealed_placements_are_fast_in_the_simulator(family: str) -> None:
    netlist, truth = drawn(family), SimulatorCost(SMALL)
    random = route(SMALL, netlist, random_sites(SMALL, netlist, 40, seed=1))
    result = annealed(SMALL, netlist, effort=1.0, seed=0)
    assert truth.score(netlist, result.decision)[0] > truth.score(netlist, random).max()


def median_energy(fabric: Fabric, netlist: Netlist, effort: float) -> float:
    """Over five seeds."""
    return float(np.median([annealed(fabric, netlist, effort, seed).energy for seed in range(5)]))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_more_effort_does_not_make_it_worse(family: str) -> None:
    energies = [median_energy(SMALL, drawn(family), effort) for effort in (0.05, 1.0)]
    assert energies[1] < energies[0] + 0.002  # 0.2% of the predicted cycles


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_larger_fabric_does_not_make_a_netlist_slower(family: str) -> None:
    """The same units and DRAM on more tiles: every relative placement is still there."""
    netlist = drawn(family)
    larger = replace(SMALL, columns=12, rows=12)
    small, large = (median_energy(fabric, netlist, effort=0.1) for fabric in (SMALL, larger))
    assert large < small + 0.01  # one percent of the predicted cycles


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_larger_fabric_runs_a_workload_in_fewer_cycles(family: str) -> None:
    """Twice the tiles take more shards, and longer ways do not eat up what they gain."""
    graph = build(default_spec(family, macs_for_cycles(SMALL, SAMPLE_CYCLES)))
    cycles = []
    for fabric in (SMALL, load_fabric("plasticine")):
        netlist, truth = lower(fabric, graph), SimulatorCost(fabric)
        results = [annealed(fabric, netlist, effort=0.1, seed=seed) for seed in range(5)]
        scores = [truth.score(netlist, result.decision)[0] for result in results]
        cycles.append(netlist.bound_cycles / np.median(scores))
    assert cycles[1] < cycles[0]
