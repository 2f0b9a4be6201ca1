"""The two engines: legal walks whose energies are those of the cost model, best ever kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.annealing import BatchedSearch, Counts, MoveMix, Refusal, Search, Start
from placer.annealing.search import INFINITE_TEMPERATURE, RulesSearch
from placer.cost import HeuristicCost
from placer.decision import Decisions, check
from placer.fabric import Fabric
from placer.graph.workloads import FAMILIES
from placer.netlist import Netlist
from tests.placer.annealing.cases import SMALL, EnergyCost, drawn, free_start, random_start

SEEDS = st.integers(0, 2**32 - 1)
MIX = MoveMix().cumulated()

Opener = Callable[[Fabric, Netlist, Start, int], Search]


def compiled(fabric: Fabric, netlist: Netlist, start: Start, seed: int) -> RulesSearch:
    return RulesSearch(fabric, netlist, HeuristicCost(fabric), start, MIX, seed)


def batched(fabric: Fabric, netlist: Netlist, start: Start, seed: int) -> BatchedSearch:
    return BatchedSearch(fabric, netlist, EnergyCost(fabric), start, MIX, seed)


ENGINES = pytest.mark.parametrize("engine", [compiled, batched])


@ENGINES
@settings(max_examples=20)
@given(SEEDS)
def test_a_walk_is_legal_and_knows_its_energies(engine: Opener, seed: int) -> None:
    fabric, netlist, start = random_start(seed, is_constrained=bool(seed % 2))
    search, counts, cost = engine(fabric, netlist, start, seed), Counts(), HeuristicCost(fabric)
    least = search.energy
    for temperature in (INFINITE_TEMPERATURE, 0.5, 0.05, 1e-6):
        before = counts.moves
        search.run(25, temperature, 3, counts)
        search.verify()
        assert counts.moves == before + 25
        least = min(least, search.energy)
        assert search.best_energy <= least + 1e-9  # the running total is not exact to the bit
    for decision, energy in ((search.current(), search.energy), (search.best(), search.best_energy)):
        check(fabric, netlist, decision)
        assert start.is_allowed[np.arange(netlist.num_units), decision.sites[0]].all()
        assert cost.energy(netlist, decision)[0] == pytest.approx(energy, abs=1e-9)


@ENGINES
@settings(max_examples=20)
@given(SEEDS)
def test_a_frozen_walk_never_climbs(engine: Opener, seed: int) -> None:
    fabric, netlist, start = random_start(seed)
    search, counts = engine(fabric, netlist, start, seed), Counts()
    for _ in range(10):
        before = search.energy
        search.run(10, 1e-15, 3, counts)
        assert search.energy <= before + 1e-9
        assert search.best_energy == pytest.approx(search.energy, abs=1e-9)


@ENGINES
@settings(max_examples=20)
@given(SEEDS)
def test_every_legal_move_passes_at_an_infinite_temperature(engine: Opener, seed: int) -> None:
    fabric, netlist, start = random_start(seed)
    counts = Counts()
    engine(fabric, netlist, start, seed).run(50, INFINITE_TEMPERATURE, 3, counts)
    assert counts.refused[:, Refusal.COST].sum() == 0
    assert counts.accepted.sum() > 0


@ENGINES
@pytest.mark.parametrize("family", FAMILIES)
def test_a_random_placement_is_improved(engine: Opener, family: str) -> None:
    netlist = drawn(family)
    search = engine(SMALL, netlist, free_start(SMALL, netlist), 0)
    before = search.energy
    search.run(300, 0.01, 8, Counts())
    check(SMALL, netlist, search.best())
    assert search.best_energy < before - 0.04  # 4% faster by the p-norm


def test_the_same_seed_gives_the_same_walk() -> None:
    netlist = drawn("ffn")
    start = free_start(SMALL, netlist)
    for engine in (compiled, batched):
        walks = []
        for seed in (1, 1, 2):
            search = engine(SMALL, netlist, start, seed)
            search.run(60, 0.05, 8, Counts())
            walks.append(search.current().sites.tobytes())
        assert walks[0] == walks[1] != walks[2]


def test_the_start_is_left_alone() -> None:
    fabric, netlist, start = random_start(5)
    sites, flow_class = start.sites.copy(), start.flow_class.copy()
    for engine in (compiled, batched):
        engine(fabric, netlist, start, 0).run(50, INFINITE_TEMPERATURE, 3, Counts())
        np.testing.assert_array_equal(start.sites, sites)
        np.testing.assert_array_equal(start.flow_class, flow_class)


def test_the_spread_of_energies_is_a_standard_deviation() -> None:
    counts = Counts()
    for energy in (1.0, 3.0):
        counts.accepted[0] += 1
        counts.energy_sums += (energy, energy * energy)
    assert counts.energy_deviation() == pytest.approx(1.0)
    assert Counts().energy_deviation() == 0


def test_a_wrong_running_total_is_found() -> None:
    fabric, netlist, start = random_start(3)
    search = compiled(fabric, netlist, start, 0)
    search.run(20, 1.0, 3, Counts())
    search.verify()
    search._pricer.level[0] *= 1.001
    with pytest.raises(RuntimeError, match=r"the running cost .* differs from the full cost"):
        search.verify()


def test_batches_grow_when_little_is_accepted() -> None:
    netlist, cost = drawn("gemm"), EnergyCost(SMALL)
    search = BatchedSearch(SMALL, netlist, cost, free_start(SMALL, netlist), MIX, 0, max_batch=6)
    search.run(50, INFINITE_TEMPERATURE, 8, Counts())
    assert set(cost.batch_sizes) == {1}  # the first is always accepted
    search.run(2000, 1e-9, 8, Counts())
    assert max(cost.batch_sizes) == 6


class BrokenCost:
    """A cost model that gives good scores at first, and then what it is told to."""

    def __init__(self, num_good: int, scores: Callable[[int], np.ndarray]) -> None:
        self._num_good, self._scores = num_good, scores

    def score(self, netlist: Netlist, decisions: Decisions) -> np.ndarray:
        self._num_good -= 1
        return np.ones(len(decisions)) if self._num_good >= 0 else self._scores(len(decisions))


@pytest.mark.parametrize("num_good", [0, 10])
@pytest.mark.parametrize(
    "scores",
    [
        lambda num: np.zeros(num),
        lambda num: np.full(num, -0.5),
        lambda num: np.full(num, np.nan),
        lambda num: np.full(num, np.inf),
        lambda num: np.ones(num + 1),
        lambda num: np.ones((num, 1)),
    ],
    ids=["zero", "negative", "nan", "infinite", "too many", "two dimensions"],
)
def test_scores_that_make_no_sense_are_refused(num_good: int, scores: Callable[[int], np.ndarray]) -> None:
    fabric, netlist, start = random_start(3)
    cost = BrokenCost(num_good, scores)
    with pytest.raises(ValueError, match="a cost model must give one score above 0 per decision"):
        BatchedSearch(fabric, netlist, cost, start, MIX, 0).run(100, 1.0, 3, Counts())
