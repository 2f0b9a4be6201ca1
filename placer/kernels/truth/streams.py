"""What kernels do on the tiles of their own rectangles, and the streams between them.

A kernel computes, distributes, reduces and hands over; a stream goes over tiles of the rims, in
lanes, with adapters. docs/wafer_truth.md derives every term and gives the rules. Times are cycles
per sample. Nothing here depends on the coarse grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placer.base import FloatArray
from placer.kernels.model import Conv, Execution, Kernel, KernelGraph, KernelLayout, Placed

ELEMENTS_PER_WAVELET = 2  # 16-bit elements in a word of 32 bits; partial sums take a word each
TILES_PER_OUTPUT = 3  # columns of tiles per unrolled output channel (the contest's width 3 k)


@dataclass(frozen=True, slots=True)
class ConvPhases:
    """The three phases of a sample; they follow each other, as a tile has room for one sample."""

    compute: float  # the contest's time
    inputs: float  # wavelets over the links of a row of tiles, while it computes
    reduction: float  # sums that a tile adds, one per cycle; the same number crosses its links
    outputs: float  # wavelets over the last link of a row of tiles, when results leave
    hops: int  # once along a row, once along a reduction; one cycle per hop

    @property
    def cycles(self) -> float:
        """Return max(compute, inputs) + reduction + outputs + hops, from sample to sample."""
        return max(self.compute, self.inputs) + self.reduction + self.outputs + self.hops


@dataclass(frozen=True, slots=True)
class KernelShape:
    """A placed kernel as the wafer sees it; streams add what its rims cost."""

    left: int
    low: int
    right: int
    high: int
    has_rows_along_x: bool  # inputs run along rows of tiles; R90 turns them
    cycles: float  # per sample, of its slowest convolution
    contest_cycles: float  # of the contest's formula
    latency: float  # from the first input of a sample to its first output
    row_load: float  # wavelets per sample over a link along a row of tiles, mean of both ways
    column_load: float  # wavelets per sample over a link across the rows

    def extent(self, axis: int) -> int:
        """Return the tiles along x (axis 0) or y (axis 1)."""
        return self.high - self.low if axis else self.right - self.left

    def span(self, axis: int) -> tuple[int, int]:
        """Return the first tile along an axis, and the one after the last."""
        return (self.low, self.high) if axis else (self.left, self.right)


def conv_phases(conv: Conv, h: int, w: int, c: int, k: int) -> ConvPhases:
    """Return the phases of a convolution unrolled over h w blocks of c rows by 3 k columns."""
    rows, columns = -(-conv.height // h), -(-conv.width // w)
    channels, filters = -(-conv.channels_in // c), -(-conv.channels_out // k)
    results = rows * columns / conv.stride**2  # of a block, per output channel
    padded = (rows + conv.window_height - 1) * (columns + conv.window_width - 1)
    window = conv.window_height * conv.window_width
    return ConvPhases(
        compute=results * channels * filters * window,
        inputs=channels * padded / ELEMENTS_PER_WAVELET,
        reduction=filters * results * (c - 1) / c,
        outputs=conv.channels_out * results / (ELEMENTS_PER_WAVELET * c),
        hops=TILES_PER_OUTPUT * k + c,
    )


def kernel_shape(kernel: Kernel, placed: Placed) -> KernelShape:
    """Return a placed kernel with what happens in it. Convolutions of a block overlap."""
    execution = placed.execution
    h, w = execution.image_height, execution.image_width
    loops = zip(kernel.convs, execution.channels_in, execution.channels_out, strict=True)
    phases = [conv_phases(conv, h, w, c, k) for conv, c, k in loops]
    height = h * w * (max(execution.channels_in) + 1)  # of the upright kernel, in tiles
    width = TILES_PER_OUTPUT * sum(execution.channels_out)
    along_x, along_y = (height, width) if placed.is_rotated else (width, height)
    # The centre row of a window comes half a window later than its first row.
    waits = [
        phase.cycles * (conv.window_height - 1) / (2 * conv.height)
        for phase, conv in zip(phases, kernel.convs, strict=True)
    ]
    return KernelShape(
        left=placed.x,
        low=placed.y,
        right=placed.x + along_x,
        high=placed.y + along_y,
        has_rows_along_x=not placed.is_rotated,
        cycles=max(phase.cycles for phase in phases),
        contest_cycles=max(phase.compute for phase in phases),
        latency=sum(phase.hops for phase in phases) + sum(waits),
        row_load=max(phase.inputs + phase.outputs for phase in phases) / 2,
        column_load=max(phase.reduction for phase in phases),
    )


def output_wavelets(kernel: Kernel) -> float:
    """Return the words of the tensor that a kernel hands over, per sample."""
    conv = kernel.convs[-1]
    pixels = -(-conv.height // conv.stride) * -(-conv.width // conv.stride)
    return pixels * conv.channels_out / ELEMENTS_PER_WAVELET


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
        """Return the tiles between the rims."""
        return abs(self.in_tile - self.out_tile) + abs(self.in_start - self.out_start)

    @property
    def latency(self) -> int:
        """Return the hops on the way; every adapter moves data along the whole stretch."""
        return self.distance + self.adapters * self.lanes

    def cycles(self, lanes: float) -> float:
        """Return the least cycles per sample with so many lanes."""
        per_wavelet = ADAPTER_CYCLES if self.adapters else 1
        return max(per_wavelet * self.wavelets / lanes, self.spread)


def make_streams(graph: KernelGraph, layout: KernelLayout, shapes: Sequence[KernelShape]) -> list[Stream]:
    """Return the stream of every edge, in the graph's order."""
    return [
        _stream(
            (u, v),
            (shapes[u], shapes[v]),
            output_wavelets(graph.kernels[u]),
            count_adapters(layout[u].execution, layout[v].execution),
        )
        for u, v in graph.edges
    ]


