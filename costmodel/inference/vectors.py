"""Rows of numbers in compiled code: sixteen at once, and products with a matrix.

numba vectorises long loops; rows of a network are 32 or 48 numbers, too short for that. Here a
`Vector` is a type of its own that stands for a register: `load` and `store` move part `part` (16
columns) of a row of a 2-D float32 array, the others work on it. Rows are padded to full parts with
zeros. Machines with shorter registers split vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

from placer.base import IntArray, SingleArray, hot_loop

Vector = Any  # in compiled code

# numba's stubs take what a function emits for what it does.
_emitted: Callable[[Callable[..., Any]], Callable[..., Any]] = intrinsic

PART = 16  # numbers in a vector
_ALIGNMENT = 64  # bytes: a vector must not lie in two cache lines
_FLOAT, _LONG = ir.FloatType(), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, PART)
# Rows that `dense` works on at once. Their sums must stay in registers: there are 32 of full length
# with AVX-512, and without it 16 of half the length.
_AT_ONCE = 8 if binding.get_host_cpu_features().get("avx512f") else 2


class _VectorType(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"Vector({PART})")


_vector = _VectorType()


@register_model(_VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def padded(width: int) -> int:
    """Return the number of columns of rows that hold `width` numbers."""
    return -(-width // PART) * PART


def aligned_zeros(*shape: int) -> SingleArray:
    """Return zeros, with the first number of every row at the start of a cache line."""
    size = int(np.prod(shape))
    room = np.zeros(size + _ALIGNMENT // 4, np.float32)
    first = -room.ctypes.data % _ALIGNMENT // 4
    return room[first : first + size].reshape(shape)


def _entry(context: Any, builder: Any, kind: Any, array: Any, row: Any, column: Any) -> Any:
    """Return a pointer to array[row, column] of a 2-D array, or array[column] of a 1-D one."""
    parts = context.make_array(kind)(context, builder, array)
    size = ir.Constant(_LONG, 4)
    offset = builder.mul(column, size)
    if kind.ndim == 2:
        stride = builder.extract_value(parts.strides, 0)
        offset = builder.add(offset, builder.mul(row, stride))
    first = builder.bitcast(parts.data, ir.IntType(8).as_pointer())
    return builder.gep(first, [offset])


def _part(context: Any, builder: Any, kind: Any, array: Any, row: Any, part: Any) -> Any:
    column = builder.mul(part, ir.Constant(_LONG, PART))
    pointer = _entry(context, builder, kind, array, row, column)
    return builder.bitcast(pointer, _VECTOR.as_pointer())


def _splat(builder: Any, number: Any) -> Any:
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), PART), [0] * PART)
    return builder.shuffle_vector(first, first, zeros)


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{PART}f32")
    return builder.call(function, [a, b, c])


@_emitted
def load(typing: Any, array: Any, row: Any, part: Any) -> Any:
    """Return part `part` of a row."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_part(context, builder, array, *arguments), align=4)

    return _vector(array, types.int64, types.int64), emit


@_emitted
def store(typing: Any, array: Any, row: Any, part: Any, value: Any) -> Any:
    """Put a vector into part `part` of a row."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *place, new = arguments
        builder.store(new, _part(context, builder, array, *place), align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, _vector), emit


@_emitted
def splat(typing: Any, number: Any) -> Any:
    """Return a vector of equal numbers."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _splat(builder, arguments[0])

    return _vector(types.float32), emit


@_emitted
def add(typing: Any, a: Any, b: Any) -> Any:
    """Return a + b."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return _vector(_vector, _vector), emit


@_emitted
def multiply_add(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _fma(builder, *arguments)

    return _vector(_vector, _vector, _vector), emit


@_emitted
def larger(typing: Any, a: Any, b: Any) -> Any:
    """Return a where a > b, else b; NaN in b stays."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return _vector(_vector, _vector), emit


