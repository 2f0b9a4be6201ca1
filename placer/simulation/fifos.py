"""FIFOs at the far ends of links: what goes in and out, and when a head becomes visible.

Only the head of a FIFO can move, so only heads are events: a vector that is sent into an empty
FIFO is entered in the calendar, one behind another vector when it becomes the head. There is a
calendar for each way in which heads leave, so that the loops over them know what to do.
"""

from __future__ import annotations

import numpy as np

from placer.base import inlined
from placer.simulation import records as at
from placer.simulation.calendar import enter


@inlined
def head_bucket(cells, way, cycle):
    """Return the bucket of heads that become visible in a cycle and leave in a way."""
    row = way * (np.int64(cells[at.LINK_MASK]) + 1) + (cycle & cells[at.LINK_MASK])
    return np.uint32(cells[at.HEADS] + row * cells[at.HEADS_STRIDE])


@inlined
def _enter_head(cells, fifo, following, cycle, is_entered):
    """Enter in the calendar that the head of a FIFO becomes visible, if `is_entered` is 1; no branch."""
    bucket = head_bucket(cells, following & at.WAY_MASK, cycle)
    number = cells[bucket]
    cells[bucket + 1 + np.int64(number)] = fifo
    cells[bucket] = number + is_entered


@inlined
def send(cells, node, arrives):
    """Put a vector on the link of a node, into the FIFO behind it."""
    fifo = cells[node + at.NODE_FIFO]
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
def has_room(cells, node, cycle):
    """Say whether what is behind the link of a node takes one more vector."""
    fifo = cells[node + at.NODE_FIFO]
    leaves_now = 1 if cells[fifo + at.UNSENT] == at.NEVER - cycle else 0
    return cells[fifo + at.COUNT] + leaves_now < cells[fifo + at.FIFO_CAPACITY]


@inlined
def has_heads(cells, cycle):
    """Say whether the head of a FIFO becomes visible in a cycle."""
    number = np.int64(0)
    for way in range(at.NUM_WAYS):
        number += cells[head_bucket(cells, way, cycle)]
    return number > 0