def lay_streams(graph: KernelGraph, layout: KernelLayout) -> tuple[list[KernelShape], list[Stream], FloatArray]:
    """Return the shape of every kernel, all streams, and the cycles of each kernel per sample."""
    shapes = [kernel_shape(k, placed) for k, placed in zip(graph.kernels, layout, strict=True)]
    streams = make_streams(graph, layout, shapes)
    cycles = np.array([shape.cycles for shape in shapes]) + rim_hops(shapes, streams)
    return shapes, streams, cycles


def count_adapters(source: Execution, target: Execution) -> int:
    """Return [h differs] + [w differs] + [c of the last and of the first conv differ]."""
    return (
        (source.image_height != target.image_height)
        + (source.image_width != target.image_width)
        + (source.channels_in[-1] != target.channels_in[0])
    )


def _stream(ends: tuple[int, int], shapes: tuple[KernelShape, KernelShape], wavelets: float, adapters: int) -> Stream:
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
        spread=wavelets * max(_spread(source, axis, out_start, lanes), _spread(target, axis, in_start, lanes)),
    )


def _facing_axis(source: KernelShape, target: KernelShape) -> int:
    """Return the axis along which the rectangles lie apart; of both, the one with the larger gap.

    With equal gaps, the one with the longer facing rims.
    """
    gaps, rims = [], []
    for axis in (0, 1):
        (first, last), (low, high) = source.span(axis), target.span(axis)
        gaps.append(max(low - last, first - high))
        rims.append(min(source.extent(1 - axis), target.extent(1 - axis)))
    return int((gaps[1], rims[1]) > (gaps[0], rims[0]))


def _nearest(first: tuple[int, int], second: tuple[int, int], lanes: int) -> tuple[int, int]:
    """Return where on both rims the stretches of `lanes` tiles begin that are nearest."""
    if first[1] - first[0] == lanes:
        return first[0], min(max(first[0], second[0]), second[1] - lanes)
    return min(max(second[0], first[0]), first[1] - lanes), second[0]


def _spread(shape: KernelShape, axis: int, start: int, lanes: int) -> float:
    """Return the share of a tensor that crosses one link beside the stretch, along the rim.

    The larger part of the rim beside the stretch, over the tiles behind the rim.
    """
    first, last = shape.span(1 - axis)
    beside = max(start - first, last - start - lanes)
    return beside / (last - first) / shape.extent(axis)


def rim_hops(shapes: Sequence[KernelShape], streams: Sequence[Stream]) -> list[int]:
    """Return, per kernel, the tiles that a sample crosses between rims and rows, in and out.

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