@_emitted
def total(typing: Any, a: Any) -> Any:
    """Return the sum of the numbers of a vector."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR])
        name = f"llvm.vector.reduce.fadd.v{PART}f32"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        zero = ir.Constant(_FLOAT, 0.0)
        return builder.call(function, [zero, *arguments], fastmath=("reassoc",))

    return types.float32(_vector), emit


def _block_product(num_parts: int) -> Callable[..., None]:
    """Return a product that keeps `num_parts` parts of the sums of `_AT_ONCE` rows in registers."""

    @_emitted
    def product(
        typing: Any, x: Any, x_ids: Any, w: Any, bias: Any, y: Any, y_ids: Any, row: Any, last: Any,
        part: Any,
    ) -> Any:  # fmt: skip
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x_, x_ids_, w_, bias_, y_, y_ids_, row_, last_, part_ = arguments

            def id_of(kind: Any, ids: Any, number: int) -> Any:
                place = builder.add(row_, ir.Constant(_LONG, number))
                place = builder.select(builder.icmp_signed("<", place, last_), place, last_)
                pointer = _entry(context, builder, kind, ids, None, place)
                pointer = builder.bitcast(pointer, ir.IntType(32).as_pointer())
                return builder.sext(builder.load(pointer), _LONG)

            parts = [builder.add(part_, ir.Constant(_LONG, p)) for p in range(num_parts)]
            first = [builder.load(_part(context, builder, bias, bias_, None, p), align=4) for p in parts]
            sums = [[cgutils.alloca_once_value(builder, f) for f in first] for _ in range(_AT_ONCE)]
            x_rows = [id_of(x_ids, x_ids_, number) for number in range(_AT_ONCE)]
            depth = builder.extract_value(context.make_array(w)(context, builder, w_).shape, 0)
            with cgutils.for_range(builder, depth) as loop:
                weights = [builder.load(_part(context, builder, w, w_, loop.index, p), align=4) for p in parts]
                for x_row, row_sums in zip(x_rows, sums, strict=True):
                    pointer = _entry(context, builder, x, x_, x_row, loop.index)
                    pointer = builder.bitcast(pointer, _FLOAT.as_pointer())
                    number = _splat(builder, builder.load(pointer))
                    for place, weight in zip(row_sums, weights, strict=True):
                        builder.store(_fma(builder, number, weight, builder.load(place)), place)
            for number, row_sums in enumerate(sums):
                y_row = id_of(y_ids, y_ids_, number)
                for p, place in zip(parts, row_sums, strict=True):
                    pointer = _part(context, builder, y, y_, y_row, p)
                    builder.store(builder.load(place), pointer, align=4)
            return context.get_dummy_value()

        long = types.int64
        return types.void(x, x_ids, w, bias, y, y_ids, long, long, long), emit

    return product


_one_part, _two_parts, _three_parts = (_block_product(number) for number in (1, 2, 3))


@hot_loop
def dense(
    x: SingleArray, x_ids: IntArray, w: SingleArray, bias: SingleArray, y: SingleArray, y_ids: IntArray, num_rows: int
) -> None:
    """Set y[y_ids[i]] to bias + x[x_ids[i]] @ w for i below `num_rows`.

    A last block that is not full works on its last row several times.
    """
    part, num_parts = 0, w.shape[1] // PART
    while part < num_parts:
        left = num_parts - part
        if left % 3 == 0:
            for row in range(0, num_rows, _AT_ONCE):
                _three_parts(x, x_ids, w, bias, y, y_ids, row, num_rows - 1, part)
            part += 3
        elif left % 2 == 0:
            for row in range(0, num_rows, _AT_ONCE):
                _two_parts(x, x_ids, w, bias, y, y_ids, row, num_rows - 1, part)
            part += 2
        else:
            for row in range(0, num_rows, _AT_ONCE):
                _one_part(x, x_ids, w, bias, y, y_ids, row, num_rows - 1, part)
            part += 1
