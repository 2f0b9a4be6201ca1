"""What a kernel does on the tiles of its own rectangle: compute, distribute, reduce, hand over.

docs/wafer_truth.md derives every term. Times are cycles per sample.
"""

from __future__ import annotations

from dataclasses import dataclass

from placer.kernels.graph import Conv, Kernel
from placer.kernels.layout import Execution, Placed

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
        """From sample to sample: max(compute, inputs) + reduction + outputs + hops."""
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
        """Tiles along x (axis 0) or y (axis 1)."""
        return self.high - self.low if axis else self.right - self.left

    def span(self, axis: int) -> tuple[int, int]:
        """First tile along an axis, and the one after the last."""
        return (self.low, self.high) if axis else (self.left, self.right)


def conv_phases(conv: Conv, h: int, w: int, c: int, k: int) -> ConvPhases:
    """Phases of a convolution that is unrolled over h w blocks of c rows by 3 k columns."""
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
    """The rectangle of a placed kernel with what happens in it. Convolutions of a block overlap."""
    execution = placed.execution
    height, width = _extents(execution)
    phases = [
        conv_phases(conv, execution.image_height, execution.image_width, c, k)
        for conv, c, k in zip(
            kernel.convs, execution.channels_in, execution.channels_out, strict=True
        )
    ]
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


def _extents(execution: Execution) -> tuple[int, int]:
    """Height and width of an upright kernel, in tiles."""
    blocks = execution.image_height * execution.image_width
    height = blocks * (max(execution.channels_in) + 1)
    return height, TILES_PER_OUTPUT * sum(execution.channels_out)


def output_wavelets(kernel: Kernel) -> float:
    """Words of the tensor that a kernel hands over, per sample."""
    conv = kernel.convs[-1]
    pixels = -(-conv.height // conv.stride) * -(-conv.width // conv.stride)
    return pixels * conv.channels_out / ELEMENTS_PER_WAVELET
