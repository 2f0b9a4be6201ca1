"""Streams between kernels: over which tiles of the rims, in how many lanes, with which adapters.

docs/wafer_truth.md gives the rules. Nothing here depends on the coarse grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placer.kernels.graph import KernelGraph
from placer.kernels.layout import Execution, Layout
from placer.kernels.truth_kernels import KernelShape, output_wavelets

ADAPTER_CYCLES = 2  # that a tile of an adapter needs per wavelet: it unpacks and packs two elements


@dataclass(frozen=True, slots=True)
class Stream:
    """A tensor on its way: `lanes` parallel paths between two stretches of equal length."""

    source: int  # kernel
    target: int
    wavelets: float  # per sample
    axis: int  # 0: leaves and enters along x, 1: along y
    lanes: int
    out_tile: int  # along the axis: tile of the source's rim
    in_tile: int
    out_start: int  # across the axis: first tile of the stretch on the source's rim
    in_start: int
    adapters: int  # differing protocols: 0 to 3
    spread: float  # wavelets per link inside the kernels between the rim and the stretch

    @property
    def distance(self) -> int:
        """Tiles between the rims."""
        return abs(self.in_tile - self.out_tile) + abs(self.in_start - self.out_start)

    @property
    def latency(self) -> int:
        """Hops on the way; every adapter moves data along the whole stretch."""
        return self.distance + self.adapters * self.lanes

    def cycles(self, lanes: float) -> float:
        """Least cycles per sample with so many lanes."""
        per_wavelet = ADAPTER_CYCLES if self.adapters else 1
        return max(per_wavelet * self.wavelets / lanes, self.spread)


def make_streams(graph: KernelGraph, layout: Layout, shapes: Sequence[KernelShape]) -> list[Stream]:
    """The stream of every edge, in the graph's order."""
    return [
        _stream(
            (u, v),
            (shapes[u], shapes[v]),
            output_wavelets(graph.kernels[u]),
            count_adapters(layout.kernels[u].execution, layout.kernels[v].execution),
        )
        for u, v in graph.edges
    ]


def count_adapters(source: Execution, target: Execution) -> int:
    """Of the contest: [h differs] + [w differs] + [c of the last and of the first conv differ]."""
    return (
        (source.image_height != target.image_height)
        + (source.image_width != target.image_width)
        + (source.channels_in[-1] != target.channels_in[0])
    )


def _stream(
    ends: tuple[int, int], shapes: tuple[KernelShape, KernelShape], wavelets: float, adapters: int
) -> Stream:
    source, target = shapes
    axis = _facing_axis(source, target)
    across = 1 - axis
    lanes = min(source.extent(across), target.extent(across))
    out_start, in_start = _nearest(source.span(across), target.span(across), lanes)
    is_forward = source.span(axis)[1] <= target.span(axis)[0]
    return Stream(
        source=ends[0],
        target=ends[1],
        wavelets=wavelets,
        axis=axis,
        lanes=lanes,
        out_tile=source.span(axis)[1] - 1 if is_forward else source.span(axis)[0],
        in_tile=target.span(axis)[0] if is_forward else target.span(axis)[1] - 1,
        out_start=out_start,
        in_start=in_start,
        adapters=adapters,
        spread=wavelets
        * max(_spread(source, axis, out_start, lanes), _spread(target, axis, in_start, lanes)),
    )


def _facing_axis(source: KernelShape, target: KernelShape) -> int:
    """The axis along which the rectangles lie apart; of both, the one with the larger gap.

    With equal gaps, the one with the longer facing rims.
    """
    gaps, rims = [], []
    for axis in (0, 1):
        (first, last), (low, high) = source.span(axis), target.span(axis)
        gaps.append(max(low - last, first - high))
        rims.append(min(source.extent(1 - axis), target.extent(1 - axis)))
    return int((gaps[1], rims[1]) > (gaps[0], rims[0]))


def _nearest(first: tuple[int, int], second: tuple[int, int], lanes: int) -> tuple[int, int]:
    """Starts of the stretches of `lanes` tiles on both rims that are nearest to each other."""
    if first[1] - first[0] == lanes:
        return first[0], min(max(first[0], second[0]), second[1] - lanes)
    return min(max(second[0], first[0]), first[1] - lanes), second[0]


def _spread(shape: KernelShape, axis: int, start: int, lanes: int) -> float:
    """Share of a tensor that crosses one link beside the stretch, on its way along the rim.

    The larger part of the rim beside the stretch, over the tiles behind the rim.
    """
    first, last = shape.span(1 - axis)
    beside = max(start - first, last - start - lanes)
    return beside / (last - first) / shape.extent(axis)


def rim_hops(shapes: Sequence[KernelShape], streams: Sequence[Stream]) -> list[int]:
    """Per kernel, the tiles that a sample crosses between rims and rows, on its way in and out.

    Along the rim beyond the stretch; and over all rows, where a stream comes across the rows.
    """
    ways_in, ways_out = [0] * len(shapes), [0] * len(shapes)
    for stream in streams:
        for ways, kernel in ((ways_out, stream.source), (ways_in, stream.target)):
            shape = shapes[kernel]
            hops = shape.extent(1 - stream.axis) - stream.lanes
            if shape.has_rows_along_x != (stream.axis == 0):
                hops += shape.extent(stream.axis)
            ways[kernel] = max(ways[kernel], hops)
    return [way_in + way_out for way_in, way_out in zip(ways_in, ways_out, strict=True)]
