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
def _add_request(cells, link, node, source):
    """Ask for the link of a node, for the head of a flow or FIFO; returns 1 if it is the first."""
    num = cells[link + at.LINK_NUM_REQUESTS]
    place = link + 2 * np.int64(num) + at.LINK_REQUESTS
    cells[place] = node
    cells[place + 1] = source
    cells[link + at.LINK_NUM_REQUESTS] = num + 1
    return np.uint32(1 if num == 0 else 0)


@inlined
def _request(cells, node, source, meshes_end, ejects_end):
    """Ask for a mesh or eject link; returns the ends of the lists of active ones.

    The link is written behind both lists, and counts where it belongs if it was not active.
    """
    link = cells[node + at.NODE_LINK]
    is_new = _add_request(cells, link, node, source)
    is_eject = cells[link + at.LINK_IS_EJECT]
    cells[meshes_end] = link
    cells[ejects_end] = link
    return np.uint32(meshes_end + (is_new & ~is_eject)), np.uint32(ejects_end + (is_new & is_eject))


@internal
def _request_heads(cells, cycle):
    """Ask for every link over which heads of FIFOs must be sent that become visible now."""
    bucket = cells[at.HEADS] + (cycle & cells[at.LINK_MASK]) * cells[at.HEADS_STRIDE]
    meshes, ejects = cells[at.MESHES_END], cells[at.EJECTS_END]
    for k in range(bucket + 1, bucket + 1 + cells[bucket]):
        fifo = cells[np.uint32(k)]
        node = cells[fifo + at.FIFO_RING + np.int64(cells[fifo + at.HEAD])]
        copies = 1
        while not cells[node + at.NODE_KEY] & at.IS_LAST:
            meshes, ejects = _request(cells, node, fifo, meshes, ejects)
            node = np.uint32(node + at.NODE_SIZE)
            copies += 1
        meshes, ejects = _request(cells, node, fifo, meshes, ejects)
        cells[fifo + at.UNSENT] = copies
    cells[at.MESHES_END], cells[at.EJECTS_END] = meshes, ejects
    cells[bucket] = 0


@inlined
def _request_injection(cells, flow, cycle):
    """Ask for the inject link of a flow if it has a ready head and all credits."""
    if cells[flow + at.COUNT] == 0 or cells[flow + at.UNSENT] != 0:
        return
    is_ready = cells[cells[flow + at.HEAD]] <= cycle
    if is_ready and cells[flow + at.FLOW_SINKS_WITHOUT_CREDIT] == 0:
        cells[flow + at.UNSENT] = 1
        root, end = cells[flow + at.FLOW_ROOT], cells[at.INJECTS_END]
        link = cells[root + at.NODE_LINK]
        cells[end] = link
        cells[at.INJECTS_END] = end + _add_request(cells, link, root, flow)


@internal
def arrivals(cells, cycle):
    """Make visible what arrives in this cycle: vectors, credits, timers."""
    _request_heads(cells, cycle)

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
def _enter_head(cells, fifo, cycle, is_entered):
    """Enter in the calendar that the head of a FIFO becomes visible; without a branch."""
    bucket = cells[at.HEADS] + (cycle & cells[at.LINK_MASK]) * cells[at.HEADS_STRIDE]
    number = cells[bucket]
    cells[bucket + 1 + np.int64(number)] = fifo
    cells[bucket] = number + (1 if is_entered else 0)


@inlined
def _send(cells, node, arrives):
    """Put a vector on the link of a node, into the FIFO behind it."""
    fifo = cells[node + at.NODE_FIFO]
    count = cells[fifo + at.COUNT]
    tail = cells[fifo + at.HEAD] + 2 * np.int64(count)
    end = 2 * np.int64(cells[fifo + at.FIFO_CAPACITY])
    place = np.uint32(fifo + at.FIFO_RING + (tail - end if tail >= end else tail))
    cells[place] = cells[node + at.NODE_NEXT]
    cells[place + 1] = arrives
    cells[fifo + at.COUNT] = count + 1
    _enter_head(cells, fifo, arrives, count == 0)


@inlined
def _has_room(cells, node):
    """Say whether what is behind the link of a node takes one more vector."""
    fifo = cells[node + at.NODE_FIFO]
    return cells[fifo + at.COUNT] < cells[fifo + at.FIFO_CAPACITY]


@inlined
def _choose(cells, link, num):
    """Return the address of the request that is granted next, NONE if there is none.

    `key - after` is unsigned and wraps around: flows below `after` come last.
    """
    first, after = link + at.LINK_REQUESTS, cells[link + at.LINK_AFTER]
    chosen, best = np.uint32(at.NONE), LAST_TURN
    for k in range(first, first + 2 * np.int64(num), 2):
        node = cells[k]
        turn = cells[node + at.NODE_KEY] - after
        if turn < best and _has_room(cells, node):
            chosen, best = np.uint32(k), turn
    return chosen


@inlined
def _take_request(cells, link, place, num, leaving_end):
    """Take a granted request off the list of its link; returns the end of the leaving heads.

    The place behind the last leaving head is written in any case, and counts if all copies are sent.
    """
    node, source = cells[place], cells[place + 1]
    last = link + at.LINK_REQUESTS + 2 * np.int64(num - 1)
    cells[place], cells[place + 1] = cells[last], cells[last + 1]
    cells[link + at.LINK_NUM_REQUESTS] = num - 1
    cells[link + at.LINK_AFTER] = cells[node + at.NODE_KEY] + 2  # a turn of -1 would never come
    unsent = cells[source + at.UNSENT] - 1
    cells[source + at.UNSENT] = unsent
    cells[leaving_end] = source
    return np.uint32(leaving_end + (1 if unsent == 0 else 0))


