"""How vectors move: heads that become visible, requests, round-robin links, multicast forks.

Only the head of a FIFO can move, so only heads are events: a vector that is sent into an empty
FIFO is entered in the calendar, one behind another vector is looked at when it becomes the head.
"""

from __future__ import annotations

import numpy as np

from placer.base import inlined, internal
from placer.simulation import records as at
from placer.simulation.calendar import wake_later, wake_next, wake_now

LAST_TURN = np.uint64((1 << 64) - 1)  # round robin: after any flow


@inlined
def _request(cells, node):
    """Ask for the link of a node."""
    link = cells[node + at.NODE_LINK]
    num = cells[link + at.LINK_NUM_REQUESTS]
    cells[link + at.LINK_REQUESTS + np.int64(num)] = node
    cells[link + at.LINK_NUM_REQUESTS] = num + 1
    if num == 0:
        end = cells[at.ACTIVE_LINKS_END]
        cells[end] = link
        cells[at.ACTIVE_LINKS_END] = end + 1


@inlined
def _request_head(cells, fifo, node):
    """Ask for every link over which the head of a FIFO, at a node, must be sent."""
    first, end = cells[node + at.NODE_NEXT], cells[node + at.NODE_NEXT_END]
    cells[fifo + at.UNSENT] = end - first
    for k in range(first, end):
        _request(cells, cells[k])


@internal
def _request_injection(cells, flow, cycle):
    """Ask for the inject link of a flow if it has a ready head and all credits."""
    if cells[flow + at.FLOW_COUNT] == 0 or cells[flow + at.UNSENT] != 0:
        return
    is_ready = cells[cells[flow + at.FLOW_HEAD]] <= cycle
    if is_ready and cells[flow + at.FLOW_SINKS_WITHOUT_CREDIT] == 0:
        cells[flow + at.UNSENT] = 1
        _request(cells, cells[flow + at.FLOW_ROOT])


@internal
def arrivals(cells, cycle):
    """Make visible what arrives in this cycle: vectors, credits, timers."""
    bucket = cells[at.HEADS] + (cycle & cells[at.LINK_MASK]) * cells[at.HEADS_STRIDE]
    for k in range(bucket + 1, bucket + 1 + cells[bucket]):
        fifo = cells[k]
        _request_head(cells, fifo, cells[_place(cells, fifo, cells[fifo + at.FIFO_HEAD])])
    cells[bucket] = 0

    bucket = cells[at.EJECTED] + (cycle & cells[at.LINK_MASK]) * cells[at.EJECTED_STRIDE]
    for k in range(bucket + 1, bucket + 1 + cells[bucket]):
        node = cells[k]
        for s in range(cells[node + at.NODE_NEXT], cells[node + at.NODE_NEXT_END]):
            sink = cells[s]
            cells[sink + at.SINK_ARRIVED] += 1
            wake_now(cells, cells[sink + at.SINK_AGENT], cycle)
    cells[bucket] = 0

    bucket = cells[at.CREDITS] + (cycle & cells[at.TIME_MASK]) * cells[at.CREDITS_STRIDE]
    for k in range(bucket + 1, bucket + 1 + cells[bucket], 2):
        _take_credits(cells, cells[k], cells[k + 1], cycle)
    cells[bucket] = 0

    bucket = cells[at.WAKES] + (cycle & cells[at.TIME_MASK]) * cells[at.WAKES_STRIDE]
    for k in range(bucket + 1, bucket + 1 + cells[bucket]):
        if cells[cells[k] + at.KIND] == at.FLOW:
            _request_injection(cells, cells[k], cycle)
        else:
            wake_now(cells, cells[k], cycle)
    cells[bucket] = 0


@internal
def _take_credits(cells, sink, number, cycle):
    """Take credits of a sink that have come back to the source of its flow."""
    flow, credits = cells[sink + at.SINK_FLOW], cells[sink + at.SINK_CREDITS]
    cells[sink + at.SINK_CREDITS] = credits + number
    if credits == 0:
        cells[flow + at.FLOW_SINKS_WITHOUT_CREDIT] -= 1
        _request_injection(cells, flow, cycle)


@inlined
def _place(cells, fifo, number):
    """Return where vector `number` of a FIFO stands."""
    return fifo + at.FIFO_RING + 2 * np.int64(number & cells[at.RING_MASK])


@inlined
def _enter_head(cells, fifo, cycle):
    """Enter in the calendar that the head of a FIFO becomes visible in `cycle`."""
    bucket = cells[at.HEADS] + (cycle & cells[at.LINK_MASK]) * cells[at.HEADS_STRIDE]
    number = cells[bucket] + 1
    cells[bucket] = number
    cells[bucket + number] = fifo


@inlined
def _send(cells, node, arrives):
    """Put a vector on the link of a node."""
    fifo = cells[node + at.NODE_FIFO]
    if fifo == at.NONE:
        bucket = cells[at.EJECTED] + (arrives & cells[at.LINK_MASK]) * cells[at.EJECTED_STRIDE]
        number = cells[bucket] + 1
        cells[bucket] = number
        cells[bucket + number] = node
        return
    tail = cells[fifo + at.FIFO_TAIL]
    place = _place(cells, fifo, tail)
    cells[place] = node
    cells[place + 1] = arrives
    cells[fifo + at.FIFO_TAIL] = tail + 1
    if tail == cells[fifo + at.FIFO_HEAD]:
        _enter_head(cells, fifo, arrives)


