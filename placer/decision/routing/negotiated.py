"""Negotiated congestion: flows bid for links until no link carries more than it can.

PathFinder (McMurchie and Ebeling, FPGA 1995): every flow takes its cheapest tree; links that
are overloaded become dearer, by the present overload and by a memory of past ones; the flows that
cross them are ripped up and routed again, heavy flows first. On a crowded fabric there may be
no routes without overload; the negotiation ends when the largest one does not fall any more.
Loads count vectors per sample, so all sums are exact and the result does not depend on their order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import IntArray, LongArray
from placer.decision.routing.arrays import Grid
from placer.decision.routing.cheapest import Congestion, Scratch, empty_scratch, grow_tree, set_prices
from placer.decision.routing.dimension_ordered import add_node, dimension_tree
from placer.decision.routing.load import add_load
from placer.decision.routing.trees import copy_entries, empty_marks, most_nodes, with_room
from placer.netlist import Flows

_FIRST_PRESSURE = 1.0
_PRESSURE_GROWTH = 1.6
_HISTORY_STEP = 0.5  # hops per round in which the link was just full; more by its overload
_PATIENCE = 3  # rounds in which the largest overload does not fall, then it ends
_COST_TOLERANCE = 1e-9


class Routes(NamedTuple):
    """The routes of one decision; each flow has room for its largest tree."""

    first: LongArray  # [num_flows] where the flow's tree starts in links and parents
    size: IntArray  # [num_flows]
    channel: IntArray  # [num_flows]
    links: IntArray
    parents: IntArray


class Board(NamedTuple):
    """What stays the same while the flows of one decision are routed."""

    grid: Grid
    flows: Flows
    sites: IntArray  # [num_units]
    scratch: Scratch


@njit(cache=True)
def route_negotiated(
    grid: Grid, flows: Flows, sites: IntArray, capacity: LongArray, num_channels: int, max_iterations: int
) -> tuple[IntArray, LongArray, IntArray, IntArray]:
    """Return channels, route start, links and parents of all decisions."""
    num_decisions, num_flows = len(sites), len(flows.source)
    channels = np.empty((num_decisions, num_flows), np.int32)
    route_start = np.zeros((num_decisions, num_flows + 1), np.int64)
    links = np.empty(1024, np.int32)
    parents = np.empty(1024, np.int32)
    used = 0
    scratch = empty_scratch(grid)
    for decision in range(num_decisions):
        board = Board(grid, flows, sites[decision], scratch)
        routes = _negotiate(board, capacity, num_channels, max_iterations)
        copy_entries(routes.channel, 0, channels[decision], 0, num_flows)
        route_start[decision, 0] = used
        for flow in range(num_flows):
            first, size = routes.first[flow], routes.size[flow]
            links = with_room(links, used + size)
            parents = with_room(parents, len(links))
            copy_entries(routes.links, first, links, used, size)
            copy_entries(routes.parents, first, parents, used, size)
            used += size
            route_start[decision, flow + 1] = used
    return channels, route_start, links[:used].copy(), parents[:used].copy()


@njit(cache=True)
def _negotiate(board: Board, capacity: LongArray, num_channels: int, max_iterations: int) -> Routes:
    """Return the routes of the best round, or XY routes where their busiest link has less to carry."""
    num_mesh_links = board.grid.num_mesh_links
    congestion = empty_congestion(capacity, num_channels)
    routes = empty_routes(board.grid, board.flows)
    best, best_score = routes, _score(num_mesh_links, routes, congestion)
    pressure, last_gain = _FIRST_PRESSURE, 0
    for iteration in range(max_iterations):
        for flow in board.flows.heavy_first:
            if iteration == 0 or _is_crowded(routes, flow, num_mesh_links, congestion):
                add_flow(board.flows, routes, flow, congestion, -1)
                route_flow(board, routes, flow, congestion, pressure)
                add_flow(board.flows, routes, flow, congestion, 1)
        score = _score(num_mesh_links, routes, congestion)
        if iteration == 0 or score < best_score:
            if score[0] < best_score[0]:
                last_gain = iteration
            best, best_score = _copy(routes), score
        if score[0] == 0 or iteration == last_gain + _PATIENCE:
            break
        _remember(num_mesh_links, congestion)
        pressure *= _PRESSURE_GROWTH
    xy_routes = _route_xy(board, num_channels)
    if _peak(board, xy_routes) < _peak(board, best):
        return xy_routes
    return best


@njit(cache=True)
def empty_congestion(capacity: LongArray, num_channels: int) -> Congestion:
    num_links = len(capacity)
    return Congestion(
        capacity, np.zeros(num_links, np.int64), np.zeros(num_links), np.zeros((num_links, num_channels), np.int64)
    )


@njit(cache=True)
def empty_routes(grid: Grid, flows: Flows) -> Routes:
    num_flows = len(flows.source)
    first = np.zeros(num_flows + 1, np.int64)
    for flow in range(num_flows):
        first[flow + 1] = first[flow] + most_nodes(grid, flows, flow)
    return Routes(
        first[:num_flows],
        np.zeros(num_flows, np.int32),
        np.zeros(num_flows, np.int32),
        np.empty(first[num_flows], np.int32),
        np.empty(first[num_flows], np.int32),
    )


@njit(cache=True)
def _copy(routes: Routes) -> Routes:
    return Routes(routes.first, routes.size.copy(), routes.channel.copy(), routes.links.copy(), routes.parents.copy())


@njit(cache=True)
def tree_links(routes: Routes, flow: int) -> IntArray:
    """Return the links of the tree of a flow."""
    return routes.links[routes.first[flow] : routes.first[flow] + routes.size[flow]]


@njit(cache=True)
def add_flow(flows: Flows, routes: Routes, flow: int, congestion: Congestion, sign: int) -> None:
    """Put the load of a routed flow on its links, or with sign -1 take it away."""
    first, size, tokens = routes.first[flow], routes.size[flow], sign * flows.tokens[flow]
    add_load(congestion.load, routes.links, first, size, tokens)
    add_load(congestion.channel_load[:, routes.channel[flow]], routes.links, first, size, tokens)


@njit(cache=True)
def route_flow(board: Board, routes: Routes, flow: int, congestion: Congestion, pressure: float) -> None:
    """Give a flow that is not on the links its cheapest tree, of equal classes that with the emptier channel."""
    grid, flows = board.grid, board.flows
    first, room = routes.first[flow], most_nodes(grid, flows, flow)
    ends = flows.targets[flows.target_start[flow] : flows.target_start[flow + 1]]
    best_cost, best_load = np.inf, 0
    links, parents = np.empty(room, np.int32), np.empty(room, np.int32)
    set_prices(grid, congestion, flows.tokens[flow], pressure, board.scratch)
    for turn_class in range(2):
        size, cost = grow_tree(grid, turn_class, board.sites, flows.source[flow], ends, board.scratch, links, parents)
        if cost > best_cost + _COST_TOLERANCE:
            continue
        channel, load = _emptiest_channel(links[:size], turn_class, congestion)
        if cost < best_cost - _COST_TOLERANCE or load < best_load:
            best_cost, best_load = cost, load
            routes.size[flow], routes.channel[flow] = size, channel
            copy_entries(links, 0, routes.links, first, size)
            copy_entries(parents, 0, routes.parents, first, size)


@njit(cache=True)
def _emptiest_channel(tree: IntArray, turn_class: int, congestion: Congestion) -> tuple[int, int]:
    """Return the channel of a class with the least load summed along a tree, and that load."""
    per_class = congestion.channel_load.shape[1] // 2
    best, least = -1, 0
    for channel in range(turn_class * per_class, (turn_class + 1) * per_class):
        load = 0
        for link in tree:
            load += congestion.channel_load[link, channel]
        if best < 0 or load < least:
            best, least = channel, load
    return best, least


@njit(cache=True)
def _is_crowded(routes: Routes, flow: int, num_mesh_links: int, congestion: Congestion) -> bool:
    """Say whether the flow crosses an overloaded mesh link; inject and eject links leave no choice."""
    for link in tree_links(routes, flow):
        if link < num_mesh_links and congestion.load[link] > congestion.capacity[link]:
            return True
    return False


@njit(cache=True)
def _score(num_mesh_links: int, routes: Routes, congestion: Congestion) -> tuple[int, int, int]:
    """Return the largest overload, the total overload and the number of links of all trees: the less the better."""
    largest, total = 0, 0
    for link in range(num_mesh_links):
        over = max(0, congestion.load[link] - congestion.capacity[link])
        largest = max(largest, over)
        total += over
    return largest, total, int(routes.size.sum())


@njit(cache=True)
def _remember(num_mesh_links: int, congestion: Congestion) -> None:
    """Make the links that are overloaded now dearer in all later rounds."""
    for link in range(num_mesh_links):
        share = congestion.load[link] / congestion.capacity[link]
        if share > 1.0:
            congestion.history[link] += _HISTORY_STEP * share


@njit(cache=True)
def _route_xy(board: Board, num_channels: int) -> Routes:
    routes = empty_routes(board.grid, board.flows)
    marks = empty_marks(board.grid)
    for flow in range(len(board.flows.source)):
        routes.channel[flow] = flow % (num_channels // 2)
        routes.size[flow], _ = dimension_tree(
            add_node, routes, board.grid, board.flows, board.sites, flow, 0, marks, flow,
            routes.first[flow], 0.0,
        )  # fmt: skip
    return routes


@njit(cache=True)
def _peak(board: Board, routes: Routes) -> int:
    """Return the vectors per sample on the busiest mesh link."""
    load = np.zeros(len(board.grid.link_target), np.int64)
    for flow in range(len(board.flows.source)):
        tokens = board.flows.tokens[flow]
        add_load(load, routes.links, routes.first[flow], routes.size[flow], tokens)
    return int(load[: board.grid.num_mesh_links].max())
