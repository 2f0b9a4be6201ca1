"""Mappings as the arrays that the `flow` network reads, by compiled code.

- unit: a kernel; flow: a stream of the graph (one source, one target, so flows are ends, too).
- lane: a rim of a kernel that streams leave by (the first lane of each of their routes), or a link
  between two *regions* of the wafer, which stand for some 80 x 80 tiles. A stream that is wider
  than a region takes several parallel paths.

Streams follow the rules of placer/kernels/truth_streams.py (tested against it).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from costmodel.encoding.features import FloatArray
from costmodel.wafer.features import FLOW_FACTS, LARGEST, SMALLEST, UNIT_FACTS, WAFER_FEATURES
from placer.kernels.graph import KERNEL_TYPES, KernelGraph
from placer.kernels.mapping_table import ROTATED, C, H, K, Loops, W, X, Y, extents_of, loops_of
from placer.kernels.problem import Problem
from placer.kernels.shapes import LongArray
from placer.kernels.truth_kernels import ELEMENTS_PER_WAVELET, TILES_PER_OUTPUT, output_wavelets

IntArray = NDArray[np.int32]
Phases = tuple[float, float, float, float, float]

REGIONS = 8  # along the longer side of the wafer
HOP_TILES = 8  # that count as one hop of an end
MAX_HOPS = 255
LOW_SHARE, HIGH_SHARE = 0.1, 0.4  # of a link that kernels use: limits between kinds of lanes

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
    """Room for one mapping; the first `counts` rows count."""

    unit: FloatArray  # [num_kernels, columns]
    flow: FloatArray  # [num_edges, columns]
    end_hops: IntArray  # [num_edges]
    visits: IntArray  # [3, most] flow, lane, lane before
    lanes: IntArray  # [2, most] kind, link
    counts: LongArray  # [2] visits, lanes


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes mappings of one problem, one after the other, into the same room."""

    graph: Graph
    room: Mapped

    @staticmethod
    def of(problem: Problem) -> Encoder:
        graph = graph_arrays(problem.graph, problem.bound / problem.graph.time_scale)
        num, num_edges = problem.num, len(graph.edges)
        columns, rows = _regions(graph.width, graph.height)[:2]
        most = num_edges * (1 + max(columns, rows) * (columns + rows))
        schema = WAFER_FEATURES
        return Encoder(
            graph,
            Mapped(
                np.zeros((num, len(schema.unit_columns)), np.float32),
                np.zeros((num_edges, len(schema.flow_columns)), np.float32),
                np.zeros(num_edges, np.int32),
                np.zeros((3, most), np.int32),
                np.zeros((2, 4 * num + 4 * columns * rows), np.int32),
                np.zeros(2, np.int64),
            ),
        )

    def encode(self, table: LongArray) -> Mapped:
        """Of one mapping; the arrays change with the next one."""
        encode_mapping(self.graph, table, self.room)
        return self.room


def graph_arrays(graph: KernelGraph, bound: float) -> Graph:
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
    """[num_kernels] index into the operations of WAFER_FEATURES."""
    return np.array([KERNEL_TYPES.index(kernel.type) for kernel in graph.kernels], np.int32)


def unit_stages(graph: Graph) -> IntArray:
    return np.minimum(graph.depth, WAFER_FEATURES.num_stages - 1).astype(np.int32)


@njit(cache=True)
def _regions(width: int, height: int) -> tuple[int, int, float, float]:
    """Regions along x and y, and their tiles along x and y."""
    pitch = max(width, height, REGIONS) / REGIONS
    columns, rows = max(1, round(width / pitch)), max(1, round(height / pitch))
    return columns, rows, width / columns, height / rows


@njit(cache=True)
def _put(row: FloatArray, column: int, value: float) -> int:
    """A number relative to the bound, in two columns; returns the next one."""
    row[column] = min(value, LARGEST)
    row[column + 1] = math.log(value + SMALLEST)
    return column + 2


@njit(cache=True)
def _sum(phases: Phases) -> float:
    return phases[0] + phases[1] + phases[2] + phases[3] + phases[4]


@njit(cache=True)
def _phases(graph: Graph, row: LongArray, kernel: int, i: int) -> Phases:
    """Counts of one convolution, in the order of `PHASES`; docs/wafer_truth.md derives them."""
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
def _encode_kernel(
    graph: Graph, table: LongArray, kernel: int, unit: FloatArray
) -> tuple[float, float]:
    """Columns of a kernel but the rims; returns what it moves along rows and across them."""
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
def _span(table: LongArray, kernel: int, axis: int) -> tuple[int, int]:
    wide, tall = extents_of(table[kernel])
    first = table[kernel, Y] if axis else table[kernel, X]
    return first, first + (tall if axis else wide)


