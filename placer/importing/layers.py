"""What the operators of PyTorch and ONNX mean in ops of the dataflow graph.

Each function takes the user's tensors (`Value`: depends on the input; `Constant`: does not) and
returns the user's result. Where the graph has no op, it raises UnsupportedError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from placer.importing.assembler import Assembler, Constant, Value, arrangement
from placer.importing.views import UnsupportedError
from placer.ops import OpAttributes, OpKind, Shape

HIDDEN = -1e4  # a score this low, and lower, has no part in a softmax

Operand = Value | Constant


def linear(
    a: Assembler, x: Value, weight: Constant, bias: Constant | None = None, transposed: bool = True
) -> Value:
    """x W^T + b with weight[columns, K]; not transposed: x W + b with weight[K, columns]."""
    inner, columns = weight.shape[::-1] if transposed else weight.shape
    if x.shape[-1] != inner:
        raise UnsupportedError(f"a product of {list(x.shape)} and {list(weight.shape)}")
    x = a.by_rows(x)
    attributes = OpAttributes(
        weight=a.weight(weight.name, weight.array), columns=columns, transposed_weight=transposed
    )
    name = weight.name.removesuffix(".weight")
    y = a.like(a.add_op(OpKind.LINEAR, x.tensor, name=name, attributes=attributes), x)
    return y if bias is None else add(a, y, bias)


def matmul(a: Assembler, left: Operand, right: Operand) -> Value:
    """Product of the last two dimensions; the others are heads."""
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
        raise UnsupportedError(
            f"a product of {list(one.shape)} and {list(two.shape)}: heads differ"
        )
    return a.result(a.add_op(OpKind.MATMUL, *tensors), (*leading, two.shape[-1]))


def _activation(a: Assembler, operand: Operand) -> Value:
    return operand if isinstance(operand, Value) else a.constant(operand)


def add(a: Assembler, left: Operand, right: Operand) -> Value:
    """Sum; a constant that is the same for all rows becomes a bias, others are loaded."""
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
        return Value(a.add_op(OpKind.ADD, x.tensor, a.aligned(right, x)), x.view)
    except UnsupportedError:
        y = a.filling(right)
        return Value(a.add_op(OpKind.ADD, a.aligned(x, y), y.tensor), y.view)


def _add_constant(a: Assembler, x: Value, constant: Constant) -> Value:
    try:
        full = np.broadcast_to(constant.array, x.shape)
    except ValueError as error:
        raise UnsupportedError(
            f"a sum of {list(x.shape)} and a constant of {list(constant.shape)}"
        ) from error
    sizes, order = arrangement(x.view)
    full = full.reshape(sizes).transpose(order).reshape(x.view.base)
    vector = full.reshape(-1, full.shape[-1])[0]
    if (full == vector).all():
        is_same = np.array_equal(constant.array, vector)
        weight = a.weight(constant.name if is_same else f"{constant.name}.row", vector)
        attributes = OpAttributes(weight=weight)
        return Value(
            a.add_op(OpKind.BIAS, x.tensor, name=constant.name, attributes=attributes), x.view
        )
    loaded = a.tensor(a.constant(Constant(constant.name, full)))
    return Value(a.add_op(OpKind.ADD, x.tensor, loaded), x.view)


def scale(a: Assembler, x: Value, factor: float) -> Value:
    """Times a number."""
    if factor == 1:
        return x
    return elementwise(a, OpKind.SCALE, x, OpAttributes(factor=factor))


def elementwise(
    a: Assembler, kind: OpKind, x: Value, attributes: OpAttributes | None = None
) -> Value:
    """An op with one input that works on each number alone: the order does not matter."""
    x = a.filling(x)
    return Value(a.add_op(kind, x.tensor, attributes=attributes), x.view)


def multiply(a: Assembler, left: Operand, right: Operand) -> Value:
    """Times a constant number; the graph has no product of two tensors element by element."""
    x, factor = (right, left) if isinstance(left, Constant) else (left, right)
    if isinstance(x, Value) and isinstance(factor, Constant):
        values = np.unique(factor.array)
        is_broadcast = len(factor.shape) > len(x.shape) or math.prod(factor.shape) > math.prod(
            x.shape
        )
        if len(values) == 1 and not is_broadcast:
            return scale(a, x, float(values[0]))
    raise UnsupportedError("an element-wise product of two tensors")


def softmax(a: Assembler, x: Value, dim: int) -> Value:
    """Over one dimension."""
    return _along(a, OpKind.SOFTMAX, x, dim)


def _along(a: Assembler, kind: OpKind, x: Value, dim: int) -> Value:
    order = _to_last(len(x.shape), dim)
    x = a.by_rows(x.permute(order))
    y = Value(a.add_op(kind, x.tensor), x.view)
    return y.permute(_inverse(order))


def layernorm(
    a: Assembler,
    x: Value,
    size: int,
    gamma: Constant | None,
    beta: Constant | None,
    epsilon: float,
    name: str,
) -> Value:
    """Over the last `size` elements, which may be several dimensions."""
    shape, kept = x.shape, 1
    while math.prod(shape[len(shape) - kept :]) < size:
        kept += 1
    x = a.by_rows(x.reshape((*shape[: len(shape) - kept], size)))
    parts = {"gamma": (gamma, np.ones), "beta": (beta, np.zeros)}
    arrays = {
        part: default(size) if given is None else given.array.reshape(-1)
        for part, (given, default) in parts.items()
    }
    name = gamma.name.removesuffix(".weight") if gamma else name
    weight = a.weight_parts(name, {f".{part}": array for part, array in arrays.items()})
    attributes = OpAttributes(weight=weight, epsilon=epsilon)
    y = Value(a.add_op(OpKind.LAYERNORM, x.tensor, name=name, attributes=attributes), x.view)
    return y.reshape(shape)


def attention(
    a: Assembler,
    query: Value,
    key: Value,
    value: Value,
    mask: Constant | None = None,
    causal: bool = False,
    factor: float | None = None,
) -> Value:
    """softmax(Q K^T / sqrt(d) + mask) V, per head."""
    factor = 1 / math.sqrt(query.shape[-1]) if factor is None else factor
    swapped = [*range(len(key.shape) - 2), len(key.shape) - 1, len(key.shape) - 2]
    scores = scale(a, matmul(a, query, key.permute(swapped)), factor)
    if causal:
        mask = Constant("causal", causal_mask(scores.shape[-2], scores.shape[-1]))
    if mask is not None:
        scores = add(a, scores, mask_to_add(mask))
    return matmul(a, softmax(a, scores, -1), value)


def causal_mask(rows: int, columns: int) -> NDArray[np.float64]:
    """0 where a row may look, minus infinity after it."""
    return np.where(np.tri(rows, columns, dtype=bool), 0.0, -np.inf)


def mask_to_add(mask: Constant) -> Constant:
    """A mask of truth values (true: look here) as numbers to add to the scores."""
    if mask.array.dtype != np.bool_:
        return mask
    return Constant(mask.name, np.where(mask.array, 0.0, -np.inf))


def choose(a: Assembler, mask: Operand, chosen: Operand, other: Operand) -> Value:
    """Scores where a constant mask is true, elsewhere a very low number (or the other way)."""
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
    """Rows of a table."""
    name = table.name.removesuffix(".weight") + "_embedding"
    tensor = a.gather(table.name, table.array, indices, name)
    return a.result(tensor, (*indices.shape, table.shape[-1]))


def convolution(
    a: Assembler,
    x: Value,
    weight: Constant,
    bias: Constant | None,
    stride: Sequence[int],
) -> Value:
    """Patches that do not overlap: a linear layer on [patches, channels * patch]."""
    channels, kernel = weight.shape[1], weight.shape[2:]
    batch, size = x.shape[:1], x.shape[2:]
    if tuple(stride) != kernel or x.shape[1] != channels:
        raise UnsupportedError(
            f"a convolution of {list(x.shape)} with kernel {list(kernel)}, stride {list(stride)}; "
            "supported: stride = kernel, one group, no padding, no dilation"
        )
    for dim, (length, step) in enumerate(zip(size, kernel, strict=True), 2):
        x = replace(x, view=x.view.slice(dim, 0, length // step * step))
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
    """A linear layer with one column and the weight 1 / n."""
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
    """Side by side along one dimension: as columns, after a transpose where needed."""
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
    """Sizes for a reshape, with the one that is -1 filled in."""
    total, known = math.prod(shape), math.prod(size for size in wanted if size != -1)
    return tuple(total // max(known, 1) if size == -1 else int(size) for size in wanted)


def _to_last(rank: int, dim: int) -> list[int]:
    dim %= rank
    return [*(other for other in range(rank) if other != dim), dim]


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda i: order[i])
