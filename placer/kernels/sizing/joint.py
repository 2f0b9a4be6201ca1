"""Shapes and adapters at once, for given rows: what the published flows decide one by one.

In a row, the wire length is the sum of `cover * extent`, so each label of a kernel has a cost of
its own; adapters and parity lie between neighbours (adapters.py). The width of the rows is kept by
a price on extent, one per row, raised until all rows fit.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from placer.base import FloatArray, LongArray
from placer.kernels.model import DEFAULT_OUT_RULES, Execution, OutRules
from placer.kernels.sizing.adapters import Choice, Links, choose_labels
from placer.kernels.sizing.labels import CORE, EXTENT, LABEL_ROTATED, execution_of, kernel_labels
from placer.kernels.sizing.problem import Problem, Target

PRICE_STEPS = 14
MAX_CACHED = 1_000_000  # labels, of 64 bytes
FIXED_PRICE = 1e3  # wire tiles per tile of extent, where the width is given: only the least fits


class Sized(NamedTuple):
    """Every kernel with its execution arguments and extents."""

    executions: tuple[Execution, ...]
    is_rotated: tuple[bool, ...]
    extent_x: LongArray
    extent_y: LongArray
    cost: float  # wire_weight * wire length + adapter_weight * adapters, estimated


class Frames(NamedTuple):
    """What each kernel may take, and the rows whose width is limited."""

    height: LongArray  # most tiles along y
    width: LongArray  # most tiles along x, 0: any, at a price
    cover: FloatArray  # edges along a kernel of free width
    row: LongArray
    fixed: FloatArray  # tiles that kernels of fixed width take in each row

    def widths(self, extent_x: LongArray) -> FloatArray:
        """Return the tiles along x in each row."""
        is_free = self.width == 0
        return self.fixed + np.bincount(self.row[is_free], extent_x[is_free], len(self.fixed))


class JointSizing:
    """Labels of all kernels at one target time; rows and prices may change."""

    def __init__(
        self, problem: Problem, ticks: int, is_over: Callable[[], bool], rules: OutRules = DEFAULT_OUT_RULES
    ) -> None:
        """Take a target time; `rules` says which channels kernels hand over."""
        self._problem, self._is_over, graph = problem, is_over, problem.graph
        self._rules = rules
        self._target = Target(ticks, graph.wafer.memory_limit, graph.time_scale)
        self._shapes = problem.shapes_at(ticks)
        self._cache: dict[tuple[int, int, int], tuple[LongArray, ...]] = {}
        self._num_cached = 0
        num_ends = [1 if len(kernel.convs) == 1 else 2 for kernel in graph.kernels]
        self._first = np.concatenate(([0], np.cumsum(num_ends)))  # node of the first end
        tied = [i for i, num in enumerate(num_ends) if num == 2]
        sources, targets = problem.edges[:, 0], problem.edges[:, 1]
        edges = np.stack((self._first[sources + 1] - 1, self._first[targets]), axis=1)
        ties = np.stack((self._first[tied], self._first[tied] + 1), axis=1)
        ends = np.concatenate((ties, edges)).astype(np.int64)  # ties first: all are in the forest
        weights = float(graph.wafer.adapter_weight), graph.wafer.wire_weight / 2
        self._links = Links(ends, np.arange(len(ends)) < len(tied), *weights)
        self._degree = np.bincount(problem.edges.ravel(), minlength=problem.num)

    def choose(self, frames: Frames, prices: FloatArray, rounds: int, seed: int) -> Sized | None:
        """Return the best labels within the frames at these prices per tile of extent in each row.

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
        h, w, c, out, parity, core = np.ascontiguousarray(everything[:, : CORE + 1].T)
        starts = np.cumsum([0, *(len(part) for part in parts)])
        choice = Choice(h, w, c, out, parity, core, np.concatenate(costs), starts)
        generator = np.random.default_rng(seed)
        found = choose_labels(choice, self._links, rounds, generator, self._is_over)
        if found is None:
            return None
        chosen, cost = everything[found[0]], found[1]
        results = [
            execution_of(kernel, tuple(chosen[first:end]), self._target, int(height))
            for kernel, (first, end), height in zip(
                self._problem.graph.kernels, pairwise(self._first), frames.height, strict=True
            )
        ]
        executions, along_x, along_y = zip(*results, strict=True)
        rotated = tuple(bool(chosen[node, LABEL_ROTATED]) for node in self._first[:-1])
        cost -= float(frames.widths(np.array(along_x)) @ prices)
        return Sized(executions, rotated, np.array(along_x), np.array(along_y), cost)

    def _price(self, frames: Frames, prices: FloatArray, kernel: int) -> tuple[float, int]:
        """Return the cost of a tile of a kernel along x, and the most tiles that may pay."""
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
        prices, best = np.zeros(len(frames.fixed)), None
        step = np.full(len(frames.fixed), float(self._problem.graph.wafer.wire_weight) or 1.0)
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

    def _labels(self, kernel: int, height: int, width: int) -> tuple[LongArray, ...]:
        key = (int(self._problem.tables.kind[kernel]), height, width)
        if key not in self._cache:
            one = self._problem.graph.kernels[kernel]
            ends = kernel_labels(one, self._target, width, height, self._rules[one.type])
            self._num_cached += sum(map(len, ends))
            if self._num_cached > MAX_CACHED:
                self._cache.clear()
                self._num_cached = 0
            self._cache[key] = ends
        return self._cache[key]
