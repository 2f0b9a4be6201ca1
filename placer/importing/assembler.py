"""Collects the dataflow graph of an imported network, one op after the other.

The network's tensors have any rank; those of the graph are matrices or stacks of matrices. A
`Value` is the user's tensor as a view of one of the graph, and the assembler adds the rearranging
ops that a computing op needs in front of it. What lies in DRAM (inputs, constants) can be loaded in
any order, so that a rearranged input costs nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.importing.arranging import Order, Step, find_steps
from placer.importing.network import Loaded
from placer.importing.views import Atom, UnsupportedError, View, merged, whole
from placer.ops import Op, OpAttributes, OpKind, Shape, output_shape

TRANSPOSE = Step(OpKind.TRANSPOSE)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the user's network that depends on its input."""

    tensor: str  # name of the op that makes it; of an input or constant in DRAM, see is_source
    view: View

    @property
    def shape(self) -> Shape:
        return self.view.shape

    @property
    def is_source(self) -> bool:
        """Lies in DRAM and is not loaded yet."""
        return len(self.view.base) == 1

    def reshape(self, shape: Sequence[int]) -> Value:
        return replace(self, view=self.view.reshape(shape))

    def permute(self, order: Sequence[int]) -> Value:
        return replace(self, view=self.view.permute(order))


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor of the user's network that is always the same: a weight, a mask, positions."""

    name: str
    array: NDArray[Any]

    @property
    def shape(self) -> Shape:
        return self.array.shape


