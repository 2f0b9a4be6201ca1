"""How vectors move: arrivals, requests of heads, round-robin links, multicast forks, injection."""

from __future__ import annotations

import numpy as np

from placer.base import inlined, internal
from placer.simulation import records as at
from placer.simulation.calendar import (
    eject,
    has_room,
    head_bucket,
    leave,
    look_now,
    send,
    slots,
    wake_later,
    wake_next,
    wake_now,
)

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
def _request(cells, node, source):
    """Ask for a mesh or eject link; it is written behind both lists, and counts where it belongs."""
    link = cells[node + at.NODE_LINK]
    is_new = _add_request(cells, link, node, source)
    is_eject = cells[link + at.LINK_IS_EJECT]
    meshes_end, ejects_end = cells[at.MESHES_END], cells[at.EJECTS_END]
    cells[meshes_end] = link
    cells[ejects_end] = link
    cells[at.MESHES_END] = meshes_end + (is_new & ~is_eject)
    cells[at.EJECTS_END] = ejects_end + (is_new & is_eject)


@internal
def _request_single_heads(cells, cycle):
    """Ask for the link over which heads of FIFOs must be sent that become visible now and do not fork."""
    bucket = head_bucket(cells, at.ONE_WAY, cycle)
    for k in range(bucket + 1, bucket + 1 + np.int64(cells[bucket])):
        fifo = cells[k]
        node = cells[fifo + at.FIFO_RING + np.int64(cells[fifo + at.HEAD])] & ~at.WAY_MASK
        _request(cells, node, fifo)
        cells[fifo + at.UNSENT] = 1
    cells[bucket] = 0


@internal
def _request_forked_heads(cells, cycle):
    """Ask for every link over which heads of FIFOs must be sent that become visible now.

    Copies for an eject link that never has more requests than it grants are sent at once.
    """
    bucket = head_bucket(cells, at.FORKED_WAY, cycle)
    ejected = np.int64(0)
    for k in range(bucket + 1, bucket + 1 + np.int64(cells[bucket])):
        fifo = cells[k]
        node = cells[fifo + at.FIFO_RING + np.int64(cells[fifo + at.HEAD])]
        copies = np.uint32(0)
        while True:
            key = cells[node + at.NODE_KEY]
            if key & at.IS_FREE:
                link = cells[node + at.NODE_LINK]
                cells[link + at.LINK_VECTORS] += 1
                eject(cells, node, cycle + cells[link + at.LINK_CYCLES])
                ejected += 1
            else:
                _request(cells, node, fifo)
                copies = np.uint32(copies + 1)
            if key & at.IS_LAST:
                break
            node = np.uint32(node + at.NODE_SIZE)
        leave(cells, fifo, cycle, copies)
    cells[bucket] = 0
    _count_hops(cells, ejected)


@inlined
def _count_hops(cells, number):
    cells[at.NUM_ACTED] += number
    cells[at.NUM_HOPS] += number


@internal
def _eject_heads(cells, cycle):
    """Send heads that become visible now over eject links that grant all requests at once."""
    bucket = head_bucket(cells, at.EJECT_WAY, cycle)
    number = np.int64(cells[bucket])
    for k in range(bucket + 1, bucket + 1 + number):
        fifo = cells[k]
        node = cells[fifo + at.FIFO_RING + np.int64(cells[fifo + at.HEAD])] & ~at.WAY_MASK
        link = cells[node + at.NODE_LINK]
        cells[link + at.LINK_VECTORS] += 1
        eject(cells, node, cycle + cells[link + at.LINK_CYCLES])
        leave(cells, fifo, cycle, np.uint32(0))
    cells[bucket] = 0
    _count_hops(cells, number)


