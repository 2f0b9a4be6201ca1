"""What units do in a cycle: compute units fire, memory sites serve their two ports."""

from __future__ import annotations

import numpy as np

from placer.base import inlined, internal
from placer.simulation import records as at
from placer.simulation.calendar import (
    account,
    close_interval,
    finish_sample,
    push_output,
    return_credits,
    wake_later,
    wake_next,
)
from placer.simulation.measurement import UnitTime
from placer.simulation.network import LAST_TURN

BUSY = int(UnitTime.BUSY)
STARVED = int(UnitTime.STARVED)
BLOCKED = int(UnitTime.BLOCKED)
PORT_WAIT = int(UnitTime.PORT_WAIT)

# what a buffer could do in this cycle, bits of UNIT_COULD_ACT
COULD_USE_PORT, COULD_READ_WITH_ROOM = 1, 2


@inlined
def _num_outputs(cells, flow, releases):
    """Return the vectors that the next release puts into an output queue."""
    rest = np.int64(cells[flow + at.FLOW_REST]) + cells[flow + at.FLOW_TOKENS]
    if rest < releases:
        return 0
    return 1 if rest < 2 * releases else rest // releases


@inlined
def _missing(cells, unit, is_release, releases):
    """Return STARVED, BLOCKED, or BUSY when nothing is missing for the next firing."""
    if cells[unit + at.MISSING] != 0:
        return STARVED
    if is_release:
        for k in range(cells[unit + at.UNIT_OUT], cells[unit + at.UNIT_OUT_END]):
            flow = cells[k]
            number = _num_outputs(cells, flow, releases)
            if number + cells[flow + at.COUNT] > cells[flow + at.FLOW_CAPACITY]:
                return BLOCKED
    return BUSY


@internal
def compute_step(cells, unit, cycle):
    """Fire if everything is there; sleep otherwise, an arrival or a freed place wakes the unit."""
    next_start, horizon = cells[unit + at.BUSY_UNTIL], cells[at.TIME_MASK] + 1
    if cycle < next_start:
        wake_later(cells, unit, min(np.int64(next_start), cycle + horizon - 1))
        return
    firings = np.int64(cells[unit + at.UNIT_FIRINGS])
    releases = np.int64(cells[unit + at.UNIT_RELEASES])
    release_rest = cells[unit + at.UNIT_RELEASE_REST] + releases
    is_release = release_rest >= firings
    missing = _missing(cells, unit, is_release, releases)
    account(cells, unit, missing, cycle)
    if missing != BUSY:
        return

    cells[at.NUM_ACTED] += 1
    if is_release:
        release_rest -= firings
        _put_outputs(cells, unit, releases, cycle)
    cells[unit + at.UNIT_RELEASE_REST] = release_rest
    firing = cells[unit + at.UNIT_FIRING] + 1
    if firing == firings:
        firing = 0
        finish_sample(cells, unit, cycle)
    cells[unit + at.UNIT_FIRING] = firing
    _take_inputs(cells, unit, firings, firing == 0, cycle)
    interval = _next_interval(cells, unit, firings)
    cells[unit + at.BUSY_UNTIL] = cycle + interval
    if interval == 1:
        wake_next(cells, unit, cycle)
    else:
        wake_later(cells, unit, cycle + min(interval, horizon - 1))


@inlined
def _take_inputs(cells, unit, firings, is_start, cycle):
    """Take what a firing takes, and count the inputs that lack vectors for the next one, which may start a sample.

    There is no branch, since inputs with fewer vectors than firings give them at odd times.
    """
    missing = 0
    for k in range(cells[unit + at.UNIT_IN], cells[unit + at.UNIT_IN_END]):
        sink = cells[k]
        tokens = np.int64(cells[sink + at.SINK_TOKENS])
        rest = cells[sink + at.SINK_REST] - tokens
        takes = 1 if rest < 0 else 0
        rest += firings if takes else 0
        cells[sink + at.SINK_REST] = rest
        arrived = np.int64(cells[sink + at.SINK_ARRIVED]) - takes
        cells[sink + at.SINK_ARRIVED] = arrived
        return_credits(cells, sink, 1, cycle, takes)
        needed = 1 if rest < tokens else 0
        needed = max(needed, np.int64(cells[sink + at.SINK_START])) if is_start else needed
        cells[sink + at.SINK_NEEDED] = needed
        missing += 1 if arrived < needed else 0
    cells[unit + at.MISSING] = missing


