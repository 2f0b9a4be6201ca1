"""Search over partitions, compiled: splits and merges at a price per PE, then filling by yield.

A split drags along neighbours that would be two levels larger than the new leaves. Each move is a
transaction: it is done, its effect summed from exact local differences, and undone if refused.

To fill the fabric, the leaf that yields most per PE is split, again and again. Leaves wait in a
heap by their yield. Splits change the yield of leaves around them, so these are put in anew; an
entry that is no longer true when it comes up is corrected or dropped.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from placer.base import FloatArray, IntArray, LongArray, RngState, hot, hot_loop, uniform
from placer.stencil.search.tree import (
    COVERED,
    LEAF,
    PES,
    SPLIT,
    TOLERANCE,
    VALUE,
    Tree,
    across,
    added_pes,
    block_at,
    can_merge,
    merge,
    quarter,
    split,
)

MAX_SPLITS = 4096  # of one move
BEST = 1e18  # yield of a split that needs no PE
MAX_MISFITS = 20_000  # leaves in a row that no longer fit, before filling ends
ROOM = 1_000_000  # for entries of a heap beyond the first ones


class Ledger(NamedTuple):
    """The running totals of a tree, and the last move."""

    totals: FloatArray  # [2]: value and PEs of the tree
    change: FloatArray  # [2]: what the splits of the move add to them
    log: IntArray  # [splits, 4]: level and place of each, from the end backwards


class Heap(NamedTuple):
    """Leaves by yield, the best on top."""

    key: FloatArray
    leaf: IntArray  # [entries, 4]: level and place
    size: LongArray  # [1]: number of entries
    trial: Ledger  # of splits that are only tried


def new_ledger() -> Ledger:
    """Return an empty ledger."""
    return Ledger(np.zeros(2), np.zeros(2), np.zeros((MAX_SPLITS, 4), np.int32))


def new_heap(num_candidates: int) -> Heap:
    """Return an empty heap."""
    room = num_candidates + ROOM
    leaf, size = np.zeros((room, 4), np.int32), np.zeros(1, np.int64)
    return Heap(np.zeros(room), leaf, size, new_ledger())


def candidates_of(tree: Tree) -> IntArray:
    """Return level and place [blocks, 4] of all blocks that may be a tile and may be split."""
    rows = [np.zeros((0, 4), np.int64)]
    for level in range(1, len(tree.dims)):
        high = tree.high[tree.base[level] : tree.base[level + 1]]
        found = np.flatnonzero((high > 0) & (high <= tree.limit[level] * (1 + TOLERANCE)))
        z, y, x = np.unravel_index(found, tree.dims[level, ::-1])
        rows.append(np.stack([np.full(len(found), level), x, y, z], axis=1))
    return np.concatenate(rows).astype(np.int32)


@hot
def split_gain(tree: Tree, level: int, x: int, y: int, z: int) -> float:
    """Return what a split adds to the sum of mean / R: parts have twice the R, and are 8 (4)."""
    factor = (1 << (tree.dimension - 1)) - 1
    return float(factor * tree.mean[block_at(tree, level, x, y, z)] / tree.limit[level])


@hot_loop
def _push_larger_neighbour(tree: Tree, log: IntArray, top: int) -> bool:
    """Put a neighbour that is larger than the last block of the stack on top of it."""
    level, x, y, z = log[top, 0], log[top, 1], log[top, 2], log[top, 3]
    for face in range(2 * tree.dimension):
        other, nx, ny, nz = across(tree, level, x, y, z, face)
        if other >= 0 and tree.status[other] == COVERED:
            log[top + 1, 0], log[top + 1, 1], log[top + 1, 2] = level + 1, nx >> 1, ny >> 1
            log[top + 1, 3] = nz >> 1 if tree.dimension == 3 else 0
            return True
    return False


@hot_loop
def split_with_neighbours(tree: Tree, ledger: Ledger, level: int, x: int, y: int, z: int) -> int:
    """Split a leaf and whatever must be split before it; return the number of splits.

    What they add is in the ledger's `change`, but not in its totals. The front of its `log` is the
    stack of what is to be split.
    """
    log, change = ledger.log, ledger.change
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
def _merge_and_count(tree: Tree, totals: FloatArray, level: int, x: int, y: int, z: int) -> None:
    """Merge the parts of a block, with the running totals."""
    merge(tree, level, x, y, z)
    totals[VALUE] -= split_gain(tree, level, x, y, z)
    totals[PES] -= added_pes(tree, level, x, y, z)


@hot_loop
def anneal_sweep(
    tree: Tree, ledger: Ledger, candidates: IntArray, start: int, stride: int, rng: RngState,
    temperature: float, price: float, max_pes: float,
) -> None:  # fmt: skip
    """Try a split or merge of each candidate, Metropolis on value - price * PEs."""
    totals, change = ledger.totals, ledger.change
    num = candidates.shape[0]
    at = start
    for _ in range(num):
        at += stride
        if at >= num:
            at -= num
        level = candidates[at, 0]
        x, y, z = candidates[at, 1], candidates[at, 2], candidates[at, 3]
        status = tree.status[block_at(tree, level, x, y, z)]
        if status == LEAF:
            # What a lone split must yield at least; spares most of the cascades.
            if split_gain(tree, level, x, y, z) < price - 10.0 * temperature:
                continue
            done = split_with_neighbours(tree, ledger, level, x, y, z)
            gain = change[VALUE] - price * change[PES]
            if totals[PES] + change[PES] <= max_pes and _is_accepted(rng, gain, temperature):
                totals[VALUE] += change[VALUE]
                totals[PES] += change[PES]
            else:
                undo_splits(tree, ledger.log, done)
        elif status == SPLIT and can_merge(tree, level, x, y, z):
            value, pes = totals[VALUE], totals[PES]
            _merge_and_count(tree, totals, level, x, y, z)
            gain = price * (pes - totals[PES]) - (value - totals[VALUE])
            if not _is_accepted(rng, gain, temperature):
                split(tree, level, x, y, z)
                totals[VALUE], totals[PES] = value, pes


@hot_loop
def remove_islands(tree: Tree, ledger: Ledger, candidates: IntArray, price: float) -> None:
    """Merge blocks together with their split parts, where that saves more than it is worth.

    The parts of an island may be worth their PEs one by one, because merging only some of them
    leaves adapters on all sides.
    """
    totals, log = ledger.totals, ledger.log
    for at in range(candidates.shape[0]):
        level = candidates[at, 0]
        x, y, z = candidates[at, 1], candidates[at, 2], candidates[at, 3]
        if level < 2 or tree.status[block_at(tree, level, x, y, z)] != SPLIT:
            continue
        value, pes = totals[VALUE], totals[PES]
        done = 0
        for c in range(1 << tree.dimension):
            i, j, k = 2 * x + (c & 1), 2 * y + (c >> 1 & 1), 2 * z + (c >> 2)
            is_split = tree.status[block_at(tree, level - 1, i, j, k)] == SPLIT
            if is_split and can_merge(tree, level - 1, i, j, k):
                _merge_and_count(tree, totals, level - 1, i, j, k)
                log[done, 0], log[done, 1], log[done, 2], log[done, 3] = level - 1, i, j, k
                done += 1
        if done and can_merge(tree, level, x, y, z):
            _merge_and_count(tree, totals, level, x, y, z)
            if price * (pes - totals[PES]) > value - totals[VALUE]:
                continue
            split(tree, level, x, y, z)
        for m in range(done):
            split(tree, log[m, 0], log[m, 1], log[m, 2], log[m, 3])
        totals[VALUE], totals[PES] = value, pes


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
def _worth(change: FloatArray) -> float:
    """Return the value per PE of a move."""
    return BEST if change[PES] <= 0.0 else float(change[VALUE] / change[PES])


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
    done = split_with_neighbours(tree, heap.trial, level, x, y, z)
    undo_splits(tree, heap.trial.log, done)
    if _worth(heap.trial.change) >= least:
        _push(heap, _worth(heap.trial.change), level, x, y, z)


@hot_loop
def _offer_around(tree: Tree, heap: Heap, level: int, x: int, y: int, z: int, least: float) -> None:
    """Put in the parts of a block that was split, and what touches it."""
    depth = 2 if tree.dimension == 3 else 1
    for k in range(depth):
        for j in range(2):
            for i in range(2):
                _offer(tree, heap, level - 1, 2 * x + i, 2 * y + j, depth * z + k, least)
    for face in range(2 * tree.dimension):
        other, nx, ny, nz = across(tree, level, x, y, z, face)
        _offer(tree, heap, level, nx, ny, nz, least)
        if other >= 0 and tree.status[other] == SPLIT:
            for q in range(1 << (tree.dimension - 1)):
                _, qx, qy, qz = quarter(tree, level, nx, ny, nz, face ^ 1, q)
                _offer(tree, heap, level - 1, qx, qy, qz, least)


@hot_loop
def fill_by_yield(tree: Tree, ledger: Ledger, candidates: IntArray, heap: Heap, least: float, max_pes: float) -> None:
    """Split leaves, the best first, while they fit and yield at least `least`."""
    totals, change, log = ledger.totals, ledger.change, ledger.log
    heap.size[0] = 0
    for at in range(candidates.shape[0]):
        place = candidates[at]
        _offer(tree, heap, place[0], place[1], place[2], place[3], least)
    misfits = 0
    while heap.size[0] > 0 and totals[PES] < max_pes and misfits < MAX_MISFITS:
        key = heap.key[0]
        level, x, y, z = heap.leaf[0, 0], heap.leaf[0, 1], heap.leaf[0, 2], heap.leaf[0, 3]
        _pop(heap)
        if tree.status[block_at(tree, level, x, y, z)] != LEAF:
            continue
        done = split_with_neighbours(tree, ledger, level, x, y, z)
        worth = _worth(change)
        is_stale = worth < key * (1.0 - 1e-9)
        if is_stale or totals[PES] + change[PES] > max_pes:
            undo_splits(tree, log, done)
            if not is_stale:
                misfits += 1
            elif worth >= least:
                _push(heap, worth, level, x, y, z)
            continue
        misfits = 0
        totals[VALUE] += change[VALUE]
        totals[PES] += change[PES]
        for k in range(log.shape[0] - done, log.shape[0]):
            _offer_around(tree, heap, log[k, 0], log[k, 1], log[k, 2], log[k, 3], least)