@inlined
def _pass_alone(cells, fifo, cycle):
    """Send the head of the only FIFO that uses a mesh link if there is room; returns 1 if not."""
    node = cells[fifo + at.FIFO_RING + np.int64(cells[fifo + at.HEAD])] & ~at.WAY_MASK
    if not has_room(cells, node, cycle):
        return 1
    link = cells[node + at.NODE_LINK]
    cells[link + at.LINK_VECTORS] += 1
    send(cells, node, cycle + cells[link + at.LINK_CYCLES])
    leave(cells, fifo, cycle, np.uint32(0))
    return 0


@internal
def _pass_heads(cells, cycle):
    """Send heads that no other can compete with, those that wait for room and those visible now."""
    waiting = cells[at.ALONE]
    before = np.int64(cells[at.ALONE_END]) - waiting
    for k in range(waiting, waiting + before):
        fifo = cells[k]
        cells[waiting] = fifo
        waiting = np.uint32(waiting + _pass_alone(cells, fifo, cycle))
    bucket = head_bucket(cells, at.ALONE_WAY, cycle)
    number = np.int64(cells[bucket])
    for k in range(bucket + 1, bucket + 1 + number):
        fifo = cells[k]
        cells[waiting] = fifo
        waiting = np.uint32(waiting + _pass_alone(cells, fifo, cycle))
    cells[bucket] = 0
    cells[at.ALONE_END] = waiting
    _count_hops(cells, before + number - (np.int64(waiting) - cells[at.ALONE]))


@internal
def _hold_heads(cells, cycle):
    """Let heads that no other can compete with wait, those visible now too: links between switches pause."""
    waiting = cells[at.ALONE_END]
    bucket = head_bucket(cells, at.ALONE_WAY, cycle)
    for k in range(bucket + 1, bucket + 1 + np.int64(cells[bucket])):
        cells[waiting] = cells[k]
        waiting = np.uint32(waiting + 1)
    cells[bucket] = 0
    cells[at.ALONE_END] = waiting


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
            look_now(cells, cells[k], cycle)
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
def _choose(cells, link, num, cycle):
    """Return the address of the request that is granted next, NONE if there is none.

    `key - after` is unsigned and wraps around: flows below `after` come last.
    """
    first, after = link + at.LINK_REQUESTS, cells[link + at.LINK_AFTER]
    chosen, best = np.uint32(at.NONE), LAST_TURN
    for k in range(first, first + 2 * np.int64(num), 2):
        node = cells[k]
        turn = cells[node + at.NODE_KEY] - after
        turn = turn if has_room(cells, node, cycle) else LAST_TURN
        chosen = np.uint32(k) if turn < best else chosen
        best = min(turn, best)
    return chosen


@inlined
def _take_request(cells, link, place, num):
    """Take a granted request off the list of its link."""
    key = cells[cells[place] + at.NODE_KEY]
    last = link + at.LINK_REQUESTS + 2 * np.int64(num - 1)
    cells[place], cells[place + 1] = cells[last], cells[last + 1]
    cells[link + at.LINK_NUM_REQUESTS] = num - 1
    cells[link + at.LINK_AFTER] = key + at.KEY_STEP


@inlined
def _grant_mesh(cells, link, place, num, cycle):
    """Send the head of a FIFO over a mesh link."""
    node, fifo = cells[place], cells[place + 1]
    _take_request(cells, link, place, num)
    send(cells, node, cycle + cells[link + at.LINK_CYCLES])
    leave(cells, fifo, cycle, np.uint32(cells[fifo + at.UNSENT] - 1))


@inlined
def _grant_inject(cells, link, place, num, cycle):
    """Send the head of an output queue over an inject link; it leaves at the end of the cycle."""
    node, end = cells[place], cells[at.LEAVING_END]
    cells[end] = cells[place + 1]
    cells[at.LEAVING_END] = end + 1
    _take_request(cells, link, place, num)
    send(cells, node, cycle + cells[link + at.LINK_CYCLES])


