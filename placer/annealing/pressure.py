"""The heuristic's p-norm, kept up to date move by move (placer/heuristic.py says what it means).

`price` applies a change and returns by how much the sum of powers grows; `keep` or `take_back`
must follow. Routes are dimension-ordered trees, one turn class per flow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.annealing.board import Board, State
from placer.annealing.moves import Change, apply, undo
from placer.fabric import Direction
from placer.heuristic import Tables, power
from placer.hot import hot
from placer.routing.arrays import Grid, IntArray, LongArray
from placer.routing.trees import Marks, empty_marks

FloatArray = NDArray[np.float64]

_EAST, _WEST = int(Direction.EAST), int(Direction.WEST)
_NORTH, _SOUTH = int(Direction.NORTH), int(Direction.SOUTH)
REFRESH = 1e-3  # the total is summed up afresh when it has changed by this factor


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
def pressure_of(board: Board, tables: Tables, state: State) -> Pressure:
    """Everything from scratch."""
    flows, num_sites = board.flows, board.grid.num_sites
    num_flows = len(flows.source)
    first = np.zeros(num_flows, np.int64)
    used = 0
    for flow in range(num_flows):
        first[flow] = used
        used += _most_links(board, flow)
    pressure = Pressure(
        np.zeros(2),
        np.zeros(board.grid.num_mesh_links + 2 * num_sites, np.int64),
        np.zeros((2, num_sites), np.int64),
        first,
        np.zeros(num_flows, np.int64),
        np.zeros(used, np.int32),
        np.zeros(num_flows),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(num_flows, np.int32),
        np.zeros(num_flows, np.int64),
        np.zeros(2, np.int64),
        np.zeros(num_flows, np.int64),
        np.zeros(used, np.int32),
        np.zeros(num_flows),
        empty_marks(board.grid),
    )
    for flow in range(num_flows):
        pressure.flows[flow] = flow
    pressure.num_flows[0] = num_flows
    growth = _add_trees(board, tables, state, pressure, 0.0, np.inf)
    for unit in range(len(state.sites)):
        growth += _load_ports(tables, pressure, unit, state.sites[unit], 1)
    keep(tables, pressure, growth)
    _sum_afresh(tables, pressure)
    return pressure


@njit(cache=True)
def _most_links(board: Board, flow: int) -> int:
    """Room for any dimension-ordered tree of a flow."""
    grid = board.grid
    last = len(grid.switch_row) - 1
    longest = grid.switch_row[last] + grid.switch_column[last]
    num_targets = board.flows.target_start[flow + 1] - board.flows.target_start[flow]
    return int(min(len(grid.switch_row), num_targets * longest) + num_targets + 1)


@hot
def price(
    board: Board,
    tables: Tables,
    state: State,
    pressure: Pressure,
    change: Change,
    limit: float,
) -> float:
    """Apply a change to `state.sites`, `state.flow_class` and the loads; growth of the total.

    New trees can only add to it. Once it is above `limit`, the rest is not looked at: the change
    must be taken back.
    """
    _list_flows(board, pressure, change)
    growth = 0.0
    for entry in range(pressure.num_flows[0]):
        flow = pressure.flows[entry]
        tokens, first = board.flows.tokens[flow], pressure.tree_first[flow]
        for node in range(first, first + pressure.tree_size[flow]):
            growth += _load_link(tables, pressure, pressure.tree_links[node], -tokens)
        growth -= pressure.trips[flow]
    for entry in range(change.num_units[0]):
        unit = change.units[entry]
        growth += _load_ports(tables, pressure, unit, change.old_sites[entry], -1)
        growth += _load_ports(tables, pressure, unit, change.new_sites[entry], 1)
    apply(state, change)
    return _add_trees(board, tables, state, pressure, growth, limit)


@hot
def keep(tables: Tables, pressure: Pressure, growth: float) -> None:
    """The change stays: its trees replace the old ones."""
    pressure.total[0] += growth
    node = 0
    for entry in range(pressure.num_flows[0]):
        flow = pressure.flows[entry]
        first = pressure.tree_first[flow]
        for place in range(first, first + pressure.new_size[entry]):
            pressure.tree_links[place] = pressure.new_links[node]
            node += 1
        pressure.tree_size[flow] = pressure.new_size[entry]
        pressure.trips[flow] = pressure.new_trips[entry]
    if (
        pressure.total[0] < REFRESH * pressure.total[1]
        or pressure.total[0] > pressure.total[1] / REFRESH
    ):
        _sum_afresh(tables, pressure)


@hot
def _sum_afresh(tables: Tables, pressure: Pressure) -> None:
    """Forget rounding errors that were small against the old total."""
    total = tables.constant_sum
    for link in range(len(pressure.load)):
        total += power(pressure.load[link] * tables.per_link[link], tables.doublings)
    for cycles in pressure.ports.flat:
        total += power(cycles * tables.per_port, tables.doublings)
    for flow in range(len(pressure.trips)):
        total += pressure.trips[flow]
    pressure.total[:] = total


@hot
def take_back(
    board: Board, tables: Tables, state: State, pressure: Pressure, change: Change
) -> None:
    """Undo a priced change."""
    node = 0
    for entry in range(pressure.num_trees[0]):
        tokens = board.flows.tokens[pressure.flows[entry]]
        for _ in range(pressure.new_size[entry]):
            pressure.load[pressure.new_links[node]] -= tokens
            node += 1
    for entry in range(pressure.num_flows[0]):
        flow = pressure.flows[entry]
        tokens, first = board.flows.tokens[flow], pressure.tree_first[flow]
        for place in range(first, first + pressure.tree_size[flow]):
            pressure.load[pressure.tree_links[place]] += tokens
    for entry in range(change.num_units[0]):
        unit = change.units[entry]
        _load_ports(tables, pressure, unit, change.new_sites[entry], -1)
        _load_ports(tables, pressure, unit, change.old_sites[entry], 1)
    undo(state, change)


@hot
def _list_flows(board: Board, pressure: Pressure, change: Change) -> None:
    """Every flow that begins or ends at a unit that goes elsewhere, once."""
    pressure.tick[0] += 1
    tick, count = pressure.tick[0], 0
    if change.flow[0] >= 0:
        pressure.flows[0], count = change.flow[0], 1
    for entry in range(change.num_units[0]):
        unit = change.units[entry]
        for place in range(board.flow_start[unit], board.flow_start[unit + 1]):
            flow = board.unit_flows[place]
            if pressure.stamp[flow] != tick:
                pressure.stamp[flow] = tick
                pressure.flows[count] = flow
                count += 1
    pressure.num_flows[0] = count


@hot
def _add_trees(
    board: Board,
    tables: Tables,
    state: State,
    pressure: Pressure,
    growth: float,
    limit: float,
) -> float:
    """Route the listed flows anew and load their links, until `growth` is above `limit`."""
    used, entry = 0, 0
    while entry < pressure.num_flows[0] and growth <= limit:
        size, growth = _add_tree(board, tables, state, pressure, entry, used, growth)
        pressure.new_size[entry] = size
        used += size
        entry += 1
    pressure.num_trees[0] = entry
    return growth


@hot
def _add_tree(
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
    growth += _load_link(tables, pressure, grid.num_mesh_links + site, tokens)
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
                growth += _load_link(tables, pressure, link, tokens)
                size += 1
        trip = tables.per_trip[tables.unit_kind[target], num_hops] * tokens
        trips += power(trip, tables.doublings)
        if is_multicast:
            if pressure.marks.site[site] == mark:
                continue
            pressure.marks.site[site] = mark
        links[used + size] = grid.num_mesh_links + grid.num_sites + site
        growth += _load_link(tables, pressure, links[used + size], tokens)
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
def _load_link(tables: Tables, pressure: Pressure, link: int, tokens: int) -> float:
    before = pressure.load[link]
    pressure.load[link] = before + tokens
    scale = tables.per_link[link]
    return power((before + tokens) * scale, tables.doublings) - power(
        before * scale, tables.doublings
    )


@hot
def _load_ports(tables: Tables, pressure: Pressure, unit: int, site: int, sign: int) -> float:
    growth = 0.0
    for port, cycles in enumerate((tables.port_read[unit], tables.port_write[unit])):
        if cycles > 0:
            before = pressure.ports[port, site]
            after = before + sign * cycles
            pressure.ports[port, site] = after
            growth += power(after * tables.per_port, tables.doublings)
            growth -= power(before * tables.per_port, tables.doublings)
    return growth