@inlined
def _has_room(cells, node):
    """Say whether the FIFO behind the link of a node takes one more vector."""
    fifo = cells[node + at.NODE_FIFO]
    occupancy = cells[fifo + at.FIFO_TAIL] - cells[fifo + at.FIFO_HEAD]
    return fifo == at.NONE or occupancy < cells[fifo + at.FIFO_CAPACITY]


@inlined
def _choose(cells, link):
    """Return the address of the request that is granted next, NONE if there is none.

    `flow - after` is unsigned and wraps around: flows below `after` come last.
    """
    first, after = link + at.LINK_REQUESTS, cells[link + at.LINK_AFTER]
    chosen, best = at.NONE, LAST_TURN
    for k in range(first, first + cells[link + at.LINK_NUM_REQUESTS]):
        node = cells[k]
        turn = cells[node + at.NODE_FLOW] - after
        if turn < best and _has_room(cells, node):
            chosen, best = k, turn
    return chosen


@inlined
def _serve(cells, link, leaving_end, cycle):
    """Grant up to `width` requests of a link; returns the end of the list of leaving heads."""
    for _ in range(cells[link + at.LINK_WIDTH]):
        chosen = _choose(cells, link)
        if chosen == at.NONE:
            break
        node = cells[chosen]
        num = cells[link + at.LINK_NUM_REQUESTS] - 1
        cells[chosen] = cells[link + at.LINK_REQUESTS + num]
        cells[link + at.LINK_NUM_REQUESTS] = num
        cells[link + at.LINK_AFTER] = cells[node + at.NODE_FLOW] + at.FLOW_SIZE
        cells[link + at.LINK_VECTORS] += 1
        _send(cells, node, cycle + cells[link + at.LINK_CYCLES])
        source = cells[node + at.NODE_SOURCE]
        unsent = cells[source + at.UNSENT] - 1
        cells[source + at.UNSENT] = unsent
        cells[at.NUM_HOPS] += 1
        if unsent == 0:
            cells[leaving_end] = source
            leaving_end += 1
    return leaving_end


@internal
def move_vectors(cells, cycle):
    """Let all links decide on the state at the start of the cycle, then sent heads leave."""
    hops_before = np.int64(cells[at.NUM_HOPS])
    leaving_end = np.int64(cells[at.LEAVING])
    position, end = np.int64(cells[at.ACTIVE_LINKS]), np.int64(cells[at.ACTIVE_LINKS_END])
    while position < end:
        link = cells[position]
        leaving_end = _serve(cells, link, leaving_end, cycle)
        if cells[link + at.LINK_NUM_REQUESTS] != 0:
            position += 1
        else:
            end -= 1
            cells[position] = cells[end]
    cells[at.ACTIVE_LINKS_END] = end
    for k in range(np.int64(cells[at.LEAVING]), leaving_end):
        source = cells[k]
        if cells[source + at.KIND] == at.FIFO:
            _leave_fifo(cells, source, cycle)
        else:
            _leave_queue(cells, source, cycle)
    cells[at.NUM_ACTED] += cells[at.NUM_HOPS] - hops_before


@inlined
def _leave_fifo(cells, fifo, cycle):
    """Let the head of a FIFO leave; the vector behind it becomes the head."""
    head = cells[fifo + at.FIFO_HEAD] + 1
    cells[fifo + at.FIFO_HEAD] = head
    if head != cells[fifo + at.FIFO_TAIL]:
        place = _place(cells, fifo, head)
        arrives = cells[place + 1]
        if arrives <= cycle + 1:
            _request_head(cells, fifo, cells[place])
        else:
            _enter_head(cells, fifo, arrives)


@internal
def _leave_queue(cells, flow, cycle):
    """Pay the credits of an injected head of an output queue, and ask for the next one."""
    head = cells[flow + at.FLOW_HEAD] + 1
    is_last = head == cells[flow + at.FLOW_QUEUE_END]
    cells[flow + at.FLOW_HEAD] = cells[flow + at.FLOW_QUEUE] if is_last else head
    cells[flow + at.FLOW_COUNT] -= 1
    for sink in range(cells[flow + at.FLOW_SINKS], cells[flow + at.FLOW_SINKS_END], at.SINK_SIZE):
        credits = cells[sink + at.SINK_CREDITS] - 1
        cells[sink + at.SINK_CREDITS] = credits
        if credits == 0:
            cells[flow + at.FLOW_SINKS_WITHOUT_CREDIT] += 1
    wake_next(cells, cells[flow + at.FLOW_AGENT], cycle)
    if cells[flow + at.FLOW_COUNT] > 0:
        ready = cells[cells[flow + at.FLOW_HEAD]]
        if ready > cycle + 1:
            wake_later(cells, flow, ready)
        else:
            _request_injection(cells, flow, cycle + 1)