@njit(cache=True)
def _facing_axis(table: LongArray, u: int, v: int) -> int:
    """The axis of the larger gap; of equal gaps, of the longer facing rims."""
    gap_x, gap_y, rim_x, rim_y = 0, 0, 0, 0
    for axis in range(2):
        (first, last), (low, high) = _span(table, u, axis), _span(table, v, axis)
        gap = max(low - last, first - high)
        rim = min(last - first, high - low)
        if axis == 0:
            gap_x, rim_y = gap, rim  # rims that face along y have this length
        else:
            gap_y, rim_x = gap, rim
    return 1 if gap_y > gap_x or (gap_y == gap_x and rim_y > rim_x) else 0


@njit(cache=True)
def stream_of(table: LongArray, u: int, v: int) -> tuple[int, int, int, int, int, int]:
    """Axis, lanes, tiles of both rims along the axis, starts of both stretches across it."""
    axis = _facing_axis(table, u, v)
    (first, last), (low, high) = _span(table, u, 1 - axis), _span(table, v, 1 - axis)
    lanes = min(last - first, high - low)
    if last - first == lanes:
        out_start, in_start = first, min(max(first, low), high - lanes)
    else:
        out_start, in_start = min(max(low, first), last - lanes), low
    (start, end), (begin, stop) = _span(table, u, axis), _span(table, v, axis)
    if end <= begin:
        return axis, lanes, end - 1, begin, out_start, in_start
    return axis, lanes, start, stop - 1, out_start, in_start


@njit(cache=True)
def _spread(table: LongArray, kernel: int, axis: int, start: int, lanes: int) -> float:
    """Share of a tensor that crosses one link beside the stretch."""
    (first, last), (begin, end) = _span(table, kernel, 1 - axis), _span(table, kernel, axis)
    return max(start - first, last - start - lanes) / (last - first) / (end - begin)


@njit(cache=True)
def count_adapters(table: LongArray, u: int, v: int, num_convs: int) -> int:
    """Of the contest; `num_convs` of the source."""
    differs = int(table[u, H] != table[v, H]) + int(table[u, W] != table[v, W])
    return differs + int(table[u, C + num_convs - 1] != table[v, C])


@njit(cache=True)
def _rim_hops(table: LongArray, kernel: int, axis: int, lanes: int) -> int:
    """Tiles between the stretch and the rows of a kernel (truth_streams.rim_hops)."""
    first, last = _span(table, kernel, 1 - axis)
    hops = last - first - lanes
    if (table[kernel, ROTATED] == 0) != (axis == 0):
        begin, end = _span(table, kernel, axis)
        hops += end - begin
    return hops


