"""What the operators of ATen mean: one handler each, with the arguments that PyTorch gives it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placer.importing import layers
from placer.importing.assembler import Assembler, Constant, Value
from placer.importing.views import UnsupportedError
from placer.ops import OpAttributes, OpKind


def _constant(number: Any) -> Any:
    """Numbers in the code are constants too."""
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
    divisor = _constant(y)
    if not isinstance(divisor, Constant) or not isinstance(x, Value):
        raise UnsupportedError("a quotient of two tensors")
    return layers.multiply(a, x, Constant(f"1/{divisor.name}", 1 / divisor.array))


def _gelu(a: Assembler, x: Value, approximate: str = "none") -> Value:
    return layers.elementwise(a, OpKind.GELU, x, OpAttributes(tanh=approximate == "tanh"))


def _layer_norm(
    a: Assembler, x: Value, shape: Sequence[int], weight: Any = None, bias: Any = None,
    epsilon: float = 1e-5, _cudnn: bool = False,
) -> Value:  # fmt: skip
    return layers.layernorm(a, x, math.prod(shape), weight, bias, epsilon, "layernorm")


def _attention(
    a: Assembler, query: Value, key: Value, value: Value, mask: Any = None, dropout: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    if isinstance(mask, Value) or enable_gqa:
        raise UnsupportedError("attention with a computed mask or grouped heads")
    return layers.attention(a, query, key, value, mask, is_causal, scale)


def _convolution(
    a: Assembler, x: Value, weight: Constant, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Value:  # fmt: skip
    rank = len(weight.shape) - 2
    strides, paddings, dilations = (
        value * rank if isinstance(value, list) and len(value) == 1 else
        value if isinstance(value, list) else [value] * rank
        for value in (stride, padding, dilation)
    )  # fmt: skip
    if groups != 1 or paddings != [0] * rank or dilations != [1] * rank:
        raise UnsupportedError("a convolution with groups, padding or dilation")
    return layers.convolution(a, x, weight, bias, strides)


def _mean(
    a: Assembler, x: Value, dims: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    return layers.mean(a, x, [dims] if isinstance(dims, int) else dims or [], keepdim)


def _embedding(a: Assembler, table: Any, indices: Value, *_options: Any) -> Value:
    return layers.embedding(a, table, indices)


def _addmm(a: Assembler, bias: Any, x: Any, weight: Any) -> Value:
    return layers.add(a, layers.matmul(a, x, weight), bias)


def _expand(a: Assembler, x: Value, sizes: Sequence[int], implicit: bool = False) -> Value:
    extra = len(sizes) - len(x.shape)
    shape = (1,) * extra + x.shape
    if any(size not in (-1, old) for size, old in zip(sizes, shape, strict=True)):
        raise UnsupportedError(f"repeating a computed tensor, {list(x.shape)} to {list(sizes)}")
    return x.reshape(shape)


def _squeeze(a: Assembler, x: Value, dims: Any = None) -> Value:
    rank = len(x.shape)
    chosen = range(rank) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {dim % rank for dim in chosen if x.shape[dim] == 1}
    return x.reshape(tuple(size for dim, size in enumerate(x.shape) if dim not in gone))


def _unsqueeze(a: Assembler, x: Value, dim: int) -> Value:
    dim %= len(x.shape) + 1
    return x.reshape((*x.shape[:dim], 1, *x.shape[dim:]))


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
    first, last, _ = slice(start, stop).indices(x.shape[dim])
    return Value(x.tensor, x.view.slice(dim % len(x.shape), first, last))


def _select(a: Assembler, x: Value, dim: int, index: int) -> Value:
    return Value(x.tensor, x.view.select(dim % len(x.shape), index % x.shape[dim]))


def _split(a: Assembler, x: Value, sizes: Any, dim: int = 0) -> tuple[Value, ...]:
    length = x.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, length - start) for start in range(0, length, sizes)]
    ends = np.cumsum(sizes)
    return tuple(_slice(a, x, dim, int(e) - s, int(e)) for s, e in zip(sizes, ends, strict=True))


def _chunk(a: Assembler, x: Value, number: int, dim: int = 0) -> tuple[Value, ...]:
    return _split(a, x, -(-x.shape[dim] // number), dim)


def _unbind(a: Assembler, x: Value, dim: int = 0) -> tuple[Value, ...]:
    return tuple(_select(a, x, dim, index) for index in range(x.shape[dim]))


def _same(a: Assembler, x: Value, *_options: Any, **_more: Any) -> Value:
    return x


IGNORED = {"aten._assert_tensor_metadata", "aten._assert_scalar", "aten.sym_constrain_range"}

SHAPE_ONLY = {  # their results do not depend on the numbers in what they read
    "aten.zeros_like", "aten.ones_like", "aten.full_like", "aten.new_zeros", "aten.new_ones",
    "aten.new_full",
}  # fmt: skip

HANDLERS: dict[str, Callable[..., Any]] = {
    "aten.linear": lambda a, x, weight, bias=None: layers.linear(a, x, weight, bias),
    "aten.matmul": layers.matmul,
    "aten.mm": layers.matmul,
    "aten.bmm": layers.matmul,
    "aten.addmm": _addmm,
    "aten.add": _add,
    "aten.sub": lambda a, x, y, alpha=1: _add(a, x, y, -alpha),
    "aten.rsub": lambda a, x, y, alpha=1: _add(a, y, x, -alpha),
    "aten.mul": lambda a, x, y: layers.multiply(a, _constant(x), _constant(y)),
    "aten.div": _divide,
    "aten.neg": lambda a, x: layers.scale(a, x, -1.0),
    "aten.relu": lambda a, x: layers.elementwise(a, OpKind.RELU, x),
    "aten.gelu": _gelu,
    "aten.softmax": lambda a, x, dim, dtype=None: layers.softmax(a, x, dim),
    "aten.layer_norm": _layer_norm,
    "aten.scaled_dot_product_attention": _attention,
    "aten.masked_fill": lambda a, x, mask, y: layers.choose(a, mask, _constant(y), x),
    "aten.where": lambda a, mask, x, y: layers.choose(a, mask, _constant(x), _constant(y)),
    "aten.embedding": _embedding,
    "aten.conv1d": _convolution,
    "aten.conv2d": _convolution,
    "aten.mean": _mean,
    "aten.cat": lambda a, parts, dim=0: layers.concat(a, parts, dim),
    "aten.view": lambda a, x, sizes: x.reshape(layers.sizes_of(x.shape, sizes)),
    "aten._unsafe_view": lambda a, x, sizes: x.reshape(layers.sizes_of(x.shape, sizes)),
    "aten.reshape": lambda a, x, sizes: x.reshape(layers.sizes_of(x.shape, sizes)),
    "aten.expand": _expand,
    "aten.squeeze": _squeeze,
    "aten.unsqueeze": _unsqueeze,
    "aten.permute": lambda a, x, order: x.permute([dim % len(x.shape) for dim in order]),
    "aten.transpose": _transpose,
    "aten.t": lambda a, x: _transpose(a, x, 0, -1),
    "aten.slice": _slice,
    "aten.select": _select,
    "aten.split": _split,
    "aten.split_with_sizes": _split,
    "aten.chunk": _chunk,
    "aten.unbind": _unbind,
    "aten.clone": _same,
    "aten.contiguous": _same,
    "aten.alias": _same,
    "aten.detach": _same,
    "aten.dropout": _same,
    "aten.lift_fresh_copy": _same,
    "aten._to_copy": _same,
    "aten.to": _same,
}
