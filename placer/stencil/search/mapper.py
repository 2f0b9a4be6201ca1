"""Map a volume to the fabric within a time limit: partition, place, check.

1. The first partition is placed, so that a legal solution exists as soon as possible.
2. Partitions are searched. Where shorter wires could matter, each better one is placed, and its
   wires are shortened until they no longer matter; elsewhere the last one is placed at the end.
3. Where wires still matter then, tiles are traded for wires: partitions that fill the fabric more
   or less, until both terms of the objective are worth the same.

This is one sequence of steps that depends on problem, objective and seed alone. The time limit
says where it ends, and the best solution on the way is the result: more time is never worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from placer.stencil.judge import Score, score, wires_norm
from placer.stencil.model import Objective, Problem, Solution, ball, contest_score
from placer.stencil.search.clock import Clock
from placer.stencil.search.netlist import Netlist, netlist_of
from placer.stencil.search.partition import Partition, anneal, coarsest, evaluate, resized, smallest_partition
from placer.stencil.search.places import FIRST_ROUNDS, MAX_SMOOTHINGS, Placed, best_layout, refine, solution_of
from placer.stencil.search.plan import HeatSummary, Plan, summarise
from placer.stencil.search.pyramid import build_pyramid
from placer.stencil.search.search import search

COMPACT_BELOW = 0.97  # used share of the fabric below which places are kept together
MATTER_WITHIN = 1.25  # wires that do not matter until they are this much longer are ignored
GROWTH = 1.5  # of the used PEs, beyond which wires are measured again
WIRES_EXPONENT = 0.83  # the term of the wires falls as this power of the used PEs
ACCURACY_EXPONENT = 0.6  # accuracy rises as this power of them, where tiles are traded
SHARES = np.geomspace(0.7, 1.4, 141)  # of the PEs in use that a trade may go to
LEAST_TRADE = 0.004  # smaller changes of the used PEs are not worth a new start
TRADE_ROUNDS = MAX_SMOOTHINGS + FIRST_ROUNDS  # that shorten wires between two steps of the search
TRADE_STEPS = 3  # of a search for a partition of a given size
LEAST_GAIN = 1e-6  # of accuracy, below which a partition is no better
EQUAL = 1e-4  # accuracy this close to 1 is the best there is


# Is told the stage, the seconds since the begin, accuracy and wires (normalised, 0 if unknown).
Report = Callable[[str, float, float, float], None]


@dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    """A checked solution, and what it was made of."""

    netlist: Netlist
    placed: Placed
    solution: Solution
    score: Score
    seconds: float


def map_volume(
    problem: Problem,
    clock: Clock,
    seed: int,
    objective: Objective = contest_score,
    report: Report = lambda stage, seconds, accuracy, wires: None,
) -> Mapping:
    """Return the best solution that is found until the clock says stop, checked.

    Raises DoesNotFitError when even the smallest partition needs more PEs than the fabric has.
    """
    best = _Run(problem, summarise(problem), clock, seed, objective, report).search()
    solution = solution_of(best.netlist, best.placed)
    return Mapping(best.netlist, best.placed, solution, score(problem, solution), clock.seconds)


@dataclass(frozen=True, slots=True, eq=False)
class _Attempt:
    """A partition with places."""

    partition: Partition
    netlist: Netlist
    placed: Placed
    rounds: Iterator[Placed]  # that shorten its wires
    first_cost: float  # of its wires, before they were shortened
    num_pes: int  # of the fabric

    @property
    def accuracy(self) -> float:
        return self.partition.accuracy / self.num_pes

    @property
    def wires(self) -> float:
        return wires_norm(self.placed.cost, self.num_pes)

    def wires_of(self, used_pes: int) -> float:
        """Return the expected term of the wires of another size, before they are shortened."""
        ratio = max(1, self.netlist.num_nodes) / max(1, used_pes)
        return float(wires_norm(self.first_cost, self.num_pes) * ratio**WIRES_EXPONENT)


@dataclass(slots=True, eq=False)
class _Run:
    """What all parts of a mapping need, and the best that they found."""

    problem: Problem
    summary: HeatSummary
    clock: Clock
    seed: int
    objective: Objective
    report: Report
    best: _Attempt | None = None

    def search(self) -> _Attempt:
        """Return the best of better and better partitions, placed when their wires may matter."""
        num_pes = self.problem.num_pes
        partitions = self._partitions(num_pes)
        last = next(partitions, None) or smallest_partition(self.problem)
        attempt = self._place(last)
        waiting: Partition | None = None
        for partition in partitions:
            if partition.accuracy > last.accuracy * (1 + LEAST_GAIN):
                last = waiting = partition
                accuracy = partition.accuracy / num_pes
                self.report("partition", self.clock.seconds, accuracy, 0.0)
                wires = attempt.wires_of(partition.used_pes)
                is_larger = partition.used_pes > GROWTH * attempt.netlist.num_nodes
                if is_larger or self._do_wires_matter(accuracy, wires, MATTER_WITHIN):
                    attempt, waiting = self._place(partition), None
            attempt = self._trade(attempt)
            if last.accuracy > (1 - EQUAL) * num_pes:
                break
        while self._is_bound_by_wires(attempt) and self.clock.has_time():
            attempt = self._trade(attempt)
        if waiting is not None:
            self._place(waiting)
        assert self.best is not None
        return self.best

    def _partitions(self, max_pes: int) -> Iterator[Partition]:
        return search(self.problem, self.summary, max_pes, self.seed, self.clock)

    def _place(self, partition: Partition) -> _Attempt:
        """Lay a partition out, in a part of the fabric if it is much smaller."""
        self.clock.end_step()
        begin = self.clock.seconds
        fabric = self.problem.fabric
        netlist = netlist_of(partition.pyramid, partition.tree)
        placed = best_layout(netlist, _compact(fabric, netlist.num_nodes))
        self.clock.note_placing(self.clock.seconds - begin, netlist.num_nodes)
        rounds = refine(netlist, fabric, placed, self.seed)
        attempt = _Attempt(partition, netlist, placed, rounds, placed.cost, self.problem.num_pes)
        return self._keep("places", attempt)

    def _keep(self, stage: str, attempt: _Attempt) -> _Attempt:
        """Note an attempt, which is returned."""
        worth = self.objective(attempt.accuracy, attempt.wires)
        if self.best is None or worth > self.objective(self.best.accuracy, self.best.wires):
            self.best = attempt
        self.report(stage, self.clock.seconds, attempt.accuracy, attempt.wires)
        return attempt

    def _do_wires_matter(self, accuracy: float, wires: float, within: float) -> bool:
        """Tell whether the objective changes when wires do, by up to a factor to either side."""
        return self.objective(accuracy, wires / within) < self.objective(accuracy, wires * 1.001)

    def _is_bound_by_wires(self, attempt: _Attempt) -> bool:
        return self._do_wires_matter(attempt.accuracy, attempt.wires, within=1.0)

    def _trade(self, attempt: _Attempt) -> _Attempt:
        """Shorten wires while they matter, then go to another size if that promises more."""
        if not self._is_bound_by_wires(attempt):
            return attempt
        attempt = self._shorten(attempt)
        share = self._best_share(attempt)
        if abs(share - 1) > LEAST_TRADE and self.clock.has_time(2 * self.clock.placing_seconds):
            other = self._of_size(attempt, int(share * attempt.netlist.num_nodes))
            if other is not None:
                return self._place(other)
        return attempt

    def _shorten(self, attempt: _Attempt) -> _Attempt:
        """Shorten wires for some rounds, while they matter and there is time."""
        last = 0.0
        for _ in range(TRADE_ROUNDS):
            if not self._is_bound_by_wires(attempt) or not self.clock.has_time(last):
                break
            begin = self.clock.seconds
            placed = next(attempt.rounds, None)
            if placed is None:
                break
            attempt = self._keep("wires", replace(attempt, placed=placed))
            last = self.clock.seconds - begin
        return attempt

    def _best_share(self, attempt: _Attempt) -> float:
        """Return the factor by which the used PEs should change, as far as rules of thumb tell."""
        most = attempt.num_pes / max(1, attempt.netlist.num_nodes)
        return max(
            [1.0, *(float(share) for share in SHARES if share < most), most],
            key=lambda x: self.objective(attempt.accuracy * x**ACCURACY_EXPONENT, attempt.wires * x**-WIRES_EXPONENT),
        )

    def _of_size(self, attempt: _Attempt, max_pes: int) -> Partition | None:
        """Return a partition for so many PEs: with more or fewer splits, or a new one."""
        partition = resized(attempt.partition, max_pes)
        if partition is None:
            partition = next(islice(self._partitions(max_pes), TRADE_STEPS - 1, None), None)
            self.clock.end_step()
        return partition


def _compact(fabric: tuple[int, int], num_nodes: int) -> tuple[int, int]:
    """Return the part of the fabric that so many nodes should use."""
    width, height = fabric
    share = num_nodes / (width * height)
    if share < COMPACT_BELOW:
        width = min(width, math.ceil(width * math.sqrt(share)) + 1)
        height = min(height, math.ceil(num_nodes / width) + 1)
        width = max(width, math.ceil(num_nodes / height))
    return width, height


def warm_up() -> None:
    """Compile, or load from the cache, what a mapping needs; it counts for no time limit."""
    for volume in ((4, 4), (2, 2, 2)):
        problem = ball(volume, (9, 9), (0, 0, 0), 8.0, floor=0.0)
        pyramid = build_pyramid(problem, 20)
        found = evaluate(pyramid, Plan(20, 0, 2.0, 0.0), 1.0, problem.num_pes)
        assert found is not None
        summarise(problem)
        anneal(coarsest(pyramid, 4.0), problem.num_pes, 2, 0)
        netlist = netlist_of(pyramid, found.partition.tree)
        start = best_layout(netlist, problem.fabric)
        *_, placed = islice(refine(netlist, problem.fabric, start, 0), MAX_SMOOTHINGS + 1)
        score(problem, solution_of(netlist, placed))
