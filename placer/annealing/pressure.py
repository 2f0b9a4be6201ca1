"""The heuristic's p-norm as loads that one flow or one unit changes (placer/heuristic.py).

Routes are dimension-ordered trees, one turn class per flow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.annealing.board import Board, State
from placer.fabric import Direction
from placer.heuristic import Tables, power
from placer.hot import hot
from placer.routing.arrays import Grid, IntArray, LongArray
from placer.routing.trees import Marks

FloatArray = NDArray[np.float64]

_EAST, _WEST = int(Direction.EAST), int(Direction.WEST)
_NORTH, _SOUTH = int(Direction.NORTH), int(Direction.SOUTH)


class Pressure(NamedTuple):
    """Loads of all resources under the current placement, and what the last change did."""

    total: FloatArray  # [2] sum of powers: now, and when it was last summed up afresh
    load: LongArray  # [num_links] vectors per sample
    ports: LongArray  # [2, num_sites] read and write cycles per sample
    tree_first: LongArray  # [num_flows] place of the flow's tree in tree_links
    tree_size: LongArray  # [num_flows]
    tree_links: IntArray
    trips: FloatArray  # [num_flows] sum of powers over the targets of a flow
    # The last change:
    num_flows: LongArray  # [1] of flows that need a new tree
    num_trees: LongArray  # [1] of flows that have one: fewer when the price went over the limit
    flows: IntArray  # [num_flows] which
    stamp: LongArray  # [num_flows] number of the last change that touched a flow
    tick: LongArray  # [2] number of the change, and of the tree
    new_size: LongArray  # [num_flows] by position in `flows`
    new_links: IntArray  # their trees, one after the other
    new_trips: FloatArray  # [num_flows] by position in `flows`
    marks: Marks


@njit(cache=True)
def most_links(board: Board, flow: int) -> int:
    """Room for any dimension-ordered tree of a flow."""
    grid = board.grid
    last = len(grid.switch_row) - 1
    longest = grid.switch_row[last] + grid.switch_column[last]
    num_targets = board.flows.target_start[flow + 1] - board.flows.target_start[flow]
    return int(min(len(grid.switch_row), num_targets * longest) + num_targets + 1)


@hot
def add_tree(
    board: Board,
    tables: Tables,
    state: State,
    pressure: Pressure,
    entry: int,
    used: int,
    growth: float,
) -> tuple[int, float]:
    """Size of the new tree of a listed flow, and the growth with it.

    The same tree as `placer.routing.dimension_ordered`, without parents; `CompiledSearch.verify`
    compares the two.
    """
    grid, flow = board.grid, pressure.flows[entry]
    tokens, turn_class = board.flows.tokens[flow], state.flow_class[flow]
    first_target, end_target = board.flows.target_start[flow], board.flows.target_start[flow + 1]
    is_multicast = end_target - first_target > 1
    pressure.tick[1] += 1
    mark, links, reached = pressure.tick[1], pressure.new_links, pressure.marks.switch
    site = state.sites[board.flows.source[flow]]
    start = grid.site_switch[site]
    reached[start] = mark
    links[used] = grid.num_mesh_links + site
    growth += load_link(tables, pressure, grid.num_mesh_links + site, tokens)
    size, trips = 1, 0.0
    for end in range(first_target, end_target):
        target = board.flows.targets[end]
        site = state.sites[target]
        here, goal, num_hops = start, grid.site_switch[site], 0
        for leg in range(2):
            heading, step, num_steps = _leg(grid, here, goal, leg != turn_class)
            num_hops += num_steps
            for _ in range(num_steps):
                link = grid.mesh_link[here, heading]
                here += step
                if is_multicast:
                    if reached[here] == mark:
                        continue
                    reached[here] = mark
                links[used + size] = link
                growth += load_link(tables, pressure, link, tokens)
                size += 1
        trip = tables.per_trip[tables.unit_kind[target], num_hops] * tokens
        trips += power(trip, tables.doublings)
        if is_multicast:
            if pressure.marks.site[site] == mark:
                continue
            pressure.marks.site[site] = mark
        links[used + size] = grid.num_mesh_links + grid.num_sites + site
        growth += load_link(tables, pressure, links[used + size], tokens)
        size += 1
    pressure.new_trips[entry] = trips
    return size, growth + trips


@hot
def _leg(grid: Grid, here: int, goal: int, is_vertical: bool) -> tuple[int, int, int]:
    """Direction, difference of switch ids per hop, and hops of the way along one axis."""
    if is_vertical:
        columns = grid.switch_column[len(grid.switch_column) - 1] + 1
        south = grid.switch_row[goal] - grid.switch_row[here]
        return (_SOUTH, columns, south) if south > 0 else (_NORTH, -columns, -south)
    east = grid.switch_column[goal] - grid.switch_column[here]
    return (_EAST, 1, east) if east > 0 else (_WEST, -1, -east)


@hot
def load_link(tables: Tables, pressure: Pressure, link: int, tokens: int) -> float:
    before = pressure.load[link]
    pressure.load[link] = before + tokens
    scale = tables.per_link[link]
    return power((before + tokens) * scale, tables.doublings) - power(
        before * scale, tables.doublings
    )


@hot
def load_ports(tables: Tables, pressure: Pressure, unit: int, site: int, sign: int) -> float:
    growth = 0.0
    for port, cycles in enumerate((tables.port_read[unit], tables.port_write[unit])):
        if cycles > 0:
            before = pressure.ports[port, site]
            after = before + sign * cycles
            pressure.ports[port, site] = after
            growth += power(after * tables.per_port, tables.doublings)
            growth -= power(before * tables.per_port, tables.doublings)
    return growth


@hot
def sum_afresh(tables: Tables, pressure: Pressure) -> None:
    """Forget rounding errors that were small against the old total."""
    total = tables.constant_sum
    for link in range(len(pressure.load)):
        total += power(pressure.load[link] * tables.per_link[link], tables.doublings)
    for cycles in pressure.ports.flat:
        total += power(cycles * tables.per_port, tables.doublings)
    for flow in range(len(pressure.trips)):
        total += pressure.trips[flow]
    pressure.total[:] = total
