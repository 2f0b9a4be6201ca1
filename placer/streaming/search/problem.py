"""A mapping problem: a program on a device, as arrays.

`placer/streaming/model/rules.py` says what clusters and rivals are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from placer.base import LongArray
from placer.streaming.model import Device, Mapping, Program, groups_of
from placer.streaming.search.bounds import UNLIMITED, Bounds, Tables, lower_bounds

_WORK_PER_CALL = 4_000_000  # instructions times tiles; some hundredths of a second


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
        """Return the number of tiles that mappers look at.

        With waits, more tiles than instructions are of no use: drop the empty tiles between used
        ones, and no hop gets longer, so the same spokes give starts that are not later.
        """
        return self.tables.num_tiles

    def tries_per_call(self, most: int) -> int:
        """Return how many mappings compiled code may make before it looks at the clock again."""
        return max(1, min(most, _WORK_PER_CALL // (self.num_nodes * self.num_tiles)))

    def mapping(self, tile: LongArray, start: LongArray) -> Mapping:
        """Return a mapping of this problem."""
        return Mapping(tile, start, self.device.ii, self.device.depth)


def make_problem(program: Program, device: Device) -> Problem:
    """Return the problem as arrays. Raises InfeasibleError when a rule cannot be kept."""
    groups = groups_of(program, device)
    rivals: list[set[int]] = [set() for _ in range(1 + max(groups.cluster))]
    for clique in groups.cliques:
        for a, b in combinations(clique, 2):
            rivals[a].add(b)
            rivals[b].add(a)
    ids = np.array(groups.cluster)
    is_exact = device.timing == "exact"
    tables = Tables(
        device.tiles if is_exact else min(device.tiles, program.num_nodes),
        device.ii,
        device.depth,
        UNLIMITED if device.max_hop is None else device.max_hop,
        is_exact,
        int(np.bincount(ids).max()),
        *_flat(program.predecessors),
        *_flat(program.successors),
        ids,
        np.bincount(ids),
        *_flat([sorted(others) for others in rivals]),
        *_flat(groups.cliques),
        np.zeros(program.num_nodes, np.int64),
    )
    bounds = lower_bounds(tables, np.array(program.order))
    return Problem(program, device, tables, bounds, groups.warnings)


def _flat(lists: Sequence[Collection[int]]) -> tuple[LongArray, LongArray]:
    first = np.cumsum([0, *map(len, lists)])
    return first, np.array([value for item in lists for value in item], np.int64)
