"""Convolutions, pools and batch normalisation: an image [1, C, H, W] is the matrix [H * W, C]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placer.graph import OpKind
from placer.graph.importing.assembler import Assembler, Constant
from placer.graph.importing.elementwise import Operand, add, multiply
from placer.graph.importing.layers import linear
from placer.graph.importing.views import OrderError, UnsupportedError, Value

MAX_PADDING = 2**12  # pixels; more is a damaged file


@dataclass(frozen=True, slots=True)
class Windows:
    """How windows lie in an image; each list has one number for each dimension of the image."""

    kernel: Sequence[int]
    stride: Sequence[int]
    before: Sequence[int]  # padding
    after: Sequence[int]
    dilation: Sequence[int]

    @classmethod
    def same(cls, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], size: Sequence[int],
             is_upper: bool = True) -> Windows:  # fmt: skip
        """Pad so that there is a window for every `stride` pixels; the odd pixel goes behind if upper."""
        total = [
            max(0, (-(-length // step) - 1) * step + apart * (taps - 1) + 1 - length)
            for length, step, apart, taps in zip(size, stride, dilation, kernel, strict=True)
        ]
        less, more = [t // 2 for t in total], [t - t // 2 for t in total]
        return cls(kernel, stride, less if is_upper else more, more if is_upper else less, dilation)

    @property
    def is_plain(self) -> bool:
        return not any(self.before) and not any(self.after) and set(self.dilation) <= {1}

    def with_last(self, size: Sequence[int]) -> Windows:
        """Pad behind the image until windows that begin in it end in it, as with ceil_mode."""
        after = []
        for axis, length in enumerate(size):
            before, behind, step = self.before[axis], self.after[axis], self.stride[axis]
            reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
            count = -(-(length + before + behind - reach) // step) + 1
            count -= (count - 1) * step >= length + before
            after.append(max(behind, (count - 1) * step + reach - length - before))
        return Windows(self.kernel, self.stride, self.before, after, self.dilation)

    def attributes(self, size: Sequence[int]) -> dict[str, Any]:
        """Return them as the attributes of an op; a row of pixels is an image of height 1."""
        if max((*self.before, *self.after, 0)) > MAX_PADDING:
            raise UnsupportedError(f"padding of more than {MAX_PADDING} pixels")
        extra = 2 - len(size)
        ones, zeros = (1,) * extra, (0,) * extra
        return {
            "image": (*ones, *size),
            "kernel": (*ones, *self.kernel),
            "stride": (*ones, *self.stride),
            "padding": (*zeros, *self.before, *zeros, *self.after),
            "dilation": (*ones, *self.dilation),
        }

    def outputs(self, size: Sequence[int]) -> tuple[int, ...]:
        return tuple(
            (length + before + after - apart * (taps - 1) - 1) // step + 1
            for length, before, after, apart, taps, step in zip(
                size, self.before, self.after, self.dilation, self.kernel, self.stride, strict=True
            )
        )


def convolution(
    a: Assembler, x: Value, weight: Operand, bias: Constant | None, windows: Windows, groups: int = 1
) -> Value:
    """Convolve: lay the pixels of each window side by side, and multiply by the weight."""
    if not isinstance(weight, Constant):
        raise UnsupportedError("a convolution with a computed weight")
    if len(weight.shape) not in (3, 4):
        raise UnsupportedError(f"a convolution over {len(weight.shape) - 2} dimensions; supported: 1 and 2")
    if len(x.shape) == len(weight.shape) - 1:
        y = convolution(a, x.unsqueeze([0]), weight, bias, windows, groups)
        return y.squeeze([0])
    if x.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        raise UnsupportedError(
            f"a convolution of {list(x.shape)} with a weight of {list(weight.shape)}, groups={groups}"
        )
    size, rank = x.shape[2:], len(x.shape)
    is_apart = groups == 1 and windows.is_plain and tuple(windows.stride) == tuple(windows.kernel)
    if is_apart and (x.is_source or math.prod(windows.kernel) == 1):
        return _apart(a, x, weight, bias)
    image, outputs = _image(a, x), windows.outputs(size)
    name = weight.name.removesuffix(".weight")
    if groups == x.shape[1] == weight.shape[0]:
        tensor = _depthwise(a, image, weight, name, windows.attributes(size))
    else:
        tensor = _grouped(a, image, weight, name, windows.attributes(size), groups)
    y = a.result(tensor, (1, *outputs, weight.shape[0])).permute([0, rank - 1, *range(1, rank - 1)])
    return y if bias is None else add(a, y, _by_channel(bias, rank))


def _image(a: Assembler, x: Value) -> str:
    """Make the matrix [pixels, channels] of an image."""
    if x.shape[0] != 1:
        raise OrderError(f"a batch of {x.shape[0]} images; images are placed one by one")
    rank = len(x.shape)
    pixels = x.permute([0, *range(2, rank), 1]).reshape((math.prod(x.shape[2:]), x.shape[1]))
    return a.matrix(pixels)


def _by_channel(constant: Constant, rank: int) -> Constant:
    return Constant(constant.name, constant.array.reshape(-1, *(1,) * (rank - 2)))


def _depthwise(a: Assembler, image: str, weight: Constant, name: str, attributes: dict[str, Any]) -> str:
    taps = np.ascontiguousarray(weight.array.reshape(len(weight.array), -1).T)  # [taps, channels]
    return a.add_op(OpKind.DEPTHWISE, image, name=name, weight=a.weight(weight.name, taps), **attributes)


def _grouped(a: Assembler, image: str, weight: Constant, name: str, attributes: dict[str, Any], groups: int) -> str:
    """Multiply windows by weights [groups, taps * channels, columns], without groups if there is one."""
    columns, channels = weight.shape[0] // groups, weight.shape[1]
    taps = weight.array.reshape(groups, columns, channels, -1).transpose(0, 3, 2, 1)
    array = np.ascontiguousarray(taps.reshape(groups, -1, columns))
    patches = a.add_op(OpKind.PATCHES, image, name=f"{name}_patches", groups=groups, **attributes)
    tensor = a.add_op(
        OpKind.LINEAR, patches, name=name, columns=columns, stacked=groups > 1,
        weight=a.weight(weight.name, array if groups > 1 else array[0]),
    )  # fmt: skip
    return a.add_op(OpKind.MERGE_HEADS, tensor) if groups > 1 else tensor


def _apart(a: Assembler, x: Value, weight: Constant, bias: Constant | None) -> Value:
    """Convolve windows that do not overlap: a linear layer on [windows, channels * taps]."""
    channels, kernel = weight.shape[1], weight.shape[2:]
    batch, size = x.shape[:1], x.shape[2:]
    for dim, (length, step) in enumerate(zip(size, kernel, strict=True), 2):
        x = x.take(dim, 0, length // step * step)
    pairs = [(length // step, step) for length, step in zip(size, kernel, strict=True)]
    count = len(pairs)
    x = x.reshape((*batch, channels, *(part for pair in pairs for part in pair)))
    patches = x.permute([0, *range(2, 2 + 2 * count, 2), 1, *range(3, 3 + 2 * count, 2)])
    outer = tuple(number for number, _ in pairs)
    rows = patches.reshape((*batch, *outer, channels * math.prod(kernel)))
    flat = Constant(weight.name, weight.array.reshape(weight.shape[0], -1))
    y = linear(a, rows, flat, bias)
    return y.permute([0, count + 1, *range(1, count + 1)])


def pool(a: Assembler, kind: OpKind, x: Value, windows: Windows, **attributes: Any) -> Value:
    """Take the largest or the mean of each window, channel by channel."""
    if len(x.shape) == len(windows.kernel) + 1:
        return pool(a, kind, x.unsqueeze([0]), windows, **attributes).squeeze([0])
    size, rank = x.shape[2:], len(x.shape)
    if len(size) not in (1, 2):
        raise UnsupportedError(f"a pool over {len(size)} dimensions; supported: 1 and 2")
    tensor = a.add_op(kind, _image(a, x), **windows.attributes(size), **attributes)
    y = a.result(tensor, (1, *windows.outputs(size), x.shape[1]))
    return y.permute([0, rank - 1, *range(1, rank - 1)])


def mean_of_image(a: Assembler, x: Value) -> Value:
    """Take the mean of each channel; the result has images of one pixel."""
    return adaptive_mean(a, x, [1] * (len(x.shape) - 2))


def adaptive_mean(a: Assembler, x: Value, sizes: Sequence[int | None]) -> Value:
    """Take means of equal parts of an image, so that it gets the given size."""
    old = x.shape[len(x.shape) - len(sizes) :]
    new = [length if size is None else size for length, size in zip(old, sizes, strict=True)]
    if any(length % size for length, size in zip(old, new, strict=True)):
        raise UnsupportedError(f"a pool of an image {list(old)} to {list(new)}: parts of different sizes")
    kernel = [length // size for length, size in zip(old, new, strict=True)]
    zeros, ones = [0] * len(kernel), [1] * len(kernel)
    return pool(a, OpKind.AVERAGE_POOL, x, Windows(kernel, kernel, zeros, zeros, ones))


def batch_norm(
    a: Assembler, x: Value, gamma: Constant | None, beta: Constant | None, mean: Constant, variance: Constant,
    epsilon: float,
) -> Value:  # fmt: skip
    """Normalise channels by fixed statistics: times a vector, plus a vector."""
    name = (gamma or mean).name.removesuffix(".weight").removesuffix(".running_mean")
    factor = 1 / np.sqrt(variance.array.astype(np.float64) + epsilon)
    factor = factor if gamma is None else factor * gamma.array
    shift = -mean.array * factor
    shift = shift if beta is None else shift + beta.array
    rank = max(2, len(x.shape))
    scaled = multiply(a, x, _by_channel(Constant(f"{name}.scale", factor), rank))
    return add(a, scaled, _by_channel(Constant(f"{name}.shift", shift), rank))
