"""Whatever a user's network does to the order of a tensor, the graph holds the right numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placer.base import InputError
from placer.graph import OpKind
from placer.graph.importing import elementwise, sums
from placer.graph.importing.assembler import Assembler, Constant
from placer.graph.importing.finishing import finish
from placer.graph.importing.views import Atom, Order, UnsupportedError, Value, find_steps, whole

SHAPES = [(1, 6, 8), (4, 6), (2, 3, 8), (1, 2, 6, 4)]
KINDS = ["permute", "reshape", "slice", "select", "scale", "store", "repeat", "gain", "multiply", "join"]
STEPS = st.tuples(st.sampled_from(KINDS),
                  st.integers(0, 2**30))  # fmt: skip


def factorised(total: int, choice: int) -> tuple[int, ...]:
    """Sizes with this product, chosen by a number."""
    sizes = []
    while total > 1 and len(sizes) < 4:
        divisors = [d for d in range(1, total + 1) if total % d == 0]
        sizes.append(divisors[choice % len(divisors)])
        total //= sizes[-1]
        choice //= 7
    return (*sizes, total)


def apply(a: Assembler, x: Value, array: Any, kind: str, choice: int) -> tuple[Value, Any]:
    """One step of a network, on the value and in numpy."""
    rank, dim = len(x.shape), choice % max(len(x.shape), 1)
    if kind == "permute":
        order = np.random.default_rng(choice).permutation(rank).tolist()
        return x.permute(order), array.transpose(order)
    if kind == "reshape":
        shape = factorised(math.prod(x.shape), choice)
        return x.reshape(shape), array.reshape(shape)
    if kind == "scale":
        return elementwise.scale(a, x, 0.5), array * 0.5
    if kind == "gain":
        shape = [size if number == dim else 1 for number, size in enumerate(x.shape)]
        vector = np.arange(math.prod(shape), dtype=float).reshape(shape)
        return elementwise.multiply(a, x, Constant("gain", vector)), array * vector
    if rank < 2 or x.shape[dim] == 1:
        return x, array
    if kind == "repeat":
        return x.repeat(dim, 2), array.repeat(2, axis=dim)
    if kind == "multiply":
        return elementwise.multiply(a, x, x.slice(dim, 0, 1)), array * array.take([0], axis=dim)
    if kind == "join":
        return sums.concat(a, [x, x.slice(dim, 0, 1)], dim), np.concatenate([array, array.take([0], dim)], dim)
    index = choice // rank % x.shape[dim]
    if kind == "slice":
        return x.slice(dim, index, x.shape[dim]), array.take(range(index, x.shape[dim]), axis=dim)
    return x.select(dim, index), array.take(index, axis=dim)


@given(st.sampled_from(SHAPES), st.lists(STEPS, max_size=8), st.booleans())
def test_random_rearrangements_keep_the_numbers(
    shape: tuple[int, ...], steps: list[tuple[str, int]], is_loaded: bool
) -> None:
    a = Assembler()
    x, given_array = a.input(0, shape), np.arange(math.prod(shape), dtype=float).reshape(shape)
    array, expected = given_array, []
    if is_loaded:
        x, array = elementwise.elementwise(a, OpKind.RELU, x), np.maximum(array, 0)
    for kind, choice in [*steps, ("store", 0)]:
        try:
            if kind == "store":
                a.output(x, "y")
                expected.append(array)
            else:
                x, array = apply(a, x, array, kind, choice)
        except UnsupportedError:
            continue  # refused, not wrong
    if expected:
        found = finish(a, "random").run([given_array])
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_heads_are_split_in_one_step_and_merged_in_one() -> None:
    rows, heads, columns = (Atom(0, 1, 6),), (Atom(1, 8, 4),), (Atom(1, 1, 8),)
    matrix, stack = Order((), rows, heads + columns), Order(heads, rows, columns)
    (step,) = find_steps(matrix, stack)
    assert (step.kind, step.heads) == (OpKind.SPLIT_HEADS, 4)
    assert [step.kind for step in find_steps(stack, matrix)] == [OpKind.MERGE_HEADS]


def test_batch_and_heads_become_heads_together() -> None:
    """[batch * rows, heads * d] as [batch * heads, rows, d], through [rows, batch * heads * d]."""
    x = whole((12, 32)).reshape((2, 6, 4, 8)).permute([0, 2, 1, 3])
    start = Order((), x.axis_atoms(0), x.axis_atoms(1))
    steps = find_steps(start, Order((*x.dims[0], *x.dims[1]), x.dims[2], x.dims[3]))
    assert [step.kind.value for step in steps] == [
        "transpose", "split_heads", "transpose", "merge_heads", "split_heads"
    ]  # fmt: skip


def test_rows_cannot_change_places() -> None:
    b, s, c = (Atom(0, 6, 2),), (Atom(0, 1, 6),), (Atom(1, 1, 8),)
    with pytest.raises(UnsupportedError, match="a change of order"):
        find_steps(Order((), b + s, c), Order((), s + b, c))


def test_wrong_reshapes_and_slices_are_refused() -> None:
    with pytest.raises(InputError, match=r"cannot reshape \[2, 3\] to \[5\]"):
        whole((2, 3)).reshape((5,))
    with pytest.raises(UnsupportedError, match="mixes dimensions"):
        whole((2, 3)).permute([1, 0]).reshape((2, 3))
    with pytest.raises(InputError, match="elements 2:4 of a dimension of 3"):
        whole((2, 3)).slice(1, 2, 4)
