"""What the operators of PyTorch and ONNX mean in ops of the dataflow graph: products and norms.

Each function takes the user's tensors (`Value`: depends on the input; `Constant`: does not) and
returns the user's result. Where the graph has no op, it raises UnsupportedError. What works on each
number alone is in `elementwise`, what works on images in `images`, sums and joins are in `sums`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from placer.graph import OpKind, Shape
from placer.graph.importing.assembler import Assembler, Constant
from placer.graph.importing.elementwise import Operand, activation, add, scale
from placer.graph.importing.views import UnsupportedError, Value

HIDDEN = -1e4  # a score this low, and lower, has no part in a softmax


def linear(a: Assembler, x: Value, weight: Constant, bias: Constant | None = None, transposed: bool = True) -> Value:
    """Compute x W^T + b with weight[columns, K], or x W + b with weight[K, columns]."""
    if not isinstance(weight, Constant):
        raise UnsupportedError("a linear layer with a computed weight; write a product of two tensors (@)")
    inner, columns = weight.shape[::-1] if transposed else weight.shape
    if x.shape[-1] != inner:
        raise UnsupportedError(f"a product of {list(x.shape)} and {list(weight.shape)}")
    x = a.by_rows(x)
    tensor = a.add_op(
        OpKind.LINEAR, x.tensor, name=weight.name.removesuffix(".weight"), columns=columns,
        weight=a.weight(weight.name, weight.array), transposed_weight=transposed,
    )  # fmt: skip
    y = a.like(tensor, x)
    return y if bias is None else add(a, y, bias)


def matmul(a: Assembler, left: Operand, right: Operand) -> Value:
    """Multiply matrices of the last two dimensions; the others are heads."""
    if isinstance(left, Value) and isinstance(right, Constant) and len(right.shape) >= 2:
        if math.prod(right.shape[:-2]) > 1:
            return _with_weight_per_head(a, left, right)
        matrix = right.array.reshape(right.shape[-2:])
        return linear(a, left, Constant(right.name, matrix), transposed=False)
    one, two = (activation(a, operand) for operand in (left, right))
    if min(len(one.shape), len(two.shape)) < 2 or one.shape[-1] != two.shape[-2]:
        raise UnsupportedError(f"a product of {list(one.shape)} and {list(two.shape)}")
    if math.prod(two.shape[:-2]) == 1 and math.prod(one.shape[:-2]) > 1:
        leading, tensors = one.shape[:-1], (a.matrix(one), a.stack(two))
    else:
        heads = np.broadcast_shapes(one.shape[:-2], two.shape[:-2])
        leading = (*heads, one.shape[-2])
        tensors = (a.stack(one.expand((*heads, *one.shape[-2:]))), a.stack(two.expand((*heads, *two.shape[-2:]))))
    return a.result(a.add_op(OpKind.MATMUL, *tensors), (*leading, two.shape[-1]))


def _with_weight_per_head(a: Assembler, x: Value, weight: Constant) -> Value:
    """Multiply by a stack of matrices: one for each head of x, or all of them with each row of x."""
    *leading, inner, columns = weight.shape
    heads = math.prod(leading)
    stack = weight.array.reshape(heads, inner, columns)
    if len(x.shape) < 2 or x.shape[-1] != inner:
        raise UnsupportedError(f"a product of {list(x.shape)} and {list(weight.shape)}")
    shape = (*np.broadcast_shapes(x.shape[:-2], tuple(leading)), x.shape[-2], columns)
    if math.prod(x.shape[:-2]) == 1:
        flat = stack.transpose(1, 0, 2).reshape(inner, heads * columns)
        y = linear(a, x, Constant(weight.name, flat), transposed=False)
        return y.reshape((x.shape[-2], heads, columns)).permute([1, 0, 2]).reshape(shape)
    if math.prod(shape[:-2]) != heads or math.prod(x.shape[:-2]) != heads:
        raise UnsupportedError(f"a product of {list(x.shape)} and {list(weight.shape)}: heads differ")
    tensor = a.add_op(
        OpKind.LINEAR, a.stack(x), name=weight.name, columns=columns, stacked=True,
        weight=a.weight(weight.name, stack),
    )  # fmt: skip
    return a.result(tensor, shape)


def softmax(a: Assembler, x: Value, dim: int) -> Value:
    """Take the softmax over one dimension."""
    order = to_last(len(x.shape), dim)
    x = a.by_rows(x.permute(order))
    return replace(x, tensor=a.add_op(OpKind.SOFTMAX, x.tensor)).permute(inverse(order))


def layernorm(
    a: Assembler, x: Value, size: int, gamma: Constant | None, beta: Constant | None, epsilon: float
) -> Value:
    """Normalise the last `size` elements, which may be several dimensions."""
    a.reserve(2 * size)
    parts = {
        ".gamma": np.ones(size) if gamma is None else gamma.array.reshape(-1),
        ".beta": np.zeros(size) if beta is None else beta.array.reshape(-1),
    }
    name = gamma.name.removesuffix(".weight") if gamma else "layernorm"
    return _norm(a, OpKind.LAYERNORM, x, name, parts, epsilon)


def rmsnorm(a: Assembler, x: Value, size: int, gamma: Constant | None, epsilon: float) -> Value:
    """Divide the last `size` elements by the root of their mean square."""
    a.reserve(size)
    parts = {".gamma": np.ones(size) if gamma is None else gamma.array.reshape(-1)}
    name = gamma.name.removesuffix(".weight") if gamma else "rmsnorm"
    return _norm(a, OpKind.RMSNORM, x, name, parts, epsilon)


def _norm(
    a: Assembler, kind: OpKind, x: Value, name: str, parts: dict[str, NDArray[np.float64]], epsilon: float
) -> Value:
    shape, kept, size = x.shape, 1, len(parts[".gamma"])
    while math.prod(shape[len(shape) - kept :]) < size:
        kept += 1
    x = a.by_rows(x.reshape((*shape[: len(shape) - kept], size)))
    weight = a.weight_parts(name, parts)
    tensor = a.add_op(kind, x.tensor, name=name, weight=weight, epsilon=epsilon)
    return replace(x, tensor=tensor).reshape(shape)


def top_k(a: Assembler, x: Value, top: int) -> Value:
    """Take the softmax over the largest elements of the last dimension, zeros elsewhere."""
    tensor = a.matrix(x.reshape((math.prod(x.shape[:-1]), x.shape[-1])))
    return a.result(a.once(OpKind.TOP_K, tensor, top=top), x.shape)


def rotary(a: Assembler, x: Value, dim: int, cos: NDArray[np.float64], sin: NDArray[np.float64]) -> Value:
    """Turn the pairs (x[i], x[i + d/2]) of the last dimension by angles that differ along `dim`."""
    rank = len(x.shape)
    order = [*(d for d in range(rank - 1) if d != dim), dim, rank - 1]
    turned = x.permute(order)
    tables = (a.matrix(a.constant(Constant(name, t))) for name, t in (("rotary_cos", cos), ("rotary_sin", sin)))
    tensor = a.add_op(OpKind.ROTARY, a.stack(turned), *tables)
    return a.result(tensor, turned.shape).permute(inverse(order))


def attention(
    a: Assembler,
    query: Value,
    key: Value,
    value: Value,
    mask: Operand | None = None,
    causal: bool = False,
    factor: float | None = None,
) -> Value:
    """Compute softmax(factor Q K^T + mask) V per head; the factor is 1 / sqrt(d) if not given.

    A mask of truth values says where to look; the causal one lets row i look at columns 0..i. Where
    keys and values have fewer heads, several queries share one.
    """
    factor = 1 / math.sqrt(query.shape[-1]) if factor is None else factor
    if len(query.shape) > 2 and query.shape[-3] != key.shape[-3]:
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat(-3, times), value.repeat(-3, times)
    swapped = [*range(len(key.shape) - 2), len(key.shape) - 1, len(key.shape) - 2]
    scores = scale(a, matmul(a, query, key.permute(swapped)), factor)
    if causal:
        a.reserve(math.prod(scores.shape[-2:]))
        mask = Constant("causal", np.tri(*scores.shape[-2:], dtype=bool))
    if isinstance(mask, Constant) and mask.array.dtype == np.bool_:
        mask = Constant(mask.name, np.where(mask.array, 0.0, -np.inf))
    if mask is not None:
        scores = add(a, scores, mask)
    return matmul(a, softmax(a, scores, -1), value)


def choose(a: Assembler, mask: Operand, chosen: Operand, other: Operand) -> Value:
    """Keep scores where a constant mask is true, else a very low number (or the other way)."""
    if isinstance(mask, Constant):
        hides = mask.array.astype(bool)
        if isinstance(chosen, Value):
            chosen, other, hides = other, chosen, ~hides
        if isinstance(other, Value) and isinstance(chosen, Constant) and chosen.array.size == 1:
            number = float(chosen.array.reshape(()))
            if number <= HIDDEN:
                return add(a, other, Constant(mask.name, np.where(hides, number, 0.0)))
    raise UnsupportedError("a choice between tensors; supported: a constant mask of low scores")


def embedding(a: Assembler, table: Constant, indices: Value) -> Value:
    """Gather rows of a table."""
    name = table.name.removesuffix(".weight") + "_embedding"
    tensor = a.gather(table.name, table.array, indices, name)
    return a.result(tensor, (*indices.shape, table.shape[-1]))


def sizes_of(shape: Sequence[int], wanted: Sequence[int]) -> Shape:
    """Return the sizes for a reshape, with the one that is -1 filled in."""
    total, known = math.prod(shape), math.prod(size for size in wanted if size != -1)
    return tuple(total // max(known, 1) if size == -1 else int(size) for size in wanted)


def to_last(rank: int, dim: int) -> list[int]:
    """Return the order of dimensions that has one of them last."""
    dim %= rank
    return [*(other for other in range(rank) if other != dim), dim]


def inverse(order: Sequence[int]) -> list[int]:
    """Return the order of dimensions that undoes another one."""
    return sorted(range(len(order)), key=lambda i: order[i])
