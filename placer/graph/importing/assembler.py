"""Collects the dataflow graph of an imported network, one op after the other.

The network's tensors have any rank; those of the graph are matrices or stacks of matrices. A
`Value` is the user's tensor as a view of one of the graph, and the assembler adds the rearranging
ops that a computing op needs in front of it. What lies in DRAM (inputs, constants) can be loaded in
any order, so that a rearranged input costs nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.graph import Op, OpAttributes, OpKind, Shape, output_shape
from placer.graph.importing.network import Loaded
from placer.graph.importing.views import Order, Step, UnsupportedError, Value, find_steps, merged, whole

TRANSPOSE = Step(OpKind.TRANSPOSE)


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor of the user's network that is always the same: a weight, a mask, positions."""

    name: str
    array: NDArray[Any]

    @property
    def shape(self) -> Shape:
        return self.array.shape


class Assembler:
    """Holds the ops, weights and loads so far."""

    def __init__(self) -> None:
        self.ops: dict[str, Op] = {}
        self.weights: dict[str, NDArray[Any]] = {}
        self.loads: dict[str, Loaded] = {}
        self.outputs: dict[str, Shape] = {}
        self._shapes: dict[str, Shape] = {}
        self._sources: dict[str, int | NDArray[Any]] = {}
        self._known: dict[object, str] = {}  # loads and views that exist already

    def input(self, number: int, shape: Shape) -> Value:
        """Make an input of the network."""
        return self._source(f"input{number}" if number else "input", number, shape)

    def constant(self, constant: Constant) -> Value:
        """Make a constant that is read like an input."""
        return self._source(f"constant:{constant.name}", constant.array, constant.shape)

    def _source(self, name: str, source: int | NDArray[Any], shape: Shape) -> Value:
        name = _unused(name, self._sources)
        self._sources[name] = source
        return whole((math.prod(shape),), name).reshape(shape)

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """Keep a weight; returns its name. The same array under the same name is one weight."""
        return self.weight_parts(name, {"": array})

    def weight_parts(self, name: str, parts: Mapping[str, NDArray[Any]]) -> str:
        """Keep weights that are called by a name and a suffix each; returns the name."""
        for number in count(1):
            candidate = name if number == 1 else f"{name}_{number}"
            arrays = {candidate + suffix: array for suffix, array in parts.items()}
            if all(np.array_equal(self.weights.get(k, array), array, equal_nan=True) for k, array in arrays.items()):
                break
        self.weights.update(arrays)
        return candidate

    def add_op(self, kind: OpKind, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add an op; returns the name of its tensor."""
        name = _unused(_plain(name) or kind.value, self.ops)
        op = Op(name, kind, inputs, OpAttributes(**attributes))
        self._shapes[op.name] = output_shape(op, [self._shapes[tensor] for tensor in inputs])
        self.ops[op.name] = op
        return op.name

    def result(self, tensor: str, shape: Shape) -> Value:
        """Return the user's tensor that a tensor of the graph holds row by row."""
        return whole(self._shapes[tensor], tensor).reshape(shape)

    def like(self, tensor: str, value: Value) -> Value:
        """Return a tensor as arranged like another one, but for its columns."""
        base = self._shapes[tensor]
        dims = (*value.dims[:-1], whole(base).dims[-1])
        return replace(value, tensor=tensor, base=base, dims=dims)

    def output(self, value: Value, name: str) -> None:
        """Store an output of the network: its elements lie row by row."""
        x = self.by_rows(value)
        tensor = x.tensor if x == self.result(x.tensor, x.shape) else self.matrix(x)
        self.outputs[self.add_op(OpKind.STORE, tensor, name=name)] = value.shape

    def by_rows(self, value: Value) -> Value:
        """Return the value with its last dimension as the columns of a tensor that it fills."""
        if not value.is_source:
            value = self.filling(value)
            if value.dims and value.dims[-1] == whole(value.base).dims[-1]:
                return value
        return self.result(self.matrix(value), value.shape)

    def matrix(self, value: Value) -> str:
        """Make all dimensions but the last rows, the last columns; heads if nothing else works."""
        dims = value.dims
        columns = merged(dims[-1]) if dims else ()
        rows = merged(atom for dim in dims[:-1] for atom in dim)
        try:
            return self._arranged(value, Order((), rows, columns))
        except UnsupportedError:
            if len(dims) < 3:
                raise
            return self.stack(value)

    def stack(self, value: Value) -> str:
        """Make the last two dimensions rows and columns, the others heads."""
        *leading, rows, columns = (merged(dim) for dim in value.dims)
        heads = merged(atom for dim in leading for atom in dim)
        return self._arranged(value, Order(heads, rows, columns))

    def aligned(self, value: Value, other: Value) -> str:
        """Make a tensor that holds the value arranged as another value of the same shape."""
        sizes, order = arrangement(other)
        return self.tensor(value.reshape(sizes).permute(order).reshape(other.base))

    def tensor(self, value: Value) -> str:
        """Make a tensor with exactly the two or three dimensions of the value."""
        return self.matrix(value) if len(value.shape) == 2 else self.stack(value)

    def filling(self, value: Value) -> Value:
        """Return the value as a view of all of a tensor: what else that holds is cut off."""
        if value.is_source:
            return self.by_rows(value)
        rank = len(value.base)
        for axis in (rank - 1, rank - 2):
            start, stop = value.span(axis)
            if (start, stop) != (0, value.base[axis]):
                cut = Step(OpKind.SLICE, start=start, stop=stop)
                steps = [cut] if axis == rank - 1 else [TRANSPOSE, cut, TRANSPOSE]
                tensor = self._follow(value.tensor, steps)
                value = _narrowed(replace(value, tensor=tensor), axis, stop - start)
        if rank == 3 and value.span(0) != (0, value.base[0]):
            return self._cut_heads(value)
        return value

    def _cut_heads(self, value: Value) -> Value:
        """Take some of the heads: side by side they are columns."""
        (start, stop), columns = value.span(0), value.base[2]
        cut = Step(OpKind.SLICE, start=start * columns, stop=stop * columns)
        steps = [Step(OpKind.MERGE_HEADS), cut]
        if stop - start > 1:
            steps.append(Step(OpKind.SPLIT_HEADS, heads=stop - start))
            value = replace(value, tensor=self._follow(value.tensor, steps))
            return _narrowed(value, 0, stop - start)
        dims = tuple(tuple(replace(a, axis=a.axis - 1) for a in dim) for dim in value.dims)
        return Value(value.base[1:], dims, (0, 0), self._follow(value.tensor, steps))

    def _arranged(self, value: Value, order: Order) -> str:
        if value.is_source:
            return self._load(value, order)
        value = self.filling(value)
        axes = [value.axis_atoms(axis) for axis in range(len(value.base))]
        start = Order(*axes) if len(axes) == 3 else Order((), *axes)
        return self._follow(value.tensor, find_steps(start, order))

    def _follow(self, tensor: str, steps: list[Step]) -> str:
        for step in steps:
            key = (tensor, step)
            if key not in self._known:
                self._known[key] = self.add_op(
                    step.kind, tensor, name=f"{tensor}_{step}", heads=step.heads,
                    start=step.start, stop=step.stop,
                )  # fmt: skip
            tensor = self._known[key]
        return tensor

    def _load(self, value: Value, order: Order) -> str:
        key = (value.tensor, value.offsets, order)
        if key not in self._known:
            dims = order if order.heads else (order.rows, order.columns)
            value = replace(value, dims=tuple(dims))
            name = value.tensor.removeprefix("constant:")
            self._known[key] = self.add_op(OpKind.LOAD, name=name, shape=value.shape)
            self.loads[self._known[key]] = Loaded(self._sources[value.tensor], value)
        return self._known[key]

    def gather(self, table: str, array: NDArray[Any], indices: Value, name: str) -> str:
        """Gather rows of a table at the indices, which are an input of the network."""
        if not indices.is_source:
            raise UnsupportedError("indices that are computed; they must be an input")
        rows, columns = math.prod(indices.shape), array.shape[1]
        tensor = self.add_op(
            OpKind.EMBEDDING, name=name, shape=(rows, columns), weight=self.weight(table, array),
            table_rows=len(array),
        )  # fmt: skip
        self.loads[tensor] = Loaded(self._sources[indices.tensor], indices.reshape((rows,)))
        return tensor


def arrangement(value: Value) -> tuple[list[int], list[int]]:
    """Say how the user's tensor becomes the base that it fills: reshape, permute, reshape."""
    atoms = value.atoms
    order = sorted(range(len(atoms)), key=lambda i: (atoms[i].axis, -atoms[i].stride))
    return [atom.size for atom in atoms], order


def _narrowed(value: Value, axis: int, size: int) -> Value:
    """Return the value after the rest of an axis of its base was cut off."""
    base, offsets = list(value.base), list(value.offsets)
    base[axis], offsets[axis] = size, 0
    return replace(value, base=tuple(base), offsets=tuple(offsets))


def _plain(name: str) -> str:
    """Return a name for an op without dots: lowering puts suffixes behind one."""
    return re.sub(r"\W+", "_", name).strip("_")


def _unused(name: str, used: Container[str]) -> str:
    if name not in used:
        return name
    return next(new for n in count(2) if (new := f"{name}_{n}") not in used)
