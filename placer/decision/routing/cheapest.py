"""Cheapest route tree of one flow under the turn rule of a channel class.

The tree grows target by target, nearest first. An extension starts at any switch of the tree and
enters none of them again. The turn rules let no link wait for itself, which is why routes cannot
deadlock; so the links have an order in which every link comes after all that may lead into it,
and one sweep over the links in that order finds the cheapest ways to all of them.
An extension cannot pass a switch twice: under both turn rules only a U-turn could use such a loop.
A tree of class 0 can always reach the next target, along what is left of its XY path; one of
class 1 can wall itself in, its cost is then infinite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.base import FloatArray, IntArray, LongArray
from placer.decision.routing.arrays import Grid
from placer.decision.routing.trees import Marks, empty_marks, hops
from placer.fabric import Direction

_EAST, _WEST = int(Direction.EAST), int(Direction.WEST)
_INJECT = int(Direction.INJECT)
_NORTH, _SOUTH = int(Direction.NORTH), int(Direction.SOUTH)

# Below its capacity a load only breaks ties: the shortest route on the largest fabric has 126
# hops, and 126 / 64 is less than the 2 hops of the shortest detour.
_TIE_WEIGHT = 1 / 64

# Price of one hop between the source and the place where a branch leaves the tree. Small trees
# spare links, but a vector's way to each target should stay short too: windows limit its rate.
_DEPTH_WEIGHT = 0.5


def _turn_table() -> NDArray[np.bool_]:
    """Return whether a route of a class may turn from a heading (one of 4, or INJECT) to another, [2, 5, 4]."""
    may_turn = np.ones((2, 5, 4), np.bool_)
    for heading, opposite in ((_EAST, _WEST), (_WEST, _EAST), (_NORTH, _SOUTH), (_SOUTH, _NORTH)):
        may_turn[:, heading, opposite] = False
    may_turn[0, [_NORTH, _SOUTH], _WEST] = False
    may_turn[1, _WEST, [_NORTH, _SOUTH]] = False
    return may_turn


_MAY_TURN = _turn_table()


class Congestion(NamedTuple):
    """How much the links are used, in vectors per sample, and how often they were overloaded."""

    capacity: LongArray  # [num_links] at the bound
    load: LongArray  # [num_links]
    history: FloatArray  # [num_links] price of past overload, in hops
    channel_load: LongArray  # [num_links, num_channels]


class Sweep(NamedTuple):
    """An order of the mesh links for each turn class, and what may lead into each of them."""

    order: IntArray  # [2, num_mesh_links]
    before: IntArray  # [2, num_mesh_links, 3] links by link; num_mesh_links stands for none
    link_source: IntArray  # [num_mesh_links] switch
    entry: IntArray  # [num_switches, 4] link that enters by Direction; num_mesh_links for none


class Scratch(NamedTuple):
    """Memory of the searches, allocated once per call.

    Entry num_mesh_links of `price` and `cost` belongs to no link and stays infinite.
    """

    sweep: Sweep
    marks: Marks
    depth: IntArray  # [num_switches] hops from the source, for switches of the tree
    price: FloatArray  # [num_mesh_links + 1] of a link to the flow, in hops
    entry_price: FloatArray  # [num_mesh_links + 1] the same; infinite if the tree has its target
    start: FloatArray  # [num_mesh_links] cost of leaving the tree by a link; infinite elsewhere
    cost: FloatArray  # [num_mesh_links + 1] of the cheapest way that ends with the link
    counter: LongArray  # [1] last mark


@njit(cache=True)
def empty_scratch(grid: Grid) -> Scratch:
    num_links = grid.num_mesh_links
    return Scratch(
        _sweep_of(grid),
        empty_marks(grid),
        np.zeros(len(grid.switch_row), np.int32),
        np.full(num_links + 1, np.inf),
        np.full(num_links + 1, np.inf),
        np.full(num_links, np.inf),
        np.full(num_links + 1, np.inf),
        np.zeros(1, np.int64),
    )


@njit(cache=True)
def _sweep_of(grid: Grid) -> Sweep:
    none = grid.num_mesh_links
    link_source = np.empty(none, np.int32)
    entry = np.full((len(grid.switch_row), 4), none, np.int32)
    for switch in range(len(grid.switch_row)):
        for direction in range(4):
            link = grid.mesh_link[switch, direction]
            if link >= 0:
                link_source[link] = switch
                entry[grid.link_target[link], direction] = link
    before = np.full((2, none, 3), none, np.int32)
    for turn_class in range(2):
        for link in range(none):
            num_before = 0
            for heading in range(4):
                if _MAY_TURN[turn_class, heading, grid.link_direction[link]]:
                    before[turn_class, link, num_before] = entry[link_source[link], heading]
                    num_before += 1
    return Sweep(_order_of(grid, entry), before, link_source, entry)


@njit(cache=True)
def _order_of(grid: Grid, entry: IntArray) -> IntArray:
    """List links to the west first in class 0 and last in class 1, and the others column by column.

    Within a column, the links that enter it from the west come first, then those up, then those down.
    """
    none = grid.num_mesh_links
    rows, columns = grid.switch_row[-1] + 1, grid.switch_column[-1] + 1
    num_west = rows * (columns - 1)
    order = np.empty((2, none), np.int32)
    west, other = 0, 0
    for column in range(columns):
        for heading in (_EAST, _NORTH, _SOUTH, _WEST):
            for step in range(rows):
                row = rows - 1 - step if heading == _NORTH else step
                side = columns - 1 - column if heading == _WEST else column
                link = entry[row * columns + side, heading]
                if link == none:
                    continue
                if heading == _WEST:
                    order[0, west], order[1, none - num_west + west] = link, link
                    west += 1
                else:
                    order[0, num_west + other], order[1, other] = link, link
                    other += 1
    return order


@njit(cache=True)
def grow_tree(
    grid: Grid,
    turn_class: int,
    sites: IntArray,
    source: int,
    targets: IntArray,
    scratch: Scratch,
    links: IntArray,
    parents: IntArray,
) -> tuple[int, float]:
    """Write a tree to the front of `links` and `parents`; returns its size and its cost in hops.

    The prices of the links stand in the scratch memory, see `set_prices`.
    """
    scratch.counter[0] += 1
    scratch.entry_price[:] = scratch.price
    scratch.start[:] = np.inf
    marks, mark = scratch.marks, scratch.counter[0]
    links[0], parents[0] = grid.num_mesh_links + sites[source], -1
    _enter(grid, turn_class, grid.site_switch[sites[source]], _INJECT, 0, 0, scratch)
    size, total = 1, 0.0
    pending = targets.copy()
    for num_pending in range(len(pending), 0, -1):
        nearest = _nearest(grid, links[:size], sites, pending[:num_pending])
        site = sites[pending[nearest]]
        pending[nearest] = pending[num_pending - 1]
        if marks.site[site] == mark:
            continue
        marks.site[site] = mark
        goal = grid.site_switch[site]
        if marks.switch[goal] != mark:
            last = _search(turn_class, goal, scratch)
            if last < 0:
                return 0, np.inf
            total += scratch.cost[last]
            size = _attach(grid, turn_class, last, scratch, links, parents, size)
        links[size] = grid.num_mesh_links + grid.num_sites + site
        parents[size] = marks.switch_node[goal]
        size += 1
    return size, total


@njit(cache=True)
def _enter(grid: Grid, turn_class: int, switch: int, heading: int, node: int, depth: int, scratch: Scratch) -> None:
    """Make a switch part of the tree: routes may leave it, and may not enter it again."""
    scratch.marks.switch[switch], scratch.marks.switch_node[switch] = scratch.counter[0], node
    scratch.depth[switch] = depth
    for direction in range(4):
        scratch.entry_price[scratch.sweep.entry[switch, direction]] = np.inf
        link = grid.mesh_link[switch, direction]
        if link >= 0 and _MAY_TURN[turn_class, heading, direction]:
            scratch.start[link] = _DEPTH_WEIGHT * depth


@njit(cache=True)
def _nearest(grid: Grid, tree: IntArray, sites: IntArray, targets: IntArray) -> int:
    """Return the position of the target with the fewest hops to a switch of the tree."""
    nearest, least = 0, np.iinfo(np.int32).max
    for position in range(len(targets)):
        goal = grid.site_switch[sites[targets[position]]]
        for link in tree:
            switch = grid.link_target[link]
            if switch >= 0 and hops(grid, switch, goal) < least:
                nearest, least = position, hops(grid, switch, goal)
    return nearest


@njit(cache=True)
def set_prices(grid: Grid, congestion: Congestion, tokens: int, pressure: float, scratch: Scratch) -> None:
    """Set what each mesh link costs the flow, in hops, never below 1: (base + history) * overload."""
    for link in range(grid.num_mesh_links):
        share = (congestion.load[link] + tokens) / congestion.capacity[link]
        base = 1.0 + congestion.history[link] + _TIE_WEIGHT * min(share, 1.0)
        scratch.price[link] = base * (1.0 + pressure * max(share - 1.0, 0.0))


@njit(cache=True)
def _search(turn_class: int, goal: int, scratch: Scratch) -> int:
    """Return the link by which the cheapest way from the tree enters the goal, -1 if there is none."""
    order, before = scratch.sweep.order[turn_class], scratch.sweep.before[turn_class]
    cost, price, start = scratch.cost, scratch.entry_price, scratch.start
    for position in range(len(order)):
        link = order[position]
        least = min(cost[before[link, 0]], cost[before[link, 1]], cost[before[link, 2]])
        cost[link] = min(start[link], least) + price[link]
    best, least = -1, np.inf
    for link in scratch.sweep.entry[goal]:
        if cost[link] < least:
            best, least = link, cost[link]
    return best


@njit(cache=True)
def _link_before(turn_class: int, link: int, scratch: Scratch) -> int:
    """Return the link before this one on the cheapest way to it, -1 if that way leaves the tree here."""
    best, least = -1, scratch.start[link]
    for choice in range(3):
        other = scratch.sweep.before[turn_class, link, choice]
        if scratch.cost[other] < least:
            best, least = other, scratch.cost[other]
    return best


@njit(cache=True)
def _attach(
    grid: Grid, turn_class: int, last: int, scratch: Scratch, links: IntArray, parents: IntArray, size: int
) -> int:
    """Add the way that ends with the link `last` to the tree; returns the tree's new size."""
    new_size, link = size, last
    while link >= 0:
        links[new_size], first = link, link
        link = _link_before(turn_class, link, scratch)
        new_size += 1
    for step in range((new_size - size) // 2):
        left, right = size + step, new_size - 1 - step
        links[left], links[right] = links[right], links[left]
    start = scratch.sweep.link_source[first]
    node, depth = scratch.marks.switch_node[start], scratch.depth[start]
    for place in range(size, new_size):
        link, parents[place] = links[place], node
        node, depth = place, depth + 1
        switch, heading = grid.link_target[link], grid.link_direction[link]
        _enter(grid, turn_class, switch, heading, node, depth, scratch)
    return new_size
