"""A graph on several wafers in a row, also of unequal size: tensors flow from one to the next.

Each wafer takes the longest stretch of the depth-first order that its rows hold at a target time;
the smallest such time comes by binary search. Then cuts move between neighbours while that lowers
the times of their wafers (balancing). After the chain of accelerators in the paper on strips and
stacks; wires between wafers are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from placer.errors import InputError
from placer.kernels.finish import finish
from placer.kernels.graph import KernelGraph, Wafer, depth_first_order
from placer.kernels.joint import JointSizing
from placer.kernels.mapping import Mapping
from placer.kernels.problem import Problem
from placer.kernels.search import Search
from placer.kernels.shapes import LongArray
from placer.kernels.shelves import shelves_of
from placer.kernels.strips import best_rows, flow_along


@dataclass(frozen=True, slots=True)
class Part:
    """What one wafer of the chain holds."""

    graph: KernelGraph
    mapping: Mapping


class Chain:
    """Assigns stretches of the order to wafers; `run` gives the parts."""

    def __init__(self, graph: KernelGraph, sizes: Sequence[tuple[int, int]], seed: int) -> None:
        self._graph, self._seed = graph, seed
        self._order = np.array(depth_first_order(len(graph.kernels), graph.edges))
        self._problems = [
            Problem(replace(graph, wafer=replace(graph.wafer, width=width, height=height)))
            for width, height in sizes
        ]
        self._slowest: dict[tuple[int, int, int], int] = {}
        times = [problem.tables.times() for problem in self._problems]
        self._times = np.unique(np.concatenate(times))

    def run(self) -> list[Part]:
        """The smallest time that greedy stretches allow, then balanced."""
        low, high = 0, len(self._times) - 1
        if self._greedy(int(self._times[high])) is None:
            raise InputError(
                f"graph {self._graph.name} does not fit on {len(self._problems)} wafers at any "
                "time; use more or larger ones"
            )
        while low < high:
            middle = (low + high) // 2
            if self._greedy(int(self._times[middle])) is not None:
                high = middle
            else:
                low = middle + 1
        cuts = self._greedy(int(self._times[high]))
        assert cuts is not None, "the last time looked at was feasible"
        cuts = self._balance(cuts)
        return [
            self._part(wafer, first, end)
            for wafer, (first, end) in enumerate(pairwise(cuts))
            if end > first
        ]

    def _fits(self, wafer: int, first: int, end: int, ticks: int) -> bool:
        if end == first:
            return True
        problem = self._problems[wafer]
        stretch = self._order[first:end]
        shapes = problem.shapes_at(ticks)
        if shapes.areas[stretch].sum() > problem.tables.width * problem.tables.height:
            return False
        return best_rows(problem, shapes, flow_along(problem.edges, stretch)) is not None

    def _greedy(self, ticks: int) -> list[int] | None:
        """Cuts of longest stretches, None if kernels are left over."""
        cuts, num = [0], len(self._order)
        for wafer in range(len(self._problems)):
            low, high = cuts[-1], num
            while low < high:
                middle = (low + high + 1) // 2
                if self._fits(wafer, cuts[-1], middle, ticks):
                    low = middle
                else:
                    high = middle - 1
            cuts.append(low)
        return cuts if cuts[-1] == num else None

    def _smallest(self, wafer: int, first: int, end: int) -> int:
        """Smallest time of a stretch on a wafer, in ticks."""
        key = (wafer, first, end)
        if key not in self._slowest:
            low, high = 0, len(self._times) - 1
            while low < high:
                middle = (low + high) // 2
                if self._fits(wafer, first, end, int(self._times[middle])):
                    high = middle
                else:
                    low = middle + 1
            fits = self._fits(wafer, first, end, int(self._times[low]))
            self._slowest[key] = int(self._times[low] if fits else self._times[-1] + 1)
        return self._slowest[key]

    def _balance(self, cuts: list[int]) -> list[int]:
        """Move single cuts while the larger time of the two wafers beside it falls."""
        is_better = True
        while is_better:
            is_better = False
            for i in range(1, len(cuts) - 1):
                best = self._larger(i, cuts[i - 1], cuts[i], cuts[i + 1])
                for cut in range(max(cuts[i - 1], cuts[i] - 2), min(cuts[i + 1], cuts[i] + 2) + 1):
                    larger = self._larger(i, cuts[i - 1], cut, cuts[i + 1])
                    if larger < best:
                        best, cuts[i], is_better = larger, cut, True
        return cuts

    def _larger(self, wafer: int, first: int, cut: int, end: int) -> tuple[int, int]:
        times = [
            self._smallest(wafer - 1, first, cut) if cut > first else 0,
            self._smallest(wafer, cut, end) if end > cut else 0,
        ]
        return max(times), min(times)

    def _part(self, wafer: int, first: int, end: int) -> Part:
        """The mapping of a stretch at its smallest time."""
        time = Fraction(self._smallest(wafer, first, end), self._graph.time_scale)
        chosen = sorted(self._order[first:end].tolist())
        size = self._problems[wafer].graph.wafer
        graph = subgraph(self._graph, chosen, size)
        problem = Problem(graph)
        ticks = int(time * graph.time_scale)
        place = {kernel: i for i, kernel in enumerate(chosen)}
        order = np.array([place[kernel] for kernel in self._order[first:end].tolist()])
        return Part(graph, _map_order(problem, order, ticks, self._seed))


def _map_order(problem: Problem, order: LongArray, ticks: int, seed: int) -> Mapping:
    search = Search(problem, time_limit=0.0, seed=seed)
    shapes = problem.shapes_at(ticks)
    rows = best_rows(problem, shapes, flow_along(problem.edges, order))
    assert rows is not None, "the chain was cut at a time at which these rows fit"
    finish(search, JointSizing(problem, ticks), shapes, shelves_of(rows), 8, seed)
    assert search.best is not None
    return search.best


def subgraph(graph: KernelGraph, kernels: Sequence[int], wafer: Wafer) -> KernelGraph:
    """Some kernels of a graph with the edges between them, on a wafer of their own."""
    place = {kernel: i for i, kernel in enumerate(kernels)}
    edges = tuple((place[u], place[v]) for u, v in graph.edges if u in place and v in place)
    return KernelGraph(graph.name, tuple(graph.kernels[i] for i in kernels), edges, wafer)
