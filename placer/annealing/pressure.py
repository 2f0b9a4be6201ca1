"""The expert's rules as a pricer: the sum of powers of `placer.cost.rules`, move by move.

`loop.py` explains the protocol. A change is priced in four steps:

1. All flows that it touches are compared with what they were, which lists the stretches of links
   that they lose and gain (stretches.py); what round trips cost is summed on the way.
2. Ports and inject links of the units that go elsewhere follow.
3. Stretches that are lost are taken from the loads: the sum falls.
4. Stretches that are gained are added: the sum can only rise, and once it is above what Metropolis
   allows, the rest is not looked at.

Loads are whole numbers, so that they are exact, kept as floats, which vector instructions like
better; the sum of powers, which is what the energy is the logarithm of, is carried along and summed
up afresh now and then.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from placer.annealing.board import Board, State
from placer.annealing.loop import Walk, anneal_moves
from placer.annealing.moves import Change
from placer.annealing.stretches import (
    GAINED,
    LOST,
    Comb,
    Stretches,
    comb_of,
    compare_ejects,
    compare_ends,
    compare_path,
    compare_trees,
    find_moved,
    keep_moved,
    link_order,
    stretches_of,
    take_moved,
    turn_path,
)
from placer.base import FloatArray, IntArray, LongArray, hot, hot_loop, vectorised
from placer.decision.routing import Tables, power, route_dimension_ordered, usage_of
from placer.netlist import Flows

FEW_ENDS = 4  # of a flow that move while it is cheaper to look at single lines than at the whole tree
REFRESH = 1e-3  # the sum is taken afresh when it has changed by this factor


class Pressure(NamedTuple):
    """Loads of all resources under the current placement, and what the last change did."""

    tables: Tables
    flows: Flows
    per_mesh_link: float  # cycles / bound per vector
    per_local_link: float
    level: FloatArray  # [2] sum of powers: now, and with the change that was priced last
    fresh: FloatArray  # [1] the sum when it was last taken afresh
    load: FloatArray  # vectors per sample over each link, in the order of `link_order`
    ports: LongArray  # [2, num_sites] read and write cycles per sample
    injected: LongArray  # [num_units] vectors per sample that a unit sends
    seats: IntArray  # [num_units] sites before the change
    comb: Comb
    stretches: Stretches  # of the last change
    num_gained: LongArray  # [1] stretches that were added: not all when the price went over the limit


def pressure_of(board: Board, tables: Tables, state: State) -> Pressure:
    """Return the pressure of a state, everything from scratch."""
    grid, flows = board.grid, board.flows
    comb = comb_of(grid, flows, state.sites)
    num_planes = 4 * comb.pitch * comb.pitch
    pressure = Pressure(
        tables=tables,
        flows=flows,
        per_mesh_link=float(tables.per_link[0]),
        per_local_link=float(tables.per_link[grid.num_mesh_links]),
        level=np.zeros(2),
        fresh=np.zeros(1),
        load=np.zeros(num_planes + 2 * grid.num_sites),
        ports=np.zeros((2, grid.num_sites), np.int64),
        injected=np.bincount(flows.source, flows.tokens, len(state.sites)).astype(np.int64),
        seats=state.sites.copy(),
        comb=comb,
        stretches=stretches_of(len(flows.source), len(flows.targets)),
        num_gained=np.zeros(1, np.int64),
    )
    starts, links, parents = route_dimension_ordered(grid, flows, state.sites[None], state.flow_class[None])
    usage = usage_of(flows, grid.num_mesh_links, grid.num_sites, state.sites, starts[0], links, parents)
    pressure.load[link_order(grid)] = usage.load
    for port in range(2):
        np.add.at(pressure.ports[port], state.sites, tables.port_cycles[port])
    _sum_afresh(pressure, board)
    return pressure


@hot
def price(pressure: Pressure, board: Board, state: State, change: Change, rise: float) -> bool:
    """Load the new routes of an applied change; say whether the energy rises by `rise` at most.

    The energy is log(sum) / exponent.
    """
    total, fresh = pressure.level[0], pressure.fresh[0]
    if total < REFRESH * fresh or total > fresh / REFRESH:
        _sum_afresh(pressure, board)
    exponent = float(1 << pressure.tables.doublings)
    allowed = pressure.level[0] * math.expm1(exponent * rise)
    growth = grow(pressure, board, state, change, allowed)
    pressure.level[1] = pressure.level[0] + growth
    return not growth > allowed


@hot
def grow(pressure: Pressure, board: Board, state: State, change: Change, limit: float) -> float:
    """Return the growth of the sum by an applied change; the loads follow it.

    Gained stretches can only add to it. Once it is above `limit`, the rest is not looked at.
    """
    stretches, growth = pressure.stretches, 0.0
    stretches.number[LOST], stretches.number[GAINED] = 0, 0
    find_moved(pressure.comb, board.flows, change.units, change.num_units[0])
    for entry in range(change.num_flows[0]):
        flow = change.flows[entry]
        _compare(pressure, board, state, flow, flow == change.flow[0])
        growth += _change_trips(pressure, board, state, flow)
    for entry in range(change.num_units[0]):
        unit = change.units[entry]
        growth += _load_unit(pressure, unit, change.old_sites[entry], -1)
        growth += _load_unit(pressure, unit, change.new_sites[entry], 1)
    for entry in range(stretches.number[LOST]):
        growth += _load_stretch(pressure, LOST, entry, -1.0)
    entry = 0
    while entry < stretches.number[GAINED] and growth <= limit:
        growth += _load_stretch(pressure, GAINED, entry, 1.0)
        entry += 1
    pressure.num_gained[0] = entry
    return growth


@hot
def commit(pressure: Pressure, change: Change) -> float:
    """Keep a priced change, whose loads stand already; return the energy."""
    pressure.level[0] = pressure.level[1]
    for entry in range(change.num_units[0]):
        unit, site = change.units[entry], change.new_sites[entry]
        pressure.seats[unit] = site
        keep_moved(pressure.comb, pressure.flows, unit, site)
    return math.log(pressure.level[0]) / float(1 << pressure.tables.doublings)


@hot
def revert(pressure: Pressure, board: Board, change: Change) -> None:
    """Take the loads of a priced change back."""
    stretches = pressure.stretches
    for side, number, sign in ((LOST, stretches.number[LOST], 1.0), (GAINED, pressure.num_gained[0], -1.0)):
        for entry in range(number):
            first, tokens = stretches.first[side, entry], sign * stretches.tokens[side, entry]
            for link in range(first, first + stretches.length[side, entry]):
                pressure.load[link] += tokens
    for entry in range(change.num_units[0]):
        unit = change.units[entry]
        _load_unit(pressure, unit, change.new_sites[entry], -1)
        _load_unit(pressure, unit, change.old_sites[entry], 1)


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
def _compare(pressure: Pressure, board: Board, state: State, flow: int, is_turned: bool) -> None:
    """List the stretches that a flow loses and gains, in the cheapest way that tells them."""
    comb, stretches, flows, seats, sites = pressure.comb, pressure.stretches, board.flows, pressure.seats, state.sites
    source, turn = flows.source[flow], state.flow_class[flow]
    first, num_targets = flows.target_start[flow], flows.target_start[flow + 1] - flows.target_start[flow]
    take_moved(comb, flow)
    if num_targets == 1:
        target, tokens = flows.targets[first], float(flows.tokens[flow])
        if is_turned:
            turn_path(stretches, comb, turn, sites[source], sites[target], tokens)
        else:
            old, new = (seats[source], seats[target]), (sites[source], sites[target])
            compare_path(stretches, comb, turn, old, new, tokens)
    elif not is_turned and seats[source] == sites[source] and comb.num_moved[0] <= FEW_ENDS:
        compare_ends(stretches, comb, flows, seats, sites, flow, turn)
    else:
        for number in range(1 + int(is_turned)):  # a flow that turns elsewhere loses all and gains all
            is_new = not is_turned or number == 1
            axis = turn if is_new else 1 - turn
            compare_trees(stretches, comb, flows, seats, sites, flow, axis, number == 0, is_new)
    if comb.num_moved[0] > 0:
        compare_ejects(stretches, comb, flows, seats, sites, board.max_units, flow)


@hot
def _change_trips(pressure: Pressure, board: Board, state: State, flow: int) -> float:
    """Return the growth of the sum by the round trips of a flow."""
    flows, tables, place = board.flows, pressure.tables, pressure.comb.place
    source, tokens, growth = flows.source[flow], flows.tokens[flow], 0.0
    old_start, new_start = pressure.seats[source], state.sites[source]
    first, is_whole = flows.target_start[flow], old_start != new_start
    number = flows.target_start[flow + 1] - first if is_whole else pressure.comb.num_moved[0]
    for entry in range(number):
        unit = flows.targets[first + entry if is_whole else pressure.comb.moved[entry]]
        old_hops = _hops(place, old_start, pressure.seats[unit])
        new_hops = _hops(place, new_start, state.sites[unit])
        if old_hops != new_hops:
            kind = tables.unit_kind[unit]
            growth += power(tables.per_trip[kind, new_hops] * tokens, tables.doublings)
            growth -= power(tables.per_trip[kind, old_hops] * tokens, tables.doublings)
    return growth


@hot
def _hops(place: IntArray, one: int, two: int) -> int:
    """Return the mesh links between two sites."""
    return int(abs(place[one, 0] - place[two, 0]) + abs(place[one, 1] - place[two, 1]))


@hot
def _load_stretch(pressure: Pressure, side: int, entry: int, sign: float) -> float:
    """Put a stretch on the loads, or take it away; return the growth of the sum."""
    stretches, num_mesh = pressure.stretches, 4 * pressure.comb.pitch * pressure.comb.pitch
    first, length = stretches.first[side, entry], stretches.length[side, entry]
    scale = pressure.per_mesh_link if first < num_mesh else pressure.per_local_link
    return add_powers(
        pressure.load, first, length, sign * stretches.tokens[side, entry], scale, pressure.tables.doublings
    )


@vectorised
def add_powers(load: FloatArray, first: int, length: int, tokens: float, scale: float, doublings: int) -> float:
    """Add `tokens` to a range of loads; return the growth of the sum of (load * scale)^(2^doublings)."""
    growth = 0.0
    if doublings == 2:  # the default; without an inner loop, several links are done at once
        for link in range(first, first + length):
            before = load[link]
            after = before + tokens
            load[link] = after
            old, new = before * scale, after * scale
            old *= old
            new *= new
            growth += new * new - old * old
    else:
        for link in range(first, first + length):
            before = load[link]
            load[link] = before + tokens
            growth += power((before + tokens) * scale, doublings) - power(before * scale, doublings)
    return growth


@hot
def _load_unit(pressure: Pressure, unit: int, site: int, sign: int) -> float:
    """Put a unit on the ports and the inject link of a site, or take it away; return the growth of the sum."""
    tables, growth = pressure.tables, 0.0
    for port in range(2):
        cycles = tables.port_cycles[port, unit]
        if cycles > 0:
            before = pressure.ports[port, site]
            after = before + sign * cycles
            pressure.ports[port, site] = after
            growth += power(after * tables.per_port, tables.doublings)
            growth -= power(before * tables.per_port, tables.doublings)
    vectors = pressure.injected[unit]
    if vectors > 0:
        link = 4 * pressure.comb.pitch * pressure.comb.pitch + site
        growth += add_powers(pressure.load, link, 1, float(sign * vectors), pressure.per_local_link, tables.doublings)
    return growth


@hot_loop
def _sum_afresh(pressure: Pressure, board: Board) -> None:
    """Forget rounding errors that were small against the old sum."""
    tables, flows, place = pressure.tables, board.flows, pressure.comb.place
    num_mesh = 4 * pressure.comb.pitch * pressure.comb.pitch
    total = tables.constant_sum
    for link in range(len(pressure.load)):
        scale = pressure.per_mesh_link if link < num_mesh else pressure.per_local_link
        total += power(pressure.load[link] * scale, tables.doublings)
    for cycles in pressure.ports.flat:
        total += power(cycles * tables.per_port, tables.doublings)
    for end in range(len(flows.targets)):
        flow, unit = flows.end_flow[end], flows.targets[end]
        num_hops = _hops(place, pressure.seats[flows.source[flow]], pressure.seats[unit])
        total += power(tables.per_trip[tables.unit_kind[unit], num_hops] * flows.tokens[flow], tables.doublings)
    pressure.level[:] = total
    pressure.fresh[0] = total
