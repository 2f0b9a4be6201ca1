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
    place = link + at.REQUEST_SIZE * np.int64(num) + at.LINK_REQUESTS
    cells[place + at.REQUEST_NODE] = node
    cells[place + at.REQUEST_SOURCE] = source
    cells[place + at.REQUEST_FIFO] = cells[node + at.NODE_FIFO]
    cells[link + at.LINK_NUM_REQUESTS] = num + 1
    return np.uint32(1 if num == 0 else 0)


@inlined
def _request(cells, node, source, meshes_end, ejects_end):
    """Ask for a mesh or eject link; returns the ends of both lists.

    It is written behind both and counts where it belongs.
    """
    link = cells[node + at.NODE_LINK]
    is_new = _add_request(cells, link, node, source)
    is_eject = cells[link + at.LINK_IS_EJECT]
    cells[meshes_end] = link
    cells[ejects_end] = link
    return np.uint32(meshes_end + (is_new & ~is_eject)), np.uint32(ejects_end + (is_new & is_eject))


@internal
def _request_single_heads(cells, cycle):
    """Ask for the link over which heads of FIFOs must be sent that become visible now and do not fork."""
    bucket = head_bucket(cells, at.ONE_WAY, cycle)
    meshes_end, ejects_end = cells[at.MESHES_END], cells[at.EJECTS_END]
    for k in range(bucket + 1, bucket + 1 + np.int64(cells[bucket])):
        fifo = cells[k]
        node = cells[fifo + at.FIFO_RING + np.int64(cells[fifo + at.HEAD])] & ~at.WAY_MASK
        meshes_end, ejects_end = _request(cells, node, fifo, meshes_end, ejects_end)
        cells[fifo + at.UNSENT] = 1
    cells[at.MESHES_END], cells[at.EJECTS_END] = meshes_end, ejects_end
    cells[bucket] = 0


@internal
def _request_forked_heads(cells, cycle):
    """Ask for every link over which heads of FIFOs must be sent that become visible now.

    Copies for an eject link that never has more requests than it grants are sent at once.
    """
    bucket = head_bucket(cells, at.FORKED_WAY, cycle)
    meshes_end, ejects_end = cells[at.MESHES_END], cells[at.EJECTS_END]
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
                meshes_end, ejects_end = _request(cells, node, fifo, meshes_end, ejects_end)
                copies = np.uint32(copies + 1)
            if key & at.IS_LAST:
                break
            node = np.uint32(node + at.NODE_SIZE)
        leave(cells, fifo, cycle, copies)
    cells[at.MESHES_END], cells[at.EJECTS_END] = meshes_end, ejects_end
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
def _sort_alone(cells, first, end, passing, waiting, cycle):
    """Share out FIFOs that no other competes with: returns the ends of those with room and those without."""
    for k in range(first, end):
        fifo = cells[k]
        node = cells[fifo + at.FIFO_RING + np.int64(cells[fifo + at.HEAD])] & ~at.WAY_MASK
        is_room = 1 if has_room(cells, cells[node + at.NODE_FIFO], cycle) else 0
        cells[passing] = cells[waiting] = fifo
        passing, waiting = np.uint32(passing + is_room), np.uint32(waiting + 1 - is_room)
    return passing, waiting


@internal
def _pass_heads(cells, cycle):
    """Send heads that no other can compete with, those that wait for room and those visible now."""
    first, alone = cells[at.GRANTING], cells[at.ALONE]
    passing, waiting = _sort_alone(cells, alone, cells[at.ALONE_END], first, alone, cycle)
    bucket = head_bucket(cells, at.ALONE_WAY, cycle)
    new = np.uint32(bucket + 1)
    passing, waiting = _sort_alone(cells, new, np.uint32(new + cells[bucket]), passing, waiting, cycle)
    cells[bucket] = 0
    cells[at.ALONE_END] = waiting
    for k in range(first, passing):
        fifo = cells[k]
        node = cells[fifo + at.FIFO_RING + np.int64(cells[fifo + at.HEAD])] & ~at.WAY_MASK
        link = cells[node + at.NODE_LINK]
        cells[link + at.LINK_VECTORS] += 1
        send(cells, node, cells[node + at.NODE_FIFO], cycle + cells[link + at.LINK_CYCLES])
        leave(cells, fifo, cycle, np.uint32(0))
    _count_hops(cells, np.int64(passing) - first)


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
        _fill_input(cells, target, cycle)
        return
    for k in range(target + 1, target + 1 + cells[target]):
        _fill_input(cells, cells[k], cycle)


@inlined
def _fill_input(cells, sink, cycle):
    """Put a vector into an input queue; its agent is woken if this is all that it has waited for. No branch."""
    arrived, agent = cells[sink + at.SINK_ARRIVED] + 1, cells[sink + at.SINK_AGENT]
    cells[sink + at.SINK_ARRIVED] = arrived
    is_enough = 1 if arrived == cells[sink + at.SINK_NEEDED] else 0
    missing = np.int64(cells[agent + at.MISSING]) - (is_enough & cells[sink + at.SINK_IS_COUNTED])
    cells[agent + at.MISSING] = missing
    wake_now(cells, agent, cycle, is_enough & (1 if missing == 0 else 0))


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
    for k in range(first, first + at.REQUEST_SIZE * np.int64(num), at.REQUEST_SIZE):
        turn = cells[cells[k + at.REQUEST_NODE] + at.NODE_KEY] - after
        turn = turn if has_room(cells, cells[k + at.REQUEST_FIFO], cycle) else LAST_TURN
        chosen = np.uint32(k) if turn < best else chosen
        best = min(turn, best)
    return chosen


