"""What the operators of PyTorch and ONNX mean in ops of the dataflow graph.

Each function takes the user's tensors (`Value`: depends on the input; `Constant`: does not) and
returns the user's result. Where the graph has no op, it raises UnsupportedError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from placer.graph import OpKind, Shape
from placer.graph.importing.assembler import Assembler, Constant, arrangement
from placer.graph.importing.views import UnsupportedError, Value

HIDDEN = -1e4  # a score this low, and lower, has no part in a softmax

Operand = Value | Constant


def linear(a: Assembler, x: Value, weight: Constant, bias: Constant | None = None, transposed: bool = True) -> Value:
    """Compute x W^T + b with weight[columns, K], or x W + b with weight[K, columns]."""
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
    is_matrix = len(right.shape) >= 2 and math.prod(right.shape[:-2]) == 1
    if isinstance(left, Value) and isinstance(right, Constant) and is_matrix:
        matrix = right.array.reshape(right.shape[-2:])
        return linear(a, left, Constant(right.name, matrix), transposed=False)
    one, two = (_activation(a, operand) for operand in (left, right))
    if min(len(one.shape), len(two.shape)) < 2 or one.shape[-1] != two.shape[-2]:
        raise UnsupportedError(f"a product of {list(one.shape)} and {list(two.shape)}")
    if math.prod(two.shape[:-2]) == 1 and math.prod(one.shape[:-2]) > 1:
        leading, tensors = one.shape[:-1], (a.matrix(one), a.stack(two))
    elif math.prod(one.shape[:-2]) == math.prod(two.shape[:-2]):
        longer = max(one.shape[:-2], two.shape[:-2], key=len)
        leading, tensors = (*longer, one.shape[-2]), (a.stack(one), a.stack(two))
    else:
        raise UnsupportedError(f"a product of {list(one.shape)} and {list(two.shape)}: heads differ")
    return a.result(a.add_op(OpKind.MATMUL, *tensors), (*leading, two.shape[-1]))


def _activation(a: Assembler, operand: Operand) -> Value:
    return operand if isinstance(operand, Value) else a.constant(operand)


def add(a: Assembler, left: Operand, right: Operand) -> Value:
    """Add; a constant that is the same for all rows becomes a bias, others are loaded."""
    if isinstance(left, Constant) or (isinstance(right, Value) and left.is_source):
        left, right = right, left
    assert isinstance(left, Value)
    x = a.filling(left)
    if isinstance(right, Constant):
        return _add_constant(a, x, right)
    if right.shape != x.shape:
        sizes = " and ".join(str(list(v.shape)) for v in (x, right))
        raise UnsupportedError(f"a sum of computed tensors of different shapes {sizes}")
    try:
        return replace(x, tensor=a.add_op(OpKind.ADD, x.tensor, a.aligned(right, x)))
    except UnsupportedError:
        y = a.filling(right)
        return replace(y, tensor=a.add_op(OpKind.ADD, a.aligned(x, y), y.tensor))


def _add_constant(a: Assembler, x: Value, constant: Constant) -> Value:
    try:
        full = np.broadcast_to(constant.array, x.shape)
    except ValueError as error:
        raise UnsupportedError(f"a sum of {list(x.shape)} and a constant of {list(constant.shape)}") from error
    sizes, order = arrangement(x)
    full = full.reshape(sizes).transpose(order).reshape(x.base)
    vector = full.reshape(-1, full.shape[-1])[0]
    if (full == vector).all():
        is_same = np.array_equal(constant.array, vector)
        weight = a.weight(constant.name if is_same else f"{constant.name}.row", vector)
        return replace(x, tensor=a.add_op(OpKind.BIAS, x.tensor, name=constant.name, weight=weight))
    loaded = a.tensor(a.constant(Constant(constant.name, full)))
    return replace(x, tensor=a.add_op(OpKind.ADD, x.tensor, loaded))


def scale(a: Assembler, x: Value, factor: float) -> Value:
    """Multiply by a number."""
    return x if factor == 1 else elementwise(a, OpKind.SCALE, x, factor=factor)


def elementwise(a: Assembler, kind: OpKind, x: Value, **attributes: Any) -> Value:
    """Add an op with one input that works on each number alone: the order does not matter."""
    x = a.filling(x)
    return replace(x, tensor=a.add_op(kind, x.tensor, **attributes))


def multiply(a: Assembler, left: Operand, right: Operand) -> Value:
    """Multiply by a constant number; the graph has no element-wise product of two tensors."""
    x, factor = (right, left) if isinstance(left, Constant) else (left, right)
    if isinstance(x, Value) and isinstance(factor, Constant):
        values = np.unique(factor.array)
        is_broadcast = len(factor.shape) > len(x.shape) or math.prod(factor.shape) > math.prod(x.shape)
        if len(values) == 1 and not is_broadcast:
            return scale(a, x, float(values[0]))
    raise UnsupportedError("an element-wise product of two tensors")


def divide(a: Assembler, x: Operand, y: Operand) -> Value:
    """Divide by a constant number."""
    if not isinstance(x, Value) or not isinstance(y, Constant) or not y.array.all():
        raise UnsupportedError("a quotient of two tensors")
    return multiply(a, x, Constant(f"1/{y.name}", 1 / y.array))


def softmax(a: Assembler, x: Value, dim: int) -> Value:
    """Take the softmax over one dimension."""
    order = _to_last(len(x.shape), dim)
    x = a.by_rows(x.permute(order))
    return replace(x, tensor=a.add_op(OpKind.SOFTMAX, x.tensor)).permute(_inverse(order))


def layernorm(
    a: Assembler, x: Value, size: int, gamma: Constant | None, beta: Constant | None, epsilon: float
) -> Value:
    """Normalise the last `size` elements, which may be several dimensions."""
    shape, kept = x.shape, 1
    while math.prod(shape[len(shape) - kept :]) < size:
        kept += 1
    x = a.by_rows(x.reshape((*shape[: len(shape) - kept], size)))
    parts = {
        ".gamma": np.ones(size) if gamma is None else gamma.array.reshape(-1),
        ".beta": np.zeros(size) if beta is None else beta.array.reshape(-1),
    }
    name = gamma.name.removesuffix(".weight") if gamma else "layernorm"
    weight = a.weight_parts(name, parts)
    tensor = a.add_op(OpKind.LAYERNORM, x.tensor, name=name, weight=weight, epsilon=epsilon)
    return replace(x, tensor=tensor).reshape(shape)


def attention(
    a: Assembler,
    query: Value,
    key: Value,
    value: Value,
    mask: Constant | None = None,
    causal: bool = False,
    factor: float | None = None,
) -> Value:
    """Compute softmax(factor Q K^T + mask) V per head; the factor is 1 / sqrt(d) if not given.

    A mask of truth values says where to look; the causal one lets row i look at columns 0..i.
    """
    factor = 1 / math.sqrt(query.shape[-1]) if factor is None else factor
    swapped = [*range(len(key.shape) - 2), len(key.shape) - 1, len(key.shape) - 2]
    scores = scale(a, matmul(a, query, key.permute(swapped)), factor)
    if causal:
        mask = Constant("causal", np.tri(*scores.shape[-2:], dtype=bool))
    if mask is not None:
        is_number = mask.array.dtype != np.bool_
        array = mask.array if is_number else np.where(mask.array, 0.0, -np.inf)
        scores = add(a, scores, Constant(mask.name, array))
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


def convolution(
    a: Assembler, x: Value, weight: Operand, bias: Constant | None, stride: Sequence[int], is_plain: bool
) -> Value:
    """Convolve patches that do not overlap: a linear layer on [patches, channels * patch].

    `is_plain`: there is one group, no padding and no dilation.
    """
    if not is_plain or not isinstance(weight, Constant):
        raise UnsupportedError("a convolution with groups, padding or dilation")
    channels, kernel = weight.shape[1], weight.shape[2:]
    batch, size = x.shape[:1], x.shape[2:]
    if tuple(stride) != kernel or x.shape[1] != channels:
        raise UnsupportedError(
            f"a convolution of {list(x.shape)} with kernel {list(kernel)}, stride {list(stride)}; "
            "supported: stride = kernel, one group, no padding, no dilation"
        )
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


def mean(a: Assembler, x: Value, dims: Sequence[int], keepdim: bool) -> Value:
    """Take the mean: a linear layer with one column and the weight 1 / n."""
    rank = len(x.shape)
    reduced = sorted(dim % rank for dim in dims) if dims else list(range(rank))
    kept = [dim for dim in range(rank) if dim not in reduced]
    number = math.prod(x.shape[dim] for dim in reduced)
    if x.is_source:
        x = a.by_rows(x)
    rows = x.permute([*kept, *reduced]).reshape((*(x.shape[dim] for dim in kept), number))
    weight = Constant(f"mean_{number}", np.full((1, number), 1 / number))
    shape = [1 if dim in reduced else size for dim, size in enumerate(x.shape)]
    y = linear(a, rows, weight)
    return y.reshape(tuple(shape if keepdim else [x.shape[dim] for dim in kept]))


def concat(a: Assembler, parts: Sequence[Operand], dim: int) -> Value:
    """Put side by side along one dimension: as columns, after a transpose where needed."""
    values = [a.by_rows(_activation(a, part)) for part in parts]
    if len(values) == 1:
        return values[0]
    order = _to_last(len(values[0].shape), dim)
    turned = [value.permute(order) for value in values]
    if len({value.shape[:-1] for value in turned}) > 1:
        raise UnsupportedError(f"concatenation of {[list(value.shape) for value in values]}")
    tensor = a.add_op(OpKind.CONCAT, *(a.matrix(value) for value in turned))
    shape = (*turned[0].shape[:-1], sum(value.shape[-1] for value in turned))
    return a.by_rows(a.result(tensor, shape).permute(_inverse(order)))


def sizes_of(shape: Sequence[int], wanted: Sequence[int]) -> Shape:
    """Return the sizes for a reshape, with the one that is -1 filled in."""
    total, known = math.prod(shape), math.prod(size for size in wanted if size != -1)
    return tuple(total // max(known, 1) if size == -1 else int(size) for size in wanted)


def _to_last(rank: int, dim: int) -> list[int]:
    dim %= rank
    return [*(other for other in range(rank) if other != dim), dim]


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda i: order[i])