@inlined
def _put_outputs(cells, unit, releases, cycle):
    ready = cycle + cells[unit + at.UNIT_DEPTH]
    for k in range(cells[unit + at.UNIT_OUT], cells[unit + at.UNIT_OUT_END]):
        flow = cells[k]
        number = _num_outputs(cells, flow, releases)
        for _ in range(number):
            push_output(cells, flow, ready)
        cells[flow + at.FLOW_REST] += cells[flow + at.FLOW_TOKENS] - number * releases


@inlined
def _next_interval(cells, unit, firings):
    """Return the cycles from this firing to the next one."""
    rest = np.int64(cells[unit + at.UNIT_CYCLE_REST]) + cells[unit + at.UNIT_INTERVAL_REST]
    is_longer = rest >= firings
    cells[unit + at.UNIT_CYCLE_REST] = rest - firings if is_longer else rest
    return cells[unit + at.UNIT_INTERVAL] + (1 if is_longer else 0)


@internal
def memory_step(cells, site, cycle):
    """Serve the write port and the read port of a memory site once."""
    is_held = cycle < cells[site + at.SITE_READ_BUSY_UNTIL]
    sink = _choose_write(cells, site)
    flow = _choose_read(cells, site)
    if is_held:
        flow = np.uint32(at.NONE)
        wake_later(cells, site, np.int64(cells[site + at.SITE_READ_BUSY_UNTIL]))
    _account_buffers(cells, site, sink, flow, is_held, cycle)
    if sink != at.NONE:
        cells[site + at.SITE_WRITE_AFTER] = cells[sink + at.SINK_FLOW] + at.FLOW_SIZE
        _write_vector(cells, sink, cycle)
    if flow != at.NONE:
        cells[site + at.SITE_READ_AFTER] = flow + at.FLOW_SIZE
        cells[site + at.SITE_READ_HOLDER] = cells[flow + at.FLOW_SOURCE]
        cells[site + at.SITE_READ_BUSY_UNTIL] = cycle + cells[flow + at.FLOW_READ_CYCLES]
        _read_vector(cells, flow, cycle)
    if sink != at.NONE or flow != at.NONE:
        cells[at.NUM_ACTED] += 1
        wake_next(cells, site, cycle)


@inlined
def _choose_write(cells, site):
    """Choose the sink whose vector is written in this cycle, or NONE."""
    after = cells[site + at.SITE_WRITE_AFTER]
    chosen, best = np.uint32(at.NONE), LAST_TURN
    for k in range(cells[site + at.SITE_IN], cells[site + at.SITE_IN_END]):
        sink = cells[k]
        unit = cells[sink + at.SINK_UNIT]
        has_slot = cells[sink + at.SINK_SAMPLE] < cells[unit + at.UNIT_FREED] + cells[unit + at.UNIT_SLOTS]
        can_write = (cells[sink + at.SINK_ARRIVED] != 0) & has_slot
        cells[unit + at.UNIT_COULD_ACT] |= COULD_USE_PORT if can_write else 0
        turn = cells[sink + at.SINK_FLOW] - after  # wraps around: flows below come last
        turn = turn if can_write else LAST_TURN
        chosen = sink if turn < best else chosen
        best = min(turn, best)
    return chosen


