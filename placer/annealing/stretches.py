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
    end_place: IntArray  # [2, num_ends] columns and rows of the targets before the change
    low: IntArray  # [2, pitch] where the branch of a line ends on the near side
    high: IntArray  # [2, pitch] and on the far side
    line_mark: LongArray  # [pitch] the last tree with a branch on a line
    lines: IntArray  # [pitch] with branches
    site_mark: LongArray  # [num_sites] the last tree with a target there
    mark: LongArray  # [1] of the tree under work, a multiple of 3
    last_moved: IntArray  # [num_flows] end of a flow whose target goes elsewhere, -1: none
    next_moved: IntArray  # [num_ends] one more of them
    num_moved: LongArray  # [1] ends of the flow whose target goes elsewhere
    moved: IntArray  # [num_ends] the first `num_moved` are valid


def comb_of(grid: Grid, flows: Flows, sites: IntArray) -> Comb:
    """Return room for the trees of any flow of a placement."""
    row, column = grid.switch_row[grid.site_switch], grid.switch_column[grid.site_switch]
    pitch = int(max(grid.switch_row[-1], grid.switch_column[-1])) + 1
    return Comb(
        pitch=pitch,
        place=np.stack((column, row), axis=1),
        end_place=np.stack((column[sites[flows.targets]], row[sites[flows.targets]])),
        low=np.zeros((2, pitch), np.int32),
        high=np.zeros((2, pitch), np.int32),
        line_mark=np.zeros(pitch, np.int64),
        lines=np.zeros(pitch, np.int32),
        site_mark=np.zeros(grid.num_sites, np.int64),
        mark=np.zeros(1, np.int64),
        last_moved=np.full(len(flows.source), -1, np.int32),
        next_moved=np.full(len(flows.targets), -1, np.int32),
        num_moved=np.zeros(1, np.int64),
        moved=np.zeros(len(flows.targets), np.int32),
    )


def stretches_of(num_flows: int, num_ends: int) -> Stretches:
    """Return room for any change: at most four stretches per trunk and old or new branch, and the eject links."""
    room = 4 * num_flows + 9 * num_ends
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
    by_row, by_column = row * pitch + column, column * pitch + row
    planes = ((_EAST, by_row), (_WEST, by_row - 1), (_SOUTH, by_column), (_NORTH, by_column - 1))
    for plane, (heading, place) in enumerate(planes):
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
def find_moved(comb: Comb, flows: Flows, units: IntArray, num_units: int) -> None:
    """Note for each flow which of its ends go elsewhere with the units."""
    for number in range(num_units):
        unit = units[number]
        for place in range(flows.read_start[unit], flows.read_start[unit + 1]):
            end = flows.read_ends[place]
            flow = flows.end_flow[end]
            comb.next_moved[end] = comb.last_moved[flow]
            comb.last_moved[flow] = end


@hot
def take_moved(comb: Comb, flow: int) -> None:
    """List the ends of a flow that go elsewhere, and forget them."""
    number, end = 0, comb.last_moved[flow]
    comb.last_moved[flow] = -1
    while end >= 0:
        comb.moved[number] = end
        number += 1
        end = comb.next_moved[end]
    comb.num_moved[0] = number


@hot
def keep_moved(comb: Comb, flows: Flows, unit: int, site: int) -> None:
    """Make the place of a unit that went elsewhere that of the ends at it."""
    for place in range(flows.read_start[unit], flows.read_start[unit + 1]):
        end = flows.read_ends[place]
        comb.end_place[0, end], comb.end_place[1, end] = comb.place[site, 0], comb.place[site, 1]


@hot
def compare_path(
    stretches: Stretches, comb: Comb, turn: int, old: tuple[int, int], new: tuple[int, int], tokens: float
) -> None:
    """List what a flow of one target and of class `turn` loses and gains; source and target sites tell its path."""
    place, trunk, branch = comb.place, 2 * turn, 2 - 2 * turn
    # Along the trunk, and across it: column and row where routes go XY, row and column for YX.
    old_along, old_across = place[old[0], turn], place[old[0], 1 - turn]
    new_along, new_across = place[new[0], turn], place[new[0], 1 - turn]
    old_line, old_end = place[old[1], turn], place[old[1], 1 - turn]
    new_line, new_end = place[new[1], turn], place[new[1], 1 - turn]
    if old_across == new_across:
        old_trunk, new_trunk = _span(old_along, old_line), _span(new_along, new_line)
        _differ_line(stretches, comb, trunk, old_across, old_trunk, new_trunk, tokens)
    else:
        _note_way(stretches, comb, LOST, trunk, old_across, old_along, old_line, tokens)
        _note_way(stretches, comb, GAINED, trunk, new_across, new_along, new_line, tokens)
    if old_line == new_line:
        old_branch, new_branch = _span(old_across, old_end), _span(new_across, new_end)
        _differ_line(stretches, comb, branch, old_line, old_branch, new_branch, tokens)
    else:
        _note_way(stretches, comb, LOST, branch, old_line, old_across, old_end, tokens)
        _note_way(stretches, comb, GAINED, branch, new_line, new_across, new_end, tokens)


@hot
def turn_path(stretches: Stretches, comb: Comb, turn: int, source: int, target: int, tokens: float) -> None:
    """List what a flow of one target loses and gains when its class becomes `turn`."""
    for side in range(2):
        axis = turn if side == GAINED else 1 - turn
        along, across = comb.place[source, axis], comb.place[source, 1 - axis]
        line, end = comb.place[target, axis], comb.place[target, 1 - axis]
        _note_way(stretches, comb, side, 2 * axis, across, along, line, tokens)
        _note_way(stretches, comb, side, 2 - 2 * axis, line, across, end, tokens)


