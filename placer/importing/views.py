"""How a tensor of the user's network lies in a tensor of the dataflow graph.

Networks reshape, permute, split and select all the time; none of it computes. A `View` keeps track:
each dimension of the user's tensor is a list of atoms, slow to fast, and an atom walks along one
axis of the base tensor. The query of head h at position s, user's tensor [1, heads, rows, d] in a
matrix [rows, heads * d], has the dimensions (), (columns by d), (rows by 1), (columns by 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from placer.errors import InputError
from placer.ops import Shape

MAX_RANK = 32  # dimensions of a user's tensor


class UnsupportedError(InputError):
    """Something that a network may do, but that the dataflow graph has no ops for."""


class OrderError(UnsupportedError):
    """A change of order that the rearranging ops cannot do."""


@dataclass(frozen=True, slots=True)
class Atom:
    """`size` steps of `stride` elements along an axis of the base."""

    axis: int
    stride: int
    size: int


Atoms = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class View:
    """The user's tensor, as a part of a base tensor in another order."""

    base: Shape  # [elements] of an input or constant in DRAM, else the shape of a tensor
    dims: tuple[Atoms, ...]  # for each dimension of the user's tensor
    offsets: tuple[int, ...]  # first index along each axis of the base

    @property
    def shape(self) -> Shape:
        return tuple(math.prod(atom.size for atom in dim) for dim in self.dims)

    @property
    def atoms(self) -> Atoms:
        """All atoms, in the order in which the user counts elements."""
        return tuple(atom for dim in self.dims for atom in dim)

    def permute(self, order: Sequence[int]) -> View:
        return replace(self, dims=tuple(self.dims[i] for i in order))

    def reshape(self, shape: Sequence[int]) -> View:
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
                    raise OrderError(
                        f"the reshape of {list(self.shape)} to {list(shape)} mixes dimensions"
                    )
            dims.append(merged(dim))
        return replace(self, dims=tuple(dims))

    def slice(self, dim: int, start: int, stop: int) -> View:
        """Elements start:stop of one dimension."""
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
        return View(self.base, dims, tuple(offsets))

    def select(self, dim: int, index: int) -> View:
        """One element of a dimension, which disappears."""
        cut = self.slice(dim, index, index + 1)
        return replace(cut, dims=cut.dims[:dim] + cut.dims[dim + 1 :])

    def axis_atoms(self, axis: int) -> Atoms:
        """Atoms along an axis of the base, slow to fast, those of size 1 left out."""
        atoms = (atom for atom in self.atoms if atom.axis == axis)
        return tuple(sorted(atoms, key=lambda atom: -atom.stride))

    def span(self, axis: int) -> tuple[int, int]:
        """Range of an axis that is seen; UnsupportedError if it has gaps."""
        stride = 1
        for atom in reversed(self.axis_atoms(axis)):
            if atom.stride != stride:
                raise UnsupportedError("a part of a tensor that is scattered over its columns")
            stride *= atom.size
        return self.offsets[axis], self.offsets[axis] + stride

    def indices(self) -> NDArray[np.int64]:
        """Position in the base, counted row by row, of every element of the user's tensor."""
        strides = [math.prod(self.base[axis + 1 :]) for axis in range(len(self.base))]
        total = np.asarray(sum(o * s for o, s in zip(self.offsets, strides, strict=True)))
        for atom in self.atoms:
            steps = np.arange(atom.size) * (atom.stride * strides[atom.axis])
            total = total[..., None] + steps
        return total.reshape(self.shape).astype(np.int64)


def whole(base: Shape) -> View:
    """All of a tensor as it is."""
    dims = tuple((Atom(axis, 1, size),) if size > 1 else () for axis, size in enumerate(base))
    return View(base, dims, (0,) * len(base))


def merged(atoms: Iterable[Atom]) -> Atoms:
    """The same walk in as few atoms as possible, without those of size 1."""
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
