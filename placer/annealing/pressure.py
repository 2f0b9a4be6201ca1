"""The expert's rules as a pricer: the sum of powers of `placer.cost.rules`, move by move.

`loop.py` explains the protocol. Loads are counts, so that they are exact; the sum of powers, which
is what the energy is the logarithm of, is carried along and summed up afresh now and then.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from placer.annealing.board import Board, State
from placer.annealing.loop import Walk, anneal_moves
from placer.annealing.moves import Change
from placer.base import FloatArray, IntArray, LongArray, hot, hot_loop
from placer.decision.routing import Marks, Tables, add_load, copy_entries, dimension_tree, empty_marks, hops, power

REFRESH = 1e-3  # the sum is taken afresh when it has changed by this factor


class Pressure(NamedTuple):
    """Loads of all resources under the current placement, and what the last change did."""

    tables: Tables
    level: FloatArray  # [2] sum of powers: now, and with the change that was priced last
    fresh: FloatArray  # [1] the sum when it was last taken afresh
    load: LongArray  # [num_links] vectors per sample
    ports: LongArray  # [2, num_sites] read and write cycles per sample
    tree_first: LongArray  # [num_flows] place of the flow's tree in tree_links
    tree_size: LongArray  # [num_flows]
    tree_links: IntArray
    trips: FloatArray  # [num_flows] sum of powers over the targets of a flow
    # The last change, by position in the list of its flows:
    num_trees: LongArray  # [1] that were made: not all when the price went over the limit
    new_size: LongArray  # [num_flows]
    new_links: IntArray  # the trees, one after the other
    new_trips: FloatArray  # [num_flows]
    marks: Marks
    mark: LongArray  # [1] of the last tree


@njit(cache=True)
def pressure_of(board: Board, tables: Tables, state: State) -> Pressure:
    """Return the pressure of a state, everything from scratch."""
    num_sites, num_flows = board.grid.num_sites, len(board.flows.source)
    first = np.zeros(num_flows, np.int64)
    used = 0
    for flow in range(num_flows):
        first[flow] = used
        used += _most_links(board, flow)
    pressure = Pressure(
        tables,
        np.zeros(2),
        np.zeros(1),
        np.zeros(board.grid.num_mesh_links + 2 * num_sites, np.int64),
        np.zeros((2, num_sites), np.int64),
        first,
        np.zeros(num_flows, np.int64),
        np.zeros(used, np.int32),
        np.zeros(num_flows),
        np.zeros(1, np.int64),
        np.zeros(num_flows, np.int64),
        np.zeros(used, np.int32),
        np.zeros(num_flows),
        empty_marks(board.grid),
        np.zeros(1, np.int64),
    )
    flows = np.arange(num_flows).astype(np.int32)
    _add_trees(pressure, board, state, flows, num_flows, 0.0, np.inf)
    _keep_trees(pressure, flows, num_flows)
    for unit in range(len(state.sites)):
        _load_ports(pressure, unit, state.sites[unit], 1)
    _sum_afresh(pressure)
    return pressure


@njit(cache=True)
def _most_links(board: Board, flow: int) -> int:
    """Return the room for any dimension-ordered tree of a flow."""
    grid = board.grid
    last = len(grid.switch_row) - 1
    longest = grid.switch_row[last] + grid.switch_column[last]
    num_targets = board.flows.target_start[flow + 1] - board.flows.target_start[flow]
    return int(min(len(grid.switch_row), num_targets * longest) + num_targets + 1)


@hot
def price(pressure: Pressure, board: Board, state: State, change: Change, rise: float) -> bool:
    """Load the new trees of an applied change; say whether the energy rises by `rise` at most.

    The energy is log(sum) / exponent.
    """
    exponent = float(1 << pressure.tables.doublings)
    allowed = pressure.level[0] * math.expm1(exponent * rise)
    growth = grow(pressure, board, state, change, allowed)
    pressure.level[1] = pressure.level[0] + growth
    return not growth > allowed


@hot
def grow(pressure: Pressure, board: Board, state: State, change: Change, limit: float) -> float:
    """Return the growth of the sum by an applied change; the loads follow it.

    New trees can only add to it. Once it is above `limit`, the rest is not looked at.
    """
    growth = 0.0
    for entry in range(change.num_flows[0]):
        flow = change.flows[entry]
        tokens, first = board.flows.tokens[flow], pressure.tree_first[flow]
        for node in range(first, first + pressure.tree_size[flow]):
            growth += _load_link(pressure, pressure.tree_links[node], -tokens)
        growth -= pressure.trips[flow]
    for entry in range(change.num_units[0]):
        unit = change.units[entry]
        growth += _load_ports(pressure, unit, change.old_sites[entry], -1)
        growth += _load_ports(pressure, unit, change.new_sites[entry], 1)
    return _add_trees(pressure, board, state, change.flows, change.num_flows[0], growth, limit)


@hot
def commit(pressure: Pressure, change: Change) -> float:
    """Keep a priced change: its trees replace the old ones; return the energy."""
    pressure.level[0] = pressure.level[1]
    _keep_trees(pressure, change.flows, change.num_flows[0])
    total, fresh = pressure.level[0], pressure.fresh[0]
    if total < REFRESH * fresh or total > fresh / REFRESH:
        _sum_afresh(pressure)
    return math.log(pressure.level[0]) / float(1 << pressure.tables.doublings)


@hot
def revert(pressure: Pressure, board: Board, change: Change) -> None:
    """Take the loads of a priced change back."""
    used, tokens_of = 0, board.flows.tokens
    for entry in range(pressure.num_trees[0]):
        size = pressure.new_size[entry]
        tokens = tokens_of[change.flows[entry]]
        add_load(pressure.load, pressure.new_links, used, size, -tokens)
        used += size
    for entry in range(change.num_flows[0]):
        flow = change.flows[entry]
        first, size = pressure.tree_first[flow], pressure.tree_size[flow]
        add_load(pressure.load, pressure.tree_links, first, size, tokens_of[flow])
    for entry in range(change.num_units[0]):
        unit = change.units[entry]
        _load_ports(pressure, unit, change.new_sites[entry], -1)
        _load_ports(pressure, unit, change.old_sites[entry], 1)


@hot_loop
def anneal_rules(
    pressure: Pressure,
    walk: Walk,
    num_moves: int,
    temperature: float,
    reach: int,
    accepted: LongArray,
    refused: LongArray,
    spread: FloatArray,
) -> None:
    """Try moves at one temperature, see `anneal_moves`."""
    anneal_moves(
        price, commit, revert, pressure, walk, num_moves, temperature, reach, accepted, refused,
        spread,
    )  # fmt: skip


@hot
def _add_trees(
    pressure: Pressure, board: Board, state: State, listed: IntArray, num_listed: int, growth: float, limit: float
) -> float:
    """Route the listed flows anew and load their links, until `growth` is above `limit`."""
    grid, flows, tables = board.grid, board.flows, pressure.tables
    used, entry = 0, 0
    while entry < num_listed and growth <= limit:
        flow = listed[entry]
        first_target, end_target = flows.target_start[flow], flows.target_start[flow + 1]
        tokens, start = flows.tokens[flow], grid.site_switch[state.sites[flows.source[flow]]]
        pressure.mark[0] += 1
        size, growth = dimension_tree(
            _add_node, pressure, grid, flows, state.sites, flow, state.flow_class[flow],
            pressure.marks, pressure.mark[0], used, growth,
        )  # fmt: skip
        trips, num_hops = 0.0, size - 2
        for end in range(first_target, end_target):
            target = flows.targets[end]
            if end_target - first_target > 1:
                num_hops = hops(grid, start, grid.site_switch[state.sites[target]])
            trip = tables.per_trip[tables.unit_kind[target], num_hops] * tokens
            trips += power(trip, tables.doublings)
        pressure.new_trips[entry] = trips
        pressure.new_size[entry] = size
        growth += trips
        used += size
        entry += 1
    pressure.num_trees[0] = entry
    return growth


@hot
def _keep_trees(pressure: Pressure, flows: IntArray, num_flows: int) -> None:
    node = 0
    for entry in range(num_flows):
        flow, size = flows[entry], pressure.new_size[entry]
        copy_entries(pressure.new_links, node, pressure.tree_links, pressure.tree_first[flow], size)
        node += size
        pressure.tree_size[flow] = size
        pressure.trips[flow] = pressure.new_trips[entry]


@hot
def _add_node(pressure: Pressure, place: int, link: int, parent: int, tokens: int) -> float:
    """Write a node of a new tree and load its link; return the growth of the sum."""
    pressure.new_links[place] = link
    return _load_link(pressure, link, tokens)


@hot
def _load_link(pressure: Pressure, link: int, tokens: int) -> float:
    before = pressure.load[link]
    pressure.load[link] = before + tokens
    scale, doublings = pressure.tables.per_link[link], pressure.tables.doublings
    return power((before + tokens) * scale, doublings) - power(before * scale, doublings)


@hot
def _load_ports(pressure: Pressure, unit: int, site: int, sign: int) -> float:
    tables, growth = pressure.tables, 0.0
    for port in range(2):
        cycles = tables.port_cycles[port, unit]
        if cycles > 0:
            before = pressure.ports[port, site]
            after = before + sign * cycles
            pressure.ports[port, site] = after
            growth += power(after * tables.per_port, tables.doublings)
            growth -= power(before * tables.per_port, tables.doublings)
    return growth


@hot
def _sum_afresh(pressure: Pressure) -> None:
    """Forget rounding errors that were small against the old sum."""
    tables = pressure.tables
    total = tables.constant_sum
    for link in range(len(pressure.load)):
        total += power(pressure.load[link] * tables.per_link[link], tables.doublings)
    for cycles in pressure.ports.flat:
        total += power(cycles * tables.per_port, tables.doublings)
    for flow in range(len(pressure.trips)):
        total += pressure.trips[flow]
    pressure.level[:] = total
    pressure.fresh[0] = total
