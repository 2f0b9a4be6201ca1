"""Starts for a slow cost model: whole searches with the heuristic, of which the best goes on.

The heuristic calls many placements equally good that are not, and which of its rules matters most
differs between netlists. So every second search of the pool has rules of its own instead of those
that were given: in turn small changes of those whose result is the best so far, and new ones at
random. What is best the simulator says, as far as time allows: whenever enough of it has passed for
one more simulation, the result that the cost model likes best is simulated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from placer.annealing.annealer import AnnealOptions, AnnealResult, AnnealStatus, Round, anneal
from placer.annealing.finalists import JUDGING_SHARE, Elite, Judge
from placer.annealing.search import Search
from placer.annealing.starts import random_start
from placer.annealing.task import Strategy, Task
from placer.cost import HeuristicCost, Rules, energy_of

POOL_SHARE = 0.8  # of a time limit
SLICES = 12  # of that time, if so many searches are asked for: none takes longer than one
DEADLOCK = 100.0  # energies above it are those of deadlocks
FAR, NEAR = 0.5, 0.2  # standard deviations of the logarithm of a weight
DOUBLINGS = (1, 2, 3)  # that are drawn


@dataclass(slots=True, eq=False)
class _Candidate:
    rules: Rules
    result: AnnealResult
    predicted: float  # energy by the cost model
    simulated: float | None = None  # -log of its throughput


def search_pool(
    task: Task,
    strategy: Strategy,
    seeds: list[tuple[int, int]],
    elite: Elite,
    judge: Judge | None,
    after_round: Callable[[Round, Search], None],
) -> AnnealResult:
    """Search once per pair of seeds (random placement, search); return the best one.

    All together take a share of the time limit: none is begun after that, and the last is cut off.
    Ctrl-C ends them; what was found is returned. `elite` takes all results. Without a `judge` the
    cost model alone says what is best.
    """
    limit = strategy.options.time_limit
    share = math.inf if limit is None else POOL_SHARE * limit
    begin = time.monotonic()
    end, longest = begin + share, share / min(SLICES, len(seeds))
    found, is_interrupted = list[_Candidate](), False
    for number, pair in enumerate(seeds):
        left = end - time.monotonic()
        if (left <= 0 and found) or is_interrupted:
            break
        rules = _rules(strategy.rules, found, number, pair[1])
        result = _search(task, strategy, rules, pair, min(left, longest), after_round)
        elite.add(result.decision)
        predicted = energy_of(task.cost, task.netlist, result.decision)
        found.append(_Candidate(rules, result, predicted))
        is_interrupted = result.status is AnnealStatus.INTERRUPTED
        if judge is not None and not is_interrupted:
            seconds = math.inf if limit is None else JUDGING_SHARE * (time.monotonic() - begin)
            _simulate(found, judge, seconds)
            is_interrupted = judge.is_interrupted
    cost = HeuristicCost(task.fabric, strategy.rules)
    elite.favourite = min(
        (candidate.result.decision for candidate in found), key=lambda decision: energy_of(cost, task.netlist, decision)
    )
    last = found[-1].result
    status = AnnealStatus.INTERRUPTED if is_interrupted else last.status
    return replace(last, decision=_best(found).result.decision, status=status)


def _simulate(found: list[_Candidate], judge: Judge, seconds: float) -> None:
    """Simulate the best predictions until all have taken `seconds` together, but at least one."""
    waiting = [candidate for candidate in found if candidate.simulated is None]
    for candidate in sorted(waiting, key=lambda each: each.predicted):
        is_first = len(waiting) == len(found)
        if (not is_first and judge.spent_seconds + judge.seconds > seconds) or judge.is_interrupted:
            break
        candidate.simulated = -math.log(judge.simulate(candidate.result.decision))
        waiting.remove(candidate)


def _best(found: list[_Candidate]) -> _Candidate:
    """Return the best, the first among equals.

    Those not simulated are compared by their predictions, less the mean error of the others.
    """
    known = [(each.predicted, each.simulated) for each in found if each.simulated is not None]
    errors = [predicted - simulated for predicted, simulated in known if simulated < DEADLOCK]
    error = float(np.mean(errors)) if errors else 0.0
    return min(found, key=lambda each: each.predicted - error if each.simulated is None else each.simulated)


def _search(
    task: Task,
    strategy: Strategy,
    rules: Rules,
    seeds: tuple[int, int],
    seconds: float,
    after_round: Callable[[Round, Search], None],
) -> AnnealResult:
    fabric, netlist, options = task.fabric, task.netlist, strategy.options
    own = AnnealOptions(
        effort=options.effort, moves=options.moves, time_limit=None if math.isinf(seconds) else max(seconds, 1e-3)
    )
    start = random_start(fabric, netlist, task.is_allowed, seeds[0])
    return anneal(fabric, netlist, HeuristicCost(fabric, rules), start, own, seeds[1], after_round)


def _rules(given: Rules, found: list[_Candidate], number: int, seed: int) -> Rules:
    """Return the rules of the search with this number; they are the same for the same past and seed."""
    if number % 2 == 0:
        return given
    rng = np.random.default_rng(seed)
    if number % 4 == 3:
        return _vary(given, FAR, int(rng.choice(DOUBLINGS)), rng)
    best = _best(found).rules
    return _vary(best, NEAR, best.doublings, rng)


def _vary(rules: Rules, deviation: float, doublings: int, rng: np.random.Generator) -> Rules:
    factors = np.exp(rng.normal(0.0, deviation, 3)).tolist()
    weights = zip((rules.link, rules.flow, rules.port), factors, strict=True)
    link, flow, port = (min(weight * factor, 100.0) for weight, factor in weights)
    return Rules(link, flow, port, doublings)
