"""One partition of the volume: the coarsest tree of a sampling, filled and annealed to the fabric.

A tile of level r stands for a resolution R = finest_limit / 2^r; it needs R >= its maximal heat and
earns mean heat / R. The score divides by the scale, so only R counts, not the level itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from placer.annealing.random import rng_state
from placer.stencil.filling import fill_by_yield, make_heap
from placer.stencil.leaves import find_tiles, needed_scale, num_lifts
from placer.stencil.moves import (
    PES,
    VALUE,
    anneal_sweep,
    candidates_of,
    new_log,
    remove_islands,
)
from placer.stencil.pyramid import FloatArray, Pyramid
from placer.stencil.tree import StatusArray, Tree, coarsest_tree, count, tree_of

LEAST_YIELD = 0.04  # of a split, as a share of what a PE earns on average
PRICE_SHARE = 0.45  # first price of a PE, as a share of what a PE earns on average
HOT, COLD = 1.0, 0.04  # temperatures of annealing, in prices


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A partition that fits the fabric."""

    pyramid: Pyramid
    finest_limit: float  # R of level 0
    status: StatusArray
    accuracy: float  # as the score counts it
    used_pes: int

    @property
    def tree(self) -> Tree:
        return tree_of(self.pyramid, self.finest_limit, self.status)


def coarsest(pyramid: Pyramid, finest_limit: float) -> tuple[Tree, FloatArray]:
    """The tree with the fewest tiles that the heat allows, and its value and PEs."""
    tree = coarsest_tree(pyramid, finest_limit)
    totals = np.zeros(2)
    count(tree, totals)
    return tree, totals


def fill(pyramid: Pyramid, tree: Tree, totals: FloatArray, max_pes: int) -> Partition | None:
    """Split where it pays most until the fabric is full; None when the tree does not fit.

    The tree is used up.
    """
    candidates = candidates_of(tree)
    heap, limit = make_heap(len(candidates.level)), float(max_pes)
    while totals[PES] <= limit:
        least = LEAST_YIELD * _average(totals)
        fill_by_yield(tree, candidates, heap, least, limit, totals)
        partition = as_partition(pyramid, tree, totals)
        if partition.used_pes <= max_pes:
            return partition
        # Fillers that call for fillers came on top: leave room for them and try again.
        limit -= partition.used_pes - max_pes
        _shrink(tree, totals, limit)
    return None


def anneal(
    pyramid: Pyramid,
    tree: Tree,
    totals: FloatArray,
    max_pes: int,
    sweeps: int,
    seed: int,
    is_over: Callable[[], bool] = lambda: False,
) -> Partition | None:
    """Anneal splits and merges, the price of a PE following the room that is left; then fill.

    The tree is used up. None when it does not fit, or when `is_over` says so between two sweeps.
    """
    candidates, log, change = candidates_of(tree), new_log(), np.zeros(2)
    num = len(candidates.level)
    if num < 2 or totals[PES] == 0:
        return fill(pyramid, tree, totals, max_pes)
    random, rng = np.random.default_rng(seed), rng_state(seed)
    price = PRICE_SHARE * _average(totals)
    for sweep in range(sweeps):
        if is_over():
            return None
        temperature = HOT * (COLD / HOT) ** (sweep / max(1, sweeps - 1))
        anneal_sweep(
            tree, candidates, num, int(random.integers(num)), _stride(num, random), rng,
            temperature * price, price, 1.02 * max_pes, totals, change, log,
        )  # fmt: skip
        price *= math.exp(min(0.1, max(-0.1, 3.0 * (totals[PES] / max_pes - 1.0))))
    remove_islands(tree, candidates, price, totals, log)
    _shrink(tree, totals, max_pes)
    return fill(pyramid, tree, totals, max_pes)


def resized(partition: Partition, max_pes: int) -> Partition | None:
    """The same with the least valuable splits undone, or more splits; None if that cannot be."""
    tree = tree_of(partition.pyramid, partition.finest_limit, partition.status.copy())
    totals = np.zeros(2)
    count(tree, totals)
    _shrink(tree, totals, max_pes)
    return fill(partition.pyramid, tree, totals, max_pes)


def _shrink(tree: Tree, totals: FloatArray, max_pes: float) -> None:
    """Merge what is worth least until the tree fits, or nothing is left to merge."""
    candidates, log, change = candidates_of(tree), new_log(), np.zeros(2)
    num, price, rng = len(candidates.level), 0.3 * _average(totals), rng_state(0)
    for _ in range(60):
        if totals[PES] <= max_pes or num == 0:
            return
        anneal_sweep(tree, candidates, num, 0, 1, rng, 0.0, price, 0.0, totals, change, log)
        price *= 1.05


def _average(totals: FloatArray) -> float:
    return float(totals[VALUE] / max(1.0, totals[PES]))


def _stride(num: int, random: np.random.Generator) -> int:
    """A stride that visits all candidates in a scattered order."""
    stride = int(random.integers(1, num))
    while math.gcd(stride, num) > 1:
        stride = stride % (num - 1) + 1
    return stride


def as_partition(pyramid: Pyramid, tree: Tree, totals: FloatArray) -> Partition:
    """The limits may be above what the tiles need: the score counts the scale that they need."""
    is_tile, num_adapters = find_tiles(tree)
    scale = needed_scale(tree, is_tile)
    lift = 2.0 ** num_lifts(pyramid, scale)
    accuracy = float(totals[VALUE]) * float(tree.limit[0]) * lift / max(1.0, lift * scale)
    used = int(is_tile.sum()) + num_adapters
    return Partition(pyramid, float(tree.limit[0]), tree.status, accuracy, used)
