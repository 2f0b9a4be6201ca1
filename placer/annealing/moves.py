"""Moves, and what they do to the state; `loop.py` explains the protocol.

Every move but a reroute is made of two legal steps: one unit goes to a site with room, or two
sites of a kind exchange all their units.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from placer.annealing.board import Board, State, seat, unseat
from placer.base import IntArray, LongArray, RngState, below, hot


class Move(IntEnum):
    """Kinds of moves."""

    RELOCATE = 0  # one unit to a site with room
    SWAP = 1  # two sites exchange their units
    GROUP_SWAP = 2  # two operations exchange their places
    STAGE_SHIFT = 3  # all units of a pipeline stage go one step the same way
    REROUTE = 4  # a flow turns at the other corner


class Refusal(IntEnum):
    """Why a move did not happen."""

    NOWHERE = 0  # no other site of the kind within the range, or no partner
    NO_ROOM = 1  # the site is full
    FORBIDDEN = 2  # a unit may not sit there
    OFF_GRID = 3  # a shift would leave the fabric
    COST = 4  # priced and rejected


LEGAL = -1  # a move that can be priced

_RELOCATE, _SWAP, _GROUP_SWAP = int(Move.RELOCATE), int(Move.SWAP), int(Move.GROUP_SWAP)
_STAGE_SHIFT, _REROUTE = int(Move.STAGE_SHIFT), int(Move.REROUTE)
_NOWHERE, _NO_ROOM = int(Refusal.NOWHERE), int(Refusal.NO_ROOM)
_FORBIDDEN, _OFF_GRID = int(Refusal.FORBIDDEN), int(Refusal.OFF_GRID)

# A step of a stage keeps compute on compute in a checkerboard: rows + columns is even.
_STEPS = np.array([[0, 2], [0, -2], [2, 0], [-2, 0], [1, 1], [1, -1], [-1, 1], [-1, -1]], np.int64)


class Change(NamedTuple):
    """What a move would change; also the scratch space to find out."""

    num_units: LongArray  # [1] that go elsewhere
    units: IntArray  # [num_units] the first `num_units` are valid
    old_sites: IntArray  # [num_units]
    new_sites: IntArray  # [num_units]
    flow: LongArray  # [1] flow that turns at the other corner, -1: none
    holder: IntArray  # [num_sites] while exchanges add up: the site whose units sit here now
    touched: IntArray  # [num_sites] sites with another holder, perhaps
    num_touched: LongArray  # [1]
    # Filled when it is applied:
    num_flows: LongArray  # [1] that need new routes
    flows: IntArray  # [num_flows] the first `num_flows` are valid
    stamp: LongArray  # [num_flows] number of the last change that listed a flow
    tick: LongArray  # [1] number of the change


def empty_change(num_units: int, num_sites: int, num_flows: int) -> Change:
    """Return room for any change."""
    return Change(
        np.zeros(1, np.int64),
        np.zeros(num_units, np.int32),
        np.zeros(num_units, np.int32),
        np.zeros(num_units, np.int32),
        np.full(1, -1, np.int64),
        np.arange(num_sites, dtype=np.int32),
        np.zeros(2 * (num_units + num_sites), np.int32),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(num_flows, np.int32),
        np.zeros(num_flows, np.int64),
        np.zeros(1, np.int64),
    )


@hot
def propose(board: Board, state: State, change: Change, rng: RngState, move: int, reach: int) -> int:
    """Fill `change` with a random move of a kind; return LEGAL, or why it cannot be done.

    Units go at most `reach` rows and columns far, but for whole groups and stages.
    """
    change.num_units[0], change.flow[0] = 0, -1
    if move == _REROUTE:
        if len(board.flows.source) == 0:
            return _NOWHERE
        change.flow[0] = below(rng, len(board.flows.source))
        return LEGAL
    if move == _GROUP_SWAP:
        return _swap_groups(board, state, change, rng)
    if move == _STAGE_SHIFT:
        return _shift_stage(board, state, change, rng)
    if len(board.movable) == 0:
        return _NOWHERE
    unit = board.movable[below(rng, len(board.movable))]
    site = state.sites[unit]
    num_near = board.num_near[site, reach]
    if num_near == 0:
        return _NOWHERE
    goal = board.near[site, below(rng, num_near)]
    if move == _SWAP and state.num_tenants[goal] > 0:
        _exchange(change, site, goal)
        return _finish_exchanges(board, state, change)
    return _relocate(board, state, change, unit, goal)


@hot
def _relocate(board: Board, state: State, change: Change, unit: int, goal: int) -> int:
    if not board.is_allowed[unit, goal]:
        return _FORBIDDEN
    has_bytes = state.used_bytes[goal] + board.unit_bytes[unit] <= board.capacity_bytes[goal]
    if state.num_tenants[goal] >= board.max_units[goal] or not has_bytes:
        return _NO_ROOM
    _send(state, change, unit, goal)
    return LEGAL


@hot
def _send(state: State, change: Change, unit: int, goal: int) -> None:
    entry = change.num_units[0]
    change.units[entry] = unit
    change.old_sites[entry], change.new_sites[entry] = state.sites[unit], goal
    change.num_units[0] = entry + 1


@hot
def _exchange(change: Change, site: int, goal: int) -> None:
    """Let the units that sit on two sites by now change places."""
    number = change.num_touched[0]
    change.touched[number], change.touched[number + 1] = site, goal
    change.num_touched[0] = number + 2
    change.holder[site], change.holder[goal] = change.holder[goal], change.holder[site]


@hot
def _finish_exchanges(board: Board, state: State, change: Change) -> int:
    """List the units that go elsewhere, and clear the scratch space."""
    reason = LEGAL
    for entry in range(change.num_touched[0]):
        goal = change.touched[entry]
        origin = change.holder[goal]
        change.holder[goal] = goal  # a site that was touched twice is listed once
        if origin == goal:
            continue
        for place in range(state.num_tenants[origin]):
            unit = state.tenants[origin, place]
            if not board.is_allowed[unit, goal]:
                reason = _FORBIDDEN
            _send(state, change, unit, goal)
    change.num_touched[0] = 0
    return reason


@hot
def _swap_groups(board: Board, state: State, change: Change, rng: RngState) -> int:
    num_groups = len(board.group_start) - 1
    one, two = below(rng, num_groups), below(rng, num_groups)
    first, second = board.group_start[one], board.group_start[two]
    if one == two:
        return _NOWHERE
    if board.unit_kind[board.group_units[first]] != board.unit_kind[board.group_units[second]]:
        return _NOWHERE
    size = min(board.group_start[one + 1] - first, board.group_start[two + 1] - second)
    for member in range(size):
        site = state.sites[board.group_units[first + member]]
        goal = state.sites[board.group_units[second + member]]
        if site != goal:
            _exchange(change, site, goal)
    return _finish_exchanges(board, state, change)


@hot
def _shift_stage(board: Board, state: State, change: Change, rng: RngState) -> int:
    """Shift a random stage, tiles only, so that it keeps its shape and the others close up.

    Rows of tiles that lie behind each other on the way go foremost first.
    """
    stage = below(rng, board.num_stages)
    step = _STEPS[below(rng, len(_STEPS))]
    first, last = board.stage_start[stage], board.stage_start[stage + 1]
    if first == last:
        return _NOWHERE
    for entry in range(first, last):
        if not _is_on_grid(board, state.sites[board.stage_units[entry]], step[0], step[1]):
            return _OFF_GRID
    columns = board.grid.switch_column[len(board.grid.switch_column) - 1] + 1
    offset = step[0] * columns + step[1]
    for entry in range(first, last):
        site = state.sites[board.stage_units[entry]]
        is_done = change.holder[site] != site  # by another unit on the site
        if is_done or _holds_stage(board, state, site + offset, stage):
            continue
        _exchange(change, site, site + offset)
        while _is_on_grid(board, site, -step[0], -step[1]) and _holds_stage(board, state, site - offset, stage):
            site -= offset
            _exchange(change, site, site + offset)
    return _finish_exchanges(board, state, change)


@hot
def _is_on_grid(board: Board, tile: int, down: int, right: int) -> bool:
    """Return whether there is a tile so many rows and columns from this one."""
    rows, columns = board.grid.switch_row, board.grid.switch_column
    row, column, last = rows[tile] + down, columns[tile] + right, len(rows) - 1
    return bool(0 <= row <= rows[last] and 0 <= column <= columns[last])


@hot
def _holds_stage(board: Board, state: State, site: int, stage: int) -> bool:
    for place in range(state.num_tenants[site]):
        if board.unit_stage[state.tenants[site, place]] == stage:
            return True
    return False


@hot
def apply(board: Board, state: State, change: Change) -> None:
    """Change sites and turns, and list the flows concerned; `reseat` or `undo` must follow."""
    change.tick[0] += 1
    tick, count, flows = change.tick[0], 0, board.flows
    if change.flow[0] >= 0:
        change.flows[0], count = change.flow[0], 1
    for entry in range(change.num_units[0]):
        unit = change.units[entry]
        state.sites[unit] = change.new_sites[entry]
        for place in range(flows.unit_start[unit], flows.unit_start[unit + 1]):
            flow = flows.unit_flows[place]
            if change.stamp[flow] != tick:
                change.stamp[flow] = tick
                change.flows[count] = flow
                count += 1
    change.num_flows[0] = count
    _turn(state, change)


@hot
def undo(state: State, change: Change) -> None:
    """Take an applied change back."""
    for entry in range(change.num_units[0]):
        state.sites[change.units[entry]] = change.old_sites[entry]
    _turn(state, change)


@hot
def reseat(board: Board, state: State, change: Change) -> None:
    """Make an applied change final: who sits where."""
    for entry in range(change.num_units[0]):
        unseat(board, state, change.units[entry], change.old_sites[entry])
    for entry in range(change.num_units[0]):
        seat(board, state, change.units[entry], change.new_sites[entry])


@hot
def _turn(state: State, change: Change) -> None:
    """Let the listed flow turn at its other corner."""
    if change.flow[0] >= 0:
        state.flow_class[change.flow[0]] = 1 - state.flow_class[change.flow[0]]
