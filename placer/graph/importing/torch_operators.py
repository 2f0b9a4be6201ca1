"""What the operators of ATen mean: one handler each, with the arguments that PyTorch gives it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placer.graph import OpKind
from placer.graph.importing import elementwise, images, layers, sums
from placer.graph.importing.assembler import Assembler, Constant
from placer.graph.importing.views import UnsupportedError, Value


def _constant(number: Any) -> Any:
    """Make a constant of a number in the code."""
    if isinstance(number, bool | int | float):
        return Constant("number", np.asarray(float(number)))
    return number


def _add(a: Assembler, x: Any, y: Any, alpha: float = 1) -> Value:
    return elementwise.add(a, _constant(x), _times(a, _constant(y), alpha))


def _times(a: Assembler, x: Any, factor: float) -> Any:
    if isinstance(x, Value):
        return elementwise.scale(a, x, factor)
    return x if factor == 1 else Constant(f"{x.name}.scaled", x.array * factor)


def _divide(a: Assembler, x: Any, y: Any) -> Value:
    return elementwise.divide(a, x, _constant(y))


def _addmm(a: Assembler, bias: Any, x: Any, weight: Any) -> Value:
    return elementwise.add(a, layers.matmul(a, x, weight), bias)


def _layer_norm(
    a: Assembler, x: Value, shape: Sequence[int], weight: Any = None, bias: Any = None,
    epsilon: float = 1e-5, _cudnn: bool = False,
) -> Value:  # fmt: skip
    return layers.layernorm(a, x, math.prod(shape), weight, bias, epsilon)


def _rms_norm(a: Assembler, x: Value, shape: Sequence[int], weight: Any = None, epsilon: float | None = None) -> Value:
    smallest = float(np.finfo(np.float32).eps)
    return layers.rmsnorm(a, x, math.prod(shape), weight, smallest if epsilon is None else epsilon)


def _attention(
    a: Assembler, query: Value, key: Value, value: Value, mask: Any = None, dropout: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    return layers.attention(a, query, key, value, mask, is_causal, scale)


def _list(value: Any, rank: int) -> list[int]:
    """Return an option of windows: one number for each dimension, or one for all of them."""
    numbers = list(value) if isinstance(value, list | tuple) else [value]
    return [int(number) for number in (numbers * rank if len(numbers) == 1 else numbers)]


def _convolution(
    a: Assembler, x: Value, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Value:  # fmt: skip
    rank = len(weight.shape) - 2
    kernel, strides, dilations = weight.shape[2:], _list(stride, rank), _list(dilation, rank)
    if padding == "same":
        total = [apart * (taps - 1) for apart, taps in zip(dilations, kernel, strict=True)]
        before, after = [t // 2 for t in total], [t - t // 2 for t in total]
    else:
        before = after = [0] * rank if padding == "valid" else _list(padding, rank)
    windows = images.Windows(kernel, strides, before, after, dilations)
    return images.convolution(a, x, weight, bias, windows, groups)


def _windows(x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, rank: int, ceil: bool) -> images.Windows:
    taps, pads = _list(kernel, rank), _list(padding, rank)
    windows = images.Windows(taps, _list(stride or taps, rank), pads, pads, _list(dilation, rank))
    return windows.with_last(x.shape[-rank:]) if ceil else windows


def _max_pool(rank: int) -> Callable[..., Value]:
    def pool(
        a: Assembler, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
    ) -> Value:
        return images.pool(a, OpKind.MAX_POOL, x, _windows(x, kernel, stride, padding, dilation, rank, ceil))

    return pool


def _average_pool(rank: int) -> Callable[..., Value]:
    def pool(
        a: Assembler, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, ceil: bool = False,
        count_padding: bool = True, divisor: int | None = None,
    ) -> Value:  # fmt: skip
        windows = _windows(x, kernel, stride, padding, 1, rank, ceil)
        if divisor or (ceil and windows != _windows(x, kernel, stride, padding, 1, rank, False)):
            raise UnsupportedError("an average with a divisor of its own, or of windows beyond the image")
        is_counted = count_padding or not any(windows.before)
        return images.pool(a, OpKind.AVERAGE_POOL, x, windows, count_padding=is_counted)

    return pool


def _batch_norm(
    a: Assembler, x: Value, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, epsilon: float
) -> tuple[Value, None, None]:
    return images.batch_norm(a, x, weight, bias, mean, variance, epsilon), None, None


def _mean(a: Assembler, x: Value, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    return sums.mean(a, x, _dims(dims) or [], keepdim)


def _sum(a: Assembler, x: Value, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    return sums.total(a, x, _dims(dims) or [], keepdim)


def _stack(a: Assembler, parts: Sequence[Any], dim: int = 0) -> Value:
    dim %= len(parts[0].shape) + 1
    wide = [
        part.unsqueeze([dim]) if isinstance(part, Value) else Constant(part.name, np.expand_dims(part.array, dim))
        for part in parts
    ]
    return sums.concat(a, wide, dim)


def _repeat_interleave(a: Assembler, x: Value, times: Any, dim: int | None = None, **_more: Any) -> Value:
    if not isinstance(times, int) or dim is None:
        raise UnsupportedError("a repeat_interleave that does not give a number and a dimension")
    return x.repeat(dim, times)


def _activation(kind: OpKind) -> Callable[..., Value]:
    return lambda a, x: elementwise.elementwise(a, kind, x)


def _dims(dims: Any) -> Any:
    """Make a list of one from one dimension."""
    return [dims] if isinstance(dims, int) else dims


def _transpose(a: Assembler, x: Value, one: int = -2, two: int = -1) -> Value:
    order = list(range(len(x.shape)))
    order[one], order[two] = order[two], order[one]
    return x.permute(order)


def _slice(
    a: Assembler, x: Value, dim: int = 0, start: int | None = None, stop: int | None = None,
    step: int = 1,
) -> Value:  # fmt: skip
    if step != 1:
        raise UnsupportedError(f"every element number {step} of a dimension")
    return x.take(dim, start, stop)


IGNORED = {"aten._assert_tensor_metadata", "aten._assert_scalar", "aten.sym_constrain_range"}

SHAPE_ONLY = {  # their results do not depend on the numbers in what they read
    "aten.zeros_like", "aten.ones_like", "aten.full_like", "aten.new_zeros", "aten.new_ones",
    "aten.new_full",
}  # fmt: skip

HANDLERS: dict[str, Callable[..., Any]] = {
    "aten.linear": layers.linear,
    "aten.addmm": _addmm,
    "aten.add": _add,
    "aten.sub": lambda a, x, y, alpha=1: _add(a, x, y, -alpha),
    "aten.rsub": lambda a, x, y, alpha=1: _add(a, y, x, -alpha),
    "aten.mul": lambda a, x, y: elementwise.multiply(a, _constant(x), _constant(y)),
    "aten.div": _divide,
    "aten.neg": lambda a, x: elementwise.scale(a, x, -1.0),
    "aten.pow": elementwise.power,
    "aten.square": lambda a, x: elementwise.power(a, x, 2),
    "aten.gelu": lambda a, x, approximate="none": elementwise.elementwise(
        a, OpKind.GELU, x, tanh=approximate == "tanh"
    ),
    "aten.softmax": lambda a, x, dim, dtype=None: layers.softmax(a, x, dim),
    "aten._softmax": lambda a, x, dim, half=False: layers.softmax(a, x, dim),
    "aten.layer_norm": _layer_norm,
    "aten.rms_norm": _rms_norm,
    "aten._native_batch_norm_legit_no_training": _batch_norm,
    "aten.scaled_dot_product_attention": _attention,
    "aten.masked_fill": lambda a, x, mask, y: layers.choose(a, mask, _constant(y), x),
    "aten.where": lambda a, mask, x, y: layers.choose(a, mask, _constant(x), _constant(y)),
    "aten.embedding": lambda a, table, indices, *_options: layers.embedding(a, table, indices),
    "aten.mean": _mean,
    "aten.sum": _sum,
    "aten.einsum": lambda a, equation, operands, **_path: sums.einsum(a, equation, operands),
    "aten.max_pool1d": _max_pool(1),
    "aten.max_pool2d": _max_pool(2),
    "aten.avg_pool1d": _average_pool(1),
    "aten.avg_pool2d": _average_pool(2),
    "aten.cat": lambda a, parts, dim=0: sums.concat(a, parts, dim),
    "aten.stack": _stack,
    "aten.expand": lambda a, x, sizes, implicit=False: x.expand(sizes),
    "aten.repeat_interleave": _repeat_interleave,
    "aten.squeeze": lambda a, x, dims=None: x.squeeze(_dims(dims)),
    "aten.unsqueeze": lambda a, x, dim: x.unsqueeze([dim]),
    "aten.permute": lambda a, x, order: x.permute([dim % len(x.shape) for dim in order]),
    "aten.transpose": _transpose,
    "aten.t": lambda a, x: _transpose(a, x, 0, -1),
    "aten.slice": _slice,
    "aten.select": lambda a, x, dim, index: x.select(dim, index),
    "aten.chunk": lambda a, x, number, dim=0: x.split(dim, -(-x.shape[dim] // number)),
    "aten.unbind": lambda a, x, dim=0: tuple(x.select(dim, i) for i in range(x.shape[dim])),
    **{f"aten.{kind}": _activation(kind) for kind in (OpKind.RELU, OpKind.SILU, OpKind.SIGMOID, OpKind.TANH)},
    **dict.fromkeys(
        ("aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten._adaptive_avg_pool2d"),
        images.adaptive_mean,
    ),
    **dict.fromkeys(("aten.matmul", "aten.mm", "aten.bmm"), layers.matmul),
    **dict.fromkeys(("aten.conv1d", "aten.conv2d"), _convolution),
    **dict.fromkeys(
        ("aten.view", "aten._unsafe_view", "aten.reshape"),
        lambda a, x, sizes: x.reshape(layers.sizes_of(x.shape, sizes)),
    ),
    **dict.fromkeys(
        ("aten.split", "aten.split_with_sizes"), lambda a, x, sizes, dim=0: x.split(dim, sizes)
    ),
    **dict.fromkeys(
        ("aten.clone", "aten.contiguous", "aten.alias", "aten.detach", "aten.dropout",
         "aten.lift_fresh_copy", "aten._to_copy", "aten.to", "aten.type_as"),
        lambda a, x, *_options, **_more: x,
    ),
}  # fmt: skip