@inlined
def _choose_read(cells, site):
    """Choose the flow whose vector is read in this cycle if the port is free, or NONE."""
    after = cells[site + at.SITE_READ_AFTER]
    chosen, best = np.uint32(at.NONE), LAST_TURN
    for k in range(cells[site + at.SITE_OUT], cells[site + at.SITE_OUT_END]):
        flow = cells[k]
        unit = cells[flow + at.FLOW_SOURCE]
        has_sample = cells[flow + at.FLOW_SAMPLE] < cells[unit + at.UNIT_WRITTEN]
        has_room = cells[flow + at.COUNT] < cells[flow + at.FLOW_CAPACITY]
        could_act = COULD_USE_PORT if has_room else COULD_READ_WITH_ROOM
        cells[unit + at.UNIT_COULD_ACT] |= could_act if has_sample else 0
        turn = flow - after
        turn = turn if has_sample & has_room else LAST_TURN
        chosen = flow if turn < best else chosen
        best = min(turn, best)
    return chosen


@inlined
def _account_buffers(cells, site, sink, flow, is_held, cycle):
    writer = cells[sink + at.SINK_UNIT] if sink != at.NONE else at.NONE
    reader = cells[flow + at.FLOW_SOURCE] if flow != at.NONE else at.NONE
    holder = cells[site + at.SITE_READ_HOLDER] if is_held else at.NONE
    for k in range(cells[site + at.SITE_UNITS], cells[site + at.SITE_UNITS_END]):
        unit = cells[k]
        could_act = cells[unit + at.UNIT_COULD_ACT]
        cells[unit + at.UNIT_COULD_ACT] = 0
        time_state = BLOCKED if could_act & COULD_READ_WITH_ROOM else STARVED
        time_state = PORT_WAIT if could_act & COULD_USE_PORT else time_state
        is_busy = (unit == writer) | (unit == reader) | (unit == holder)
        close_interval(cells, unit, cycle)
        cells[unit + at.UNIT_TIME_STATE] = BUSY if is_busy else time_state


@inlined
def _write_vector(cells, sink, cycle):
    cells[sink + at.SINK_ARRIVED] -= 1
    return_credits(cells, sink, 1, cycle, 1)
    token = cells[sink + at.SINK_TOKEN] + 1
    if token < cells[sink + at.SINK_TOKENS]:
        cells[sink + at.SINK_TOKEN] = token
        return
    cells[sink + at.SINK_TOKEN] = 0
    cells[sink + at.SINK_SAMPLE] += 1
    unit = cells[sink + at.SINK_UNIT]
    slowest = slowest_input(cells, unit)
    is_accumulator = cells[unit + at.UNIT_OUT] == cells[unit + at.UNIT_OUT_END]
    if slowest > cells[unit + at.UNIT_WRITTEN] and is_accumulator:
        cells[unit + at.UNIT_FREED] = slowest
        finish_sample(cells, unit, cycle)
    cells[unit + at.UNIT_WRITTEN] = slowest


@inlined
def _read_vector(cells, flow, cycle):
    push_output(cells, flow, cycle + cells[at.MEMORY_LATENCY])
    token = cells[flow + at.FLOW_TOKEN] + 1
    if token < cells[flow + at.FLOW_TOKENS]:
        cells[flow + at.FLOW_TOKEN] = token
        return
    cells[flow + at.FLOW_TOKEN] = 0
    cells[flow + at.FLOW_SAMPLE] += 1
    unit = cells[flow + at.FLOW_SOURCE]
    slowest = slowest_output(cells, unit)
    if slowest > cells[unit + at.UNIT_FREED]:
        cells[unit + at.UNIT_FREED] = slowest
        finish_sample(cells, unit, cycle)


@internal
def slowest_input(cells, unit):
    slowest = at.INFINITE
    for k in range(cells[unit + at.UNIT_IN], cells[unit + at.UNIT_IN_END]):
        slowest = min(slowest, np.int64(cells[cells[k] + at.SINK_SAMPLE]))
    return slowest


@internal
def slowest_output(cells, unit):
    slowest = at.INFINITE
    for k in range(cells[unit + at.UNIT_OUT], cells[unit + at.UNIT_OUT_END]):
        slowest = min(slowest, np.int64(cells[cells[k] + at.FLOW_SAMPLE]))
    return slowest
