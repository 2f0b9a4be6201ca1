"""The partition while it is searched: a graded tree of blocks, changed by splits and merges.

Every block of the pyramid is a leaf (a tile, or empty when it has no heat), split into blocks of
the level below, covered by a larger leaf, or outside the volume. Leaves that touch differ by at
most one level, empty ones too. Processing elements are counted as the rules demand:

- a leaf with heat is a tile;
- a face of a tile with smaller tiles behind it needs an adapter;
- a leaf without heat is no tile, unless it shares the face of a larger tile with one that has
  heat: such a face must not be matched in part. These are the fillers.

Fillers that other fillers call for are left out here; `netlist.py` adds them at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.base import FloatArray, LongArray, SingleArray, hot, hot_loop
from placer.stencil.search.pyramid import OUTSIDE, Pyramid

StatusArray = NDArray[np.int8]
Place = tuple[int, int, int, int]  # flat index of a block, -1 beyond the grid, and x, y, z

COVERED, LEAF, SPLIT, OUT = 0, 1, 2, 3
VALUE, PES = 0, 1  # of totals: sum of mean / R over the tiles, their PEs with adapters and fillers
TOLERANCE = 1e-6  # of the limits: maxima are rounded to 32 bits


class Tree(NamedTuple):
    """Blocks of a pyramid and what they are now."""

    dimension: int
    dims: LongArray  # [levels, 3]
    base: LongArray  # [levels + 1]
    mean: SingleArray  # [blocks]
    high: SingleArray  # [blocks]
    limit: FloatArray  # [levels]: R, the largest heat that a tile of the level may have
    status: StatusArray  # [blocks]


def coarsest_tree(pyramid: Pyramid, finest_limit: float) -> Tree:
    """Return the tree with the largest leaves whose heat stays below finest_limit / 2^level."""
    limit = (finest_limit * 0.5 ** np.arange(pyramid.num_levels)).astype(np.float64)
    status = np.full(len(pyramid.mean), SPLIT, np.int8)
    status[: pyramid.base[1]] = LEAF
    status[pyramid.high == OUTSIDE] = OUT
    tree = Tree(pyramid.dimension, pyramid.dims, pyramid.base, pyramid.mean, pyramid.high, limit, status)
    for level in range(1, pyramid.num_levels):
        merge_level(tree, level)
    return tree


@hot
def block_at(tree: Tree, level: int, x: int, y: int, z: int) -> int:
    """Return the flat index of a block, -1 beyond the grid."""
    if x < 0 or y < 0 or z < 0:
        return -1
    if x >= tree.dims[level, 0] or y >= tree.dims[level, 1] or z >= tree.dims[level, 2]:
        return -1
    return int(tree.base[level] + (z * tree.dims[level, 1] + y) * tree.dims[level, 0] + x)


@hot
def across(tree: Tree, level: int, x: int, y: int, z: int, face: int) -> Place:
    """Return the block behind a face: 0 low x, 1 high x, 2 low y, ...; face ^ 1 is opposite."""
    sign = 2 * (face & 1) - 1
    axis = face >> 1
    nx = x + sign if axis == 0 else x
    ny = y + sign if axis == 1 else y
    nz = z + sign if axis == 2 else z
    return block_at(tree, level, nx, ny, nz), nx, ny, nz


@hot
def quarter(tree: Tree, level: int, x: int, y: int, z: int, face: int, number: int) -> Place:
    """Return one of the 4 (in 2-D: 2) parts of a block at its face, a level below."""
    axis, side = face >> 1, face & 1
    a, b = number & 1, number >> 1
    if axis == 0:
        i, j, k = side, a, b
    elif axis == 1:
        i, j, k = a, side, b
    else:
        i, j, k = a, b, side
    qx, qy, qz = 2 * x + i, 2 * y + j, (2 * z + k if tree.dimension == 3 else 0)
    return block_at(tree, level - 1, qx, qy, qz), qx, qy, qz


@hot
def child(tree: Tree, level: int, x: int, y: int, z: int, number: int) -> int:
    """Return the index of a part of a block: 8 of them in 3-D, 4 in 2-D; -1 beyond the grid."""
    depth = 2 * z + (number >> 2) if tree.dimension == 3 else 0
    return block_at(tree, level - 1, 2 * x + (number & 1), 2 * y + (number >> 1 & 1), depth)


@hot_loop
def num_hot_quarters(tree: Tree, level: int, x: int, y: int, z: int, face: int) -> int:
    """Count the parts of a block at its face that have heat."""
    count = 0
    for q in range(1 << (tree.dimension - 1)):
        count += tree.high[quarter(tree, level, x, y, z, face, q)[0]] > 0.0
    return count


@hot_loop
def is_filler(tree: Tree, level: int, x: int, y: int, z: int, but_face: int) -> bool:
    """Tell whether a leaf without heat must be a tile, for a face other than `but_face`."""
    for face in range(2 * tree.dimension):
        if face == but_face:
            continue
        other, nx, ny, nz = across(tree, level, x, y, z, face)
        if other < 0 or tree.status[other] != COVERED:
            continue
        pz = nz >> 1 if tree.dimension == 3 else 0
        if tree.high[block_at(tree, level + 1, nx >> 1, ny >> 1, pz)] <= 0.0:
            continue
        mz = z >> 1 if tree.dimension == 3 else 0
        if num_hot_quarters(tree, level + 1, x >> 1, y >> 1, mz, face) > 0:
            return True
    return False


@hot_loop
def added_pes(tree: Tree, level: int, x: int, y: int, z: int) -> int:
    """Return the PEs that a split of this leaf adds; no neighbour may be larger than it.

    The leaf may still be whole or already split: only its neighbours are looked at.
    """
    if tree.high[block_at(tree, level, x, y, z)] <= 0.0:
        return 0
    fan = 1 << (tree.dimension - 1)
    added = -1
    for c in range(2 * fan):
        added += tree.high[child(tree, level, x, y, z, c)] > 0.0
    fillers = 0  # one bit per part
    for face in range(2 * tree.dimension):
        other, nx, ny, nz = across(tree, level, x, y, z, face)
        if other < 0:
            continue
        if tree.status[other] == LEAF and tree.high[other] > 0.0:
            if num_hot_quarters(tree, level, x, y, z, face) > 0:
                added += 1
                for q in range(fan):
                    part, qx, qy, qz = quarter(tree, level, x, y, z, face, q)
                    if tree.high[part] <= 0.0:
                        fillers |= 1 << ((qx & 1) + 2 * (qy & 1) + 4 * (qz & 1))
        elif tree.status[other] == SPLIT:
            num_hot = num_hot_quarters(tree, level, nx, ny, nz, face ^ 1)
            if num_hot > 0:
                added -= 1
                if num_hot < fan:
                    added -= _freed_fillers(tree, level, nx, ny, nz, face ^ 1)
    while fillers:
        added += fillers & 1
        fillers >>= 1
    return added


@hot_loop
def _freed_fillers(tree: Tree, level: int, x: int, y: int, z: int, face: int) -> int:
    """Count leaves without heat at a face of a split block that only the block behind it needs."""
    freed = 0
    for q in range(1 << (tree.dimension - 1)):
        part, qx, qy, qz = quarter(tree, level, x, y, z, face, q)
        freed += tree.high[part] <= 0.0 and not is_filler(tree, level - 1, qx, qy, qz, face)
    return freed


@hot_loop
def split(tree: Tree, level: int, x: int, y: int, z: int) -> None:
    """Make a leaf eight (four) leaves."""
    tree.status[block_at(tree, level, x, y, z)] = SPLIT
    for c in range(1 << tree.dimension):
        tree.status[child(tree, level, x, y, z, c)] = LEAF


@hot_loop
def merge(tree: Tree, level: int, x: int, y: int, z: int) -> None:
    """Make the parts of a block one leaf."""
    tree.status[block_at(tree, level, x, y, z)] = LEAF
    for c in range(1 << tree.dimension):
        tree.status[child(tree, level, x, y, z, c)] = COVERED


@hot_loop
def can_merge(tree: Tree, level: int, x: int, y: int, z: int) -> bool:
    """Tell whether all parts are leaves, the heat allows one, and no neighbour is too small."""
    block = block_at(tree, level, x, y, z)
    if tree.high[block] > tree.limit[level] * (1.0 + TOLERANCE):
        return False
    for c in range(1 << tree.dimension):
        if tree.status[child(tree, level, x, y, z, c)] != LEAF:
            return False
    for face in range(2 * tree.dimension):
        other, nx, ny, nz = across(tree, level, x, y, z, face)
        if other < 0 or tree.status[other] != SPLIT:
            continue
        for q in range(1 << (tree.dimension - 1)):
            if tree.status[quarter(tree, level, nx, ny, nz, face ^ 1, q)[0]] == SPLIT:
                return False
    return True


@hot_loop
def merge_level(tree: Tree, level: int) -> None:
    """Merge every block of a level that can be; all levels below must be merged before."""
    for z in range(tree.dims[level, 2]):
        for y in range(tree.dims[level, 1]):
            for x in range(tree.dims[level, 0]):
                block = block_at(tree, level, x, y, z)
                if tree.status[block] == SPLIT and can_merge(tree, level, x, y, z):
                    merge(tree, level, x, y, z)


@hot_loop
def count(tree: Tree, totals: FloatArray) -> None:
    """Write the totals of a tree, from scratch."""
    totals[VALUE] = totals[PES] = 0.0
    for level in range(tree.dims.shape[0]):
        for z in range(tree.dims[level, 2]):
            for y in range(tree.dims[level, 1]):
                for x in range(tree.dims[level, 0]):
                    block = block_at(tree, level, x, y, z)
                    if tree.status[block] != LEAF:
                        continue
                    if tree.high[block] > 0.0:
                        totals[VALUE] += tree.mean[block] / tree.limit[level]
                        totals[PES] += 1 + _num_adapters(tree, level, x, y, z)
                    elif is_filler(tree, level, x, y, z, -1):
                        totals[PES] += 1


@hot_loop
def _num_adapters(tree: Tree, level: int, x: int, y: int, z: int) -> int:
    """Count the faces of a tile behind which there are smaller tiles."""
    adapters = 0
    for face in range(2 * tree.dimension):
        other, nx, ny, nz = across(tree, level, x, y, z, face)
        if other >= 0 and tree.status[other] == SPLIT:
            adapters += num_hot_quarters(tree, level, nx, ny, nz, face ^ 1) > 0
    return adapters
