"""A graph as arrays, for the engines: tables of shapes, edges, weights in one place."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numba import njit

from placer.kernels.bound import smallest_areas, time_bound
from placer.kernels.graph import KernelGraph
from placer.kernels.shapes import NEVER, LongArray, ShapeTables, narrowest

FAR = np.int64(1 << 30)  # tiles: wider than any wafer


class Problem:
    """What an engine knows about the graph that it maps.

    Raises InputError for a kernel that does not fit the wafer even alone.
    """

    def __init__(self, graph: KernelGraph, slowest: Fraction | None = None) -> None:
        """`slowest`: engines look at no longer times than this one, None: at any."""
        self.graph, self.slowest = graph, slowest
        self.tables = ShapeTables(graph)
        self.tables.require_fit()
        self.num = len(graph.kernels)
        self.edges = np.array(graph.edges, np.int64).reshape(-1, 2)
        self.bound = time_bound(self.tables)  # ticks
        times = self.tables.times
        self.times = times[times >= self.bound]  # ticks, ascending
        if slowest is not None:
            self.times = self.times[self.times <= int(slowest * graph.time_scale)]

    def score(self, ticks: int, wire_length: float) -> float:
        """The score, adapters left out, of a layout whose slowest kernel takes `ticks`."""
        wafer = self.graph.wafer
        return wafer.time_weight * ticks / self.graph.time_scale + wafer.wire_weight * wire_length

    def shapes_at(self, ticks: int) -> Shapes:
        """Smallest extents of all kernels at a target time."""
        return Shapes(self.tables, ticks)


class Shapes:
    """Extents at a target time: rows of tables, one per kernel of the graph."""

    def __init__(self, tables: ShapeTables, ticks: int) -> None:
        self.width, self.height = tables.width, tables.height  # of the wafer
        width, height = tables.width, tables.height
        num_kinds = len(tables.fastest)
        widths = np.empty((num_kinds, height + 1), np.int64)
        heights = np.empty((num_kinds, width + 1), np.int64)
        areas = np.empty(num_kinds, np.int64)
        _extents(tables.fastest, ticks, width, height, widths)
        _extents(tables.fastest, ticks, height, width, heights)
        smallest_areas(tables.fastest, ticks, width, height, areas)
        self.widths = widths[tables.kind]  # [kernel, height] -> least extent along x
        self.heights = heights[tables.kind]  # [kernel, width] -> least extent along y
        self.areas = areas[tables.kind]


@njit(cache=True)
def _extents(fastest: LongArray, ticks: int, width: int, height: int, out: LongArray) -> None:
    """out[kind, y] = least extent along x, upright or rotated, FAR if more than `width`."""
    side = fastest.shape[1] - 1
    upright = np.empty(side + 1, np.int64)
    for kind in range(len(fastest)):
        table = fastest[kind]
        narrowest(table, ticks, upright)
        tall = side  # height of a rotated kernel lies along x
        for y in range(height + 1):
            k = y // 3
            best = upright[y]
            if table[tall, k] <= ticks:
                while tall > 0 and table[tall - 1, k] <= ticks:
                    tall -= 1
                best = min(best, tall)
            out[kind, y] = best if best <= width and best < NEVER else FAR
