"""Fill the fabric: split, again and again, the leaf that yields most per PE, compiled.

Leaves wait in a heap by their yield. Splits change the yield of leaves around them, so these are
put in anew; an entry that is no longer true when it comes up is corrected or dropped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placer.hot import hot, hot_loop
from placer.stencil.moves import (
    PES,
    VALUE,
    Candidates,
    new_log,
    split_gain,
    split_with_neighbours,
    undo_splits,
)
from placer.stencil.problem import IntArray, LongArray
from placer.stencil.pyramid import FloatArray
from placer.stencil.tree import LEAF, SPLIT, Tree, block_at, quarter, step

BEST = 1e18  # yield of a split that needs no PE
MAX_MISFITS = 20_000  # leaves in a row that no longer fit, before filling ends
ROOM = 1_000_000  # for entries beyond the first ones


class Heap(NamedTuple):
    """Leaves by yield, the best on top, and scratch for trying splits."""

    key: FloatArray
    leaf: IntArray  # [entries, 4]: level and coordinates
    size: LongArray  # [1]: number of entries
    log: IntArray  # splits of the last try
    change: FloatArray  # what they add to value and PEs
    done_log: IntArray  # splits of the last move


def make_heap(num_candidates: int) -> Heap:
    """An empty heap."""
    room = num_candidates + ROOM
    return Heap(
        np.zeros(room), np.zeros((room, 4), np.int32), np.zeros(1, np.int64),
        new_log(), np.zeros(2), new_log(),
    )  # fmt: skip


@hot
def _swap(heap: Heap, a: int, b: int) -> None:
    heap.key[a], heap.key[b] = heap.key[b], heap.key[a]
    for k in range(4):
        heap.leaf[a, k], heap.leaf[b, k] = heap.leaf[b, k], heap.leaf[a, k]


@hot_loop
def _push(heap: Heap, key: float, level: int, x: int, y: int, z: int) -> None:
    at = heap.size[0]
    if at >= heap.key.shape[0]:
        return
    heap.size[0] += 1
    heap.key[at] = key
    heap.leaf[at, 0], heap.leaf[at, 1], heap.leaf[at, 2], heap.leaf[at, 3] = level, x, y, z
    while at > 0 and heap.key[(at - 1) // 2] < heap.key[at]:
        _swap(heap, at, (at - 1) // 2)
        at = (at - 1) // 2


@hot_loop
def _pop(heap: Heap) -> None:
    """Take the top away."""
    heap.size[0] -= 1
    last = heap.size[0]
    _swap(heap, 0, last)
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            return
        if child + 1 < last and heap.key[child + 1] > heap.key[child]:
            child += 1
        if heap.key[child] <= heap.key[at]:
            return
        _swap(heap, at, child)
        at = child


@hot
def _worth(heap: Heap) -> float:
    """Value per PE of the last try."""
    value, pes = heap.change[VALUE], heap.change[PES]
    return BEST if pes <= 0.0 else float(value / pes)


@hot_loop
def _offer(tree: Tree, heap: Heap, level: int, x: int, y: int, z: int, least: float) -> None:
    """Put a leaf into the heap, unless its split would yield too little."""
    if level == 0:
        return
    block = block_at(tree, level, x, y, z)
    if block < 0 or tree.status[block] != LEAF or tree.high[block] <= 0.0:
        return
    if split_gain(tree, level, x, y, z) < least:
        return
    done = split_with_neighbours(tree, level, x, y, z, heap.log, heap.change)
    undo_splits(tree, heap.log, done)
    if _worth(heap) >= least:
        _push(heap, _worth(heap), level, x, y, z)


@hot_loop
def _offer_around(tree: Tree, heap: Heap, level: int, x: int, y: int, z: int, least: float) -> None:
    """Put in the parts of a block that was split, and what touches it."""
    depth = 2 if tree.dimension == 3 else 1
    for k in range(depth):
        for j in range(2):
            for i in range(2):
                _offer(tree, heap, level - 1, 2 * x + i, 2 * y + j, depth * z + k, least)
    for face in range(2 * tree.dimension):
        nx, ny, nz = step(x, y, z, face)
        _offer(tree, heap, level, nx, ny, nz, least)
        other = block_at(tree, level, nx, ny, nz)
        if other >= 0 and tree.status[other] == SPLIT:
            for q in range(1 << (tree.dimension - 1)):
                qx, qy, qz = quarter(tree, nx, ny, nz, face ^ 1, q)
                _offer(tree, heap, level - 1, qx, qy, qz, least)


@hot_loop
def fill_by_yield(
    tree: Tree,
    candidates: Candidates,
    heap: Heap,
    least: float,
    max_pes: float,
    totals: FloatArray,
) -> None:
    """Split leaves, the best first, while they fit and yield at least `least`."""
    heap.size[0] = 0
    for at in range(candidates.level.shape[0]):
        place = candidates.place[at]
        _offer(tree, heap, int(candidates.level[at]), place[0], place[1], place[2], least)
    misfits = 0
    while heap.size[0] > 0 and totals[PES] < max_pes and misfits < MAX_MISFITS:
        key = heap.key[0]
        level, x, y, z = heap.leaf[0, 0], heap.leaf[0, 1], heap.leaf[0, 2], heap.leaf[0, 3]
        _pop(heap)
        if tree.status[block_at(tree, level, x, y, z)] != LEAF:
            continue
        done = split_with_neighbours(tree, level, x, y, z, heap.log, heap.change)
        worth = _worth(heap)
        is_stale = worth < key * (1.0 - 1e-9)
        if is_stale or totals[PES] + heap.change[PES] > max_pes:
            undo_splits(tree, heap.log, done)
            if not is_stale:
                misfits += 1
            elif worth >= least:
                _push(heap, worth, level, x, y, z)
            continue
        misfits = 0
        totals[VALUE] += heap.change[VALUE]
        totals[PES] += heap.change[PES]
        for k in range(done):  # `log` is used again by what follows
            for c in range(4):
                heap.done_log[k, c] = heap.log[heap.log.shape[0] - done + k, c]
        for k in range(done):
            leaf = heap.done_log[k]
            _offer_around(tree, heap, leaf[0], leaf[1], leaf[2], leaf[3], least)
