"""The price of a change, in the heuristic's p-norm.

`price` applies a change and returns by how much the sum of powers grows; `keep` or `take_back`
must follow.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.annealing.board import Board, State
from placer.annealing.moves import Change, apply, undo
from placer.annealing.pressure import (
    Pressure,
    add_tree,
    load_link,
    load_ports,
    most_links,
    sum_afresh,
)
from placer.heuristic import Tables
from placer.hot import hot
from placer.routing.trees import empty_marks

REFRESH = 1e-3  # the total is summed up afresh when it has changed by this factor


@njit(cache=True)
def pressure_of(board: Board, tables: Tables, state: State) -> Pressure:
    """Everything from scratch."""
    flows, num_sites = board.flows, board.grid.num_sites
    num_flows = len(flows.source)
    first = np.zeros(num_flows, np.int64)
    used = 0
    for flow in range(num_flows):
        first[flow] = used
        used += most_links(board, flow)
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
        growth += load_ports(tables, pressure, unit, state.sites[unit], 1)
    keep(tables, pressure, growth)
    sum_afresh(tables, pressure)
    return pressure


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
            growth += load_link(tables, pressure, pressure.tree_links[node], -tokens)
        growth -= pressure.trips[flow]
    for entry in range(change.num_units[0]):
        unit = change.units[entry]
        growth += load_ports(tables, pressure, unit, change.old_sites[entry], -1)
        growth += load_ports(tables, pressure, unit, change.new_sites[entry], 1)
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
        sum_afresh(tables, pressure)


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
        load_ports(tables, pressure, unit, change.new_sites[entry], -1)
        load_ports(tables, pressure, unit, change.old_sites[entry], 1)
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
        size, growth = add_tree(board, tables, state, pressure, entry, used, growth)
        pressure.new_size[entry] = size
        used += size
        entry += 1
    pressure.num_trees[0] = entry
    return growth
