"""Windows of an image: which pixels a convolution or a pool takes for each of its outputs.

An image is a matrix [height * width, channels]: pixels are rows, in raster order. A convolution is
`patches`, a view that lays the pixels of each window side by side, and then a matrix product.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.base import InputError
from placer.graph.ops import WINDOW_KINDS, Op, OpKind

Array = NDArray[np.float64]
Pair = tuple[int, int]

_LIKE = ((1, 1), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1))  # least values of the fields of a window


class Window(NamedTuple):
    """The windows of an image, one for each output; sizes are (height, width)."""

    image: Pair
    kernel: Pair
    stride: Pair = (1, 1)  # pixels from window to window
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)  # pixels beyond the image: top, left, bottom, right
    dilation: Pair = (1, 1)  # pixels from tap to tap

    @property
    def output(self) -> Pair:
        """Return the numbers of windows from top to bottom and from left to right; below 1: none fits."""
        height, width = (
            (size + before + after - dilation * (kernel - 1) - 1) // stride + 1
            for size, before, after, dilation, kernel, stride in zip(
                self.image, self.padding[:2], self.padding[2:], self.dilation, self.kernel, self.stride, strict=True
            )
        )
        return height, width

    @property
    def taps(self) -> int:
        """Return the number of pixels of one window."""
        return self.kernel[0] * self.kernel[1]

    @property
    def is_pointwise(self) -> bool:
        """Say whether there is a window of one pixel at every pixel."""
        return (self.kernel, self.stride, self.padding) == ((1, 1), (1, 1), (0, 0, 0, 0))

    @property
    def is_inside(self) -> bool:
        """Say whether every window has at least one tap in the image."""
        axes = zip(self.image, self.kernel, self.stride, self.padding[:2], self.dilation, self.output, strict=True)
        return all(
            before <= dilation * (kernel - 1)
            and (output - 1) * stride - before < size
            and (before == 0 or dilation <= size)
            for size, kernel, stride, before, dilation, output in axes
        )


def window_of(op: Op) -> Window:
    """Return the windows of a patches, depthwise or pool op; InputError when there are none."""
    if op.kind not in WINDOW_KINDS | {OpKind.PATCHES}:
        known = ", ".join(sorted(WINDOW_KINDS | {OpKind.PATCHES}))
        raise InputError(f"op {op.name!r}: {op.kind} has no windows; these have: {known}")
    given: list[Any] = [getattr(op.attributes, name) for name in Window._fields]
    for name, values, like in zip(Window._fields, given, _LIKE, strict=True):
        if len(values) != len(like) or min(values) < like[0]:
            raise InputError(f"op {op.name!r}: {name}={list(values)}; needed are {len(like)} numbers from {like[0]}")
    window = Window(*given)
    if min(window.output) < 1:
        raise InputError(
            f"op {op.name!r}: a kernel of {list(window.kernel)} with dilation {list(window.dilation)} does not fit "
            f"into an image of {list(window.image)} with padding {list(window.padding)}; make the kernel smaller "
            "or pad more"
        )
    return window


def window_taps(window: Window, x: Array, fill: float = 0.0) -> Array:
    """Return [taps, windows, channels] of an image [pixels, channels]; `fill` is beyond the image."""
    (height, width), (rows, columns), (down, right) = window.image, window.output, window.stride
    top, left, bottom, after = window.padding
    pixels = x.reshape(height, width, -1)
    padded = np.pad(pixels, ((top, bottom), (left, after), (0, 0)), constant_values=fill)
    taps = []
    for row in range(0, window.kernel[0] * window.dilation[0], window.dilation[0]):
        for column in range(0, window.kernel[1] * window.dilation[1], window.dilation[1]):
            last_row, last_column = row + down * (rows - 1), column + right * (columns - 1)
            tap = padded[row : last_row + 1 : down, column : last_column + 1 : right]
            taps.append(tap.reshape(rows * columns, -1))
    return np.stack(taps)


def patches(window: Window, groups: int, x: Array) -> Array:
    """Return each window as a row: kernel row, kernel column, channel; per group if there are several."""
    taps = window_taps(window, x)  # [taps, windows, channels]
    if groups == 1:
        return taps.transpose(1, 0, 2).reshape(taps.shape[1], -1)
    apart = taps.reshape(*taps.shape[:2], groups, -1).transpose(2, 1, 0, 3)  # [groups, windows, taps, channels]
    return apart.reshape(groups, taps.shape[1], -1)


def average_pool(window: Window, count_padding: bool, x: Array) -> Array:
    """Return the mean of each window, over all its taps or over those in the image."""
    total = window_taps(window, x).sum(axis=0)
    if count_padding:
        return np.asarray(total / window.taps)
    return np.asarray(total / window_taps(window, np.ones((len(x), 1))).sum(axis=0))