@inlined
def _serve(cells, link, grant, cycle):
    """Grant requests of an inject or mesh link."""
    num = cells[link + at.LINK_NUM_REQUESTS]
    if num == 1:  # most often; `_choose` would find the same
        place = np.uint32(link + at.LINK_REQUESTS)
        if has_room(cells, cells[place], cycle):
            grant(cells, link, place, num, cycle)
        return
    for _ in range(min(num, cells[link + at.LINK_WIDTH])):
        place = _choose(cells, link, num, cycle)
        if place == at.NONE:
            break
        grant(cells, link, place, num, cycle)
        num = np.uint32(num - 1)


@inlined
def _serve_inject(cells, link, cycle):
    _serve(cells, link, _grant_inject, cycle)


@inlined
def _serve_mesh(cells, link, cycle):
    _serve(cells, link, _grant_mesh, cycle)


@inlined
def _serve_eject(cells, link, cycle):
    """Grant requests of an eject link, behind which there is always room."""
    num = cells[link + at.LINK_NUM_REQUESTS]
    arrives = cycle + cells[link + at.LINK_CYCLES]
    for _ in range(min(num, cells[link + at.LINK_WIDTH])):
        place = np.uint32(link + at.LINK_REQUESTS) if num == 1 else _choose(cells, link, num, cycle)
        node, fifo = cells[place], cells[place + 1]
        _take_request(cells, link, place, num)
        eject(cells, node, arrives)
        leave(cells, fifo, cycle, np.uint32(cells[fifo + at.UNSENT] - 1))
        num = np.uint32(num - 1)


@inlined
def _serve_list(cells, first, serve, cycle):
    """Let the active links of a list (header fields: start, end) grant; keep those with requests."""
    kept, hops = cells[first], np.int64(0)
    for k in range(cells[first], cells[first + 1]):
        link = cells[k]
        before = np.int64(cells[link + at.LINK_NUM_REQUESTS])
        serve(cells, link, cycle)
        waiting = cells[link + at.LINK_NUM_REQUESTS]
        hops += before - waiting
        cells[link + at.LINK_VECTORS] += before - waiting
        cells[kept] = link
        kept = np.uint32(kept + (1 if waiting else 0))
    cells[first + 1] = kept
    _count_hops(cells, hops)


@internal
def _serve_injects(cells, cycle):
    _serve_list(cells, at.INJECTS, _serve_inject, cycle)


@internal
def _serve_meshes(cells, cycle):
    _serve_list(cells, at.MESHES, _serve_mesh, cycle)


@internal
def _serve_ejects(cells, cycle):
    _serve_list(cells, at.EJECTS, _serve_eject, cycle)


@internal
def move_vectors(cells, cycle):
    """Let all links decide on the state at the start of the cycle."""
    is_paused = slots(cells[at.MESH_PACE], cycle) == 0
    if is_paused:
        _hold_heads(cells, cycle)
        cells[at.NUM_ACTED] += 1  # what waits may go on in the next cycle
    else:
        _pass_heads(cells, cycle)
    _eject_heads(cells, cycle)
    _request_single_heads(cells, cycle)
    _request_forked_heads(cells, cycle)
    if not is_paused:
        _serve_meshes(cells, cycle)
    _serve_ejects(cells, cycle)
    _serve_injects(cells, cycle)
    leaving = cells[at.LEAVING]
    for k in range(leaving, cells[at.LEAVING_END]):
        _leave_queue(cells, cells[k], cycle)
    cells[at.LEAVING_END] = leaving


@inlined
def _leave_queue(cells, flow, cycle):
    """Pay the credits of an injected head of an output queue, and ask for the next one."""
    head = cells[flow + at.HEAD] + 1
    is_last = head == cells[flow + at.FLOW_QUEUE_END]
    cells[flow + at.HEAD] = cells[flow + at.FLOW_QUEUE] if is_last else head
    cells[flow + at.COUNT] -= 1
    cells[flow + at.UNSENT] = 0
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
    ejects, alone = cells[at.EJECTS_END] - cells[at.EJECTS], cells[at.ALONE_END] - cells[at.ALONE]
    return injects + meshes + ejects + alone > 0
