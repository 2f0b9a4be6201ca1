"""Dimension-ordered routes: first along one axis, then along the other.

The paths from one source to all targets of a flow form a tree, since the path to each switch is
unique. XY routes (row first) belong to channel class 0, YX routes to class 1.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.fabric import Direction
from placer.routing.arrays import Flows, Grid, IntArray, LongArray
from placer.routing.trees import Marks, empty_marks, hops

_EAST, _WEST = int(Direction.EAST), int(Direction.WEST)
_NORTH, _SOUTH = int(Direction.NORTH), int(Direction.SOUTH)


@njit(cache=True)
def route_dimension_ordered(
    grid: Grid, flows: Flows, sites: IntArray, flow_class: IntArray
) -> tuple[LongArray, IntArray, IntArray]:
    """Route start, links and parents of all decisions.

    `flow_class` [num_decisions, num_flows]: class 0 goes XY, class 1 goes YX.
    """
    num_decisions, num_flows = len(sites), len(flows.source)
    route_start = np.zeros((num_decisions, num_flows + 1), np.int64)
    num_nodes = _most_nodes(grid, flows, sites)
    links = np.empty(num_nodes, np.int32)
    parents = np.empty(num_nodes, np.int32)
    marks = empty_marks(grid)
    used = 0
    for decision in range(num_decisions):
        route_start[decision, 0] = used
        for flow in range(num_flows):
            used += dimension_tree(
                grid,
                flows,
                sites[decision],
                flow,
                flow_class[decision, flow],
                marks,
                decision * num_flows + flow,
                links[used:],
                parents[used:],
            )
            route_start[decision, flow + 1] = used
    return route_start, links[:used], parents[:used]


@njit(cache=True)
def _most_nodes(grid: Grid, flows: Flows, sites: IntArray) -> int:
    """Nodes of all trees together, if no two paths shared a link."""
    total = len(sites) * (len(flows.source) + len(flows.targets))
    for decision in range(len(sites)):
        for flow in range(len(flows.source)):
            start = grid.site_switch[sites[decision, flows.source[flow]]]
            for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
                total += hops(grid, start, grid.site_switch[sites[decision, flows.targets[end]]])
    return total


@njit(cache=True)
def dimension_tree(
    grid: Grid,
    flows: Flows,
    sites: IntArray,
    flow: int,
    turn_class: int,
    marks: Marks,
    mark: int,
    links: IntArray,
    parents: IntArray,
) -> int:
    """Write the tree of one flow to the front of `links` and `parents`; returns its size."""
    source_site = sites[flows.source[flow]]
    start = grid.site_switch[source_site]
    links[0], parents[0] = grid.num_mesh_links + source_site, -1
    marks.switch[start], marks.switch_node[start] = mark, 0
    size = 1
    for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
        site = sites[flows.targets[end]]
        if marks.site[site] == mark:
            continue
        marks.site[site] = mark
        here, goal, node = start, grid.site_switch[site], 0
        for leg in range(2):
            heading, steps = _leg(grid, here, goal, leg != turn_class)
            for _ in range(steps):
                link = grid.mesh_link[here, heading]
                here = grid.link_target[link]
                if marks.switch[here] != mark:
                    links[size], parents[size] = link, node
                    marks.switch[here], marks.switch_node[here] = mark, size
                    size += 1
                node = marks.switch_node[here]
        links[size], parents[size] = grid.num_mesh_links + grid.num_sites + site, node
        size += 1
    return size


@njit(cache=True, forceinline=True)
def _leg(grid: Grid, here: int, goal: int, is_vertical: bool) -> tuple[int, int]:
    """Direction and hops of the way along one axis."""
    if is_vertical:
        south = grid.switch_row[goal] - grid.switch_row[here]
        return (_SOUTH if south > 0 else _NORTH), abs(south)
    east = grid.switch_column[goal] - grid.switch_column[here]
    return (_EAST if east > 0 else _WEST), abs(east)


def dimension_channels(flow_class: IntArray, num_channels: int) -> IntArray:
    """Channels [..., num_flows]: the flows of a class take its channels in turn."""
    per_class = num_channels // 2
    in_class = np.arange(flow_class.shape[-1], dtype=np.int32) % per_class
    return (flow_class * per_class + in_class).astype(np.int32)


def mixed_classes(seed: int, num_flows: int) -> IntArray:
    """A fair coin per flow that depends on (seed, flow) only: the splitmix64 hash of both."""
    flow = np.arange(1, num_flows + 1, dtype=np.uint64)
    bits = _splitmix64(_splitmix64(np.full(1, seed % 2**64, np.uint64)) + flow)
    return (bits >> np.uint64(63)).astype(np.int32)


def _splitmix64(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64 bits (Steele, Lea, Flood 2014: Fast splittable pseudorandom number generators)."""
    mixed = value * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