@inlined
def _serve(cells, link, leaving_end, cycle):
    """Grant requests of an inject or mesh link; returns the end of the leaving heads."""
    num = cells[link + at.LINK_NUM_REQUESTS]
    arrives = cycle + cells[link + at.LINK_CYCLES]
    if num == 1:  # most often; `_choose` would find the same
        place = np.uint32(link + at.LINK_REQUESTS)
        node = cells[place]
        if _has_room(cells, node):
            leaving_end = _take_request(cells, link, place, num, leaving_end)
            _send(cells, node, arrives)
        return leaving_end
    for _ in range(min(num, cells[link + at.LINK_WIDTH])):
        place = _choose(cells, link, num)
        if place == at.NONE:
            break
        node = cells[place]
        leaving_end = _take_request(cells, link, place, num, leaving_end)
        _send(cells, node, arrives)
        num = np.uint32(num - 1)
    return leaving_end


@inlined
def _serve_eject(cells, link, leaving_end, cycle):
    """Grant requests of an eject link, behind which there is always room."""
    num = cells[link + at.LINK_NUM_REQUESTS]
    arrives = cycle + cells[link + at.LINK_CYCLES]
    bucket = cells[at.EJECTED] + (arrives & cells[at.LINK_MASK]) * cells[at.EJECTED_STRIDE]
    for _ in range(min(num, cells[link + at.LINK_WIDTH])):
        place = np.uint32(link + at.LINK_REQUESTS) if num == 1 else _choose(cells, link, num)
        enter(cells, bucket, cells[cells[place] + at.NODE_NEXT])
        leaving_end = _take_request(cells, link, place, num, leaving_end)
        num = np.uint32(num - 1)
    return leaving_end


@inlined
def _serve_list(cells, first, serve, leaving_end, cycle):
    """Let the active links of a list (header fields: start, end) grant; keep those with requests."""
    kept, hops = cells[first], np.int64(0)
    for k in range(cells[first], cells[first + 1]):
        link = cells[k]
        before = np.int64(cells[link + at.LINK_NUM_REQUESTS])
        leaving_end = serve(cells, link, leaving_end, cycle)
        waiting = cells[link + at.LINK_NUM_REQUESTS]
        hops += before - waiting
        cells[link + at.LINK_VECTORS] += before - waiting
        cells[kept] = link
        kept = np.uint32(kept + (1 if waiting else 0))
    cells[first + 1] = kept
    cells[at.NUM_ACTED] += hops
    cells[at.NUM_HOPS] += hops
    return leaving_end


@internal
def _serve_injects(cells, leaving_end, cycle):
    return _serve_list(cells, at.INJECTS, _serve, leaving_end, cycle)


@internal
def _serve_meshes(cells, leaving_end, cycle):
    return _serve_list(cells, at.MESHES, _serve, leaving_end, cycle)


@internal
def _serve_ejects(cells, leaving_end, cycle):
    return _serve_list(cells, at.EJECTS, _serve_eject, leaving_end, cycle)


@internal
def move_vectors(cells, cycle):
    """Let all links decide on the state at the start of the cycle, then sent heads leave."""
    leaving = cells[at.LEAVING]
    flows_end = _serve_injects(cells, leaving, cycle)
    fifos_end = _serve_meshes(cells, flows_end, cycle)
    fifos_end = _serve_ejects(cells, fifos_end, cycle)
    for k in range(leaving, flows_end):
        _leave_queue(cells, cells[k], cycle)
    _leave_fifos(cells, flows_end, fifos_end, cycle + 1)


@internal
def _leave_fifos(cells, first, end, following):
    """Let heads of FIFOs leave; the vectors behind them become heads in the following cycle."""
    bucket = cells[at.HEADS] + (following & cells[at.LINK_MASK]) * cells[at.HEADS_STRIDE]
    visible = np.uint32(bucket + 1 + cells[bucket])
    for k in range(first, end):
        fifo = cells[k]
        count = cells[fifo + at.COUNT] - 1
        cells[fifo + at.COUNT] = count
        head = cells[fifo + at.HEAD] + 2
        head = np.uint32(0 if head == 2 * cells[fifo + at.FIFO_CAPACITY] else head)
        cells[fifo + at.HEAD] = head
        arrives = cells[fifo + at.FIFO_RING + 1 + np.int64(head)]  # in the past if the FIFO is empty
        if arrives > following:
            _enter_head(cells, fifo, arrives, True)
        else:
            cells[visible] = fifo
            visible = np.uint32(visible + (1 if count != 0 else 0))
    cells[bucket] = visible - bucket - 1


@inlined
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


@inlined
def has_requests(cells):
    """Say whether a vector waits for a link."""
    injects, meshes = cells[at.INJECTS_END] - cells[at.INJECTS], cells[at.MESHES_END] - cells[at.MESHES]
    return injects + meshes + (cells[at.EJECTS_END] - cells[at.EJECTS]) > 0