@hot
def _span(origin: int, end: int) -> tuple[int, int, int]:
    """Return the low end, the origin and the high end of a trunk or branch to one place."""
    return min(origin, end), origin, max(origin, end)


@hot
def _note_way(
    stretches: Stretches, comb: Comb, side: int, plane: int, line: int, origin: int, end: int, tokens: float
) -> None:
    """Note the way from one place of a line to another."""
    first = ((plane + int(end < origin)) * comb.pitch + line) * comb.pitch + min(origin, end)
    _note(stretches, side, first, abs(end - origin), tokens)


@hot
def compare_ends(
    stretches: Stretches, comb: Comb, flows: Flows, seats: IntArray, sites: IntArray, flow: int, turn: int
) -> None:
    """List what a flow of class `turn` loses and gains when the ends in `comb.moved` go elsewhere.

    Only the lines that they leave and reach can change; how far the other targets reach there is
    found by one look at all of them.
    """
    place, tokens, source, num_moved = (
        comb.place,
        float(flows.tokens[flow]),
        seats[flows.source[flow]],
        comb.num_moved[0],
    )
    along, across = place[source, turn], place[source, 1 - turn]
    first, last = flows.target_start[flow], flows.target_start[flow + 1]
    comb.mark[0] += 3
    num_lines = 0
    for number in range(num_moved):
        end = comb.moved[number]
        comb.end_place[0, end] = comb.end_place[1, end] = -1
        unit = flows.targets[end]
        num_lines = _open_line(comb, place[seats[unit], turn], num_lines, across, across)
        num_lines = _open_line(comb, place[sites[unit], turn], num_lines, across, across)
    low = high = along
    for end in range(first, last):
        line = comb.end_place[turn, end]
        low, high = min(low, line if line >= 0 else along), max(high, line)
    old_low, old_high, new_low, new_high = low, high, low, high
    for number in range(num_lines):
        line = comb.lines[number]
        low = high = across
        for end in range(first, last):
            place_here = comb.end_place[1 - turn, end] if comb.end_place[turn, end] == line else across
            low, high = min(low, place_here), max(high, place_here)
        comb.low[0, line] = comb.low[1, line] = low
        comb.high[0, line] = comb.high[1, line] = high
    for number in range(num_moved):
        end = comb.moved[number]
        unit = flows.targets[end]
        old, new = seats[unit], sites[unit]
        comb.end_place[0, end], comb.end_place[1, end] = place[old, 0], place[old, 1]
        _extend(comb, 0, place[old, turn], place[old, 1 - turn])
        _extend(comb, 1, place[new, turn], place[new, 1 - turn])
        old_low, old_high = min(old_low, place[old, turn]), max(old_high, place[old, turn])
        new_low, new_high = min(new_low, place[new, turn]), max(new_high, place[new, turn])
    _differ_line(stretches, comb, 2 * turn, across, (old_low, along, old_high), (new_low, along, new_high), tokens)
    _differ_branches(stretches, comb, 2 - 2 * turn, num_lines, across, across, tokens)


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
    num_lines = 0
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
    trunk, branch = 2 * turn, 2 - 2 * turn
    old_trunk, new_trunk = (old_low, old_along, old_high), (new_low, new_along, new_high)
    if old_across == new_across:
        _differ_line(stretches, comb, trunk, old_across, old_trunk, new_trunk, tokens)
    else:
        nothing = (old_along, old_along, old_along)
        _differ_line(stretches, comb, trunk, old_across, old_trunk, nothing, tokens)
        nothing = (new_along, new_along, new_along)
        _differ_line(stretches, comb, trunk, new_across, nothing, new_trunk, tokens)
    _differ_branches(stretches, comb, branch, num_lines, old_across, new_across, tokens)


@hot
def _differ_branches(
    stretches: Stretches, comb: Comb, plane: int, num_lines: int, old_across: int, new_across: int, tokens: float
) -> None:
    """Note in what the branches of all open lines differ."""
    for number in range(num_lines):
        line = comb.lines[number]
        old_branch = (comb.low[0, line], old_across, comb.high[0, line])
        new_branch = (comb.low[1, line], new_across, comb.high[1, line])
        _differ_line(stretches, comb, plane, line, old_branch, new_branch, tokens)


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
def compare_ejects(
    stretches: Stretches, comb: Comb, flows: Flows, seats: IntArray, sites: IntArray, max_units: LongArray, flow: int
) -> None:
    """List the eject links: a flow uses one once, however many of its targets share the site."""
    first, tokens = 4 * comb.pitch * comb.pitch + len(comb.site_mark), float(flows.tokens[flow])
    comb.mark[0] += 3
    mark = comb.mark[0]
    num_moved, first_end, last_end = comb.num_moved[0], flows.target_start[flow], flows.target_start[flow + 1]
    is_shared = False
    for number in range(num_moved):
        is_shared |= max_units[seats[flows.targets[comb.moved[number]]]] > 1
    if is_shared and num_moved < last_end - first_end:
        for end in range(first_end, last_end):
            unit = flows.targets[end]
            if seats[unit] == sites[unit]:
                comb.site_mark[sites[unit]] = mark
    for side in range(2):
        for number in range(num_moved):
            unit = flows.targets[comb.moved[number]]
            site = seats[unit] if side == LOST else sites[unit]
            known = comb.site_mark[site]
            if known != mark and known != mark + 1 + side:
                comb.site_mark[site] = mark + 1 + side
                _note(stretches, side, first + site, 1, tokens)
