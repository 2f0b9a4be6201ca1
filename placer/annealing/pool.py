"""Starts for a slow cost model: whole searches with the heuristic, of which it chooses the best.

The heuristic calls many placements equally good that are not, and which of its rules matters most
differs between netlists. So each search of the pool has rules of its own: the first those that
were given, then small changes of those whose result the cost model likes best so far, and every
third time new ones at random.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from placer.annealing.annealer import AnnealOptions, AnnealResult, AnnealStatus, Round, anneal
from placer.annealing.finalists import Elite
from placer.annealing.problem import Problem
from placer.annealing.rerouting import energy_of
from placer.annealing.search import Search
from placer.annealing.starts import random_start
from placer.heuristic import HeuristicCost, Rules

POOL_SHARE = 0.6  # of a time limit
LEAST_SEARCHES = 6  # at least, if asked for: on large netlists short ones beat a long one
FAR, NEAR = 0.5, 0.2  # standard deviations of the logarithm of a weight
DOUBLINGS = (1, 2, 3)  # that are drawn


@dataclass(frozen=True, slots=True)
class _Candidate:
    rules: Rules
    result: AnnealResult
    energy: float  # by the cost model that chooses


def search_pool(
    problem: Problem,
    seeds: list[tuple[int, int]],
    elite: Elite,
    after_round: Callable[[Round, Search], None],
) -> AnnealResult:
    """Search once per pair of seeds (random placement, search); the best by the cost model.

    All together take a share of the time limit: none is begun after that, and the last is cut off.
    Ctrl-C ends them; what was found is returned. `elite` takes all results.
    """
    limit = problem.options.time_limit
    share = math.inf if limit is None else POOL_SHARE * limit
    end, longest = time.monotonic() + share, share / min(LEAST_SEARCHES, len(seeds))
    found = list[_Candidate]()
    for number, pair in enumerate(seeds):
        left = end - time.monotonic()
        if left <= 0 and found:
            break
        rules = _rules(problem.rules, found, number, pair[1])
        result = _search(problem, rules, pair, min(left, longest), after_round)
        elite.add(result.decision)
        energy = energy_of(problem.cost, problem.netlist, result.decision)
        found.append(_Candidate(rules, result, energy))
        if result.status is AnnealStatus.INTERRUPTED:
            break
    cost = HeuristicCost(problem.fabric, problem.rules)
    elite.favourite = min(
        (candidate.result.decision for candidate in found),
        key=lambda decision: energy_of(cost, problem.netlist, decision),
    )
    return replace(found[-1].result, decision=_best(found).result.decision)


def _search(
    problem: Problem,
    rules: Rules,
    seeds: tuple[int, int],
    seconds: float,
    after_round: Callable[[Round, Search], None],
) -> AnnealResult:
    fabric, netlist, options = problem.fabric, problem.netlist, problem.options
    own = AnnealOptions(
        effort=options.effort,
        moves=options.moves,
        time_limit=None if math.isinf(seconds) else max(seconds, 1e-3),
    )
    start = random_start(fabric, netlist, problem.is_allowed, seeds[0])
    return anneal(fabric, netlist, HeuristicCost(fabric, rules), start, own, seeds[1], after_round)


def _best(found: list[_Candidate]) -> _Candidate:
    """The first among equals."""
    return min(found, key=lambda candidate: candidate.energy)


def _rules(given: Rules, found: list[_Candidate], number: int, seed: int) -> Rules:
    """Of the search with this number; the same for the same past and seed."""
    if number == 0:
        return given
    rng = np.random.default_rng(seed)
    if number % 3 == 0:
        return _vary(given, FAR, int(rng.choice(DOUBLINGS)), rng)
    best = _best(found).rules
    return _vary(best, NEAR, best.doublings, rng)


def _vary(rules: Rules, deviation: float, doublings: int, rng: np.random.Generator) -> Rules:
    factors = np.exp(rng.normal(0.0, deviation, 3)).tolist()
    weights = zip((rules.link, rules.flow, rules.port), factors, strict=True)
    link, flow, port = (min(weight * factor, 100.0) for weight, factor in weights)
    return Rules(link, flow, port, doublings)
