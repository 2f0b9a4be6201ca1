"""Shapes and adapters at once, for given rows: what the published flows decide one by one.

In a row, the wire length is the sum of `cover * extent`, so each label of a kernel has a cost of
its own; adapters and parity lie between neighbours (adapters.py). The width of the rows is kept by
a price on extent, one per row, raised until all rows fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from placer.kernels.adapters import Choice, FloatArray, Links, choose_labels
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
from placer.kernels.shapes import LongArray

MAX_LABELS = 30_000  # per end of a kernel; the widest are dropped
PRICE_STEPS = 14
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

    def __init__(
        self, problem: Problem, ticks: int, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        self._problem, self._ticks, self._is_over = problem, ticks, is_over
        self._shapes = problem.shapes_at(ticks)
        self._cache: dict[tuple[int, int, int], tuple[LongArray, ...]] = {}
        num_ends = [1 if len(kernel.convs) == 1 else 2 for kernel in problem.graph.kernels]
        self._first = np.concatenate(([0], np.cumsum(num_ends)))  # node of the first end
        tied = [i for i, num in enumerate(num_ends) if num == 2]
        sources, targets = problem.edges[:, 0], problem.edges[:, 1]
        edges = np.stack((self._first[sources + 1] - 1, self._first[targets]), axis=1)
        ties = np.stack((self._first[tied], self._first[tied] + 1), axis=1)
        is_tie = np.arange(len(edges) + len(tied)) >= len(edges)
        wafer = problem.graph.wafer
        self._links = Links(
            np.concatenate((edges, ties)).astype(np.int64),
            is_tie,
            float(wafer.adapter_weight),
            wafer.wire_weight / 2,
        )
        self._degree = np.bincount(problem.edges.ravel(), minlength=problem.num)

    def choose(self, frames: Frames, prices: FloatArray, rounds: int, seed: int) -> Sized | None:
        """Best labels within the frames at these prices per tile of extent in each row."""
        problem = self._problem
        wafer = problem.graph.wafer
        parts: list[LongArray] = []
        costs: list[FloatArray] = []
        for kernel in range(problem.num):
            height, most = int(frames.height[kernel]), int(frames.width[kernel])
            per_tile = FIXED_PRICE * max(wafer.wire_weight, 1.0)
            if most == 0:  # free along x, for a price
                row = frames.row[kernel]
                per_tile = wafer.wire_weight * float(frames.cover[kernel]) + prices[row]
                gain = self._degree[kernel] * (3 * wafer.adapter_weight + wafer.wire_weight / 2)
                spread = min(gain / per_tile, problem.tables.width) if per_tile > 0 else 0.0
                most = int(self._shapes.widths[kernel, height]) + int(spread)
            for labels in self._labels(kernel, height, min(most, problem.tables.width)):
                if len(labels) == 0:
                    return None
                parts.append(labels)
                costs.append(float(per_tile) * labels[:, EXTENT].astype(np.float64))
        everything = np.concatenate(parts)
        columns = [np.ascontiguousarray(everything[:, i]) for i in (H, W, C, PARITY, CORE)]
        h, w, c, parity, core = columns
        starts = np.cumsum([0, *(len(part) for part in parts)])
        choice = Choice(h, w, c, parity, core, np.concatenate(costs), starts)
        generator = np.random.default_rng(seed)
        chosen, cost = choose_labels(choice, self._links, rounds, generator)
        sized = self._size(everything[chosen], frames.height, cost)
        return replace(sized, cost=cost - float(frames.widths(sized.extent_x) @ prices))

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
            self._cache[key] = ends if len(ends) == 2 else (_distinct(ends[0]),)
        return self._cache[key]


def _distinct(labels: LongArray) -> LongArray:
    """Of labels that adapters cannot tell apart, the narrowest."""
    if len(labels) == 0:
        return labels
    labels = labels[np.argsort(labels[:, EXTENT], kind="stable")]
    keys = labels[:, [H, W, C, PARITY]]
    code = np.ravel_multi_index(tuple(keys.T), tuple(keys.max(axis=0) + 1))
    _, first = np.unique(code, return_index=True)
    return np.ascontiguousarray(labels[np.sort(first)][:MAX_LABELS])