class Assembler:
    """Ops, weights and loads so far."""

    def __init__(self) -> None:
        self.ops: dict[str, Op] = {}
        self.weights: dict[str, NDArray[Any]] = {}
        self.loads: dict[str, Loaded] = {}
        self.outputs: dict[str, Shape] = {}
        self._shapes: dict[str, Shape] = {}
        self._sources: dict[str, int | NDArray[Any]] = {}
        self._known: dict[object, str] = {}  # loads and views that exist already

    def input(self, number: int, shape: Shape) -> Value:
        """An input of the network."""
        return self._source(f"input{number}" if number else "input", number, shape)

    def constant(self, constant: Constant) -> Value:
        """A constant that is read like an input."""
        return self._source(f"constant:{constant.name}", constant.array, constant.shape)

    def _source(self, name: str, source: int | NDArray[Any], shape: Shape) -> Value:
        name = _unused(name, self._sources)
        self._sources[name] = source
        return Value(name, whole((math.prod(shape),)).reshape(shape))

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """Name under which a weight is kept; the same array under the same name is one weight."""
        return self.weight_parts(name, {"": array})

    def weight_parts(self, name: str, parts: Mapping[str, NDArray[Any]]) -> str:
        """Name under which weights are kept that are called by it and a suffix."""
        for number in count(1):
            candidate = name if number == 1 else f"{name}_{number}"
            arrays = {candidate + suffix: array for suffix, array in parts.items()}
            if all(
                np.array_equal(self.weights.get(k, array), array, equal_nan=True)
                for k, array in arrays.items()
            ):
                break
        self.weights.update(arrays)
        return candidate

    def add_op(
        self,
        kind: OpKind,
        *inputs: str,
        name: str = "",
        attributes: OpAttributes | None = None,
    ) -> str:
        """A new op; returns the name of its tensor."""
        op = Op(
            _unused(_plain(name) or kind.value, self.ops),
            kind,
            inputs,
            attributes or OpAttributes(),
        )
        self._shapes[op.name] = output_shape(op, [self._shapes[tensor] for tensor in inputs])
        self.ops[op.name] = op
        return op.name

    def result(self, tensor: str, shape: Shape) -> Value:
        """The user's tensor that a tensor of the graph holds row by row."""
        return Value(tensor, whole(self._shapes[tensor]).reshape(shape))

    def like(self, tensor: str, value: Value) -> Value:
        """A tensor that is arranged as another one, but for its columns."""
        view, shape = value.view, self._shapes[tensor]
        columns = (Atom(len(shape) - 1, 1, shape[-1]),) if shape[-1] > 1 else ()
        return Value(tensor, replace(view, base=shape, dims=(*view.dims[:-1], columns)))

    def output(self, value: Value, name: str) -> None:
        """An output of the network: its elements are stored row by row."""
        x = self.by_rows(value)
        is_in_order = x.view == whole(x.view.base).reshape(x.shape)
        tensor = x.tensor if is_in_order else self.matrix(x)
        self.outputs[self.add_op(OpKind.STORE, tensor, name=name)] = value.shape

    def by_rows(self, value: Value) -> Value:
        """The value with its last dimension as the columns of a tensor that it fills."""
        if value.is_source:
            return self.result(self.matrix(value), value.shape)
        value = self.filling(value)
        axis = len(value.view.base) - 1
        if value.view.dims and value.view.dims[-1] == whole(value.view.base).dims[axis]:
            return value
        return self.result(self.matrix(value), value.shape)

    def matrix(self, value: Value) -> str:
        """All dimensions but the last as rows, the last as columns; heads if nothing else works."""
        dims = value.view.dims
        columns = merged(dims[-1]) if dims else ()
        rows = merged(atom for dim in dims[:-1] for atom in dim)
        try:
            return self._arranged(value, Order((), rows, columns))
        except UnsupportedError:
            if len(dims) < 3:
                raise
            return self.stack(value)

    def stack(self, value: Value) -> str:
        """The last two dimensions as rows and columns, the others as heads."""
        *leading, rows, columns = (merged(dim) for dim in value.view.dims)
        heads = merged(atom for dim in leading for atom in dim)
        return self._arranged(value, Order(heads, rows, columns))

    def aligned(self, value: Value, other: Value) -> str:
        """A tensor that holds the value in the arrangement of another value of the same shape."""
        sizes, order = arrangement(other.view)
        return self.tensor(value.reshape(sizes).permute(order).reshape(other.view.base))

    def tensor(self, value: Value) -> str:
        """A tensor with exactly the two or three dimensions of the value."""
        return self.matrix(value) if len(value.shape) == 2 else self.stack(value)

    def filling(self, value: Value) -> Value:
        """The value as a view of all of a tensor: what else that holds is cut off."""
        if value.is_source:
            return self.by_rows(value)
        view, tensor = value.view, value.tensor
        rank = len(view.base)
        for axis in (rank - 1, rank - 2):
            start, stop = view.span(axis)
            if (start, stop) != (0, view.base[axis]):
                tensor = self._cut(tensor, axis == rank - 1, start, stop)
                view = _narrowed(view, axis, stop - start)
        if rank == 3 and view.span(0) != (0, view.base[0]):
            return self._cut_heads(tensor, view)
        return Value(tensor, view)

    def _cut(self, tensor: str, along_columns: bool, start: int, stop: int) -> str:
        cut = Step(OpKind.SLICE, OpAttributes(start=start, stop=stop))
        steps = [cut] if along_columns else [TRANSPOSE, cut, TRANSPOSE]
        return self._follow(tensor, steps)

    def _cut_heads(self, tensor: str, view: View) -> Value:
        """Some of the heads: side by side they are columns."""
        (start, stop), columns = view.span(0), view.base[2]
        cut = OpAttributes(start=start * columns, stop=stop * columns)
        steps = [Step(OpKind.MERGE_HEADS), Step(OpKind.SLICE, cut)]
        if stop - start > 1:
            heads = OpAttributes(heads=stop - start)
            tensor = self._follow(tensor, [*steps, Step(OpKind.SPLIT_HEADS, heads)])
            return Value(tensor, _narrowed(view, 0, stop - start))
        tensor = self._follow(tensor, steps)
        dims = tuple(tuple(replace(a, axis=a.axis - 1) for a in dim) for dim in view.dims)
        return Value(tensor, View(view.base[1:], dims, (0, 0)))

    def _arranged(self, value: Value, order: Order) -> str:
        if value.is_source:
            return self._load(value, order)
        value = self.filling(value)
        view = value.view
        axes = [view.axis_atoms(axis) for axis in range(len(view.base))]
        start = Order(*axes) if len(axes) == 3 else Order((), *axes)
        return self._follow(value.tensor, find_steps(start, order))

    def _follow(self, tensor: str, steps: list[Step]) -> str:
        for step in steps:
            key = (tensor, step)
            if key not in self._known:
                self._known[key] = self.add_op(
                    step.kind, tensor, name=f"{tensor}_{step}", attributes=step.attributes
                )
            tensor = self._known[key]
        return tensor

    def _load(self, value: Value, order: Order) -> str:
        key = (value.tensor, value.view.offsets, order)
        if key not in self._known:
            dims = order if order.heads else (order.rows, order.columns)
            view = View(value.view.base, tuple(dims), value.view.offsets)
            attributes = OpAttributes(shape=view.shape)
            name = value.tensor.removeprefix("constant:")
            self._known[key] = self.add_op(OpKind.LOAD, name=name, attributes=attributes)
            self.loads[self._known[key]] = Loaded(self._sources[value.tensor], view)
        return self._known[key]

    def gather(self, table: str, array: NDArray[Any], indices: Value, name: str) -> str:
        """Rows of a table at the indices, which are an input of the network."""
        if not indices.is_source:
            raise UnsupportedError("indices that are computed; they must be an input")
        rows, columns = math.prod(indices.shape), array.shape[1]
        weight = self.weight(table, array)
        attributes = OpAttributes(shape=(rows, columns), weight=weight, table_rows=len(array))
        tensor = self.add_op(OpKind.EMBEDDING, name=name, attributes=attributes)
        self.loads[tensor] = Loaded(self._sources[indices.tensor], indices.view.reshape((rows,)))
        return tensor


def arrangement(view: View) -> tuple[list[int], list[int]]:
    """How the user's tensor becomes the base that it fills: reshape to sizes, permute, reshape."""
    atoms = view.atoms
    order = sorted(range(len(atoms)), key=lambda i: (atoms[i].axis, -atoms[i].stride))
    return [atom.size for atom in atoms], order


def _narrowed(view: View, axis: int, size: int) -> View:
    """The view after the rest of an axis was cut off."""
    base, offsets = list(view.base), list(view.offsets)
    base[axis], offsets[axis] = size, 0
    return replace(view, base=tuple(base), offsets=tuple(offsets))


def _plain(name: str) -> str:
    """A name for an op: lowering puts suffixes behind a dot."""
    return re.sub(r"\W+", "_", name).strip("_")


def _unused(name: str, used: Container[str]) -> str:
    if name not in used:
        return name
    return next(new for n in count(2) if (new := f"{name}_{n}") not in used)
