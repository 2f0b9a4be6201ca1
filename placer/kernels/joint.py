"""Shapes and adapters at once, for given rows: what the published flows decide one by one.

In a row, the wire length is the sum of `cover * extent`, so each label of a kernel has a cost of
its own; adapters and parity lie between neighbours (adapters.py). The width of the rows is kept by
a price on extent, one per row, raised until all rows fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from placer.kernels.adapters import Choice, Links, choose_labels
from placer.kernels.labels import (
    CORE,
    EXTENT,
    PARITY,
    ROTATED,
    C,
    H,
    W,
    execution_of,
    kernel_labels,
)
from placer.kernels.layout import Execution
from placer.kernels.problem import Problem
from placer.kernels.shapes import FloatArray, LongArray

PRICE_STEPS = 14
MAX_CACHED = 1_000_000  # labels, of 64 bytes
FIXED_PRICE = 1e3  # wire tiles per tile of extent, where the width is given: only the least fits


@dataclass(frozen=True, slots=True)
class Sized:
    """Every kernel with its execution arguments and extents."""

    executions: tuple[Execution, ...]
    is_rotated: tuple[bool, ...]
    extent_x: LongArray
    extent_y: LongArray
    cost: float  # wire_weight * wire length + adapter_weight * adapters, estimated


@dataclass(frozen=True, slots=True)
class Frames:
    """What each kernel may take, and the rows whose width is limited."""

    height: LongArray  # most tiles along y
    width: LongArray  # most tiles along x, 0: any, at a price
    cover: FloatArray  # edges along a kernel of free width
    row: LongArray
    fixed: FloatArray  # tiles that kernels of fixed width take in each row

    @property
    def num_rows(self) -> int:
        return len(self.fixed)

    def widths(self, extent_x: LongArray) -> FloatArray:
        """Tiles along x in each row."""
        is_free = self.width == 0
        taken = np.bincount(self.row[is_free], extent_x[is_free], self.num_rows)
        return self.fixed + taken


class JointSizing:
    """Labels of all kernels at one target time; rows and prices may change."""

    def __init__(self, problem: Problem, ticks: int, is_over: Callable[[], bool]) -> None:
        self._problem, self._ticks, self._is_over = problem, ticks, is_over
        self._shapes = problem.shapes_at(ticks)
        self._cache: dict[tuple[int, int, int], tuple[LongArray, ...]] = {}
        self._num_cached = 0
        num_ends = [1 if len(kernel.convs) == 1 else 2 for kernel in problem.graph.kernels]
        self._first = np.concatenate(([0], np.cumsum(num_ends)))  # node of the first end
        tied = [i for i, num in enumerate(num_ends) if num == 2]
        sources, targets = problem.edges[:, 0], problem.edges[:, 1]
        edges = np.stack((self._first[sources + 1] - 1, self._first[targets]), axis=1)
        ties = np.stack((self._first[tied], self._first[tied] + 1), axis=1)
        is_tie = np.arange(len(tied) + len(edges)) < len(tied)
        wafer = problem.graph.wafer
        self._links = Links(
            np.concatenate((ties, edges)).astype(np.int64),  # ties first: all are in the forest
            is_tie,
            float(wafer.adapter_weight),
            wafer.wire_weight / 2,
        )
        self._degree = np.bincount(problem.edges.ravel(), minlength=problem.num)

    def choose(self, frames: Frames, prices: FloatArray, rounds: int, seed: int) -> Sized | None:
        """Best labels within the frames at these prices per tile of extent in each row.

        None if there are none, or if the time is over.
        """
        parts: list[LongArray] = []
        costs: list[FloatArray] = []
        for kernel in range(self._problem.num):
            per_tile, most = self._price(frames, prices, kernel)
            for labels in self._labels(kernel, int(frames.height[kernel]), most):
                if len(labels) == 0:
                    return None
                parts.append(labels)
                costs.append(per_tile * labels[:, EXTENT].astype(np.float64))
        everything = np.concatenate(parts)
        columns = [np.ascontiguousarray(everything[:, i]) for i in (H, W, C, PARITY, CORE)]
        h, w, c, parity, core = columns
        starts = np.cumsum([0, *(len(part) for part in parts)])
        choice = Choice(h, w, c, parity, core, np.concatenate(costs), starts)
        generator = np.random.default_rng(seed)
        found = choose_labels(choice, self._links, rounds, generator, self._is_over)
        if found is None:
            return None
        chosen, cost = found
        sized = self._size(everything[chosen], frames.height, cost)
        return replace(sized, cost=cost - float(frames.widths(sized.extent_x) @ prices))

    def _price(self, frames: Frames, prices: FloatArray, kernel: int) -> tuple[float, int]:
        """Cost of a tile of extent along x of a kernel, and the most tiles that may pay."""
        wafer, width = self._problem.graph.wafer, self._problem.tables.width
        if frames.width[kernel] > 0:
            return FIXED_PRICE * max(wafer.wire_weight, 1.0), int(frames.width[kernel])
        row = frames.row[kernel]
        per_tile = float(wafer.wire_weight * frames.cover[kernel] + prices[row])
        gain = self._degree[kernel] * (3 * wafer.adapter_weight + wafer.wire_weight / 2)
        spread = width if gain > per_tile * width else int(gain / per_tile) if gain > 0 else 0
        least = int(self._shapes.widths[kernel, frames.height[kernel]])
        return per_tile, min(least + spread, width)

    def choose_that_fit(self, frames: Frames, rounds: int, seed: int) -> Sized | None:
        """Raise the prices of rows that are too wide until all fit, then lower them again.

        None if they never fit, or if the time is over.
        """
        prices, best = np.zeros(frames.num_rows), None
        step = np.full(frames.num_rows, float(self._problem.graph.wafer.wire_weight) or 1.0)
        for _ in range(PRICE_STEPS):
            if self._is_over():
                return None
            sized = self.choose(frames, prices, rounds, seed)
            if sized is None:
                break
            is_wide = frames.widths(sized.extent_x) > self._problem.tables.width
            if not is_wide.any():
                if best is None or sized.cost < best.cost:
                    best = sized
                if not prices.any():
                    break
            prices = np.where(is_wide, prices + step, np.maximum(prices - step / 2, 0.0))
            step = np.where(is_wide, step * 1.5, step / 2)
        return best

    def _size(self, chosen: LongArray, heights: LongArray, cost: float) -> Sized:
        graph = self._problem.graph
        limit, scale = graph.wafer.memory_limit, graph.time_scale
        results = []
        for i, kernel in enumerate(graph.kernels):
            ends = tuple(chosen[self._first[i] : self._first[i + 1]])
            results.append(execution_of(kernel, ends, self._ticks, limit, scale, int(heights[i])))
        rotated = tuple(bool(chosen[node, ROTATED]) for node in self._first[:-1])
        return Sized(
            tuple(result[0] for result in results),
            rotated,
            np.array([result[1] for result in results]),
            np.array([result[2] for result in results]),
            cost,
        )

    def _labels(self, kernel: int, height: int, width: int) -> tuple[LongArray, ...]:
        key = (int(self._problem.tables.kind[kernel]), height, width)
        if key not in self._cache:
            graph = self._problem.graph
            limit, scale = graph.wafer.memory_limit, graph.time_scale
            ends = kernel_labels(graph.kernels[kernel], self._ticks, limit, scale, width, height)
            self._num_cached += sum(map(len, ends))
            if self._num_cached > MAX_CACHED:
                self._cache.clear()
                self._num_cached = 0
            self._cache[key] = ends
        return self._cache[key]
