"""Sums and means over dimensions, Einstein sums, and tensors put beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from placer.graph import OpKind
from placer.graph.importing.assembler import Assembler, Constant
from placer.graph.importing.elementwise import Operand, activation, multiply, scale
from placer.graph.importing.images import mean_of_image
from placer.graph.importing.layers import inverse, linear, matmul, to_last
from placer.graph.importing.views import OrderError, UnsupportedError, Value, whole


def mean(a: Assembler, x: Value, dims: Sequence[int], keepdim: bool) -> Value:
    """Take the mean: a linear layer with one column and the weight 1 / n, or a pool of an image."""
    reduced, shape = _reduction(x, dims, keepdim)
    if reduced == [2, 3] and len(x.shape) == 4 and x.shape[0] == 1:
        return mean_of_image(a, x).reshape(shape)
    number = math.prod(x.shape[dim] for dim in reduced)
    a.reserve(number)
    return _weighted_sum(a, x, reduced, Constant(f"mean_{number}", np.full((1, number), 1 / number))).reshape(shape)


def total(a: Assembler, x: Value, dims: Sequence[int], keepdim: bool) -> Value:
    """Take the sum: a linear layer with one column of ones, or a sum of heads."""
    reduced, shape = _reduction(x, dims, keepdim)
    number = math.prod(x.shape[dim] for dim in reduced)
    a.reserve(number)
    return _weighted_sum(a, x, reduced, Constant(f"ones_{number}", np.ones((1, number)))).reshape(shape)


def _reduction(x: Value, dims: Sequence[int], keepdim: bool) -> tuple[list[int], tuple[int, ...]]:
    rank = len(x.shape)
    reduced = sorted(dim % rank for dim in dims) if dims else list(range(rank))
    sizes = [1 if dim in reduced else size for dim, size in enumerate(x.shape)]
    kept = [size for dim, size in enumerate(sizes) if dim not in reduced]
    return reduced, tuple(sizes if keepdim else kept)


def _weighted_sum(a: Assembler, x: Value, reduced: list[int], weight: Constant) -> Value:
    x = a.by_rows(x) if x.is_source else a.filling(x)
    kept = [dim for dim in range(len(x.shape)) if dim not in reduced]
    turned = x.permute([*kept, *reduced])
    atoms, last = [atom for dim in reduced for atom in x.dims[dim]], len(x.base) - 1
    if all(atom.stride > (atom.axis == last) and atom.axis != last - 1 for atom in atoms):
        try:
            return _sum_of_heads(a, turned, len(reduced), float(weight.array.flat[0]))
        except OrderError:
            pass
    row = turned.reshape((*(x.shape[dim] for dim in kept), weight.array.size))
    return linear(a, row, weight)


def _sum_of_heads(a: Assembler, x: Value, count: int, factor: float) -> Value:
    """Sum over the last `count` dimensions, which become heads."""
    kept, number = x.shape[: len(x.shape) - count], math.prod(x.shape[len(x.shape) - count :])
    order = [*range(len(kept), len(x.shape)), *range(len(kept))]
    tensor = a.stack(x.permute(order).reshape((number, math.prod(kept[:-1]), kept[-1])))
    tensor = a.add_op(OpKind.SUM_HEADS, tensor, repeats=number)
    return scale(a, a.result(a.add_op(OpKind.MERGE_HEADS, tensor), kept), factor)


def einsum(a: Assembler, equation: str, operands: Sequence[Operand]) -> Value:
    """Compute an Einstein sum of two tensors by a matrix product, or by a product and a sum."""
    inputs, _, output = equation.replace(" ", "").partition("->")
    names = inputs.split(",")
    if len(names) != 2 or "." in equation or not output or any(len(set(n)) < len(n) for n in (*names, output)):
        raise UnsupportedError(f"the Einstein sum {equation!r}; supported: two tensors, such as bij,bjk->bik")
    left, right = names
    sizes = {n: s for name, x in zip(names, operands, strict=True) for n, s in zip(name, x.shape, strict=True)}
    both = [n for n in left if n in right and n in output]
    summed = [n for n in left if n in right and n not in output]
    free = [[n for n in name if n in output and n not in both] for name in names]
    if not summed or len(both) + len(summed) + len(free[0]) != len(left) or set(output) - set(sizes):
        raise UnsupportedError(f"the Einstein sum {equation!r}: a letter is in one tensor only, or nothing is summed")
    if not free[1] and math.prod(sizes[n] for n in both) > 1:
        return _product_and_sum(a, names, operands, output, summed)
    one = _reordered(operands[0], left, [*both, *free[0], *summed], [len(both), len(free[0]), len(summed)])
    two = _reordered(operands[1], right, [*both, *summed, *free[1]], [len(both), len(summed), len(free[1])])
    letters = [*both, *free[0], *free[1]]
    y = matmul(a, one, two).reshape([sizes[n] for n in letters])
    return y.permute([letters.index(n) for n in output])


def _reordered(x: Operand, name: str, letters: list[str], counts: list[int]) -> Operand:
    """Return a tensor with the given dimensions, merged into as many as there are counts."""
    order = [name.index(letter) for letter in letters]
    sizes = [x.shape[i] for i in order]
    ends = [0, counts[0], counts[0] + counts[1], sum(counts)]
    shape = [math.prod(sizes[start:stop]) for start, stop in pairwise(ends)]
    shape = shape if counts[0] else shape[1:]
    if isinstance(x, Constant):
        return Constant(x.name, x.array.transpose(order).reshape(shape))
    return x.permute(order).reshape(shape)


def _product_and_sum(
    a: Assembler, names: list[str], operands: Sequence[Operand], output: str, summed: list[str]
) -> Value:
    letters = [*output, *summed]
    sides: list[Operand] = []
    for name, x in zip(names, operands, strict=True):
        order = sorted(range(len(name)), key=lambda i, name=name: letters.index(name[i]))  # type: ignore[misc]
        shape = [x.shape[name.index(n)] if n in name else 1 for n in letters]
        if isinstance(x, Constant):
            sides.append(Constant(x.name, x.array.transpose(order).reshape(shape)))
        else:
            sides.append(x.permute(order).reshape(shape))
    return total(a, multiply(a, *sides), list(range(len(output), len(letters))), keepdim=False)


def concat(a: Assembler, parts: Sequence[Operand], dim: int) -> Value:
    """Put side by side along one dimension: as columns or as rows, as the largest part lies."""
    values = [activation(a, part) for part in parts]
    if len(values) == 1:
        return values[0]
    dim %= len(values[0].shape)
    others = {(*value.shape[:dim], *value.shape[dim + 1 :]) for value in values}
    if len(others) > 1:
        raise UnsupportedError(f"concatenation of {[list(value.shape) for value in values]}")
    if dim < len(values[0].shape) - 1 and all(value.shape[dim] == 1 for value in values):
        return _new_dimension(a, values, dim)
    main = a.solid(max(values, key=lambda value: (not value.is_source, value.shape[dim])))
    rank = len(main.base)
    for axis, kind in ((rank - 1, OpKind.CONCAT), (rank - 2, OpKind.CONCAT_ROWS)):
        if main.dims[dim] == whole(main.base).dims[axis] and main.dims[dim]:
            tensor = a.add_op(kind, *(a.beside(value, main, dim, axis) for value in values))
            return _with_axis(a, main, tensor, dim, axis, sum(value.shape[dim] for value in values))
    return _concat_columns(a, values, dim)


def _with_axis(a: Assembler, main: Value, tensor: str, dim: int, axis: int, size: int) -> Value:
    base = tuple(size if number == axis else old for number, old in enumerate(main.base))
    dims = tuple(whole(base).dims[axis] if number == dim else old for number, old in enumerate(main.dims))
    return replace(main, tensor=tensor, base=base, dims=dims)


def _new_dimension(a: Assembler, values: Sequence[Value], dim: int) -> Value:
    """Join along a dimension in which each part has one element: as groups of columns."""
    shape = values[0].shape
    flat = [value.reshape((*shape[:dim], *shape[dim + 1 :])) for value in values]
    joined = concat(a, flat, -1)
    wide = joined.reshape((*joined.shape[:-1], len(values), shape[-1]))
    rank = len(shape)
    order = [*range(dim), rank - 2, *range(dim, rank - 2), rank - 1]
    return wide.permute(order)


def _concat_columns(a: Assembler, values: Sequence[Value], dim: int) -> Value:
    order = to_last(len(values[0].shape), dim)
    turned = [value.permute(order) for value in values]
    tensor = a.add_op(OpKind.CONCAT, *(a.matrix(value) for value in turned))
    shape = (*turned[0].shape[:-1], sum(value.shape[-1] for value in turned))
    return a.by_rows(a.result(tensor, shape).permute(inverse(order)))
