"""A mapping problem: a program on a device, as arrays.

Words: `placer.streaming.rules` says what clusters and rivals are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from placer.streaming.bounds import UNLIMITED, Bounds, IntArray, lower_bounds
from placer.streaming.device import Device
from placer.streaming.program import Program
from placer.streaming.rules import groups_of

_WORK_PER_CALL = 4_000_000  # instructions times tiles; some hundredths of a second


class Tables(NamedTuple):
    """The problem for compiled code. Lists of lists are flat: `x[x_first[i]:x_first[i + 1]]`."""

    num_tiles: int
    ii: int
    depth: int
    max_hop: int
    is_exact: bool
    largest_cluster: int  # instructions
    pred_first: IntArray
    pred: IntArray
    succ_first: IntArray
    succ: IntArray
    cluster: IntArray  # [num_nodes]
    cluster_size: IntArray  # [num_clusters]
    rival_first: IntArray
    rival: IntArray
    clique_first: IntArray  # sets of clusters that are rivals of each other: siblings, flow starts
    clique: IntArray
    tail: IntArray  # [num_nodes] cycles from the start of a node to the end, at least


@dataclass(frozen=True, slots=True)
class Problem:
    """What all mappers work on."""

    program: Program
    device: Device
    tables: Tables
    bounds: Bounds
    warnings: tuple[str, ...]  # sibling pairs that share a tile memory

    @property
    def num_nodes(self) -> int:
        return self.program.num_nodes

    @property
    def num_tiles(self) -> int:
        """Tiles that mappers look at.

        With waits, more tiles than instructions are of no use: drop the empty tiles between used
        ones, and no hop gets longer, so the same spokes give starts that are not later.
        """
        return self.tables.num_tiles

    def tries_per_call(self, most: int) -> int:
        """Mappings that compiled code may make before it looks at the clock again."""
        return max(1, min(most, _WORK_PER_CALL // (self.num_nodes * self.num_tiles)))


def make_problem(program: Program, device: Device) -> Problem:
    """Raises InfeasibleError with the reason when a rule cannot be kept."""
    groups = groups_of(program, device)
    rivals: list[set[int]] = [set() for _ in range(1 + max(groups.cluster))]
    for clique in groups.cliques:
        for a, b in combinations(clique, 2):
            rivals[a].add(b)
            rivals[b].add(a)
    succ_first, succ = _flat(program.successors)
    ids = np.array(groups.cluster)
    bounds = lower_bounds(
        np.array(program.order), succ_first, succ, ids, device.depth, device.ii, device.max_hop
    )
    is_exact = device.timing == "exact"
    tables = Tables(
        device.tiles if is_exact else min(device.tiles, program.num_nodes),
        device.ii,
        device.depth,
        UNLIMITED if device.max_hop is None else device.max_hop,
        is_exact,
        int(np.bincount(ids).max()),
        *_flat(program.predecessors),
        succ_first,
        succ,
        ids,
        np.bincount(ids),
        *_flat([sorted(others) for others in rivals]),
        *_flat(groups.cliques),
        bounds.tail,
    )
    return Problem(program, device, tables, bounds, groups.warnings)


def _flat(lists: object) -> tuple[IntArray, IntArray]:
    items = [list(item) for item in lists]  # type: ignore[attr-defined]
    first = np.cumsum([0] + [len(item) for item in items])
    return first, np.array([value for item in items for value in item], np.int64)
