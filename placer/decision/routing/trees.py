"""Growing arrays and marks that the compiled routers share while they build route trees.

A tree under construction stands in `links[first:]` and `parents[first:]`, parents counted from
`first`. `Marks` remembers which switches and sites the tree has reached; a mark is a number
that differs for every tree, so nothing must be cleared between two trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import IntArray, LongArray, hot
from placer.decision.routing.arrays import Grid
from placer.netlist import Flows


class Marks(NamedTuple):
    """What the tree with number `mark` has reached."""

    switch: LongArray  # [num_switches] mark of the last tree that entered the switch
    switch_node: IntArray  # [num_switches] its node that did
    site: LongArray  # [num_sites] mark of the last tree that ejects at the site


@njit(cache=True)
def empty_marks(grid: Grid) -> Marks:
    num_switches = len(grid.switch_row)
    return Marks(
        np.full(num_switches, -1, np.int64), np.zeros(num_switches, np.int32), np.full(grid.num_sites, -1, np.int64)
    )


@hot
def hops(grid: Grid, switch: int, goal: int) -> int:
    """Return the mesh links between two switches."""
    rows = abs(grid.switch_row[switch] - grid.switch_row[goal])
    columns = abs(grid.switch_column[switch] - grid.switch_column[goal])
    return int(rows + columns)


@njit(cache=True)
def most_nodes(grid: Grid, flows: Flows, flow: int) -> int:
    """Return the room for any tree of a flow: every switch is entered once, every target left once."""
    num_targets = flows.target_start[flow + 1] - flows.target_start[flow]
    return int(len(grid.switch_row) + num_targets)


@njit(cache=True)
def with_room(array: IntArray, size: int) -> IntArray:
    """Return the array, or a copy at least twice as long when `size` entries do not fit."""
    if size <= len(array):
        return array
    longer = np.empty(max(size, 2 * len(array)), array.dtype)
    copy_entries(array, 0, longer, 0, len(array))
    return longer


@hot
def copy_entries(source: IntArray, start: int, target: IntArray, at: int, count: int) -> None:
    """Copy `count` entries; assigning slices would add seconds to the compilation."""
    for entry in range(count):
        target[at + entry] = source[start + entry]
