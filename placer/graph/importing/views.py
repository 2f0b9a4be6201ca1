"""How a tensor of the user's network lies in a tensor of the dataflow graph, and gets in order.

Networks reshape, permute, split and select all the time; none of it computes. `Value` keeps track:
each dimension of the user's tensor is a list of atoms, slow to fast, and an atom walks along one
axis of the base tensor. The query of head h at position s, user's tensor [1, heads, rows, d] in a
matrix [rows, heads * d], has the dimensions (), (columns by d), (rows by 1), (columns by 1).

Where a tensor is repeated (`expand`), the atom has the stride 0: the same numbers are seen again.

Where an op needs another order, `find_steps` searches the shortest chain of rearranging ops
(transpose, heads). They are views, not work, on the fabric.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.base import InputError
from placer.graph import OpKind, Shape

MAX_RANK = 32  # dimensions of a user's tensor
MAX_STEPS = 6  # from one order to another
MAX_ATOMS = 8  # the search for them grows with their fourth power


class UnsupportedError(InputError):
    """Something that a network may do, but that the dataflow graph has no ops for."""


class OrderError(UnsupportedError):
    """A change of order that the rearranging ops cannot do."""


@dataclass(frozen=True, slots=True)
class Atom:
    """`size` steps of `stride` elements along an axis of the base; stride 0 repeats."""

    axis: int  # -1 if it repeats
    stride: int
    size: int


Atoms = tuple[Atom, ...]


def is_repeat(atoms: Atoms) -> bool:
    """Say whether a walk sees the same numbers again in every step, or has one step only."""
    return all(atom.stride == 0 for atom in atoms)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the user's network that depends on its input: what it sees of a base tensor."""

    base: Shape  # [elements] of an input or constant in DRAM, else the shape of a tensor
    dims: tuple[Atoms, ...]  # for each dimension of the user's tensor
    offsets: tuple[int, ...]  # first index along each axis of the base
    tensor: str = ""  # the base: name of an op, or of an input or constant if it is a source

    @property
    def shape(self) -> Shape:
        return tuple(math.prod(atom.size for atom in dim) for dim in self.dims)

    @property
    def is_source(self) -> bool:
        """Say whether it lies in DRAM and is not loaded yet."""
        return len(self.base) == 1

    @property
    def atoms(self) -> Atoms:
        """Return all atoms, in the order in which the user counts elements."""
        return tuple(atom for dim in self.dims for atom in dim)

    @property
    def is_repeated(self) -> bool:
        """Say whether it sees the same numbers several times."""
        return any(atom.stride == 0 for atom in self.atoms)

    def permute(self, order: Sequence[int]) -> Value:
        return replace(self, dims=tuple(self.dims[i] for i in order))

    def expand(self, shape: Sequence[int]) -> Value:
        """Repeat along dimensions of size 1, and along new ones in front; -1 keeps a size."""
        extra = len(shape) - len(self.dims)
        old = (1,) * extra + self.shape
        new = tuple(o if n == -1 else n for o, n in zip(old, shape, strict=True))
        if extra < 0 or len(new) > MAX_RANK or any(o not in (1, n) for o, n in zip(old, new, strict=True)):
            raise InputError(f"cannot expand {list(self.shape)} to {list(shape)}")
        dims = ((),) * extra + self.dims
        repeats = (() if o == n else (Atom(-1, 0, n),) for o, n in zip(old, new, strict=True))
        return replace(self, dims=tuple(repeat or dim for repeat, dim in zip(repeats, dims, strict=True)))

    def repeat(self, dim: int, times: int) -> Value:
        """Repeat each element of a dimension, one after the other."""
        shape = list(self.shape)
        dim %= len(shape)
        wide = self.unsqueeze([dim + 1]).expand([*shape[: dim + 1], times, *shape[dim + 1 :]])
        return wide.reshape([*shape[:dim], shape[dim] * times, *shape[dim + 1 :]])

    def reshape(self, shape: Sequence[int]) -> Value:
        """Raises UnsupportedError when a new dimension would mix old ones in part."""
        if math.prod(shape) != math.prod(self.shape) or len(shape) > MAX_RANK:
            raise InputError(f"cannot reshape {list(self.shape)} to {list(shape)}")
        atoms = list(merged(self.atoms))
        dims = []
        for size in shape:
            dim: list[Atom] = []
            while size > 1:
                atom = atoms.pop(0)
                if size % atom.size == 0:
                    dim.append(atom)
                    size //= atom.size
                elif atom.size % size == 0:
                    rest = atom.size // size
                    dim.append(Atom(atom.axis, atom.stride * rest, size))
                    atoms.insert(0, Atom(atom.axis, atom.stride, rest))
                    size = 1
                else:
                    raise OrderError(f"the reshape of {list(self.shape)} to {list(shape)} mixes dimensions")
            dims.append(merged(dim))
        return replace(self, dims=tuple(dims))

    def slice(self, dim: int, start: int, stop: int) -> Value:
        """Take the elements start:stop of one dimension, which must be there."""
        if not 0 <= start < stop <= self.shape[dim]:
            raise InputError(f"elements {start}:{stop} of a dimension of {self.shape[dim]}")
        if (start, stop) == (0, self.shape[dim]):
            return self
        first, *rest = merged(self.dims[dim])
        inner = math.prod(atom.size for atom in rest)
        if start % inner or stop % inner:
            raise UnsupportedError(f"elements {start}:{stop} lie in several heads in part")
        start, stop = start // inner, stop // inner
        offsets = list(self.offsets)
        offsets[first.axis] += start * first.stride
        cut = merged((replace(first, size=stop - start), *rest))
        dims = (*self.dims[:dim], cut, *self.dims[dim + 1 :])
        return replace(self, dims=dims, offsets=tuple(offsets))

    def select(self, dim: int, index: int) -> Value:
        """Take one element of a dimension, which disappears."""
        dim %= len(self.dims)
        index %= self.shape[dim]
        cut = self.slice(dim, index, index + 1)
        return replace(cut, dims=cut.dims[:dim] + cut.dims[dim + 1 :])

    def take(self, dim: int, start: int | None, stop: int | None) -> Value:
        """Take the elements start:stop of a dimension, as Python counts them."""
        first, last, _ = slice(start, stop).indices(self.shape[dim])
        return self.slice(dim % len(self.dims), first, last)

    def split(self, dim: int, sizes: int | Sequence[int]) -> tuple[Value, ...]:
        """Cut a dimension into parts of the given sizes, or all of one size but the last."""
        dim, length = dim % len(self.dims), self.shape[dim]
        if isinstance(sizes, int):
            sizes = [min(sizes, length - start) for start in range(0, length, sizes)]
        return tuple(self.slice(dim, *part) for part in pairwise(accumulate(sizes, initial=0)))

    def squeeze(self, dims: Iterable[int] | None) -> Value:
        """Drop those of the dimensions, of all if None, that have the size 1."""
        rank = len(self.dims)
        chosen = range(rank) if dims is None else dims
        gone = {dim % rank for dim in chosen if self.shape[dim] == 1}
        return self.reshape([size for dim, size in enumerate(self.shape) if dim not in gone])

    def unsqueeze(self, dims: Sequence[int]) -> Value:
        """Put in dimensions of size 1, which are then at these places."""
        rank, sizes = len(self.dims) + len(dims), iter(self.shape)
        new = {dim % rank for dim in dims}
        return self.reshape(tuple(1 if dim in new else next(sizes) for dim in range(rank)))

    def axis_atoms(self, axis: int) -> Atoms:
        """Return the atoms along an axis of the base, slow to fast, without those of size 1."""
        atoms = (atom for atom in self.atoms if atom.axis == axis and atom.stride)
        return tuple(sorted(atoms, key=lambda atom: -atom.stride))

    def span(self, axis: int) -> tuple[int, int]:
        """Return the range of an axis that is seen; UnsupportedError if it has gaps."""
        stride = 1
        for atom in reversed(self.axis_atoms(axis)):
            if atom.stride != stride:
                raise UnsupportedError("a part of a tensor that is scattered over its rows or columns")
            stride *= atom.size
        return self.offsets[axis], self.offsets[axis] + stride

    def indices(self) -> NDArray[np.int64]:
        """Return where in the base, counted row by row, each element of the user's tensor is."""
        strides = [math.prod(self.base[axis + 1 :]) for axis in range(len(self.base))]
        total = np.asarray(sum(o * s for o, s in zip(self.offsets, strides, strict=True)))
        for atom in self.atoms:
            steps = np.arange(atom.size) * (atom.stride * strides[atom.axis])
            total = total[..., None] + steps
        return total.reshape(self.shape).astype(np.int64)


