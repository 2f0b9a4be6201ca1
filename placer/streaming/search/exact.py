"""Exact mapping by constraint programming: OR-tools CP-SAT.

Variables are the tile of each cluster and start = ii * turn + spoke of each instruction. With waits
an edge needs no absolute value: +-(x_u - x_v) <= s_v - s_u - depth. Only mappings that are better
than a known one are asked for, which keeps domains small; when there is none, the known one is
optimal. The cuts of `bounds` carry the proofs.

The line looks the same from everywhere and from both sides: tiles are counted from that of the
*root*, the instruction with most successors, and one child of it is not above it.

`improve_mapping` comes to the same by steps, each from what the last one found:

1. Samples of the policy: a good mapping within a second.
2. Annealing from the best sample.
3. Large-neighbourhood repair: all but a few clusters keep their tiles, CP-SAT places those anew.
4. CP-SAT on the whole problem, with the mapping as a hint, for a better one or a proof.
"""

from __future__ import annotations

import math
from collections.abc import Set
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import numpy as np

from placer.base import LongArray
from placer.streaming.model import Budget, Found, Mapping
from placer.streaming.search.bounds import UNLIMITED
from placer.streaming.search.construct import list_schedule
from placer.streaming.search.plans import anneal
from placer.streaming.search.problem import Problem

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_LIST_TRIES = 256
_MOST_CUTS = 2_000  # more of them slow the solver down
_PROOF_NODES = 24  # up to here the proof is quick, so it comes before repair
_SMALL_SECONDS = 0.3  # of annealing up to there
_ANNEAL_SHARE, _REPAIR_SHARE = 0.25, 0.5  # of the time that is left, above
_REPAIR_SECONDS = 2.0  # each
_FREE_NODES = 12  # clusters that a repair may move
_ASK_SECONDS = 0.1  # between two looks at whether the user has interrupted


def solve(problem: Problem, budget: Budget, seed: int, known: Mapping | None = None, *, workers: int = 2) -> Found:
    """Return the optimum, or the best within the budget, with the best bound known at the end.

    `known` is a mapping to improve on (default: a list schedule).
    """
    if known is None:
        short = budget.part(0.1 * budget.remaining, _LIST_TRIES)
        known = list_schedule(problem, short, seed).mapping
    low = problem.bounds.total
    if known is not None and (known.cycles <= low or budget.is_interrupted()):
        return Found(known, low, 0)
    model = _Model(problem, known, low)
    is_infeasible, better, proved = model.solve(budget, seed, workers)
    if is_infeasible:
        if known is None:
            return Found(None, low, 0, is_infeasible=True)
        return Found(known, known.cycles, 0)
    return Found(better or known, max(low, proved), 1)


def repair(problem: Problem, known: Mapping, free: Set[int], budget: Budget, seed: int, workers: int) -> Mapping | None:
    """Return a mapping better than `known` that keeps the tiles of clusters that are not free."""
    model = _Model(problem, known, problem.bounds.total)
    tile = model.seen_from_root(known)
    kept = [cluster for cluster in range(len(tile)) if cluster not in free]
    for cluster in kept[1:]:
        apart = int(tile[cluster] - tile[kept[0]])
        model.model.add(model.tile[cluster] - model.tile[kept[0]] == apart)
    return model.solve(budget, seed, workers)[1]


def _run(solver: cp_model.CpSolver, model: cp_model.CpModel, budget: Budget) -> str:
    """Solve the model and return the status; Ctrl-C stops it.

    By default the solver takes Ctrl-C for itself and tells nobody. Python answers signals in the
    main thread only, so that must not be the one that solves.
    """
    solver.parameters.catch_sigint_signal = False
    with ThreadPoolExecutor(1) as pool:
        solving = pool.submit(solver.solve, model)
        try:
            while not wait([solving], _ASK_SECONDS).done:
                if budget.is_interrupted():
                    solver.stop_search()
        except KeyboardInterrupt:
            solver.stop_search()
            raise
    return solver.status_name(solving.result())


