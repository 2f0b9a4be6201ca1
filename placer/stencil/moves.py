"""Search over partitions, compiled: splits and merges at a price per PE.

A split drags along neighbours that would be two levels larger than the new leaves. Each move is a
transaction: it is done, its effect summed from exact local differences, and undone if refused.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placer.annealing.random import RngState, uniform
from placer.hot import hot, hot_loop
from placer.stencil.problem import IntArray
from placer.stencil.pyramid import FloatArray
from placer.stencil.tree import (
    COVERED,
    LEAF,
    SPLIT,
    TOLERANCE,
    Tree,
    added_pes,
    block_at,
    can_merge,
    merge,
    split,
    step,
)

VALUE, PES = 0, 1  # of running totals


class Candidates(NamedTuple):
    """Blocks that may be a tile and may be split: level and coordinates."""

    level: NDArray[np.int8]
    place: IntArray  # [candidates, 3]


def candidates_of(tree: Tree) -> Candidates:
    """All blocks with heat that the limits allow as tiles, above the finest level."""
    levels, places = [], []
    for level in range(1, len(tree.dims)):
        high = tree.high[tree.base[level] : tree.base[level + 1]]
        found = np.flatnonzero((high > 0) & (high <= tree.limit[level] * (1 + TOLERANCE)))
        nx, ny = tree.dims[level, 0], tree.dims[level, 1]
        places.append(np.stack([found % nx, found // nx % ny, found // (nx * ny)], axis=1))
        levels.append(np.full(len(found), level, np.int8))
    if not levels:
        return Candidates(np.zeros(0, np.int8), np.zeros((0, 3), np.int32))
    return Candidates(np.concatenate(levels), np.concatenate(places).astype(np.int32))


def new_log() -> IntArray:
    """Room for the splits of one move: level and coordinates of each."""
    return np.zeros((4096, 4), np.int32)


@hot
def split_gain(tree: Tree, level: int, x: int, y: int, z: int) -> float:
    """What a split adds to the sum of mean / R: parts have twice the R, and are 8 (4)."""
    factor = (1 << (tree.dimension - 1)) - 1
    return float(factor * tree.mean[block_at(tree, level, x, y, z)] / tree.limit[level])


@hot_loop
def _push_larger_neighbour(tree: Tree, log: IntArray, top: int) -> bool:
    """Put a neighbour that is larger than the last block of the stack on top of it."""
    level, x, y, z = log[top, 0], log[top, 1], log[top, 2], log[top, 3]
    for face in range(2 * tree.dimension):
        nx, ny, nz = step(x, y, z, face)
        other = block_at(tree, level, nx, ny, nz)
        if other >= 0 and tree.status[other] == COVERED:
            log[top + 1, 0] = level + 1
            log[top + 1, 1] = nx >> 1
            log[top + 1, 2] = ny >> 1
            log[top + 1, 3] = nz >> 1 if tree.dimension == 3 else 0
            return True
    return False


@hot_loop
def split_with_neighbours(
    tree: Tree, level: int, x: int, y: int, z: int, log: IntArray, change: FloatArray
) -> int:
    """Split a leaf and whatever must be split before it; sums value and PEs into `change`.

    The splits stand in `log` from its end backwards; returns their number. The front of `log` is
    the stack of what is to be split.
    """
    change[VALUE] = change[PES] = 0.0
    log[0, 0], log[0, 1], log[0, 2], log[0, 3] = level, x, y, z
    top, done = 0, 0
    while top >= 0:
        if _push_larger_neighbour(tree, log, top):
            top += 1
            continue
        b, bx, by, bz = log[top, 0], log[top, 1], log[top, 2], log[top, 3]
        top -= 1
        change[VALUE] += split_gain(tree, b, bx, by, bz)
        change[PES] += added_pes(tree, b, bx, by, bz)
        split(tree, b, bx, by, bz)
        done += 1
        end = log.shape[0] - done
        log[end, 0], log[end, 1], log[end, 2], log[end, 3] = b, bx, by, bz
    return done


@hot_loop
def undo_splits(tree: Tree, log: IntArray, done: int) -> None:
    """Take back the last move of `split_with_neighbours`."""
    for k in range(log.shape[0] - done, log.shape[0]):
        merge(tree, log[k, 0], log[k, 1], log[k, 2], log[k, 3])


@hot
def _is_accepted(rng: RngState, gain: float, temperature: float) -> bool:
    if gain >= 0.0:
        return True
    return temperature > 0.0 and uniform(rng) < math.exp(gain / temperature)


@hot
def _merge_and_count(tree: Tree, level: int, x: int, y: int, z: int, totals: FloatArray) -> None:
    """Merge the parts of a block, with the running totals."""
    merge(tree, level, x, y, z)
    totals[VALUE] -= split_gain(tree, level, x, y, z)
    totals[PES] -= added_pes(tree, level, x, y, z)


@hot_loop
def anneal_sweep(
    tree: Tree,
    candidates: Candidates,
    num_moves: int,
    start: int,
    stride: int,
    rng: RngState,
    temperature: float,
    price: float,
    max_pes: float,
    totals: FloatArray,
    change: FloatArray,
    log: IntArray,
) -> None:
    """Try splits and merges, Metropolis on value - price * PEs; `totals` is kept up to date."""
    num = candidates.level.shape[0]
    at = start
    for _ in range(num_moves):
        at += stride
        if at >= num:
            at -= num
        level = int(candidates.level[at])
        x, y, z = candidates.place[at, 0], candidates.place[at, 1], candidates.place[at, 2]
        status = tree.status[block_at(tree, level, x, y, z)]
        if status == LEAF:
            # What a lone split must yield at least; spares most of the cascades.
            if split_gain(tree, level, x, y, z) < price - 10.0 * temperature:
                continue
            done = split_with_neighbours(tree, level, x, y, z, log, change)
            gain = change[VALUE] - price * change[PES]
            if totals[PES] + change[PES] <= max_pes and _is_accepted(rng, gain, temperature):
                totals[VALUE] += change[VALUE]
                totals[PES] += change[PES]
            else:
                undo_splits(tree, log, done)
        elif status == SPLIT and can_merge(tree, level, x, y, z):
            value, pes = totals[VALUE], totals[PES]
            _merge_and_count(tree, level, x, y, z, totals)
            gain = price * (pes - totals[PES]) - (value - totals[VALUE])
            if not _is_accepted(rng, gain, temperature):
                split(tree, level, x, y, z)
                totals[VALUE], totals[PES] = value, pes


@hot_loop
def remove_islands(
    tree: Tree, candidates: Candidates, price: float, totals: FloatArray, log: IntArray
) -> None:
    """Merge blocks together with their split parts, where that saves more than it is worth.

    The parts of an island may be worth their PEs one by one, because merging only some of them
    leaves adapters on all sides.
    """
    for at in range(candidates.level.shape[0]):
        level = int(candidates.level[at])
        x, y, z = candidates.place[at, 0], candidates.place[at, 1], candidates.place[at, 2]
        if level < 2 or tree.status[block_at(tree, level, x, y, z)] != SPLIT:
            continue
        value, pes = totals[VALUE], totals[PES]
        done = 0
        for c in range(1 << tree.dimension):
            i, j, k = 2 * x + (c & 1), 2 * y + (c >> 1 & 1), 2 * z + (c >> 2)
            is_split = tree.status[block_at(tree, level - 1, i, j, k)] == SPLIT
            if is_split and can_merge(tree, level - 1, i, j, k):
                _merge_and_count(tree, level - 1, i, j, k, totals)
                log[done, 0], log[done, 1], log[done, 2], log[done, 3] = level - 1, i, j, k
                done += 1
        if done and can_merge(tree, level, x, y, z):
            _merge_and_count(tree, level, x, y, z, totals)
            if price * (pes - totals[PES]) > value - totals[VALUE]:
                continue
            split(tree, level, x, y, z)
        for m in range(done):
            split(tree, log[m, 0], log[m, 1], log[m, 2], log[m, 3])
        totals[VALUE], totals[PES] = value, pes
