"""Policy, annealing and constraint programming in turn, each starting from what the last one found.

1. Samples of the policy: a good mapping within a second.
2. Annealing from the best sample.
3. Large-neighbourhood repair: all but a few clusters keep their tiles, CP-SAT places those anew.
4. CP-SAT on the whole problem, with the mapping as a hint, for a better one or a proof.
"""

from __future__ import annotations

import numpy as np

from placer.streaming.annealing import anneal
from placer.streaming.exact import repair, solve
from placer.streaming.mapping import Budget, Found, Mapping
from placer.streaming.problem import Problem

_PROOF_NODES = 24  # up to here the proof is quick, so it comes before repair
_SMALL_SECONDS = 0.3  # of annealing up to there
_ANNEAL_SHARE, _REPAIR_SHARE = 0.25, 0.5  # of the time that is left, above
_REPAIR_SECONDS = 2.0  # each
_FREE_NODES = 12  # clusters that a repair may move


def improve_mapping(
    problem: Problem, start: Found, budget: Budget, seed: int, *, workers: int
) -> Found:
    """Steps 2 to 4, from the mapping that `start` holds (or from a list schedule)."""
    is_small = problem.num_nodes <= _PROOF_NODES
    seconds = (
        min(_SMALL_SECONDS, budget.remaining) if is_small else _ANNEAL_SHARE * budget.remaining
    )
    found = anneal(problem, budget.part(seconds), seed, start.mapping)
    tries = start.tries + found.tries
    best = found.mapping
    if best is not None and not found.is_optimal and not is_small:
        repairing = budget.part(_REPAIR_SHARE * budget.remaining)
        best = _repair_many(problem, best, repairing, seed, workers)
    last = solve(problem, budget, seed, best, workers=workers)
    return Found(last.mapping, last.bound, tries + last.tries, last.is_infeasible)


def _repair_many(
    problem: Problem, best: Mapping, budget: Budget, seed: int, workers: int
) -> Mapping:
    """Repairs around late instructions until time is up; a success begins anew."""
    rng = np.random.default_rng(seed)
    cluster = problem.tables.cluster
    while best.cycles > problem.bounds.total and not budget.is_spent(0):
        lateness = best.start + problem.bounds.tail
        weight = np.exp(lateness - lateness.max()) + 0.02
        centre = rng.choice(problem.num_nodes, p=weight / weight.sum())
        near = np.abs(best.tile - best.tile[centre]) + rng.random(problem.num_nodes) * 4
        near -= 6 * (problem.bounds.distance[centre] > 0) + 6 * (
            problem.bounds.distance[:, centre] > 0
        )
        moved = set(cluster[np.argsort(near)[:_FREE_NODES]].tolist())
        free = {c: c in moved for c in range(len(problem.tables.cluster_size))}
        short = budget.part(min(_REPAIR_SECONDS, budget.remaining))
        better = repair(problem, best, free, short, int(rng.integers(1 << 31)), workers)
        if better is not None:
            best = better
    return best