@njit(cache=True)
def _link_kinds(
    graph: Graph, table: LongArray, loads: NDArray[np.float64], slowest: float, kinds: IntArray
) -> None:
    """Kind of every link between regions: by the share of it that kernels below it use."""
    columns, rows, pitch_x, pitch_y = _regions(graph.width, graph.height)
    used = np.zeros((2, columns, rows))
    for kernel in range(len(table)):
        (left, right), (low, high) = _span(table, kernel, 0), _span(table, kernel, 1)
        is_turned = table[kernel, ROTATED]
        for i in range(int(left / pitch_x), min(columns, int(right / pitch_x) + 1)):
            wide = min(right, (i + 1) * pitch_x) - max(left, i * pitch_x)
            for j in range(int(low / pitch_y), min(rows, int(high / pitch_y) + 1)):
                tall = min(high, (j + 1) * pitch_y) - max(low, j * pitch_y)
                share = max(0.0, wide) * max(0.0, tall) / (pitch_x * pitch_y)
                used[0, i, j] += share * min(1.0, loads[kernel, is_turned] / slowest)
                used[1, i, j] += share * min(1.0, loads[kernel, 1 - is_turned] / slowest)
    for direction in range(4):
        for i in range(columns):
            for j in range(rows):
                share = used[direction // 2, i, j]
                kind = 1 + int(share > LOW_SHARE) + int(share > HIGH_SHARE)
                kinds[(direction * columns + i) * rows + j] = kind


@njit(cache=True)
def encode_mapping(graph: Graph, table: LongArray, room: Mapped) -> None:
    """Everything but the operations and stages of kernels."""
    num, bound = len(table), graph.bound
    loads = np.zeros((num, 2))
    slowest = 1.0
    for kernel in range(num):
        loads[kernel, 0], loads[kernel, 1] = _encode_kernel(graph, table, kernel, room.unit)
        slowest = max(slowest, room.unit[kernel, _UNIT_FACTS] * bound)
    rims = np.zeros((num, 2))
    columns, rows, pitch_x, pitch_y = _regions(graph.width, graph.height)
    lane_of = np.full(4 * num + 4 * columns * rows, -1, np.int32)
    kinds = np.zeros(4 * columns * rows, np.int32)
    _link_kinds(graph, table, loads, slowest, kinds)
    room.counts[:] = 0
    for e in range(len(graph.edges)):
        u, v = graph.edges[e]
        axis, lanes, out_tile, in_tile, out_start, in_start = stream_of(table, u, v)
        rims[u, 1] = max(rims[u, 1], _rim_hops(table, u, axis, lanes))
        rims[v, 0] = max(rims[v, 0], _rim_hops(table, v, axis, lanes))
        pitch = pitch_y if axis == 0 else pitch_x
        num_parts = math.ceil(lanes / pitch - 1e-9)
        _encode_stream(
            graph, table, e, axis, lanes, out_tile, in_tile, out_start, in_start,
            num_parts * pitch, room,
        )  # fmt: skip
        side = 4 * u + 2 * axis + (1 if out_tile < in_tile else 0)
        _route(
            e, side, axis, lanes, num_parts, out_tile, in_tile, out_start, in_start, num,
            columns, rows, pitch_x, pitch_y, lane_of, kinds, room,
        )  # fmt: skip
    first = room.unit.shape[1] - 7
    for kernel in range(num):
        _put(room.unit[kernel], first, rims[kernel, 0] / bound)
        _put(room.unit[kernel], first + 2, rims[kernel, 1] / bound)


@njit(cache=True)
def _encode_stream(
    graph: Graph, table: LongArray, e: int, axis: int, lanes: int, out_tile: int, in_tile: int,
    out_start: int, in_start: int, links: float, room: Mapped,
) -> None:  # fmt: skip
    u, v = graph.edges[e]
    out, bound, wavelets = room.flow[e], graph.bound, graph.wavelets[e]
    adapters = count_adapters(table, u, v, graph.loops.num_convs[u])
    distance = abs(in_tile - out_tile) + abs(in_start - out_start)
    spread = max(
        _spread(table, u, axis, out_start, lanes), _spread(table, v, axis, in_start, lanes)
    )
    out[0], out[1] = adapters / 3, min(1, adapters)
    out[2] = graph.depth[v] - graph.depth[u]
    out[3] = (table[u, ROTATED] == 0) != (axis == 0)
    out[4] = (table[v, ROTATED] == 0) != (axis == 0)
    column = _put(out, _FLOW_FACTS, wavelets / lanes / bound)
    column = _put(out, column, wavelets * spread / bound)
    column = _put(out, column, distance / bound)
    column = _put(out, column, adapters * lanes / bound)
    column = _put(out, column, wavelets / links / bound)
    out[column], out[column + 1] = math.log(lanes), math.log(bound)
    room.end_hops[e] = min(MAX_HOPS, distance // HOP_TILES)


@njit(cache=True)
def _route(
    e: int, side: int, axis: int, lanes: int, num_parts: int, out_tile: int, in_tile: int,
    out_start: int, in_start: int, num: int, columns: int, rows: int, pitch_x: float,
    pitch_y: float, lane_of: IntArray, kinds: IntArray, room: Mapped,
) -> None:  # fmt: skip
    """The rim, then from region to region: along the axis, then across it, part by part."""
    rim = _visit(e, side, 0, -1, lane_of, room)
    for part in range(num_parts):
        middle = (part + 0.5) * lanes / num_parts
        if axis == 0:
            x, goal_x = (out_tile + 0.5) / pitch_x, (in_tile + 0.5) / pitch_x
            y, goal_y = (out_start + middle) / pitch_y, (in_start + middle) / pitch_y
        else:
            x, goal_x = (out_start + middle) / pitch_x, (in_start + middle) / pitch_x
            y, goal_y = (out_tile + 0.5) / pitch_y, (in_tile + 0.5) / pitch_y
        i, j, goal_i, goal_j = int(x), int(y), int(goal_x), int(goal_y)
        before = rim
        for leg in range(2):
            is_x = (axis == 0) == (leg == 0)
            while (i != goal_i) if is_x else (j != goal_j):
                forward = goal_i > i if is_x else goal_j > j
                direction = (0 if is_x else 2) + (0 if forward else 1)
                link = (direction * columns + i) * rows + j
                before = _visit(e, 4 * num + link, kinds[link], before, lane_of, room)
                step = 1 if forward else -1
                if is_x:
                    i += step
                else:
                    j += step


@njit(cache=True)
def _visit(e: int, key: int, kind: int, before: int, lane_of: IntArray, room: Mapped) -> int:
    """Note that a stream takes a lane; returns the number of the lane."""
    if lane_of[key] < 0:
        lane_of[key] = room.counts[1]
        room.lanes[0, room.counts[1]], room.lanes[1, room.counts[1]] = kind, room.counts[1]
        room.counts[1] += 1
    visit = room.counts[0]
    room.visits[0, visit], room.visits[1, visit], room.visits[2, visit] = e, lane_of[key], before
    room.counts[0] += 1
    return int(lane_of[key])
