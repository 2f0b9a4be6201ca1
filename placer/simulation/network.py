"""How vectors move: heads that become visible, requests, round-robin links, multicast forks.

Only the head of a FIFO can move, so only heads are events: a vector that is sent into an empty
FIFO is entered in the calendar, one behind another vector is looked at when it becomes the head.
"""

from __future__ import annotations

import numpy as np

from placer.base import inlined, internal
from placer.simulation import records as at
from placer.simulation.calendar import enter, wake_later, wake_next, wake_now

LAST_TURN = np.uint64((1 << 64) - 1)  # round robin: after any flow


@inlined
def _request(cells, node, source):
    """Ask for the link of a node, for the head of a flow or FIFO."""
    link = cells[node + at.NODE_LINK]
    num = cells[link + at.LINK_NUM_REQUESTS]
    place = link + 2 * np.int64(num) + at.LINK_REQUESTS
    cells[place] = node
    cells[place + 1] = source
    cells[link + at.LINK_NUM_REQUESTS] = num + 1
    if num == 0:
        end = cells[at.ACTIVE_LINKS_END]
        cells[end] = link
        cells[at.ACTIVE_LINKS_END] = end + 1


@inlined
def _request_head(cells, fifo, node):
    """Ask for every link over which the head of a FIFO must be sent, from a node to the last."""
    copies = 1
    while not cells[node + at.NODE_KEY] & at.IS_LAST:
        _request(cells, node, fifo)
        node += at.NODE_SIZE
        copies += 1
    _request(cells, node, fifo)
    cells[fifo + at.UNSENT] = copies


@internal
def _request_injection(cells, flow, cycle):
    """Ask for the inject link of a flow if it has a ready head and all credits."""
    if cells[flow + at.COUNT] == 0 or cells[flow + at.UNSENT] != 0:
        return
    is_ready = cells[cells[flow + at.HEAD]] <= cycle
    if is_ready and cells[flow + at.FLOW_SINKS_WITHOUT_CREDIT] == 0:
        cells[flow + at.UNSENT] = 1
        _request(cells, cells[flow + at.FLOW_ROOT], flow)


@internal
def arrivals(cells, cycle):
    """Make visible what arrives in this cycle: vectors, credits, timers."""
    bucket = cells[at.HEADS] + (cycle & cells[at.LINK_MASK]) * cells[at.HEADS_STRIDE]
    for k in range(bucket + 1, bucket + 1 + cells[bucket]):
        fifo = cells[k]
        _request_head(cells, fifo, np.int64(cells[fifo + at.FIFO_RING + np.int64(cells[fifo + at.HEAD])]))
    cells[bucket] = 0

    bucket = cells[at.EJECTED] + (cycle & cells[at.LINK_MASK]) * cells[at.EJECTED_STRIDE]
    for k in range(bucket + 1, bucket + 1 + cells[bucket]):
        _take_vector(cells, cells[k], cycle)
    cells[bucket] = 0

    bucket = cells[at.CREDITS] + (cycle & cells[at.TIME_MASK]) * cells[at.CREDITS_STRIDE]
    for k in range(bucket + 1, bucket + 1 + cells[bucket], 2):
        _take_credits(cells, cells[k], cells[k + 1], cycle)
    cells[bucket] = 0

    bucket = cells[at.WAKES] + (cycle & cells[at.TIME_MASK]) * cells[at.WAKES_STRIDE]
    for k in range(bucket + 1, bucket + 1 + cells[bucket]):
        if cells[k] < cells[at.FLOWS_END]:
            _request_injection(cells, cells[k], cycle)
        else:
            wake_now(cells, cells[k], cycle)
    cells[bucket] = 0


@inlined
def _take_vector(cells, target, cycle):
    """Put a vector into the input queue of a sink, or of all sinks of a list."""
    if target < cells[at.SINKS_END]:
        cells[target + at.SINK_ARRIVED] += 1
        wake_now(cells, cells[target + at.SINK_AGENT], cycle)
        return
    for k in range(target + 1, target + 1 + cells[target]):
        sink = cells[k]
        cells[sink + at.SINK_ARRIVED] += 1
        wake_now(cells, cells[sink + at.SINK_AGENT], cycle)


@inlined
def _take_credits(cells, sink, number, cycle):
    """Take credits of a sink that have come back to the source of its flow."""
    flow, credits = cells[sink + at.SINK_FLOW], cells[sink + at.SINK_CREDITS]
    cells[sink + at.SINK_CREDITS] = credits + number
    if credits == 0:
        cells[flow + at.FLOW_SINKS_WITHOUT_CREDIT] -= 1
        _request_injection(cells, flow, cycle)


@inlined
def _send(cells, node, fifo, arrives):
    """Put a vector on the link of a node."""
    following = cells[node + at.NODE_NEXT]
    if fifo == at.NONE:
        bucket = cells[at.EJECTED] + (arrives & cells[at.LINK_MASK]) * cells[at.EJECTED_STRIDE]
        enter(cells, bucket, following)
        return
    count = np.int64(cells[fifo + at.COUNT])
    end = 2 * np.int64(cells[fifo + at.FIFO_CAPACITY])
    tail = cells[fifo + at.HEAD] + 2 * count
    tail = tail - end if tail >= end else tail
    cells[fifo + at.FIFO_RING + tail] = following
    cells[fifo + at.FIFO_RING + tail + 1] = arrives
    cells[fifo + at.COUNT] = count + 1
    if count == 0:
        bucket = cells[at.HEADS] + (arrives & cells[at.LINK_MASK]) * cells[at.HEADS_STRIDE]
        enter(cells, bucket, fifo)


