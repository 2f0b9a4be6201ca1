"""Waking things up: agent lists, heads of FIFOs, timers, credits on their way back, output queues, accounting.

Nothing is polled: an agent (compute unit, memory site, DRAM) is looked at only in cycles in which
something it waits for may have changed.

The FIFOs at the far ends of links are part of it: only the head of a FIFO can move, so only heads
are events. A vector that is sent into an empty FIFO is entered in the calendar, one behind another
vector when it becomes the head. There is a calendar for each way in which heads leave, so that the
loops over them know what to do.
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
def wake_now(cells, agent, cycle, is_woken):
    """Look at an agent in this cycle, if it can act and `is_woken` is 1; only while arrivals are handled. No branch."""
    queued_for, end = np.int64(cells[agent + at.QUEUED_FOR]), cells[at.NOW_END]
    is_idle = (cells[agent + at.BUSY_UNTIL] <= cycle) & (queued_for != cycle)
    is_new = is_woken & (1 if is_idle else 0)
    cells[end] = agent
    cells[agent + at.QUEUED_FOR] = cycle if is_new else queued_for
    cells[at.NOW_END] = end + is_new


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
def return_credits(cells, sink, number, cycle, is_taken):
    """Send `number` credits of a sink back to its source, if `is_taken` is 1; no branch."""
    arrives = cycle + cells[sink + at.SINK_CREDIT_CYCLES]
    bucket = cells[at.CREDITS] + (arrives & cells[at.TIME_MASK]) * cells[at.CREDITS_STRIDE]
    place = np.int64(cells[bucket]) + 1
    cells[bucket] += 2 * is_taken
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


@inlined
def head_bucket(cells, way, cycle):
    """Return the bucket of heads that become visible in a cycle and leave in a way."""
    row = at.NUM_WAYS * (cycle & cells[at.LINK_MASK]) + way
    return np.uint32(cells[at.HEADS] + row * cells[at.HEADS_STRIDE])


@inlined
def _enter_head(cells, fifo, following, cycle, is_entered):
    """Enter in the calendar that the head of a FIFO becomes visible, if `is_entered` is 1; no branch."""
    bucket = head_bucket(cells, following & at.WAY_MASK, cycle)
    number = cells[bucket]
    cells[bucket + 1 + np.int64(number)] = fifo
    cells[bucket] = number + is_entered


@inlined
def send(cells, node, fifo, arrives):
    """Put a vector on the link of a node, into the FIFO behind it."""
    following = cells[node + at.NODE_NEXT]
    count = cells[fifo + at.COUNT]
    tail = cells[fifo + at.HEAD] + 2 * np.int64(count)
    end = 2 * np.int64(cells[fifo + at.FIFO_CAPACITY])
    place = np.uint32(fifo + at.FIFO_RING + (tail - end if tail >= end else tail))
    cells[place] = following
    cells[place + 1] = arrives
    cells[fifo + at.COUNT] = count + 1
    _enter_head(cells, fifo, following, arrives, 1 if count == 0 else 0)


@inlined
def eject(cells, node, arrives):
    """Put a vector on the eject link of a node."""
    bucket = cells[at.EJECTED] + (arrives & cells[at.LINK_MASK]) * cells[at.EJECTED_STRIDE]
    enter(cells, bucket, cells[node + at.NODE_NEXT])


@inlined
def leave(cells, fifo, cycle, unsent):
    """Let the head of a FIFO leave if no copy is unsent; the vector behind it is head in the next cycle.

    Its place is free then too: `has_room` sees in which cycle the last head has left. There is no
    branch, since nobody could guess which way it goes at forks.
    """
    leaves = 1 if unsent == 0 else 0
    count = np.int64(cells[fifo + at.COUNT]) - leaves
    cells[fifo + at.COUNT] = count
    cells[fifo + at.UNSENT] = at.NEVER - cycle if leaves else unsent
    head = cells[fifo + at.HEAD] + 2 * leaves
    head = np.uint32(0 if head == 2 * np.int64(cells[fifo + at.FIFO_CAPACITY]) else head)
    cells[fifo + at.HEAD] = head
    place = fifo + at.FIFO_RING + np.int64(head)
    more = np.int64(cells[place + 1]) - (cycle + 1)  # cycles until it is visible, at least one
    visible = cycle + 1 + (more & ~(more >> 63))
    _enter_head(cells, fifo, cells[place], visible, leaves & (1 if count != 0 else 0))


@inlined
def has_room(cells, fifo, cycle):
    """Say whether a FIFO takes one more vector."""
    leaves_now = 1 if cells[fifo + at.UNSENT] == at.NEVER - cycle else 0
    return cells[fifo + at.COUNT] + leaves_now < cells[fifo + at.FIFO_CAPACITY]


@inlined
def has_heads(cells, cycle):
    """Say whether the head of a FIFO becomes visible in a cycle."""
    number = np.int64(0)
    for way in range(at.NUM_WAYS):
        number += cells[head_bucket(cells, way, cycle)]
    return number > 0
