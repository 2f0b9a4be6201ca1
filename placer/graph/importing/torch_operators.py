"""What the operators of ATen mean: one handler each, with the arguments that PyTorch gives it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placer.graph import OpKind
from placer.graph.importing import layers
from placer.graph.importing.assembler import Assembler, Constant
from placer.graph.importing.views import UnsupportedError, Value


def _constant(number: Any) -> Any:
    """Make a constant of a number in the code."""
    if isinstance(number, bool | int | float):
        return Constant("number", np.asarray(float(number)))
    return number


def _add(a: Assembler, x: Any, y: Any, alpha: float = 1) -> Value:
    return layers.add(a, _constant(x), _times(a, _constant(y), alpha))


def _times(a: Assembler, x: Any, factor: float) -> Any:
    if isinstance(x, Value):
        return layers.scale(a, x, factor)
    return x if factor == 1 else Constant(f"{x.name}.scaled", x.array * factor)


def _divide(a: Assembler, x: Any, y: Any) -> Value:
    return layers.divide(a, x, _constant(y))


def _addmm(a: Assembler, bias: Any, x: Any, weight: Any) -> Value:
    return layers.add(a, layers.matmul(a, x, weight), bias)


def _layer_norm(
    a: Assembler, x: Value, shape: Sequence[int], weight: Any = None, bias: Any = None,
    epsilon: float = 1e-5, _cudnn: bool = False,
) -> Value:  # fmt: skip
    return layers.layernorm(a, x, math.prod(shape), weight, bias, epsilon)


def _attention(
    a: Assembler, query: Value, key: Value, value: Value, mask: Any = None, dropout: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    if isinstance(mask, Value) or enable_gqa:
        raise UnsupportedError("attention with a computed mask or grouped heads")
    return layers.attention(a, query, key, value, mask, is_causal, scale)


def _convolution(
    a: Assembler, x: Value, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Value:  # fmt: skip
    """Convolve; options are a number, or a list of one for each dimension or for all of them."""
    rank = len(weight.shape) - 2
    strides, paddings, dilations = (
        value * (rank // max(1, len(value))) if isinstance(value, list) else [value] * rank
        for value in (stride, padding, dilation)
    )
    is_plain = groups == 1 and paddings == [0] * rank and dilations == [1] * rank
    return layers.convolution(a, x, weight, bias, strides, is_plain)


def _mean(a: Assembler, x: Value, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    return layers.mean(a, x, _dims(dims) or [], keepdim)


def _dims(dims: Any) -> Any:
    """Make a list of one from one dimension."""
    return [dims] if isinstance(dims, int) else dims


def _expand(a: Assembler, x: Value, sizes: Sequence[int], implicit: bool = False) -> Value:
    extra = len(sizes) - len(x.shape)
    shape = (1,) * extra + x.shape
    if any(size not in (-1, old) for size, old in zip(sizes, shape, strict=True)):
        raise UnsupportedError(f"repeating a computed tensor, {list(x.shape)} to {list(sizes)}")
    return x.reshape(shape)


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
    "aten.mul": lambda a, x, y: layers.multiply(a, _constant(x), _constant(y)),
    "aten.div": _divide,
    "aten.neg": lambda a, x: layers.scale(a, x, -1.0),
    "aten.relu": lambda a, x: layers.elementwise(a, OpKind.RELU, x),
    "aten.gelu": lambda a, x, approximate="none": layers.elementwise(
        a, OpKind.GELU, x, tanh=approximate == "tanh"
    ),
    "aten.softmax": lambda a, x, dim, dtype=None: layers.softmax(a, x, dim),
    "aten.layer_norm": _layer_norm,
    "aten.scaled_dot_product_attention": _attention,
    "aten.masked_fill": lambda a, x, mask, y: layers.choose(a, mask, _constant(y), x),
    "aten.where": lambda a, mask, x, y: layers.choose(a, mask, _constant(x), _constant(y)),
    "aten.embedding": lambda a, table, indices, *_options: layers.embedding(a, table, indices),
    "aten.mean": _mean,
    "aten.cat": lambda a, parts, dim=0: layers.concat(a, parts, dim),
    "aten.expand": _expand,
    "aten.squeeze": lambda a, x, dims=None: x.squeeze(_dims(dims)),
    "aten.unsqueeze": lambda a, x, dim: x.unsqueeze([dim]),
    "aten.permute": lambda a, x, order: x.permute([dim % len(x.shape) for dim in order]),
    "aten.transpose": _transpose,
    "aten.t": lambda a, x: _transpose(a, x, 0, -1),
    "aten.slice": _slice,
    "aten.select": lambda a, x, dim, index: x.select(dim, index),
    "aten.chunk": lambda a, x, number, dim=0: x.split(dim, -(-x.shape[dim] // number)),
    "aten.unbind": lambda a, x, dim=0: tuple(x.select(dim, i) for i in range(x.shape[dim])),
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
         "aten.lift_fresh_copy", "aten._to_copy", "aten.to"),
        lambda a, x, *_options, **_more: x,
    ),
}  # fmt: skip