@inlined
def _has_room(cells, node):
    """Say whether the FIFO behind the link of a node takes one more vector; NONE (0) always does."""
    fifo = cells[node + at.NODE_FIFO]
    return fifo == at.NONE or cells[fifo + at.COUNT] < cells[fifo + at.FIFO_CAPACITY]


@inlined
def _choose(cells, link, num):
    """Return the address of the request that is granted next, NONE if there is none.

    `key - after` is unsigned and wraps around: flows below `after` come last.
    """
    first, after = link + at.LINK_REQUESTS, cells[link + at.LINK_AFTER]
    if num == 1:
        return first if _has_room(cells, cells[first]) else at.NONE
    chosen, best = at.NONE, LAST_TURN
    for k in range(first, first + 2 * num, 2):
        node = cells[k]
        turn = cells[node + at.NODE_KEY] - after
        if turn < best and _has_room(cells, node):
            chosen, best = k, turn
    return chosen


@inlined
def _serve(cells, link, leaving_end, cycle):
    """Grant up to `width` requests of a link; returns the end of the list of leaving heads."""
    num = np.int64(cells[link + at.LINK_NUM_REQUESTS])
    granted = 0
    width = min(np.int64(cells[link + at.LINK_WIDTH]), num)
    arrives = cycle + cells[link + at.LINK_CYCLES]
    while granted < width:
        chosen = _choose(cells, link, num)
        if chosen == at.NONE:
            break
        node, source = cells[chosen], cells[chosen + 1]
        num -= 1
        granted += 1
        last = link + at.LINK_REQUESTS + 2 * num
        cells[chosen] = cells[last]
        cells[chosen + 1] = cells[last + 1]
        cells[link + at.LINK_AFTER] = cells[node + at.NODE_KEY] + 2  # a turn of -1 would never come
        _send(cells, node, cells[node + at.NODE_FIFO], arrives)
        unsent = cells[source + at.UNSENT] - 1
        cells[source + at.UNSENT] = unsent
        cells[leaving_end] = source
        leaving_end += 1 if unsent == 0 else 0
    cells[link + at.LINK_NUM_REQUESTS] = num
    cells[link + at.LINK_VECTORS] += granted
    return leaving_end, granted, num


@internal
def move_vectors(cells, cycle):
    """Let all links decide on the state at the start of the cycle, then sent heads leave."""
    first_leaving = np.int64(cells[at.LEAVING])
    leaving_end, hops = first_leaving, np.int64(0)
    position, end = np.int64(cells[at.ACTIVE_LINKS]), np.int64(cells[at.ACTIVE_LINKS_END])
    while position < end:
        link = np.int64(cells[position])
        leaving_end, granted, waiting = _serve(cells, link, leaving_end, cycle)
        hops += granted
        if waiting != 0:
            position += 1
        else:
            end -= 1
            cells[position] = cells[end]
    cells[at.ACTIVE_LINKS_END] = end
    flows_end = cells[at.FLOWS_END]
    for k in range(first_leaving, leaving_end):
        source = cells[k]
        if source >= flows_end:
            _leave_fifo(cells, source, cycle)
        else:
            _leave_queue(cells, source, cycle)
    cells[at.NUM_ACTED] += hops
    cells[at.NUM_HOPS] += hops


@inlined
def _leave_fifo(cells, fifo, cycle):
    """Let the head of a FIFO leave; the vector behind it becomes the head."""
    count = cells[fifo + at.COUNT] - 1
    cells[fifo + at.COUNT] = count
    head = cells[fifo + at.HEAD] + 2
    head = 0 if head == 2 * cells[fifo + at.FIFO_CAPACITY] else head
    cells[fifo + at.HEAD] = head
    if count != 0:
        place = fifo + at.FIFO_RING + np.int64(head)
        arrives = cells[place + 1]
        if arrives <= cycle + 1:
            _request_head(cells, fifo, np.int64(cells[place]))
        else:
            bucket = cells[at.HEADS] + (arrives & cells[at.LINK_MASK]) * cells[at.HEADS_STRIDE]
            enter(cells, bucket, fifo)


@internal
def _leave_queue(cells, flow, cycle):
    """Pay the credits of an injected head of an output queue, and ask for the next one."""
    head = cells[flow + at.HEAD] + 1
    is_last = head == cells[flow + at.FLOW_QUEUE_END]
    cells[flow + at.HEAD] = cells[flow + at.FLOW_QUEUE] if is_last else head
    cells[flow + at.COUNT] -= 1
    for sink in range(cells[flow + at.FLOW_SINKS], cells[flow + at.FLOW_SINKS_END], at.SINK_SIZE):
        credits = cells[sink + at.SINK_CREDITS] - 1
        cells[sink + at.SINK_CREDITS] = credits
        if credits == 0:
            cells[flow + at.FLOW_SINKS_WITHOUT_CREDIT] += 1
    wake_next(cells, cells[flow + at.FLOW_AGENT], cycle)
    if cells[flow + at.COUNT] > 0:
        ready = cells[cells[flow + at.HEAD]]
        if ready > cycle + 1:
            wake_later(cells, flow, ready)
        else:
            _request_injection(cells, flow, cycle + 1)
