"""Map a volume to the fabric within a time limit: partition, place, check.

1. The first partition is placed, so that a legal solution exists as soon as possible.
2. While accuracy is the smaller term of the score, partitions are searched; the best one is placed
   at the end, and its wires annealed until they no longer bind.
3. Where wires bind, tiles are traded for wires: the fabric is filled only as far as both terms meet,
   and the wires are annealed for the rest of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from placer.errors import DoesNotFitError
from placer.stencil.check import Score, score, wires_norm
from placer.stencil.generate import ball
from placer.stencil.leaves import Netlist, netlist_of
from placer.stencil.partition import Partition, anneal, coarsest
from placer.stencil.place import Placed, best_layout, refine, solution_of
from placer.stencil.problem import Problem, Solution
from placer.stencil.search import search, smallest_partition

SECONDS_PER_PE = 2.5e-5  # kept for placing, checking and writing the last partition
SMALL_FABRIC_CELLS = 12_000_000  # cells of samplings that are tried on fabrics up to 400 k PEs
LARGE_FABRIC_CELLS = 60_000_000
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
    """Time that is left, and whether another step like the last ones still fits."""

    def __init__(self, limit: float) -> None:
        self._begin = time.perf_counter()
        self._limit = limit
        self._last = 0.0
        self._step_begin = self._begin

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def has_time(self, reserve: float) -> bool:
        """Called before each step: there is time for one as long as the last, and the reserve."""
        now = time.perf_counter()
        self._last, self._step_begin = now - self._step_begin, now
        return self.seconds + self._last + reserve < self._limit


def map_volume(
    problem: Problem,
    time_limit: float,
    seed: int,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Mapping:
    """The best solution that is found in `time_limit` seconds, checked.

    Raises DoesNotFitError when even the smallest partition needs more PEs than the fabric has.
    """
    clock = _Clock(time_limit)
    partition = _partition(problem, clock, seed, report)
    netlist = netlist_of(partition.pyramid, partition.tree)
    accuracy = partition.accuracy / problem.num_pes
    placed = best_layout(netlist, problem.fabric)
    for better in _until_free(
        problem, accuracy, placed, refine(netlist, problem.fabric, placed, seed)
    ):
        placed = better
        wires = wires_norm(placed.cost, problem.num_pes)
        report(Progress("wires", clock.seconds, accuracy, wires))
        if not clock.has_time(0.4 * SECONDS_PER_PE * problem.num_pes):
            break
    solution = solution_of(netlist, placed)
    return Mapping(netlist, placed, solution, score(problem, solution), clock.seconds)


def _partition(
    problem: Problem, clock: _Clock, seed: int, report: Callable[[Progress], None]
) -> Partition:
    max_cells = SMALL_FABRIC_CELLS if problem.num_pes <= 400_000 else LARGE_FABRIC_CELLS
    best: Partition | None = None
    for partition in search(problem, problem.num_pes, max_cells, seed):
        best = partition
        accuracy = partition.accuracy / problem.num_pes
        report(Progress("partition", clock.seconds, accuracy, 0.0))
        if accuracy >= 1 - EQUAL or not clock.has_time(SECONDS_PER_PE * problem.num_pes):
            break
    if best is None:
        best = smallest_partition(problem)
        if best.used_pes > problem.num_pes:
            raise DoesNotFitError(
                "PEs", best.used_pes, problem.num_pes, "use a larger fabric or a cooler volume"
            )
    return best


def _until_free(
    problem: Problem, accuracy: float, start: Placed, rounds: Iterator[Placed]
) -> Iterator[Placed]:
    """Rounds of annealing as long as wires are the smaller term."""
    placed = start
    while wires_norm(placed.cost, problem.num_pes) < accuracy:
        placed = next(rounds, start)
        yield placed


def warm_up() -> None:
    """Compile, or load from the cache, what a mapping needs; it counts for no time limit."""
    for volume in ((4, 4), (2, 2, 2)):
        problem = ball(volume, (9, 9), (0, 0, 0), 8.0, floor=0.0)
        partition = next(search(problem, problem.num_pes, 1000, 0))
        tree, totals = coarsest(partition.pyramid, 2 * partition.finest_limit)
        anneal(partition.pyramid, tree, totals, problem.num_pes, 2, 0)
        netlist = netlist_of(partition.pyramid, partition.tree)
        placed = next(refine(netlist, problem.fabric, best_layout(netlist, problem.fabric), 0))
        score(problem, solution_of(netlist, placed))