@inlined
def _close_gap(cells, link, place, last):
    """Put the last request of a link, which has this number, in the place of a granted one."""
    end = link + at.LINK_REQUESTS + at.REQUEST_SIZE * last
    for k in range(at.REQUEST_SIZE):
        cells[place + k] = cells[end + k]


@inlined
def _grant_mesh(cells, link, node, source, fifo, cycle):
    """Send the head of a FIFO over a mesh link."""
    send(cells, node, fifo, cycle + cells[link + at.LINK_CYCLES])
    leave(cells, source, cycle, np.uint32(cells[source + at.UNSENT] - 1))


@inlined
def _grant_inject(cells, link, node, source, fifo, cycle):
    """Send the head of an output queue over an inject link; it leaves at the end of the cycle."""
    end = cells[at.LEAVING_END]
    cells[end] = source
    cells[at.LEAVING_END] = end + 1
    send(cells, node, fifo, cycle + cells[link + at.LINK_CYCLES])


@inlined
def _grant_eject(cells, link, node, source, fifo, cycle):
    """Send the head of a FIFO over an eject link."""
    eject(cells, node, cycle + cells[link + at.LINK_CYCLES])
    leave(cells, source, cycle, np.uint32(cells[source + at.UNSENT] - 1))


@inlined
def _sort_links(cells, first, cycle):
    """Share out the links of a list: returns the ends of those that grant at once, have to choose, and must wait.

    Whether there is room depends on nothing that other links do in this cycle, so it is asked before
    anything moves, without a branch: the loops that follow do the same for all of their links.
    """
    granting, choosing, waiting = cells[at.GRANTING], cells[at.CHOOSING], cells[first]
    for k in range(cells[first], cells[first + 1]):
        link = cells[k]
        is_single = 1 if cells[link + at.LINK_NUM_REQUESTS] == 1 else 0
        is_room = 1 if has_room(cells, cells[link + at.LINK_REQUESTS + at.REQUEST_FIFO], cycle) else 0
        cells[granting] = cells[choosing] = cells[waiting] = link
        granting = np.uint32(granting + (is_single & is_room))
        choosing = np.uint32(choosing + (1 - is_single))
        waiting = np.uint32(waiting + (is_single & (1 - is_room)))
    return granting, choosing, waiting


@inlined
def _choose_grants(cells, link, grant, cycle):
    """Grant requests of a link that has several; returns the number of those that still wait."""
    num = np.int64(cells[link + at.LINK_NUM_REQUESTS])
    for _ in range(min(num, np.int64(cells[link + at.LINK_WIDTH]))):
        place = _choose(cells, link, num, cycle)
        if place == at.NONE:
            break
        node, source, fifo = cells[place], cells[place + 1], cells[place + 2]
        num -= 1
        _close_gap(cells, link, place, num)
        cells[link + at.LINK_AFTER] = cells[node + at.NODE_KEY] + at.KEY_STEP
        grant(cells, link, node, source, fifo, cycle)
    return num


@inlined
def _serve_list(cells, first, grant, cycle):
    """Let the active links of a list (header fields: start, end) grant; keep those with requests."""
    granting, choosing, waiting = _sort_links(cells, first, cycle)
    hops = np.int64(granting) - cells[at.GRANTING]
    for k in range(cells[at.GRANTING], granting):
        link = cells[k]
        place = np.uint32(link + at.LINK_REQUESTS)
        node = cells[place]
        cells[link + at.LINK_NUM_REQUESTS] = 0
        cells[link + at.LINK_VECTORS] += 1
        cells[link + at.LINK_AFTER] = cells[node + at.NODE_KEY] + at.KEY_STEP
        grant(cells, link, node, cells[place + 1], cells[place + 2], cycle)
    for k in range(cells[at.CHOOSING], choosing):
        link = cells[k]
        before = np.int64(cells[link + at.LINK_NUM_REQUESTS])
        left = _choose_grants(cells, link, grant, cycle)
        cells[link + at.LINK_NUM_REQUESTS] = left
        cells[link + at.LINK_VECTORS] += before - left
        hops += before - left
        cells[waiting] = link
        waiting = np.uint32(waiting + (1 if left else 0))
    cells[first + 1] = waiting
    _count_hops(cells, hops)


@internal
def _serve_injects(cells, cycle):
    _serve_list(cells, at.INJECTS, _grant_inject, cycle)


@internal
def _serve_meshes(cells, cycle):
    _serve_list(cells, at.MESHES, _grant_mesh, cycle)


@internal
def _serve_ejects(cells, cycle):
    _serve_list(cells, at.EJECTS, _grant_eject, cycle)


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
    agent = cells[flow + at.FLOW_AGENT]
    if cells[agent + at.MISSING] == 0:
        wake_next(cells, agent, cycle)
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
