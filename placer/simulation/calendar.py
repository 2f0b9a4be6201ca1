"""Waking things up: agent lists, timers, credits on their way back, output queues, accounting.

Nothing is polled: an agent (compute unit, memory site, DRAM) is looked at only in cycles in which
something it waits for may have changed.
"""

from __future__ import annotations

import numpy as np

from placer.base import inlined
from placer.simulation import records as at


@inlined
def slots(pace, cycle):
    """Return how many times a pace, in 1024ths per cycle, lets something pass in a cycle."""
    return ((cycle + 1) * np.int64(pace) >> 10) - (cycle * np.int64(pace) >> 10)


@inlined
def wake_next(cells, agent, cycle):
    """Look at an agent in the next cycle, if it can act then."""
    if cells[agent + at.QUEUED_FOR] != cycle + 1 and cells[agent + at.BUSY_UNTIL] <= cycle + 1:
        cells[agent + at.QUEUED_FOR] = cycle + 1
        end = cells[at.NEXT_END]
        cells[end] = agent
        cells[at.NEXT_END] = end + 1


@inlined
def wake_now(cells, agent, cycle):
    """Look at an agent in this cycle, if it can act; only while arrivals are handled."""
    if cells[agent + at.BUSY_UNTIL] <= cycle:
        look_now(cells, agent, cycle)


@inlined
def look_now(cells, agent, cycle):
    """Look at an agent in this cycle, if only to set its next timer."""
    if cells[agent + at.QUEUED_FOR] != cycle:
        cells[agent + at.QUEUED_FOR] = cycle
        end = cells[at.NOW_END]
        cells[end] = agent
        cells[at.NOW_END] = end + 1


@inlined
def enter(cells, bucket, entry):
    """Enter something in a bucket of the calendar."""
    number = cells[bucket] + 1
    cells[bucket] = number
    cells[bucket + number] = entry


@inlined
def wake_later(cells, agent, cycle):
    """Enter an agent, or a flow, for a later cycle within the horizon."""
    if cells[agent + at.WAKE_AT] != cycle:
        cells[agent + at.WAKE_AT] = cycle
        bucket = cells[at.WAKES] + (cycle & cells[at.TIME_MASK]) * cells[at.WAKES_STRIDE]
        enter(cells, bucket, agent)


@inlined
def return_credits(cells, sink, number, cycle):
    """Send `number` credits of a sink back to its source."""
    arrives = cycle + cells[sink + at.SINK_CREDIT_CYCLES]
    bucket = cells[at.CREDITS] + (arrives & cells[at.TIME_MASK]) * cells[at.CREDITS_STRIDE]
    place = cells[bucket] + 1
    cells[bucket] = place + 1
    cells[bucket + place] = sink
    cells[bucket + place + 1] = number


@inlined
def push_output(cells, flow, ready):
    """Put one vector into the output queue of a flow."""
    tail = cells[flow + at.FLOW_TAIL]
    cells[tail] = ready
    is_last = tail + 1 == cells[flow + at.FLOW_QUEUE_END]
    cells[flow + at.FLOW_TAIL] = cells[flow + at.FLOW_QUEUE] if is_last else tail + 1
    count = cells[flow + at.COUNT]
    cells[flow + at.COUNT] = count + 1
    if count == 0:
        wake_later(cells, flow, ready)


@inlined
def account(cells, unit, time_state, cycle):
    """From `cycle` on, the time of a unit counts as `time_state`."""
    if cells[unit + at.UNIT_TIME_STATE] != time_state:
        close_interval(cells, unit, cycle)
        cells[unit + at.UNIT_TIME_STATE] = time_state


@inlined
def close_interval(cells, unit, cycle):
    """Add the time of a unit since its last change of state."""
    spent = unit + at.UNIT_TIME + np.int64(cells[unit + at.UNIT_TIME_STATE])
    cells[spent] += cycle - cells[unit + at.UNIT_TIME_SINCE]
    cells[unit + at.UNIT_TIME_SINCE] = cycle


@inlined
def finish_sample(cells, unit, cycle):
    """Note that a unit has finished its next sample."""
    sample = cells[unit + at.UNIT_FINISHED]
    cells[unit + at.UNIT_FINISHED] = sample + 1
    if sample < cells[at.MAX_SAMPLES]:
        cells[cells[unit + at.UNIT_FINISHES] + sample] = cycle
        cells[cells[at.NUM_FINISHERS] + sample] += 1