def whole(base: Shape, tensor: str = "") -> Value:
    """Return all of a tensor as it is."""
    dims = tuple((Atom(axis, 1, size),) if size > 1 else () for axis, size in enumerate(base))
    return Value(base, dims, (0,) * len(base), tensor)


def merged(atoms: Iterable[Atom]) -> Atoms:
    """Make the same walk in as few atoms as possible, without those of size 1."""
    result: list[Atom] = []
    for atom in atoms:
        if atom.size == 1:
            continue
        last = result[-1] if result else None
        if last and last.axis == atom.axis and last.stride == atom.stride * atom.size:
            result[-1] = Atom(atom.axis, atom.stride, last.size * atom.size)
        else:
            result.append(atom)
    return tuple(result)


class Order(NamedTuple):
    """What lies along the axes of a tensor; a matrix has no heads."""

    heads: Atoms
    rows: Atoms
    columns: Atoms


@dataclass(frozen=True, slots=True)
class Step:
    """One rearranging op, and the attributes that it has."""

    kind: OpKind
    heads: int = 0
    start: int = 0
    stop: int = 0
    repeats: int = 0

    def __str__(self) -> str:
        return f"{self.start}_{self.stop}" if self.stop else self.kind.value


def find_steps(start: Order, goal: Order) -> list[Step]:
    """Find the fewest ops from one order to another; OrderError if there are none."""
    start, goal = _refined(start, goal), _refined(goal, start)
    if sum(len(part) for part in start) > MAX_ATOMS:
        raise OrderError("a change of order between too many dimensions")
    reached: dict[Order, list[Step]] = {start: []}
    waiting = deque([start])
    while waiting:
        order = waiting.popleft()
        if order == goal:
            return reached[order]
        if len(reached[order]) < MAX_STEPS:
            for step, following in _moves(order):
                if following not in reached:
                    reached[following] = [*reached[order], step]
                    waiting.append(following)
    raise OrderError("a change of order that is no transpose and no split into heads")


def _moves(order: Order) -> list[tuple[Step, Order]]:
    heads, rows, columns = order
    moves = [(Step(OpKind.TRANSPOSE), Order(heads, columns, rows))]
    if heads:
        moves.append((Step(OpKind.MERGE_HEADS), Order((), rows, heads + columns)))
    else:
        for cut in range(1, len(columns) + 1):
            step = Step(OpKind.SPLIT_HEADS, heads=math.prod(atom.size for atom in columns[:cut]))
            moves.append((step, Order(columns[:cut], rows, columns[cut:])))
    return moves


def _refined(order: Order, other: Order) -> Order:
    """Return the same order, its atoms cut wherever those of the other order end."""
    ends = {(atom.axis, atom.stride) for part in other for atom in part}

    def cut(part: Atoms) -> Atoms:
        pieces: list[Atom] = []
        for atom in part:
            inside = sorted(
                stride for axis, stride in ends if axis == atom.axis and atom.stride < stride < atom.stride * atom.size
            )
            top = atom.stride * atom.size
            for stride in reversed([atom.stride, *inside]):
                pieces.append(Atom(atom.axis, stride, top // stride))
                top = stride
        return tuple(pieces)

    return Order(*(cut(part) for part in order))
