"""Cheapest route tree of one flow under the turn rule of a channel class.

The tree grows target by target, nearest first. Each extension is an A* search over states
(switch, heading) that starts at every switch of the tree and enters none of them again.
An extension cannot pass a switch twice: under both turn rules only a U-turn could use such a loop.
A tree of class 0 can always reach the next target, along what is left of its XY path; one of
class 1 can wall itself in, its cost is then infinite.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.fabric import Direction
from placer.routing.arrays import Grid, IntArray, LongArray
from placer.routing.trees import Marks, empty_marks, hops

_EAST, _WEST = int(Direction.EAST), int(Direction.WEST)
_NORTH, _SOUTH = int(Direction.NORTH), int(Direction.SOUTH)
_NUM_HEADINGS = 5  # four directions and INJECT

# Below its capacity a load only breaks ties: the shortest route on the largest fabric has 126
# hops, and 126 / 64 is less than the 2 hops of the shortest detour.
_TIE_WEIGHT = 1 / 64

# Price of one hop between the source and the place where a branch leaves the tree. Small trees
# spare links, but a vector's way to each target should stay short too: windows limit its rate.
_DEPTH_WEIGHT = 0.5


def _turn_table() -> NDArray[np.bool_]:
    """May a route of a class turn from one heading to another: [2, 5, 4]."""
    may_turn = np.ones((2, _NUM_HEADINGS, 4), np.bool_)
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
    history: NDArray[np.float64]  # [num_links] price of past overload, in hops
    channel_load: LongArray  # [num_links, num_channels]


class Demand(NamedTuple):
    """What a flow asks for, and what it pays."""

    tokens: int  # vectors per sample
    turn_class: int  # channel class whose turn rule the route obeys
    pressure: float  # price of overload, in hops per full capacity


class Scratch(NamedTuple):
    """Memory of the searches, allocated once per decision."""

    marks: Marks
    depth: IntArray  # [num_switches] hops from the source, for switches of the tree
    cost: NDArray[np.float64]  # [num_switches * 5] cheapest way to a state so far
    came_from: IntArray  # [num_switches * 5] state before, -1 for a switch of the tree
    seen: LongArray  # [num_switches * 5] number of the last search that reached the state
    counter: LongArray  # [2] last mark, last search


@njit(cache=True)
def empty_scratch(grid: Grid) -> Scratch:
    num_states = len(grid.switch_row) * _NUM_HEADINGS
    return Scratch(
        empty_marks(grid),
        np.zeros(len(grid.switch_row), np.int32),
        np.zeros(num_states),
        np.zeros(num_states, np.int32),
        np.full(num_states, -1, np.int64),
        np.zeros(2, np.int64),
    )


@njit(cache=True)
def grow_tree(
    grid: Grid,
    congestion: Congestion,
    demand: Demand,
    sites: IntArray,
    source: int,
    targets: IntArray,
    scratch: Scratch,
    links: IntArray,
    parents: IntArray,
) -> tuple[int, float]:
    """Write a tree to the front of `links` and `parents`; returns its size and its cost in hops."""
    scratch.counter[0] += 1
    marks, mark = scratch.marks, scratch.counter[0]
    root = grid.site_switch[sites[source]]
    links[0], parents[0] = grid.num_mesh_links + sites[source], -1
    marks.switch[root], marks.switch_node[root], scratch.depth[root] = mark, 0, 0
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
            state = _search(grid, congestion, demand, links[:size], goal, scratch)
            if state < 0:
                return 0, np.inf
            total += scratch.cost[state]
            size = _attach(grid, state, scratch, links, parents, size)
        links[size] = grid.num_mesh_links + grid.num_sites + site
        parents[size] = marks.switch_node[goal]
        size += 1
    return size, total


@njit(cache=True)
def _nearest(grid: Grid, tree: IntArray, sites: IntArray, targets: IntArray) -> int:
    """Position of the target with the fewest hops to a switch of the tree."""
    nearest, least = 0, np.iinfo(np.int32).max
    for position in range(len(targets)):
        goal = grid.site_switch[sites[targets[position]]]
        for link in tree:
            switch = grid.link_target[link]
            if switch >= 0 and hops(grid, switch, goal) < least:
                nearest, least = position, hops(grid, switch, goal)
    return nearest


@njit(cache=True)
def _search(
    grid: Grid,
    congestion: Congestion,
    demand: Demand,
    tree: IntArray,
    goal: int,
    scratch: Scratch,
) -> int:
    """The state in which the cheapest way from the tree enters the goal, -1 if there is none."""
    scratch.counter[1] += 1
    mark, search = scratch.counter[0], scratch.counter[1]
    queue = _start_states(grid, tree, goal, scratch)
    while queue:
        estimate, _, state = heappop(queue)
        switch, heading = state // _NUM_HEADINGS, state % _NUM_HEADINGS
        if switch == goal:
            return state
        if estimate > scratch.cost[state] + hops(grid, switch, goal):
            continue  # a cheaper way to this state was found after this entry was queued
        for turn in range(4):
            link = grid.mesh_link[switch, turn]
            if link < 0 or not _MAY_TURN[demand.turn_class, heading, turn]:
                continue
            switch_after = grid.link_target[link]
            if scratch.marks.switch[switch_after] == mark:
                continue
            after = int(switch_after * _NUM_HEADINGS + turn)
            cost = scratch.cost[state] + _link_cost(congestion, demand, link)
            if scratch.seen[after] != search or cost < scratch.cost[after]:
                scratch.seen[after], scratch.cost[after] = search, cost
                scratch.came_from[after] = state
                to_go = hops(grid, switch_after, goal)
                heappush(queue, (cost + to_go, to_go, after))
    return -1


@njit(cache=True)
def _start_states(
    grid: Grid, tree: IntArray, goal: int, scratch: Scratch
) -> list[tuple[float, int, int]]:
    """A queue of (estimated cost, hops to go, state) with every switch of the tree."""
    queue = []
    for link in tree:
        switch = grid.link_target[link]
        if switch >= 0:
            state = switch * _NUM_HEADINGS + grid.link_direction[link]
            scratch.seen[state] = scratch.counter[1]
            scratch.cost[state] = _DEPTH_WEIGHT * scratch.depth[switch]
            scratch.came_from[state] = -1
            to_go = hops(grid, switch, goal)
            queue.append((scratch.cost[state] + to_go, to_go, int(state)))
    heapify(queue)
    return queue


@njit(cache=True)
def _link_cost(congestion: Congestion, demand: Demand, link: int) -> float:
    """Cost of a mesh link in hops, never below 1: (base + history) * present overload."""
    share = (congestion.load[link] + demand.tokens) / congestion.capacity[link]
    base = 1.0 + congestion.history[link] + _TIE_WEIGHT * min(share, 1.0)
    return float(base * (1.0 + demand.pressure * max(share - 1.0, 0.0)))


@njit(cache=True)
def _attach(
    grid: Grid, state: int, scratch: Scratch, links: IntArray, parents: IntArray, size: int
) -> int:
    """Add the way that ends in `state` to the tree; returns the tree's new size."""
    num_new = 0
    before = state
    while scratch.came_from[before] >= 0:
        before = scratch.came_from[before]
        num_new += 1
    node = scratch.marks.switch_node[before // _NUM_HEADINGS]
    depth = scratch.depth[before // _NUM_HEADINGS]
    for place in range(num_new - 1, -1, -1):
        before = scratch.came_from[state]
        link = grid.mesh_link[before // _NUM_HEADINGS, state % _NUM_HEADINGS]
        switch = state // _NUM_HEADINGS
        links[size + place] = link
        parents[size + place] = node if place == 0 else size + place - 1
        scratch.marks.switch[switch] = scratch.counter[0]
        scratch.marks.switch_node[switch] = size + place
        scratch.depth[switch] = depth + place + 1
        state = before
    return size + num_new
