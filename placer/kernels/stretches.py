"""Where a chain of wafers is cut: stretches of an order of kernels, one for each wafer.

Each wafer takes the longest stretch that its rows hold at a target time; the smallest such time
comes by binary search. Then cuts move between neighbours while that lowers the times of their
wafers (balancing). Only times count, wires do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from placer.errors import InputError
from placer.kernels.flow import flow_along
from placer.kernels.graph import KernelGraph
from placer.kernels.problem import Shapes
from placer.kernels.search import turned_graph
from placer.kernels.shapes import NEVER, LongArray, ShapeTables
from placer.kernels.strips import Rows, best_rows

Size = tuple[int, int]  # width and height of a wafer
REACH = 2  # kernels that a cut moves by at once

_NO_EDGES = np.empty((0, 2), np.int64)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one wafer holds, with rows that prove the time; rows along y if it is turned."""

    wafer: int
    kernels: LongArray  # in order
    ticks: int
    is_turned: bool
    rows: Rows


class Stretches:
    """Smallest times of the stretches of one order on wafers of given sizes."""

    def __init__(self, graph: KernelGraph, sizes: Sequence[Size], order: LongArray) -> None:
        self._sizes, self._order = sizes, order
        self._tables: dict[Size, list[ShapeTables]] = {}  # as it is and, if it matters, turned
        for width, height in set(sizes):
            own = replace(graph, wafer=replace(graph.wafer, width=width, height=height))
            graphs = [own] if width == height else [own, turned_graph(own)]
            self._tables[width, height] = [ShapeTables(each) for each in graphs]
        self._require_fit()
        times = [tables[0].times for tables in self._tables.values()]
        self.times = np.unique(np.concatenate(times))
        self._shapes = lru_cache(maxsize=64)(self._make_shapes)
        self._known: dict[tuple[Size, int, int], int] = {}

    def cut(self, is_over: Callable[[], bool]) -> list[Stretch]:
        """The best cuts that are found. Raises InputError if the wafers do not hold the graph."""
        low, high = 0, len(self.times) - 1
        cuts = self._greedy(int(self.times[high]))
        if cuts is None:
            sizes = ", ".join(f"{width} x {height}" for width, height in self._sizes)
            raise InputError(
                f"{len(self._order)} kernels do not fit on a chain of wafers of {sizes} tiles, "
                "however slow; use more or larger wafers"
            )
        while low < high:
            middle = (low + high) // 2
            found = self._greedy(int(self.times[middle]))
            if found is not None:
                high, cuts = middle, found
            else:
                low = middle + 1
        self._balance(cuts, is_over)
        pairs = enumerate(pairwise(cuts))
        return [self._stretch(wafer, *ends) for wafer, ends in pairs if ends[0] < ends[1]]

    def _require_fit(self) -> None:
        """Every kernel must fit one of the wafers."""
        fits = np.zeros(len(self._order), np.bool_)
        for tables in self._tables.values():
            times = tables[0].times
            if len(times):
                fits |= Shapes(tables[0], int(times[-1])).areas < NEVER
        if not fits.all():
            largest = max(self._sizes, key=lambda size: (min(size), max(size)))
            self._tables[largest][0].require_fit()

    def _make_shapes(self, size: Size, is_turned: bool, ticks: int) -> Shapes:
        return Shapes(self._tables[size][is_turned], ticks)

    def _rows(self, wafer: int, first: int, end: int, ticks: int) -> tuple[Rows, bool] | None:
        """Rows of a stretch on a wafer, and whether they are along y; None if there are none."""
        size, stretch = self._sizes[wafer], self._order[first:end]
        flow = flow_along(_NO_EDGES, stretch)
        for is_turned in (False, True)[: len(self._tables[size])]:
            shapes = self._shapes(size, is_turned, ticks)
            areas = shapes.areas[stretch]
            if areas.max() < NEVER and areas.sum() <= size[0] * size[1]:
                rows = best_rows(shapes, flow)
                if rows is not None:
                    return rows, is_turned
        return None

    def _greedy(self, ticks: int) -> list[int] | None:
        """Cuts of longest stretches, None if kernels are left over."""
        cuts, num = [0], len(self._order)
        for wafer in range(len(self._sizes)):
            low, high = cuts[-1], num
            while low < high:
                middle = (low + high + 1) // 2
                if self._rows(wafer, cuts[-1], middle, ticks) is not None:
                    low = middle
                else:
                    high = middle - 1
            cuts.append(low)
        return cuts if cuts[-1] == num else None

    def _smallest(self, wafer: int, first: int, end: int) -> int:
        """Smallest time of a stretch on a wafer, NEVER if it holds it at none."""
        if first == end:
            return 0
        key = (self._sizes[wafer], first, end)
        if key not in self._known:
            low, high = 0, len(self.times)
            while low < high:
                middle = (low + high) // 2
                if self._rows(wafer, first, end, int(self.times[middle])) is not None:
                    high = middle
                else:
                    low = middle + 1
            self._known[key] = int(self.times[low] if low < len(self.times) else NEVER)
        return self._known[key]

    def _balance(self, cuts: list[int], is_over: Callable[[], bool]) -> None:
        """Move single cuts while the larger time of the two wafers beside it falls."""
        is_better = True
        while is_better:
            is_better = False
            for i in range(1, len(cuts) - 1):
                best = self._times(i, cuts[i - 1], cuts[i], cuts[i + 1])
                low, high = max(cuts[i - 1], cuts[i] - REACH), min(cuts[i + 1], cuts[i] + REACH)
                for cut in range(low, high + 1):
                    if is_over():
                        return
                    times = self._times(i, cuts[i - 1], cut, cuts[i + 1])
                    if times < best:
                        best, cuts[i], is_better = times, cut, True

    def _times(self, wafer: int, first: int, cut: int, end: int) -> tuple[int, int]:
        """Times of a wafer and the one before it, the larger first."""
        before, after = self._smallest(wafer - 1, first, cut), self._smallest(wafer, cut, end)
        return max(before, after), min(before, after)

    def _stretch(self, wafer: int, first: int, end: int) -> Stretch:
        ticks = self._smallest(wafer, first, end)
        found = self._rows(wafer, first, end, ticks)
        assert found is not None, "cuts are made where rows fit"
        rows, is_turned = found
        return Stretch(wafer, self._order[first:end], ticks, is_turned, rows)
