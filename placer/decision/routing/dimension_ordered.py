"""Dimension-ordered routes: first along one axis, then along the other.

The paths from one source to all targets of a flow form a tree, since the path to each switch is
unique. XY routes (row first) belong to channel class 0, YX routes to class 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.base import IntArray, LongArray, generic, hot
from placer.decision.routing.arrays import Grid
from placer.decision.routing.trees import Marks, empty_marks, hops
from placer.fabric import Direction
from placer.netlist import Flows

_EAST, _WEST = int(Direction.EAST), int(Direction.WEST)
_NORTH, _SOUTH = int(Direction.NORTH), int(Direction.SOUTH)


@njit(cache=True)
def route_dimension_ordered(
    grid: Grid, flows: Flows, sites: IntArray, flow_class: IntArray
) -> tuple[LongArray, IntArray, IntArray]:
    """Return route start, links and parents of all decisions.

    `flow_class` [num_decisions, num_flows]: class 0 goes XY, class 1 goes YX.
    """
    num_decisions, num_flows = len(sites), len(flows.source)
    route_start = np.zeros((num_decisions, num_flows + 1), np.int64)
    num_nodes = _most_nodes(grid, flows, sites)
    trees = Trees(np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32))
    marks = empty_marks(grid)
    used = 0
    for decision in range(num_decisions):
        route_start[decision, 0] = used
        for flow in range(num_flows):
            size, _ = dimension_tree(
                add_node, trees, grid, flows, sites[decision], flow, flow_class[decision, flow],
                marks, decision * num_flows + flow, used, 0.0,
            )  # fmt: skip
            used += size
            route_start[decision, flow + 1] = used
    return route_start, trees.links[:used], trees.parents[:used]


@njit(cache=True)
def _most_nodes(grid: Grid, flows: Flows, sites: IntArray) -> int:
    """Return the number of nodes of all trees together, if no two paths shared a link."""
    total = len(sites) * (len(flows.source) + len(flows.targets))
    for decision in range(len(sites)):
        for flow in range(len(flows.source)):
            start = grid.site_switch[sites[decision, flows.source[flow]]]
            for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
                total += hops(grid, start, grid.site_switch[sites[decision, flows.targets[end]]])
    return total


class Trees(NamedTuple):
    """Room for trees; anything else with links and parents will do."""

    links: IntArray
    parents: IntArray


@hot
def add_node(trees: Any, place: int, link: int, parent: int, tokens: int) -> float:
    """Write a node of a tree; it costs nothing."""
    trees.links[place], trees.parents[place] = link, parent
    return 0.0


@generic
def dimension_tree(
    add: Callable[..., float],
    trees: Any,
    grid: Grid,
    flows: Flows,
    sites: IntArray,
    flow: int,
    turn_class: int,
    marks: Marks,
    mark: int,
    first: int,
    cost: float,
) -> tuple[int, float]:
    """Give the nodes of the tree of one flow to `add`, from place `first` on.

    Returns their number, and `cost` with what `add` says that each costs.
    """
    first_target, end_target = flows.target_start[flow], flows.target_start[flow + 1]
    is_multicast = end_target - first_target > 1  # only then a switch can be reached twice
    tokens, source_site = flows.tokens[flow], sites[flows.source[flow]]
    start = grid.site_switch[source_site]
    if is_multicast:
        marks.switch[start], marks.switch_node[start] = mark, 0
    cost += add(trees, first, grid.num_mesh_links + source_site, -1, tokens)
    size = 1
    for end in range(first_target, end_target):
        site = sites[flows.targets[end]]
        if is_multicast:
            if marks.site[site] == mark:
                continue
            marks.site[site] = mark
        here, goal, node = start, grid.site_switch[site], 0
        for leg in range(2):
            heading, step, num_steps = _leg(grid, here, goal, leg != turn_class)
            for _ in range(num_steps):
                link = grid.mesh_link[here, heading]
                here += step
                if is_multicast:
                    if marks.switch[here] == mark:
                        node = marks.switch_node[here]
                        continue
                    marks.switch[here], marks.switch_node[here] = mark, size
                cost += add(trees, first + size, link, node, tokens)
                node = size
                size += 1
        cost += add(trees, first + size, grid.num_mesh_links + grid.num_sites + site, node, tokens)
        size += 1
    return size, cost


@hot
def _leg(grid: Grid, here: int, goal: int, is_vertical: bool) -> tuple[int, int, int]:
    """Return direction, difference of switch ids per hop, and hops of the way along one axis."""
    if is_vertical:
        columns = grid.switch_column[len(grid.switch_column) - 1] + 1
        south = grid.switch_row[goal] - grid.switch_row[here]
        return (_SOUTH, columns, south) if south > 0 else (_NORTH, -columns, -south)
    east = grid.switch_column[goal] - grid.switch_column[here]
    return (_EAST, 1, east) if east > 0 else (_WEST, -1, -east)


def dimension_channels(flow_class: IntArray, num_channels: int) -> IntArray:
    """Return channels [..., num_flows]: the flows of a class take its channels in turn."""
    per_class = num_channels // 2
    in_class = np.arange(flow_class.shape[-1], dtype=np.int32) % per_class
    return (flow_class * per_class + in_class).astype(np.int32)


def mixed_classes(seed: int, num_flows: int) -> IntArray:
    """Return a fair coin per flow that depends on (seed, flow) only: the splitmix64 hash of both."""
    flow = np.arange(1, num_flows + 1, dtype=np.uint64)
    bits = _splitmix64(_splitmix64(np.full(1, seed % 2**64, np.uint64)) + flow)
    return (bits >> np.uint64(63)).astype(np.int32)


def _splitmix64(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64 bits (Steele, Lea, Flood 2014: Fast splittable pseudorandom number generators)."""
    mixed = value * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
