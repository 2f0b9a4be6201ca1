"""What works on each number alone: sums, products and activations, with constants and with tensors.

A constant that is the same for all rows becomes a bias or a gain, a single number a scale, any other
constant a tensor that is read from DRAM.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.graph import OpKind
from placer.graph.importing.assembler import Assembler, Constant, arrangement
from placer.graph.importing.views import UnsupportedError, Value, is_repeat

Operand = Value | Constant


def activation(a: Assembler, operand: Operand) -> Value:
    """Return an operand as a value: a constant is read from DRAM."""
    return operand if isinstance(operand, Value) else a.constant(operand)


def elementwise(a: Assembler, kind: OpKind, x: Value, **attributes: Any) -> Value:
    """Add an op with one input that works on each number alone: the order does not matter."""
    x = a.filling(x)
    return replace(x, tensor=a.add_op(kind, x.tensor, **attributes))


def scale(a: Assembler, x: Value, factor: float) -> Value:
    """Multiply by a number."""
    return x if factor == 1 else elementwise(a, OpKind.SCALE, x, factor=factor)


def add(a: Assembler, left: Operand, right: Operand) -> Value:
    """Add; a constant that is the same for all rows becomes a bias, others are read from DRAM."""
    if isinstance(left, Constant) or (isinstance(right, Value) and left.is_source):
        left, right = right, left
    assert isinstance(left, Value)
    if isinstance(right, Constant):
        return _add_constant(a, left, right)
    if right.shape != left.shape:
        sizes = " and ".join(str(list(v.shape)) for v in (left, right))
        raise UnsupportedError(f"a sum of computed tensors of different shapes {sizes}")
    x = a.solid(left)
    try:
        return replace(x, tensor=a.add_op(OpKind.ADD, x.tensor, a.aligned(right, x)))
    except UnsupportedError:
        y = a.solid(right)
        return replace(y, tensor=a.add_op(OpKind.ADD, a.aligned(x, y), y.tensor))


def _add_constant(a: Assembler, x: Value, constant: Constant) -> Value:
    small = _compressed(constant)
    if small.size == 1 and float(small.reshape(())) == 0 and not constant.is_parameter:
        return x.expand(_common_shape(x, constant))
    x, y = _beside_constant(a, x, constant, small)
    if (vector := _vector(a, y)) is not None:
        return _with_vector(a, OpKind.BIAS, x, constant, vector)
    return replace(x, tensor=a.add_op(OpKind.ADD, x.tensor, a.tensor(y)))


def multiply(a: Assembler, left: Operand, right: Operand) -> Value:
    """Multiply element by element; one side may have one number for many of the other."""
    if isinstance(left, Constant):
        left, right = right, left
    assert isinstance(left, Value)
    if isinstance(right, Constant):
        return _multiply_constant(a, left, right)
    shape = np.broadcast_shapes(left.shape, right.shape)
    x, y = left.expand(shape), right.expand(shape)
    if x.is_repeated and not y.is_repeated:
        x, y = y, x
    x = _apart(a, a.solid(x), y)
    factor = a.along(y, x)
    if factor.dims[-2] and is_repeat(factor.dims[-2]) and not is_repeat(factor.dims[-1]):
        x = a.transposed(x)  # one factor per column is one per row of the transpose
        factor = a.along(y, x)
    return replace(x, tensor=a.add_op(OpKind.MULTIPLY, x.tensor, a.factor(factor)))


def _multiply_constant(a: Assembler, x: Value, constant: Constant) -> Value:
    small = _compressed(constant)
    if small.size == 1:
        return scale(a, x.expand(_common_shape(x, constant)), float(small.reshape(())))
    x, y = _beside_constant(a, x, constant, small)
    if (vector := _vector(a, y)) is not None:
        return _with_vector(a, OpKind.GAIN, x, constant, vector)
    x = _apart(a, x, a.constant(Constant(constant.name, small)).expand(x.shape))
    y = a.along(a.constant(Constant(constant.name, small)).expand(x.shape), x)
    return replace(x, tensor=a.add_op(OpKind.MULTIPLY, x.tensor, a.factor(y)))


def divide(a: Assembler, x: Operand, y: Operand) -> Value:
    """Divide by a constant."""
    if not isinstance(x, Value) or not isinstance(y, Constant) or not y.array.all():
        raise UnsupportedError("a quotient of two tensors")
    return multiply(a, x, Constant(f"1/{y.name}", 1 / y.array))


def power(a: Assembler, x: Value, exponent: Operand | float) -> Value:
    """Raise to the power 1, 2 or 3, by products."""
    number = float(exponent.array.reshape(())) if isinstance(exponent, Constant) else exponent
    if number not in (1, 2, 3):
        raise UnsupportedError(f"the power {number}; supported: 1, 2, 3")
    y = x
    for _ in range(int(number) - 1):
        y = multiply(a, y, x)
    return y


def _common_shape(x: Value, constant: Constant) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(x.shape, constant.shape)
    except ValueError as error:
        raise UnsupportedError(f"a tensor {list(x.shape)} and a constant {list(constant.shape)}") from error


def _compressed(constant: Constant) -> NDArray[Any]:
    """Return a constant with size 1 where it is the same along a dimension; vectors as they are."""
    array = constant.array
    if constant.is_parameter or sum(size > 1 for size in array.shape) == 1:
        return array
    for axis, size in enumerate(array.shape):
        first = array.take([0], axis=axis)
        if size > 1 and bool((array == first).all()):
            array = first
    return array


def _beside_constant(a: Assembler, x: Value, constant: Constant, small: NDArray[Any]) -> tuple[Value, Value]:
    """Return x as all of a tensor, and the constant with the dimensions of that tensor."""
    x = x.expand(_common_shape(x, constant))
    rank = len(x.shape)
    varying = [dim + rank - small.ndim for dim, size in enumerate(small.shape) if size > 1]
    if x.is_source and len(varying) == 1:  # load it with this dimension as columns
        order = [*(dim for dim in range(rank) if dim != varying[0]), varying[0]]
        x = a.by_rows(x.permute(order)).permute(sorted(range(rank), key=lambda i: order[i]))
    x = a.solid(x)
    return x, a.along(a.constant(Constant(constant.name, small)).expand(x.shape), x)


def _vector(a: Assembler, y: Value) -> NDArray[Any] | None:
    """Return the numbers of a constant, one for each column, if it is the same for all rows."""
    if not all(is_repeat(dim) for dim in y.dims[:-1]):
        return None
    return a.numbers(replace(y, dims=y.dims[-1:]))


def _with_vector(a: Assembler, kind: OpKind, x: Value, constant: Constant, vector: NDArray[Any]) -> Value:
    is_same = np.array_equal(constant.array, vector)
    weight = a.weight(constant.name if is_same else f"{constant.name}.row", vector)
    return replace(x, tensor=a.add_op(kind, x.tensor, name=constant.name, weight=weight))


def _apart(a: Assembler, x: Value, y: Value) -> Value:
    """Split the columns of x into heads where y has one number for many of them."""
    if len(x.base) != 2:
        return x
    sizes, order = arrangement(x.atoms)
    atoms = [x.atoms[i] for i in order]
    flags = [is_repeat(dim) for dim in y.reshape(sizes).permute(order).dims]
    inner = [(atom, flag) for atom, flag in zip(atoms, flags, strict=True) if atom.axis == 1]
    kept = 0
    while kept < len(inner) and inner[-1 - kept][1] == inner[-1][1]:
        kept += 1
    if kept == len(inner):
        return x
    return a.split_columns(x, math.prod(atom.size for atom, _ in inner[len(inner) - kept :]))
