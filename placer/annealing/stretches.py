"""What a change takes from the routes of a flow and gives to them, as straight stretches of links.

A dimension-ordered tree is a comb: a *trunk* along the first axis through the source, and *branches*
along the other, one per line of the trunk on which targets lie. Each reaches from the source (trunk)
or from the trunk (branch) to its farthest target on either side. So two numbers per line tell the
tree, and two trees of one flow differ by a few stretches, however many links and targets they have.

Links are numbered so that a stretch is a range: planes of `pitch` x `pitch` for the links to the
east, west, south and north, line by line (row by row, or column by column), and behind them the
inject and eject links of the sites.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placer.base import FloatArray, IntArray, LongArray, hot
from placer.decision.routing import Grid
from placer.fabric import Direction
from placer.netlist import Flows

LOST, GAINED = 0, 1
_EAST, _WEST = int(Direction.EAST), int(Direction.WEST)
_SOUTH, _NORTH = int(Direction.SOUTH), int(Direction.NORTH)


class Stretches(NamedTuple):
    """Ranges of links that a change takes from routes (row 0) and gives to them (row 1)."""

    number: LongArray  # [2]
    first: IntArray  # [2, room]
    length: IntArray  # [2, room]
    tokens: FloatArray  # [2, room] of the flow


class Comb(NamedTuple):
    """Room to work out the old (row 0) and the new (row 1) tree of a flow."""

    pitch: int
    place: IntArray  # [num_sites, 2] column and row
    low: IntArray  # [2, pitch] where the branch of a line ends on the near side
    high: IntArray  # [2, pitch] and on the far side
    line_mark: LongArray  # [pitch] the last tree with a branch on a line
    lines: IntArray  # [pitch] with branches
    site_mark: LongArray  # [num_sites] the last tree with a target there
    mark: LongArray  # [1] of the tree under work, a multiple of 3
    moved: IntArray  # [num_units] ends of the flow whose target went elsewhere


def comb_of(grid: Grid, num_units: int) -> Comb:
    """Return room for the trees of any flow."""
    row, column = grid.switch_row[grid.site_switch], grid.switch_column[grid.site_switch]
    pitch = int(max(grid.switch_row[-1], grid.switch_column[-1])) + 1
    return Comb(
        pitch=pitch,
        place=np.stack((column, row), axis=1),
        low=np.zeros((2, pitch), np.int32),
        high=np.zeros((2, pitch), np.int32),
        line_mark=np.zeros(pitch, np.int64),
        lines=np.zeros(pitch, np.int32),
        site_mark=np.zeros(grid.num_sites, np.int64),
        mark=np.zeros(1, np.int64),
        moved=np.zeros(num_units, np.int32),
    )


def stretches_of(num_flows: int, num_ends: int) -> Stretches:
    """Return room for any change: at most four stretches per line, trunk or branch, and the eject links."""
    room = 4 * num_flows + 5 * num_ends
    return Stretches(
        number=np.zeros(2, np.int64),
        first=np.zeros((2, room + 1), np.int32),
        length=np.zeros((2, room + 1), np.int32),
        tokens=np.zeros((2, room + 1)),
    )


def link_order(grid: Grid) -> LongArray:
    """Return the number of each link of the fabric [num_links] in the order of the planes."""
    pitch = int(max(grid.switch_row[-1], grid.switch_column[-1])) + 1
    row, column = grid.switch_row.astype(np.int64), grid.switch_column.astype(np.int64)
    order = np.arange(len(grid.link_target), dtype=np.int64) - grid.num_mesh_links + 4 * pitch * pitch
    steps = ((_EAST, row * pitch + column), (_WEST, row * pitch + column - 1))
    steps += ((_SOUTH, column * pitch + row), (_NORTH, column * pitch + row - 1))
    for plane, (heading, place) in enumerate(steps):
        link = grid.mesh_link[:, heading]
        order[link[link >= 0]] = plane * pitch * pitch + place[link >= 0]
    return order


@hot
def _note(stretches: Stretches, side: int, first: int, length: int, tokens: float) -> None:
    """Note a stretch as lost or gained, if it has any link."""
    number = stretches.number[side]
    stretches.first[side, number], stretches.length[side, number] = first, length
    stretches.tokens[side, number] = tokens
    stretches.number[side] = number + (length > 0)


@hot
def _differ(
    stretches: Stretches, first: int, old_low: int, old_high: int, new_low: int, new_high: int, tokens: float
) -> None:
    """Note in what two ranges of links differ, low <= link < high; `first` is that of link 0."""
    near, far = min(old_high, new_low), max(old_low, new_high)
    _note(stretches, LOST, first + old_low, near - old_low, tokens)
    _note(stretches, LOST, first + far, old_high - far, tokens)
    near, far = min(new_high, old_low), max(new_low, old_high)
    _note(stretches, GAINED, first + new_low, near - new_low, tokens)
    _note(stretches, GAINED, first + far, new_high - far, tokens)


@hot
def _differ_line(
    stretches: Stretches,
    comb: Comb,
    plane: int,
    line: int,
    old: tuple[int, int, int],
    new: tuple[int, int, int],
    tokens: float,
) -> None:
    """Note in what a trunk or branch differs from the one before; each is (low, origin, high).

    `plane` is that of links away from place 0; those to it are in the next one.
    """
    away = (plane * comb.pitch + line) * comb.pitch
    back = away + comb.pitch * comb.pitch
    if old[1] == new[1]:
        low, high = min(old[0], new[0]), min(old[2], new[2])
        _note(stretches, int(new[2] > old[2]), away + high, max(old[2], new[2]) - high, tokens)
        _note(stretches, int(new[0] < old[0]), back + low, max(old[0], new[0]) - low, tokens)
    else:
        _differ(stretches, away, old[1], old[2], new[1], new[2], tokens)
        _differ(stretches, back, old[0], old[1], new[0], new[1], tokens)


@hot
def compare_trees(
    stretches: Stretches,
    comb: Comb,
    flows: Flows,
    seats: IntArray,
    sites: IntArray,
    flow: int,
    turn: int,
    has_old: bool,
    has_new: bool,
) -> None:
    """List what a flow of class `turn` loses and gains when its units go from `seats` to `sites`.

    Without an old tree it gains all mesh links, without a new one it loses all.
    """
    place, tokens, source = comb.place, float(flows.tokens[flow]), flows.source[flow]
    # Along the trunk, and across it: column and row where routes go XY, row and column for YX.
    old_along, old_across = place[seats[source], turn], place[seats[source], 1 - turn]
    new_along, new_across = place[sites[source], turn], place[sites[source], 1 - turn]
    old_low = old_high = old_along
    new_low = new_high = new_along
    comb.mark[0] += 3
    num_lines, num_moved = 0, 0
    for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
        unit = flows.targets[end]
        old, new = seats[unit], sites[unit]
        old_line, new_line = place[old, turn], place[new, turn]
        num_lines = _open_line(comb, old_line, num_lines, old_across, new_across)
        num_lines = _open_line(comb, new_line, num_lines, old_across, new_across)
        if has_old:
            _extend(comb, 0, old_line, place[old, 1 - turn])
            old_low, old_high = min(old_low, old_line), max(old_high, old_line)
        if has_new:
            _extend(comb, 1, new_line, place[new, 1 - turn])
            new_low, new_high = min(new_low, new_line), max(new_high, new_line)
        if old == new:
            comb.site_mark[new] = comb.mark[0]
        else:
            comb.moved[num_moved] = unit
            num_moved += 1
    trunk, branch = 2 * turn, 2 - 2 * turn
    old_trunk, new_trunk = (old_low, old_along, old_high), (new_low, new_along, new_high)
    if old_across == new_across:
        _differ_line(stretches, comb, trunk, old_across, old_trunk, new_trunk, tokens)
    else:
        nothing = (old_along, old_along, old_along)
        _differ_line(stretches, comb, trunk, old_across, old_trunk, nothing, tokens)
        nothing = (new_along, new_along, new_along)
        _differ_line(stretches, comb, trunk, new_across, nothing, new_trunk, tokens)
    for number in range(num_lines):
        line = comb.lines[number]
        old_branch = (comb.low[0, line], old_across, comb.high[0, line])
        new_branch = (comb.low[1, line], new_across, comb.high[1, line])
        _differ_line(stretches, comb, branch, line, old_branch, new_branch, tokens)
    _compare_ejects(stretches, comb, seats, sites, num_moved, tokens)


@hot
def _open_line(comb: Comb, line: int, num_lines: int, old_across: int, new_across: int) -> int:
    """Begin the branches of a line with nothing, unless it is known; return the number of lines."""
    if comb.line_mark[line] == comb.mark[0]:
        return num_lines
    comb.line_mark[line], comb.lines[num_lines] = comb.mark[0], line
    comb.low[0, line] = comb.high[0, line] = old_across
    comb.low[1, line] = comb.high[1, line] = new_across
    return num_lines + 1


@hot
def _extend(comb: Comb, side: int, line: int, end: int) -> None:
    """Let the branch of a line reach a target."""
    comb.low[side, line] = min(comb.low[side, line], end)
    comb.high[side, line] = max(comb.high[side, line], end)


@hot
def _compare_ejects(
    stretches: Stretches, comb: Comb, seats: IntArray, sites: IntArray, num_moved: int, tokens: float
) -> None:
    """List the eject links: a flow uses one once, however many of its targets share the site."""
    mark = comb.mark[0]
    first = 4 * comb.pitch * comb.pitch + len(comb.site_mark)
    for side in range(2):
        for number in range(num_moved):
            site = seats[comb.moved[number]] if side == LOST else sites[comb.moved[number]]
            known = comb.site_mark[site]
            if known != mark and known != mark + 1 + side:
                comb.site_mark[site] = mark + 1 + side
                _note(stretches, side, first + site, 1, tokens)
