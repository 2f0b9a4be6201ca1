"""Collects the dataflow graph of an imported network, one op after the other.

The network's tensors have any rank; those of the graph are matrices or stacks of matrices. A
`Value` is the user's tensor as a view of one of the graph, and the assembler adds the rearranging
ops that a computing op needs in front of it. What lies in DRAM (inputs, constants) can be read in
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

from placer.base import InputError
from placer.graph import Op, OpAttributes, OpKind, Shape, output_shape
from placer.graph.importing.network import Loaded
from placer.graph.importing.views import (
    Atom,
    Atoms,
    Order,
    OrderError,
    Step,
    UnsupportedError,
    Value,
    find_steps,
    is_repeat,
    merged,
    whole,
)

TRANSPOSE = Step(OpKind.TRANSPOSE)
MAX_CONSTANTS = 2**27  # numbers in all constants that are computed or rearranged


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor of the user's network that is always the same: a weight, a mask, positions."""

    name: str
    array: NDArray[Any]
    is_parameter: bool = False  # learned: that it is all zeros now means nothing

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
        self._images: dict[str, Shape] = {}  # sources [1, C, H, W], by name
        self._constants: dict[str, list[str]] = {}  # sources that are constants, by the user's name
        self._known: dict[object, str] = {}  # loads and views that exist already
        self._numbers = 0  # in constants that were computed or rearranged

    def input(self, number: int, shape: Shape) -> Value:
        """Make an input of the network."""
        value = self._source(f"input{number}" if number else "input", number, shape)
        if len(shape) == 4 and shape[0] == 1:
            self._images[value.tensor] = shape
        return value

    def constant(self, constant: Constant) -> Value:
        """Make a constant that is read like an input; the same one is made only once."""
        for name in self._constants.get(constant.name, ()):
            if np.array_equal(self._sources[name], constant.array):
                return whole((constant.array.size,), name).reshape(constant.shape)
        value = self._source(f"constant:{constant.name}", constant.array, constant.shape)
        self._constants.setdefault(constant.name, []).append(value.tensor)
        return value

    def _source(self, name: str, source: int | NDArray[Any], shape: Shape) -> Value:
        name = _unused(name, self._sources)
        self._sources[name] = source
        return whole((math.prod(shape),), name).reshape(shape)

    def reserve(self, numbers: int) -> None:
        """Count the numbers of a constant before it is made; UnsupportedError if they are too many."""
        self._numbers += numbers
        if self._numbers > MAX_CONSTANTS:
            raise UnsupportedError(f"constants of more than {MAX_CONSTANTS} numbers")

    def numbers(self, value: Value) -> NDArray[Any]:
        """Return the numbers of a constant as its view shows them."""
        source = self._sources[value.tensor]
        assert not isinstance(source, int)
        self.reserve(math.prod(value.shape))
        return np.asarray(source).reshape(-1)[value.indices()]

    def is_constant(self, value: Value) -> bool:
        """Say whether it is a constant in DRAM."""
        return value.is_source and not isinstance(self._sources[value.tensor], int)

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
        try:
            op = Op(name, kind, inputs, OpAttributes(**attributes))
            self._shapes[op.name] = output_shape(op, [self._shapes[tensor] for tensor in inputs])
        except InputError as error:
            raise UnsupportedError(str(error)) from error
        self.ops[op.name] = op
        return op.name

    def once(self, kind: OpKind, tensor: str, **attributes: Any) -> str:
        """Add an op with one input, or return the one that is there already."""
        key = (kind, tensor, *attributes.items())
        if key not in self._known:
            self._known[key] = self.add_op(kind, tensor, **attributes)
        return self._known[key]

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
        self.outputs[self.add_op(OpKind.STORE, self._row_by_row(value), name=name)] = value.shape

    def _row_by_row(self, value: Value) -> str:
        """Make a tensor whose elements lie as the user counts them, with as long columns as need be."""
        try:
            x = self.by_rows(value)
            is_whole = not x.is_repeated and x == self.result(x.tensor, x.shape)
            return x.tensor if is_whole else self.matrix(x)
        except OrderError:
            shape = value.shape
            for cut in range(len(shape) - 2, 0, -1):
                try:
                    return self.matrix(value.reshape((math.prod(shape[:cut]), math.prod(shape[cut:]))))
                except OrderError:
                    continue
            raise

    def by_rows(self, value: Value) -> Value:
        """Return the value with its last dimension as the columns of a tensor that it fills."""
        if not value.is_source:
            value = self.filling(value)
            if value.dims and value.dims[-1] == whole(value.base).dims[-1]:
                return value
            if len(value.base) == 2 and value.dims and value.dims[-1] == _columns(value.shape[-1]):
                return self.split_columns(value, value.shape[-1])
        return self.result(self.matrix(value), value.shape)

    def matrix(self, value: Value) -> str:
        """Make all dimensions but the last rows, the last columns; heads if nothing else works."""
        value = value if value.is_source else self.filling(value)
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
        value = value if value.is_source else self.filling(value)
        *leading, rows, columns = (merged(dim) for dim in value.dims)
        heads = merged(atom for dim in leading for atom in dim)
        return self._arranged(value, Order(heads, rows, columns))

    def along(self, value: Value, other: Value) -> Value:
        """Return the value with the dimensions of the base that another value of its shape fills."""
        sizes, order = arrangement(other.atoms)
        return value.reshape(sizes).permute(order).reshape(other.base)

    def aligned(self, value: Value, other: Value) -> str:
        """Make a tensor that holds the value arranged as another value of the same shape."""
        return self.tensor(self.along(value, other))

    def beside(self, value: Value, other: Value, dim: int, axis: int) -> str:
        """Make a tensor as another value that has the same shape but for `dim`, all of an axis."""
        size = value.shape[dim]
        dims = [(Atom(axis, 1, size),) if d == dim else atoms for d, atoms in enumerate(other.dims)]
        sizes, order = arrangement(tuple(atom for atoms in dims for atom in atoms))
        base = tuple(size if a == axis else n for a, n in enumerate(other.base))
        return self.tensor(value.reshape(sizes).permute(order).reshape(base))

    def tensor(self, value: Value) -> str:
        """Make a tensor with exactly the two or three dimensions of the value."""
        return self.matrix(value) if len(value.shape) == 2 else self.stack(value)

    def factor(self, value: Value) -> str:
        """Make the second operand of a product from a value with the dimensions of the first.

        What is the same for all columns is one column, what is the same for all heads one matrix.
        """
        if value.dims[-1] and is_repeat(value.dims[-1]):
            value = replace(value, dims=(*value.dims[:-1], ()))
        elif len(value.dims) == 3 and is_repeat(value.dims[0]):
            value = replace(value, dims=value.dims[1:])
        return self.tensor(value)

    def solid(self, value: Value) -> Value:
        """Return the value as a view of all of a tensor, each number of which it sees once."""
        value = self.filling(value)
        if not value.is_repeated:
            return value
        tensor = self.stack(value) if len(value.shape) > 2 else self.matrix(value)
        return self.result(tensor, value.shape)

    def filling(self, value: Value) -> Value:
        """Return the value as a view of all of a tensor: what else that holds is cut off."""
        if value.is_source:
            is_image = self._images.get(value.tensor) == value.shape
            return self._image(value) if is_image else self.by_rows(value)
        if len(value.base) == 2 and (width := _gap(value.axis_atoms(1))):
            value = self.split_columns(value, width)
        rank = len(value.base)
        for axis, kind in ((rank - 1, OpKind.SLICE), (rank - 2, OpKind.SLICE_ROWS)):
            start, stop = value.span(axis)
            if (start, stop) != (0, value.base[axis]):
                tensor = self._follow(value.tensor, [Step(kind, start=start, stop=stop)])
                value = _narrowed(replace(value, tensor=tensor), axis, stop - start)
        if rank == 3 and value.span(0) != (0, value.base[0]):
            return self._cut_heads(value)
        return value

    def _image(self, value: Value) -> Value:
        """Load an image [1, C, H, W] with its pixels as rows and its channels as columns."""
        return self.by_rows(value.permute([0, 2, 3, 1])).permute([0, 3, 1, 2])

    def transposed(self, value: Value) -> Value:
        """Return a value that fills a tensor as a view of the transpose of that tensor."""
        last = len(value.base) - 1
        swap = {last: last - 1, last - 1: last}
        base = (*value.base[:-2], value.base[-1], value.base[-2])
        dims = tuple(tuple(replace(a, axis=swap.get(a.axis, a.axis)) for a in dim) for dim in value.dims)
        return replace(value, base=base, dims=dims, tensor=self._follow(value.tensor, [TRANSPOSE]))

    def split_columns(self, value: Value, width: int) -> Value:
        """Return the value as a view of heads that are `width` columns each of a matrix."""
        rows, columns = value.base
        offset = value.offsets[1]
        dims = tuple(tuple(a for atom in dim for a in _in_heads(atom, width)) for dim in value.dims)
        last = offset % width + sum((a.size - 1) * a.stride for dim in dims for a in dim if a.axis == 2)
        if columns % width or last >= width:
            raise UnsupportedError(f"parts of {width} columns of a matrix with {columns}")
        tensor = self._follow(value.tensor, [Step(OpKind.SPLIT_HEADS, heads=columns // width)])
        offsets = (offset // width, value.offsets[0], offset % width)
        return Value((columns // width, rows, width), dims, offsets, tensor)

    def _cut_heads(self, value: Value) -> Value:
        """Take some of the heads: side by side they are columns."""
        (start, stop), columns = value.span(0), value.base[2]
        cut = Step(OpKind.SLICE, start=start * columns, stop=stop * columns)
        steps = [Step(OpKind.MERGE_HEADS), cut]
        if stop - start > 1:
            steps.append(Step(OpKind.SPLIT_HEADS, heads=stop - start))
            value = replace(value, tensor=self._follow(value.tensor, steps))
            return _narrowed(value, 0, stop - start)
        dims = tuple(tuple(replace(a, axis=max(a.axis - 1, -1)) for a in dim) for dim in value.dims)
        return Value(value.base[1:], dims, (0, 0), self._follow(value.tensor, steps))

    def _arranged(self, value: Value, order: Order) -> str:
        if value.is_source:
            return self._load(value, order)
        axes = [value.axis_atoms(axis) for axis in range(len(value.base))]
        start = Order(*axes) if len(axes) == 3 else Order((), *axes)
        heads, repeats = _without_repeats(order)
        steps = find_steps(start, order._replace(heads=heads))
        if repeats > 1:
            steps = steps if heads else [*steps, Step(OpKind.SPLIT_HEADS, heads=1)]
            end = len(steps) - (heads != () and steps[-1:] == [TRANSPOSE])  # products turn by themselves
            steps = [*steps[:end], Step(OpKind.REPEAT_HEADS, repeats=repeats), *steps[end:]]
        return self._follow(value.tensor, steps)

    def _follow(self, tensor: str, steps: list[Step]) -> str:
        for step in steps:
            key = (tensor, step)
            if key not in self._known:
                self._known[key] = self.add_op(
                    step.kind, tensor, name=f"{tensor}_{step}", heads=step.heads,
                    start=step.start, stop=step.stop, repeats=step.repeats,
                )  # fmt: skip
            tensor = self._known[key]
        return tensor

    def _load(self, value: Value, order: Order) -> str:
        key = (value.tensor, value.offsets, order)
        if key not in self._known:
            dims = order if order.heads else (order.rows, order.columns)
            value, source = replace(value, dims=tuple(dims)), self._sources[value.tensor]
            name = value.tensor.removeprefix("constant:")
            if isinstance(source, int):
                self._known[key] = self.add_op(OpKind.LOAD, name=name, shape=value.shape)
                self.loads[self._known[key]] = Loaded(source, value)
            else:
                weight = self.weight(name, self.numbers(value))
                self._known[key] = self.add_op(OpKind.CONSTANT, name=name, shape=value.shape, weight=weight)
        return self._known[key]

    def gather(self, table: str, array: NDArray[Any], indices: Value, name: str) -> str:
        """Gather rows of a table at the indices, which are an input of the network."""
        source = self._sources.get(indices.tensor)
        if not isinstance(source, int):
            raise UnsupportedError("indices that are computed; they must be an input")
        rows, columns = math.prod(indices.shape), array.shape[1]
        tensor = self.add_op(
            OpKind.EMBEDDING, name=name, shape=(rows, columns), weight=self.weight(table, array),
            table_rows=len(array),
        )  # fmt: skip
        self.loads[tensor] = Loaded(source, indices.reshape((rows,)))
        return tensor


def arrangement(atoms: Atoms) -> tuple[list[int], list[int]]:
    """Say how the user's tensor becomes the base that it fills: reshape, permute, reshape."""
    order = sorted(range(len(atoms)), key=lambda i: (atoms[i].axis, -atoms[i].stride))
    return [atom.size for atom in atoms], order


def _columns(width: int) -> Atoms:
    """Return the walk along neighbouring columns of a matrix."""
    return (Atom(1, 1, width),) if width > 1 else ()


def _gap(atoms: Atoms) -> int:
    """Return from where on a walk along an axis leaves elements out, 0 if it does not."""
    stride = 1
    for atom in reversed(atoms):
        if atom.stride != stride:
            return atom.stride
        stride *= atom.size
    return 0


def _in_heads(atom: Atom, width: int) -> Atoms:
    """Return a walk in a matrix as a walk in its heads of `width` columns."""
    if atom.axis == 0:
        return (replace(atom, axis=1),)
    if atom.axis < 0:
        return (atom,)
    inside = max(1, min(atom.size, width // atom.stride))
    if atom.size % inside or (atom.size > inside and (atom.stride * inside) % width):
        raise UnsupportedError("a part of a tensor that is scattered over its columns")
    if atom.stride >= width:
        return (Atom(0, atom.stride // width, atom.size),)
    outside = (Atom(0, 1, atom.size // inside),) if atom.size > inside else ()
    return (*outside, Atom(2, atom.stride, inside))


def _without_repeats(order: Order) -> tuple[Atoms, int]:
    """Return the heads that are there once, and how often each follows itself."""
    heads, repeats = list(order.heads), 1
    while heads and heads[-1].stride == 0:
        repeats *= heads.pop().size
    if any(atom.stride == 0 for atom in (*heads, *order.rows, *order.columns)):
        raise OrderError("repeating rows, columns or a row of heads")
    return tuple(heads), repeats


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
