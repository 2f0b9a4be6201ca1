"""Map a volume to the fabric within a time limit: partition, place, check.

1. The first partition is placed, so that a legal solution exists as soon as possible.
2. While accuracy is the smaller term of the score, partitions are searched; the best one is placed
   at the end, and its wires annealed until they no longer bind.
3. Where wires bind, tiles are traded for wires: of partitions that fill the fabric more or less,
   the one is taken whose smaller term will be largest, and its wires are annealed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from placer.errors import DoesNotFitError
from placer.stencil.check import Score, score, wires_norm
from placer.stencil.generate import ball
from placer.stencil.leaves import Netlist, netlist_of
from placer.stencil.partition import Partition, anneal, coarsest
from placer.stencil.place import FIRST_ROUNDS, Placed, best_layout, refine, solution_of
from placer.stencil.problem import Problem, Solution
from placer.stencil.search import search, smallest_partition

SECONDS_PER_CELL = 3e-7  # of a step of the search, before the first one is measured
SECONDS_PER_PE = 2.5e-5  # kept for placing, checking and writing the last partition
CHECK_SHARE = 0.4  # of that, for checking and writing alone
COMPACT_BELOW = 0.97  # used share of the fabric below which places are kept together
ANNEALING_GAIN = 1.3  # by which annealing raises the term of the wires, about
NEARLY_BINDS = 1.1  # wires that are less than this times accuracy at first may bind at the end
WIRES_EXPONENT = 0.83  # the term of the wires falls as this power of the used PEs
TRADE_SHARES = (0.96, 0.91, 0.86, 0.8)  # of the used PEs that are tried when wires bind
TRADE_STEPS = 2  # steps of the search for a partition of a given size
TRADE_ROUNDS = 16  # of annealing between two choices of the partition
EQUAL = 1e-4  # terms of the score closer than this are equal


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


class _Clock:
    """Time that is left, and whether the next step still fits."""

    def __init__(self, limit: float, num_pes: int) -> None:
        self._begin = self._step_begin = time.perf_counter()
        self._limit = limit
        self._reserve = SECONDS_PER_PE * num_pes
        self.annealing_reserve = 0.0  # kept back from searches
        self._cells, self._seconds_per_cell = 0.0, SECONDS_PER_CELL

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def has_time(self, share: float = 1.0) -> bool:
        """Called before each step: there is time for one as long as the last, and the reserve.

        `share` of the time to finish is kept back.
        """
        now = time.perf_counter()
        last, self._step_begin = now - self._step_begin, now
        return self.seconds + last + share * self._reserve < self._limit

    def end_step(self) -> None:
        """Called when something else follows a step of a search."""
        if self._cells:
            speed = (time.perf_counter() - self._step_begin) / self._cells
            self._seconds_per_cell = max(self._seconds_per_cell, speed)
        self._cells = 0.0

    def affords(self, cells: float) -> bool:
        """Called before each step of a search: the slowest one so far tells the speed."""
        self.end_step()
        self._cells, self._step_begin = cells, time.perf_counter()
        needed = cells * self._seconds_per_cell + self._reserve + self.annealing_reserve
        return self.seconds + needed < self._limit


def map_volume(
    problem: Problem,
    time_limit: float,
    seed: int,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Mapping:
    """The best solution that is found in `time_limit` seconds, checked.

    Raises DoesNotFitError when even the smallest partition needs more PEs than the fabric has.
    """
    run = _Run(problem, _Clock(time_limit, problem.num_pes), seed, report)
    partitions = search(problem, problem.num_pes, seed, run.clock.affords)
    partition = _first_partition(problem, partitions)
    run.clock.end_step()
    attempt = _attempt(problem, partition)
    run.tell("first places", attempt)
    if attempt.wires * ANNEALING_GAIN >= attempt.accuracy:
        attempt = _search_accuracy(run, attempt, partitions)
    else:
        attempt = _trade(run, attempt, partition)
    solution = solution_of(attempt.netlist, attempt.placed)
    checked = score(problem, solution)
    return Mapping(attempt.netlist, attempt.placed, solution, checked, run.clock.seconds)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """What all parts of a mapping need."""

    problem: Problem
    clock: _Clock
    seed: int
    report: Callable[[Progress], None]

    def tell(self, stage: str, attempt: _Attempt) -> None:
        self.report(Progress(stage, self.clock.seconds, attempt.accuracy, attempt.wires))


@dataclass(frozen=True, slots=True, eq=False)
class _Attempt:
    """A partition with places."""

    netlist: Netlist
    placed: Placed
    accuracy: float  # normalised
    num_pes: int  # of the fabric

    @property
    def wires(self) -> float:
        return wires_norm(self.placed.cost, self.num_pes)

    @property
    def score(self) -> float:
        return min(self.accuracy, self.wires)


def _attempt(problem: Problem, partition: Partition) -> _Attempt:
    """Lay a partition out, in a part of the fabric if it is much smaller."""
    netlist = netlist_of(partition.pyramid, partition.tree)
    width, height = problem.fabric
    share = netlist.num_nodes / problem.num_pes
    if share < COMPACT_BELOW:
        width = min(width, math.ceil(width * math.sqrt(share)) + 1)
        height = min(height, math.ceil(netlist.num_nodes / width) + 1)
        width = max(width, math.ceil(netlist.num_nodes / height))
    placed = best_layout(netlist, (width, height))
    return _Attempt(netlist, placed, partition.accuracy / problem.num_pes, problem.num_pes)


def _first_partition(problem: Problem, partitions: Iterator[Partition]) -> Partition:
    first = next(partitions, None)
    if first is None:
        first = smallest_partition(problem)
    if first.used_pes > problem.num_pes:
        raise DoesNotFitError(
            "PEs", first.used_pes, problem.num_pes, "use a larger fabric or a smaller volume"
        )
    return first


def _search_accuracy(run: _Run, attempt: _Attempt, partitions: Iterator[Partition]) -> _Attempt:
    """Improve the partition while there is time, then place it and anneal wires that bind."""
    if attempt.wires < attempt.accuracy * NEARLY_BINDS:
        begin = run.clock.seconds
        next(refine(attempt.netlist, run.problem.fabric, attempt.placed, run.seed), None)
        run.clock.annealing_reserve = FIRST_ROUNDS * (run.clock.seconds - begin)
    best, partition, accuracy = attempt, None, attempt.accuracy
    while accuracy < 1 - EQUAL:
        step = next(partitions, None)
        if step is None:
            break
        partition, accuracy = step, step.accuracy / run.problem.num_pes
        run.report(Progress("partition", run.clock.seconds, accuracy, 0.0))
    if partition is not None and accuracy > attempt.accuracy:
        attempt = _attempt(run.problem, partition)
    rounds = refine(attempt.netlist, run.problem.fabric, attempt.placed, run.seed)
    while attempt.wires < attempt.accuracy and run.clock.has_time(CHECK_SHARE):
        attempt = replace(attempt, placed=next(rounds))
        run.tell("wires", attempt)
    return max(best, attempt, key=lambda a: a.score)


def _trade(run: _Run, first: _Attempt, partition: Partition) -> _Attempt:
    """Choose how full the fabric is, and anneal the wires.

    S grows about as the power 1.25 of the used PEs (docs/stencil.md), and annealing gains about
    the same on all sizes; after each anneal the choice is made again with what it has gained.
    """
    ladder = _ladder(run, first, partition)
    best, attempt, gain = first, first, ANNEALING_GAIN
    current: Partition | None = None
    rounds: Iterator[Placed] = iter(())
    while True:
        choice = max(ladder, key=lambda p: _expected_score(first, partition, p, gain))
        if choice is not current:
            current, attempt = choice, _attempt(run.problem, choice)
            rounds = refine(attempt.netlist, run.problem.fabric, attempt.placed, run.seed)
        elif attempt.wires >= attempt.accuracy:
            return best
        for placed in islice(rounds, TRADE_ROUNDS):
            if not run.clock.has_time(CHECK_SHARE):
                return best
            attempt = replace(attempt, placed=placed)
            best = max(best, attempt, key=lambda a: a.score)
            run.tell("wires", attempt)
        gain = attempt.wires / _expected_wires(first, partition, choice, 1.0)


def _ladder(run: _Run, first: _Attempt, partition: Partition) -> list[Partition]:
    """Partitions that use less and less of the fabric, until accuracy would bind."""
    ladder = [partition]
    for share in TRADE_SHARES:
        if not run.clock.has_time():
            break
        max_pes = int(share * partition.used_pes)
        partitions = search(run.problem, max_pes, run.seed, run.clock.affords)
        steps = list(islice(partitions, TRADE_STEPS))
        if not steps:
            break
        run.clock.end_step()
        smaller = steps[-1]
        ladder.append(smaller)
        accuracy = smaller.accuracy / run.problem.num_pes
        wires = _expected_wires(first, partition, smaller, ANNEALING_GAIN)
        run.report(Progress("partition", run.clock.seconds, accuracy, wires))
        if accuracy < wires:
            break
    return ladder


def _expected_wires(first: _Attempt, partition: Partition, other: Partition, gain: float) -> float:
    """Term of the wires of another partition after annealing."""
    return float(
        first.wires * gain * (partition.used_pes / max(1, other.used_pes)) ** WIRES_EXPONENT
    )


def _expected_score(first: _Attempt, partition: Partition, other: Partition, gain: float) -> float:
    accuracy = other.accuracy / first.num_pes
    return min(accuracy, _expected_wires(first, partition, other, gain))


def warm_up() -> None:
    """Compile, or load from the cache, what a mapping needs; it counts for no time limit."""
    for volume in ((4, 4), (2, 2, 2)):
        problem = ball(volume, (9, 9), (0, 0, 0), 8.0, floor=0.0)
        partition = next(search(problem, problem.num_pes, 0))
        tree, totals = coarsest(partition.pyramid, 2 * partition.finest_limit)
        anneal(partition.pyramid, tree, totals, problem.num_pes, 2, 0)
        netlist = netlist_of(partition.pyramid, partition.tree)
        placed = next(refine(netlist, problem.fabric, best_layout(netlist, problem.fabric), 0))
        score(problem, solution_of(netlist, placed))
