"""Mappings as the arrays that the `flow` network reads, by compiled code.

- unit: a kernel; flow: a stream of the graph (one source, one target, so flows are ends, too).
- lane: a rim of a kernel, or a link between two regions of the wafer (regions.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from costmodel.wafer.features import FLOW_FACTS, LARGEST, SMALLEST, UNIT_FACTS, WAFER_FEATURES
from costmodel.wafer.regions import Regions, Routes, add_route, count_paths, link_kinds, regions_of, room_for_routes
from costmodel.wafer.streams import Stream, count_adapters, is_across, rim_hops, spread_share, stream_of
from placer.base import IntArray, LongArray, SingleArray
from placer.kernels.model import KERNEL_TYPES, ROTATED, C, H, K, KernelGraph, W, extents_of
from placer.kernels.sizing import Loops, Problem, loops_of
from placer.kernels.truth import ELEMENTS_PER_WAVELET, TILES_PER_OUTPUT, output_wavelets

Phases = tuple[float, float, float, float, float]

HOP_TILES = 8  # that count as one hop of an end
MAX_HOPS = 255

_UNIT_FACTS, _FLOW_FACTS = len(UNIT_FACTS), len(FLOW_FACTS)


class Graph(NamedTuple):
    """What does not depend on the mapping."""

    loops: Loops
    windows: LongArray  # [num_kernels, MAX_CONVS, 2] height and width
    edges: LongArray  # [num_edges, 2]
    wavelets: NDArray[np.float64]  # [num_edges]
    depth: LongArray  # [num_kernels] edges on the longest way from an input
    degrees: LongArray  # [num_kernels, 2] in, out
    width: int
    height: int
    bound: float  # cycles


class Mapped(NamedTuple):
    """Room for one mapping."""

    unit: SingleArray  # [num_kernels, columns]
    flow: SingleArray  # [num_edges, columns]
    end_hops: IntArray  # [num_edges]
    routes: Routes


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes mappings of one problem, one after the other, into the same room."""

    graph: Graph
    room: Mapped

    @staticmethod
    def of(problem: Problem) -> Encoder:
        graph = graph_arrays(problem.graph, problem.bound / problem.graph.time_scale)
        num, num_edges, schema = problem.num, len(graph.edges), WAFER_FEATURES
        return Encoder(
            graph,
            Mapped(
                np.zeros((num, len(schema.unit_columns)), np.float32),
                np.zeros((num_edges, len(schema.flow_columns)), np.float32),
                np.zeros(num_edges, np.int32),
                room_for_routes(graph.width, graph.height, num, num_edges),
            ),
        )

    def encode(self, table: LongArray) -> Mapped:
        """Encode one mapping; the arrays change with the next one."""
        encode_mapping(self.graph, table, self.room)
        return self.room


def graph_arrays(graph: KernelGraph, bound: float) -> Graph:
    """Return what does not depend on the mapping; `bound` is in cycles."""
    num, loops = len(graph.kernels), loops_of(graph)
    edges = np.array(graph.edges, np.int64).reshape(-1, 2)
    windows = np.ones((num, loops.convs.shape[1], 2), np.int64)
    for i, kernel in enumerate(graph.kernels):
        for j, conv in enumerate(kernel.convs):
            windows[i, j] = conv.window_height, conv.window_width
    depth = np.zeros(num, np.int64)
    for _ in range(num):  # as often as the longest way has edges
        before = depth.copy()
        np.maximum.at(depth, edges[:, 1], before[edges[:, 0]] + 1)
        if (depth == before).all():
            break
    degrees = np.stack([np.bincount(edges[:, side], minlength=num) for side in (1, 0)], axis=1)
    wavelets = np.array([output_wavelets(graph.kernels[u]) for u, _ in graph.edges], np.float64)
    wafer = graph.wafer
    return Graph(loops, windows, edges, wavelets, depth, degrees, wafer.width, wafer.height, bound)


def unit_ops(graph: KernelGraph) -> IntArray:
    """Return indices into the operations of WAFER_FEATURES [num_kernels]."""
    return np.array([KERNEL_TYPES.index(kernel.type) for kernel in graph.kernels], np.int32)


def unit_stages(graph: Graph) -> IntArray:
    """Return the stages of kernels, as far as they are told apart [num_kernels]."""
    return np.minimum(graph.depth, WAFER_FEATURES.num_stages - 1).astype(np.int32)


@njit(cache=True)
def _put(row: SingleArray, column: int, value: float) -> int:
    """Put a number relative to the bound into two columns; return the next one."""
    row[column] = min(value, LARGEST)
    row[column + 1] = math.log(value + SMALLEST)
    return column + 2


@njit(cache=True)
def _sum(phases: Phases) -> float:
    return phases[0] + phases[1] + phases[2] + phases[3] + phases[4]