class _Model:
    """Mappings of fewer cycles than `known`, and of at least `low`."""

    def __init__(self, problem: Problem, known: Mapping | None, low: int) -> None:
        from ortools.sat.python import cp_model

        self._problem = problem
        self.model, self._solver = cp_model.CpModel(), cp_model.CpSolver()
        tables, bounds = problem.tables, problem.bounds
        root = int(np.diff(tables.succ_first).argmax())
        children = problem.program.successors[root] or (root,)
        self._root = int(tables.cluster[root])
        self._turned = int(tables.cluster[max(children, key=lambda n: bounds.tail[n])])
        new = self.model.new_int_var
        reach = tables.num_tiles - 1
        # Without a known mapping: a path through all nodes, each after the longest hop and wait.
        slowest = tables.depth + min(reach, tables.max_hop) + tables.ii
        horizon = problem.num_nodes * slowest if known is None else known.cycles - 1
        lowest = new(-reach, 0, "lowest")
        self.tile = [new(-reach, reach, f"x{c}") for c in range(len(tables.cluster_size))]
        for tile in self.tile:
            self.model.add_linear_constraint(tile - lowest, 0, reach)
        self.start, slots = [], []
        for n in range(problem.num_nodes):
            last = horizon - int(bounds.tail[n])
            if not problem.program.predecessors[n]:
                last = min(last, tables.ii - 1)
            # An empty domain says the same as a broken constraint, but is refused as a model.
            start = new(int(bounds.head[n]), max(last, int(bounds.head[n])), f"s{n}")
            self.model.add(start <= last)
            spoke, turn = new(0, tables.ii - 1, f"p{n}"), new(0, horizon // tables.ii + 1, f"k{n}")
            self.model.add(start == tables.ii * turn + spoke)
            slot = new(-reach * tables.ii, (reach + 1) * tables.ii, f"slot{n}")
            self.model.add(slot == self.tile[tables.cluster[n]] * tables.ii + spoke)
            slots.append(slot)
            self.start.append(start)
        self.model.add_all_different(slots)
        self.total = new(low, max(low, horizon), "total")
        for n, start in enumerate(self.start):
            self.model.add(self.total >= start + int(bounds.tail[n]))
        self.model.add(self.total <= horizon)
        self._add_edges()
        self._add_rivals()
        self._add_cuts()
        self.model.minimize(self.total)
        if known is not None:
            tiles = self.seen_from_root(known)
            for variable, value in zip((*self.start, *self.tile), (*known.start, *tiles), strict=True):
                self.model.add_hint(variable, int(value))

    def _add_edges(self) -> None:
        tables = self._problem.tables
        arrivals: list[list[cp_model.LinearExprT]] = [[] for _ in self.start]
        for u, v in self._problem.program.edges:
            apart = self.tile[tables.cluster[u]] - self.tile[tables.cluster[v]]
            spare = self.start[v] - self.start[u] - tables.depth
            self.model.add(apart <= spare)
            self.model.add(-apart <= spare)
            if tables.max_hop < UNLIMITED:
                self.model.add_linear_constraint(apart, -tables.max_hop, tables.max_hop)
            if tables.is_exact:
                hop = self.model.new_int_var(0, tables.num_tiles, f"h{u}_{v}")
                self.model.add_abs_equality(hop, apart)
                arrivals[v].append(self.start[u] + tables.depth + hop)
        for start, arriving in zip(self.start, arrivals, strict=True):
            if arriving:
                self.model.add_max_equality(start, arriving)

    def _add_rivals(self) -> None:
        """Keep rivals apart; of a mapping, its shifts and its mirror image, one will do."""
        tables = self._problem.tables
        for k in range(len(tables.clique_first) - 1):
            members = tables.clique[tables.clique_first[k] : tables.clique_first[k + 1]]
            self.model.add_all_different([self.tile[c] for c in members])
        self.model.add(self.tile[self._root] == 0)
        self.model.add(self.tile[self._turned] <= 0)

    def _add_cuts(self) -> None:
        """Add the most telling distances that do not follow from those of the children."""
        distance, depth = self._problem.bounds.distance, self._problem.tables.depth
        gain = np.zeros_like(distance)
        for r, children in enumerate(self._problem.program.successors):
            if children:
                gain[r] = distance[r] - depth - distance[list(children)].max(axis=0)
        gain[distance <= 0] = 0
        for k in np.argsort(-gain, axis=None, kind="stable")[: min(_MOST_CUTS, (gain > 0).sum())]:
            r, t = divmod(int(k), len(gain))
            self.model.add(self.start[t] - self.start[r] >= int(distance[r, t]))

    def seen_from_root(self, known: Mapping) -> LongArray:
        """Return the tiles of a mapping [num_clusters] as the variables count them."""
        tile = np.zeros(len(self.tile), np.int64)
        tile[self._problem.tables.cluster] = known.tile
        tile -= tile[self._root]
        return -tile if tile[self._turned] > 0 else tile

    def solve(self, budget: Budget, seed: int, workers: int) -> tuple[bool, Mapping | None, int]:
        """Return whether it is infeasible, a mapping if one was found, and the bound."""
        solver = self._solver
        solver.parameters.max_time_in_seconds = max(budget.remaining, 0.01)
        solver.parameters.random_seed = seed
        solver.parameters.num_workers = workers
        status = _run(solver, self.model, budget)
        if status == "MODEL_INVALID":
            raise RuntimeError(f"CP-SAT refuses the model: {self.model.validate()}")
        bound = solver.best_objective_bound
        bound = math.ceil(bound - 1e-6) if math.isfinite(bound) else 0
        if status not in ("OPTIMAL", "FEASIBLE"):
            return status == "INFEASIBLE", None, bound
        tables = self._problem.tables
        tile = np.array([solver.value(variable) for variable in self.tile])[tables.cluster]
        tile -= tile.min()
        start = np.array([solver.value(variable) for variable in self.start])
        return False, self._problem.mapping(tile, start), bound


def improve_mapping(problem: Problem, start: Found, budget: Budget, seed: int, *, workers: int) -> Found:
    """Take steps 2 to 4, from the mapping that `start` holds (or from a list schedule)."""
    is_small = problem.num_nodes <= _PROOF_NODES
    left = budget.remaining
    seconds = min(_SMALL_SECONDS, left) if is_small else _ANNEAL_SHARE * left
    found = anneal(problem, budget.part(seconds), seed, start.mapping)
    tries = start.tries + found.tries
    best = found.mapping
    if best is not None and not found.is_optimal and not is_small:
        repairing = budget.part(_REPAIR_SHARE * budget.remaining)
        best = _repair_many(problem, best, repairing, seed, workers)
    last = solve(problem, budget, seed, best, workers=workers)
    return Found(last.mapping, last.bound, tries + last.tries, last.is_infeasible)


def _repair_many(problem: Problem, best: Mapping, budget: Budget, seed: int, workers: int) -> Mapping:
    """Repair around late instructions until time is up; a success begins anew."""
    rng = np.random.default_rng(seed)
    cluster, distance = problem.tables.cluster, problem.bounds.distance
    while best.cycles > problem.bounds.total and not budget.is_spent(0):
        lateness = best.start + problem.bounds.tail
        weight = np.exp(lateness - lateness.max()) + 0.02
        centre = rng.choice(problem.num_nodes, p=weight / weight.sum())
        near = np.abs(best.tile - best.tile[centre]) + rng.random(problem.num_nodes) * 4
        ahead, behind = distance[centre] > 0, distance[:, centre] > 0
        near -= 6 * ahead + 6 * behind
        free = set(cluster[np.argsort(near)[:_FREE_NODES]].tolist())
        short = budget.part(min(_REPAIR_SECONDS, budget.remaining))
        better = repair(problem, best, free, short, int(rng.integers(1 << 31)), workers)
        if better is not None:
            best = better
    return best
