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
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from placer.errors import DoesNotFitError
from placer.stencil.candidate import evaluate, smallest_partition
from placer.stencil.clock import Clock
from placer.stencil.generate import ball
from placer.stencil.leaves import Netlist, netlist_of
from placer.stencil.objective import CONTEST_SCORE, Objective
from placer.stencil.partition import Partition, anneal, coarsest, resized
from placer.stencil.place import (
    FIRST_ROUNDS,
    MAX_SMOOTHINGS,
    Placed,
    best_layout,
    refine,
    solution_of,
)
from placer.stencil.plan import HeatSummary, Plan, summarise
from placer.stencil.problem import Problem, Solution
from placer.stencil.scoring import Score, score, wires_norm
from placer.stencil.search import search

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


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the mapping has come."""

    stage: str
    seconds: float
    accuracy: float  # normalised, as far as known
    wires: float


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
    objective: Objective = CONTEST_SCORE,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Mapping:
    """The best solution that is found until the clock says stop, checked.

    Raises DoesNotFitError when even the smallest partition needs more PEs than the fabric has.
    """
    run = _Run(problem, summarise(problem), clock, seed, objective, report)
    best = _search(run)
    solution = solution_of(best.netlist, best.placed)
    return Mapping(best.netlist, best.placed, solution, score(problem, solution), clock.seconds)


@dataclass(frozen=True, slots=True, eq=False)
class _Attempt:
    """A partition with places."""

    partition: Partition
    netlist: Netlist
    placed: Placed
    first_cost: float  # of its wires, before they were shortened
    num_pes: int  # of the fabric

    @property
    def accuracy(self) -> float:
        return self.partition.accuracy / self.num_pes

    @property
    def wires(self) -> float:
        return wires_norm(self.placed.cost, self.num_pes)

    def wires_of(self, used_pes: int) -> float:
        """Expected term of the wires of a partition of another size, before they are shortened."""
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
    report: Callable[[Progress], None]
    best: _Attempt | None = field(default=None)

    def keep(self, stage: str, attempt: _Attempt) -> _Attempt:
        """Note an attempt, which is returned."""
        if self.best is None or self.worth(attempt) > self.worth(self.best):
            self.best = attempt
        self.report(Progress(stage, self.clock.seconds, attempt.accuracy, attempt.wires))
        return attempt

    def worth(self, attempt: _Attempt) -> float:
        return self.objective(attempt.accuracy, attempt.wires)

    def do_wires_matter(self, accuracy: float, wires: float, within: float) -> bool:
        """Whether the objective changes when wires do, by up to a factor to either side."""
        return self.objective(accuracy, wires / within) < self.objective(accuracy, wires * 1.001)

    def partitions(self, max_pes: int) -> Iterator[Partition]:
        return search(self.problem, self.summary, max_pes, self.seed, self.clock)

    def place(self, partition: Partition) -> _Attempt:
        """Lay a partition out, in a part of the fabric if it is much smaller."""
        self.clock.end_step()
        begin = self.clock.seconds
        netlist = netlist_of(partition.pyramid, partition.tree)
        placed = best_layout(netlist, _compact(self.problem.fabric, netlist.num_nodes))
        self.clock.note_placing(self.clock.seconds - begin, netlist.num_nodes)
        attempt = _Attempt(partition, netlist, placed, placed.cost, self.problem.num_pes)
        return self.keep("places", attempt)

    def shorten(self, attempt: _Attempt, rounds: Iterator[Placed], max_rounds: int) -> _Attempt:
        """Shorten wires while they matter and there is time."""
        last = 0.0
        for _ in range(max_rounds):
            is_enough = not self.do_wires_matter(attempt.accuracy, attempt.wires, within=1.0)
            if is_enough or not self.clock.has_time(last):
                break
            begin = self.clock.seconds
            placed = next(rounds, None)
            if placed is None:
                break
            attempt = self.keep("wires", replace(attempt, placed=placed))
            last = self.clock.seconds - begin
        return attempt


def _compact(fabric: tuple[int, int], num_nodes: int) -> tuple[int, int]:
    """The part of the fabric that so many nodes should use."""
    width, height = fabric
    share = num_nodes / (width * height)
    if share < COMPACT_BELOW:
        width = min(width, math.ceil(width * math.sqrt(share)) + 1)
        height = min(height, math.ceil(num_nodes / width) + 1)
        width = max(width, math.ceil(num_nodes / height))
    return width, height


def _search(run: _Run) -> _Attempt:
    """Better and better partitions, placed when their wires may matter."""
    partitions = run.partitions(run.problem.num_pes)
    last = _first_partition(run.problem, partitions)
    trade = _Trade(run, run.place(last))
    waiting: Partition | None = None
    for partition in partitions:
        if partition.accuracy > last.accuracy * (1 + LEAST_GAIN):
            last = waiting = partition
            accuracy = partition.accuracy / run.problem.num_pes
            run.report(Progress("partition", run.clock.seconds, accuracy, 0.0))
            wires = trade.attempt.wires_of(partition.used_pes)
            is_larger = partition.used_pes > GROWTH * trade.attempt.netlist.num_nodes
            if is_larger or run.do_wires_matter(accuracy, wires, MATTER_WITHIN):
                trade, waiting = _Trade(run, run.place(partition)), None
        trade.go_on()
        if last.accuracy > (1 - EQUAL) * run.problem.num_pes:
            break
    while trade.do_wires_matter and run.clock.has_time():
        trade.go_on()
    if waiting is not None:
        run.place(waiting)
    assert run.best is not None
    return run.best


def _first_partition(problem: Problem, partitions: Iterator[Partition]) -> Partition:
    first = next(partitions, None)
    if first is None:
        smallest = smallest_partition(problem)
        if smallest.used_pes > problem.num_pes:
            raise DoesNotFitError(
                "PEs", smallest.used_pes, problem.num_pes, "use a larger fabric or a smaller volume"
            )
        return smallest
    return first


class _Trade:
    """Shortens the wires of a partition; while they matter, changes how full the fabric is."""

    def __init__(self, run: _Run, attempt: _Attempt) -> None:
        self._run = run
        self._take(attempt)

    def _take(self, attempt: _Attempt) -> None:
        self.attempt = attempt
        self._rounds = refine(attempt.netlist, self._run.problem.fabric, attempt.placed,
                              self._run.seed)  # fmt: skip

    @property
    def do_wires_matter(self) -> bool:
        return self._run.do_wires_matter(self.attempt.accuracy, self.attempt.wires, within=1.0)

    def go_on(self) -> None:
        """Some rounds, then another size if that promises more. Nothing if wires do not matter."""
        if not self.do_wires_matter:
            return
        self.attempt = self._run.shorten(self.attempt, self._rounds, TRADE_ROUNDS)
        share = self._best_share()
        clock = self._run.clock
        if abs(share - 1) > LEAST_TRADE and clock.has_time(2 * clock.placing_seconds):
            other = self._of_size(int(share * self.attempt.netlist.num_nodes))
            if other is not None:
                self._take(self._run.place(other))

    def _best_share(self) -> float:
        """By which factor the used PEs should change, as far as rules of thumb can tell."""
        attempt, objective = self.attempt, self._run.objective
        most = attempt.num_pes / max(1, attempt.netlist.num_nodes)
        shares = [1.0, *(float(share) for share in SHARES if share < most), most]
        return max(
            shares,
            key=lambda x: objective(
                attempt.accuracy * x**ACCURACY_EXPONENT, attempt.wires * x**-WIRES_EXPONENT
            ),
        )

    def _of_size(self, max_pes: int) -> Partition | None:
        """A partition for so many PEs: the same with more or fewer splits, or a new one."""
        partition = resized(self.attempt.partition, max_pes)
        if partition is None:
            partition = next(islice(self._run.partitions(max_pes), TRADE_STEPS - 1, None), None)
            self._run.clock.end_step()
        return partition


def warm_up() -> None:
    """Compile, or load from the cache, what a mapping needs; it counts for no time limit."""
    for volume in ((4, 4), (2, 2, 2)):
        problem = ball(volume, (9, 9), (0, 0, 0), 8.0, floor=0.0)
        found = evaluate(problem, Plan(20, 0, 2.0, 0.0), (0, 0, 0), problem.num_pes)
        assert found is not None
        partition = found.partition
        summarise(problem)
        tree, totals = coarsest(partition.pyramid, 4.0)
        anneal(partition.pyramid, tree, totals, problem.num_pes, 2, 0)
        netlist = netlist_of(partition.pyramid, partition.tree)
        start = best_layout(netlist, problem.fabric)
        *_, placed = islice(refine(netlist, problem.fabric, start, 0), MAX_SMOOTHINGS + 1)
        score(problem, solution_of(netlist, placed))