@njit(cache=True)
def _phases(graph: Graph, row: LongArray, kernel: int, i: int) -> Phases:
    """Return counts of one convolution, as of `PHASES`; docs/wafer_truth.md derives them."""
    conv, window = graph.loops.convs[kernel, i], graph.windows[kernel, i]
    c, k = row[C + i], row[K + i]
    rows, columns = -(-conv[0] // row[H]), -(-conv[1] // row[W])
    channels, filters = -(-conv[3] // c), -(-conv[4] // k)
    results = rows * columns / conv[5]
    padded = (rows + window[0] - 1) * (columns + window[1] - 1)
    return (
        results * channels * filters * conv[2],
        channels * padded / ELEMENTS_PER_WAVELET,
        filters * results * (c - 1) / c,
        conv[4] * results / (ELEMENTS_PER_WAVELET * c),
        float(TILES_PER_OUTPUT * k + c),
    )


@njit(cache=True)
def _encode_kernel(graph: Graph, table: LongArray, kernel: int, unit: SingleArray) -> tuple[float, float]:
    """Fill columns of a kernel but the rims; return what it moves along and across rows."""
    row, out = table[kernel], unit[kernel]
    busiest = most = (0.0, 0.0, 0.0, 0.0, 0.0)
    for i in range(graph.loops.num_convs[kernel]):
        phases = _phases(graph, row, kernel, i)
        if _sum(phases) > _sum(busiest):
            busiest = phases
        most = (
            max(most[0], phases[0]), max(most[1], phases[1]), max(most[2], phases[2]),
            max(most[3], phases[3]), max(most[4], phases[4]),
        )  # fmt: skip
    column = _UNIT_FACTS
    for phase in busiest:
        column = _put(out, column, phase / graph.bound)
    for phase in most:
        column = _put(out, column, phase / graph.bound)
    wide, tall = extents_of(row)
    deepest = max(1, graph.depth.max())
    out[0], out[1] = row[ROTATED], graph.depth[kernel] / deepest
    out[2], out[3] = math.log1p(graph.degrees[kernel, 0]), math.log1p(graph.degrees[kernel, 1])
    out[column + 4], out[column + 5] = math.log(wide), math.log(tall)
    out[column + 6] = math.log(graph.bound)
    return (most[1] + most[3]) / 2, most[2]


@njit(cache=True)
def encode_mapping(graph: Graph, table: LongArray, room: Mapped) -> None:
    """Fill in everything but the operations and stages of kernels."""
    num, bound, slowest = len(table), graph.bound, 1.0
    loads, rims = np.zeros((num, 2)), np.zeros((num, 2))
    for kernel in range(num):
        loads[kernel, 0], loads[kernel, 1] = _encode_kernel(graph, table, kernel, room.unit)
        slowest = max(slowest, room.unit[kernel, _UNIT_FACTS] * bound)
    regions = regions_of(graph.width, graph.height)
    kinds = link_kinds(regions, table, loads, slowest)
    lane_of = np.full(len(kinds) + 4 * num, -1, np.int32)
    room.routes.counts[:] = 0
    for e in range(len(graph.edges)):
        u, v = graph.edges[e]
        stream = stream_of(table, u, v)
        rims[u, 1] = max(rims[u, 1], rim_hops(table, u, stream.axis, stream.lanes))
        rims[v, 0] = max(rims[v, 0], rim_hops(table, v, stream.axis, stream.lanes))
        _encode_stream(graph, table, e, stream, regions, room)
        add_route(e, u, stream, regions, kinds, lane_of, room.routes)
    first = room.unit.shape[1] - 7
    for kernel in range(num):
        _put(room.unit[kernel], first, rims[kernel, 0] / bound)
        _put(room.unit[kernel], first + 2, rims[kernel, 1] / bound)


@njit(cache=True)
def _encode_stream(graph: Graph, table: LongArray, e: int, stream: Stream, regions: Regions, room: Mapped) -> None:
    axis, lanes, out_tile, in_tile, out_start, in_start = stream
    u, v = graph.edges[e]
    out, bound, wavelets = room.flow[e], graph.bound, graph.wavelets[e]
    adapters = count_adapters(table, u, v, graph.loops.num_convs[u])
    distance = abs(in_tile - out_tile) + abs(in_start - out_start)
    spread = max(spread_share(table, u, axis, out_start, lanes), spread_share(table, v, axis, in_start, lanes))
    num_paths, pitch = count_paths(regions, stream)
    out[0], out[1] = adapters / 3, min(1, adapters)
    out[2] = graph.depth[v] - graph.depth[u]
    out[3], out[4] = is_across(table, u, axis), is_across(table, v, axis)
    column = _put(out, _FLOW_FACTS, wavelets / lanes / bound)
    column = _put(out, column, wavelets * spread / bound)
    column = _put(out, column, distance / bound)
    column = _put(out, column, adapters * lanes / bound)
    column = _put(out, column, wavelets / (num_paths * pitch) / bound)
    out[column], out[column + 1] = math.log(lanes), math.log(bound)
    room.end_hops[e] = min(MAX_HOPS, distance // HOP_TILES)
