"""Fields of the records that make up the cells of a simulation.

A thing of the simulation (unit, flow, link, ...) is a record in one array of cells, and its
*handle* is the address of that record: `cells[fifo + at.COUNT]` is one load from an address known
at once. Handle 0 means "none". Handles of a kind ascend with the ids of the netlist and the
fabric, so they also serve for round robin; those of flows are below all others, so that a handle
tells whether it is a flow.

What a hop touches is small and close together: a link, a FIFO, a sink and the part of a flow that
moves are one cache line (16 cells) each, a node is a quarter. Only links and FIFOs that a decision
uses have a record, so the size of the fabric does not matter.

A *sink* is one (flow, target) pair, sinks are sorted by flow; a *stream* is a flow at a DRAM port;
a *node* is one link in the route tree of one flow; an *agent* is what acts in a cycle: a compute
unit, a memory site or the DRAM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placer.base import LongArray

Cells = NDArray[np.uint32]

NONE = 0
NEVER = (1 << 32) - 1  # no cycle has this number
INFINITE = 1 << 30  # more samples than any simulation has
LINE = 16  # cells of a cache line

# Header: single values, at these addresses. X and X_END bound the records of a kind or a list.
(
    UNITS, UNITS_END, FLOWS, FLOWS_END, SINKS, SINKS_END, SITES, SITES_END,
    STREAMS, STREAMS_END, DRAM,
    CHANNELS, CHANNELS_END,  # DRAM channels: cycle until which each is busy
    NUM_UNITS, NUM_LINKS, NUM_MESH_LINKS, NUM_SITES, NUM_CHANNELS, CREDIT_HOP_CYCLES,
    MEMORY_LATENCY, DRAM_LATENCY, DRAM_BURST_VECTORS, DRAM_BURST_CYCLES,
    MAX_SAMPLES,
    FIFO_VECTORS,  # places of a FIFO beyond those on the wire
    MAX_HEADS,  # FIFOs at a switch: most requests for a mesh or eject link
    WIDTHS, LATENCIES,  # lists: by link
    # Calendar, rings of buckets, a bucket per cycle: number of entries, then the entries.
    LINK_MASK,  # buckets - 1, of the two that follow
    HEADS, HEADS_STRIDE,  # FIFOs whose head becomes visible; a ring for each way it can leave
    EJECTED, EJECTED_STRIDE,  # sinks (or lists of them) for which an eject link carries a vector
    TIME_MASK,
    CREDITS, CREDITS_STRIDE,  # pairs: sink, number
    WAKES, WAKES_STRIDE,  # agents, and flows whose head becomes ready
    NUM_FINISHERS,  # list: units that have finished a sample
    INJECTS, INJECTS_END, MESHES, MESHES_END, EJECTS, EJECTS_END,  # lists: links with requests
    ALONE, ALONE_END,  # list: FIFOs whose head waits for room behind a link that only they use
    GRANTING, CHOOSING,  # lists, scratch: links or FIFOs sorted by what they do in this cycle
    LEAVING, LEAVING_END,  # list: flows whose head has been sent in this cycle
    NOW, NOW_END,  # list: agents to look at in this cycle
    NEXT, NEXT_END,  # list: agents to look at in the next cycle
    NUM_SAMPLES,  # complete
    NUM_ACTED,  # actions in this cycle
    NUM_HOPS,  # vectors moved over links
    DRAM_AFTER,  # the flow after the last winner
    # Of a decision: records of what it uses, and where they are.
    LINK_OF,  # list: record of each link, NONE if it is not used
    FIFO_OF,  # list: record of each FIFO, by link and channel, NONE if it is not used
    NODE_OF, CHILD_OF, HOPS_OF,  # lists, scratch: by position in a route
    LISTS,  # lists of sinks, and of what is on each site
    ARENA,  # nodes, links and FIFOs
    OPEN,  # what stands behind all eject links: a FIFO that is always empty
    CROSSES,  # list: by link, 1 if it crosses the date line of a ring
    DIRECTIONS,  # list: by link
    SHIFT_OF,  # list, scratch: by position in a route, 1 behind a date line
    MESH_PACE,  # of links between switches, in 1024ths of their width
    TURNS_BY_FIFO,  # 1: switches give turns to FIFOs, not to flows
    # Of replayed traffic.
    BANKS, BANKS_END, GATES, GATES_END, PROCESSORS, PROCESSORS_END, STEPS, STEPS_END,
    WAIT_CYCLES,
    NUM_DONE,  # processors that have come to the end of their script
    HEADER_END,
) = range(1, 84)  # fmt: skip

# What can be woken begins with its kind; flows are known by their handle.
KIND = 0
COMPUTE_UNIT, OTHER_UNIT, MEMORY_SITE, OTHER_SITE, DRAM_AGENT, BANK, PROCESSOR = range(7)
QUEUED_FOR = 1  # agent: last cycle in whose agent list it stands
BUSY_UNTIL = 2  # compute unit: cycle of its next start, for which a timer is set; else 0
WAKE_AT = 3  # agent and flow: last cycle it was entered for
MISSING = 4  # compute unit: inputs without the vectors that its next firing needs; other agents: 0
DRAM_SIZE = LINE

# What a link takes vectors from, a flow (its output queue) or a FIFO, begins like this.
COUNT = 0  # vectors in the queue, those on the wire included
HEAD = 1  # flow: address of the head's place; FIFO: of its place, counted from the ring
UNSENT = 2  # copies of the head that wait for a link; FIFO: NEVER - cycle once it has left

(
    UNIT_SELF,  # its own handle
    UNIT_FIRINGS,  # per sample
    UNIT_RELEASES,
    UNIT_RELEASE_REST,  # releases * firings done, modulo firings
    UNIT_IN, UNIT_IN_END,  # list: its sinks by flow
    UNIT_OUT, UNIT_OUT_END,  # list: its flows
    UNIT_FIRING,  # number of the next firing in its sample
    UNIT_TIME_STATE,  # UnitTime
    UNIT_INTERVAL_REST,  # cycles per sample that UNIT_INTERVAL leaves over
    UNIT_CYCLE_REST,  # cycles * firings done, modulo firings
    UNIT_INTERVAL,  # cycles per firing, rounded down
    UNIT_DEPTH,
    UNIT_SLOTS,
    UNIT_SETS_PERIOD,  # 1 for a pacing unit
    UNIT_FINISHES,  # list: cycle in which it finished each sample
    UNIT_SITE,
    UNIT_AGENT,  # agent that acts for it
    UNIT_WRITTEN,  # samples
    UNIT_FREED,  # samples
    UNIT_FINISHED,  # samples
    UNIT_TIME_SINCE,  # cycle
    UNIT_TIME,  # four cells: cycles by UnitTime
) = range(5, 29)  # fmt: skip
UNIT_COULD_ACT = MISSING  # buffer or port, scratch of a step
UNIT_SIZE = 2 * LINE

(
    FLOW_ROOT,  # node of the inject link
    FLOW_SINKS, FLOW_SINKS_END,
    FLOW_SINKS_WITHOUT_CREDIT,
    FLOW_AGENT,  # of the source
    FLOW_QUEUE, FLOW_QUEUE_END,  # ring: ready times of the output queue
    FLOW_TAIL,  # address in the ring
    FLOW_CAPACITY,  # vectors in the output queue
    FLOW_TOKENS,
    FLOW_REST,  # compute source: tokens * releases done, modulo releases; others: see FLOW_SAMPLE
    FLOW_SOURCE,  # unit
    FLOW_READ_CYCLES,
    FLOW_TOKEN,
    FLOW_GRANTED,  # cycle of the last DRAM grant
    FLOW_GATE,  # replay: gate of the bank that it is read from
    FLOW_PACE,  # replay: in 1024ths of a vector per cycle
    FLOW_REQUEST_CYCLES,  # replay: from issue to the arrival of the request at the gate
) = range(4, 22)  # fmt: skip
FLOW_SAMPLE = FLOW_REST  # memory or port source: sample that is being read
FLOW_SIZE = 2 * LINE

(
    SINK_FLOW,
    SINK_UNIT,
    SINK_AGENT,  # of the unit
    SINK_TOKENS,  # of the flow
    SINK_CREDIT_CYCLES,  # delay of a credit on its way back
    SINK_CREDITS,
    SINK_START,  # compute target: vectors that must be there when a sample starts
    SINK_ARRIVED,  # vectors in the input queue
    SINK_NEEDED,  # vectors in the input queue with which the target has something to do
    SINK_IS_COUNTED,  # 1 for a compute target: its MISSING counts this input while vectors lack
    SINK_REST,  # compute target: -tokens * firings done, modulo firings
    SINK_SAMPLE,  # memory or port target: sample that is being written
    SINK_TOKEN,
    SINK_GATE,  # replay: gate of the bank that it is written to
) = range(14)
SINK_SIZE = LINE

(
    SITE_OUT, SITE_OUT_END,  # list: flows that leave it
    SITE_IN, SITE_IN_END,  # list: sinks on it
    SITE_UNITS, SITE_UNITS_END,  # list: units on it
    SITE_READ_BUSY_UNTIL,  # cycle
    SITE_READ_HOLDER,  # unit that holds the read port
    SITE_READ_AFTER,  # the flow after the last winner
    SITE_WRITE_AFTER,
) = range(5, 15)  # fmt: skip
SITE_SIZE = LINE

(
    STREAM_FLOW,
    STREAM_SINK,  # NONE for a load
    STREAM_UNIT,
    STREAM_GRANTED,  # cycle of the last grant; a flow may end in several stores
    STREAM_BURST,  # scratch of a step: vectors it requests
    STREAM_SIZE,
) = range(6)

# Replay: a bank is the memory of a core, or a DRAM controller. Its gates lead to one network each.
(
    BANK_PACE,  # of reads and writes together
    BANK_GATES, BANK_GATES_END,
    BANK_READERS, BANK_READERS_END,  # processors whose reads it takes
    BANK_CREDIT,  # 1024ths of a vector that it may move
    BANK_SINCE,  # cycle up to which the credit is counted
    BANK_TURN,  # number of the gate that is read first
    BANK_SIZE,
) = range(5, 14)  # fmt: skip

(
    GATE_BANK,
    GATE_TAKE_PACE,  # of vectors that come from the network
    GATE_TAKEN,  # cycle of the last one
    GATE_QUEUE, GATE_QUEUE_END,  # list of requests in the order of arrival, pairs: cycle, flow
    GATE_SIZE,
) = range(6)  # fmt: skip

(
    PROCESSOR_STEP, PROCESSOR_STEPS_END,  # the step that is due next
    PROCESSOR_DUE,  # cycle
    PROCESSOR_OPEN,  # reads issued and not complete
    PROCESSOR_WRITTEN,  # cycle in which the last read was complete
    PROCESSOR_READS, PROCESSOR_READS_END,  # sinks: the first that is not complete, behind the last issued
    PROCESSOR_IS_WAITING,  # 1 once the time of a wait has come
    PROCESSOR_SIZE,
) = range(4, 13)  # fmt: skip

(
    STEP_GAP,  # cycles since the step before
    STEP_WHAT,  # MARK, WAIT, or the flow to be read
    STEP_AT,  # cycle in which it was done, of a wait: in which it ended
    STEP_SIZE,
) = range(4)
MARK, WAIT = range(2)

(
    LINK_NUM_REQUESTS,
    LINK_AFTER,  # the key after the last winner
    LINK_VECTORS,  # sent since the statistics began
    LINK_WIDTH,
    LINK_CYCLES,
    LINK_IS_EJECT,
    LINK_REQUESTS,  # to the end, in no order
) = range(7)

(
    REQUEST_NODE,  # that asks for the link
    REQUEST_SOURCE,  # flow or FIFO that its vector is in
    REQUEST_FIFO,  # where it goes
    REQUEST_SIZE,
) = range(4)

FIFO_CAPACITY = 3
FIFO_RING = 4  # to the end, pairs: node where the vector goes next, cycle it becomes visible

(
    NODE_KEY,  # what has its turn: flow, or FIFO before the link; plus IS_LAST and IS_FREE
    NODE_LINK,
    NODE_FIFO,  # FIFO behind the link, OPEN behind an eject link
    NODE_NEXT,  # first node that follows, plus its way; behind an eject link: sink, or a list of them
    NODE_SIZE,
) = range(5)
IS_LAST = 1  # of the nodes that follow the same node
IS_FREE = 2  # the eject link grants all requests at once: no more FIFOs use it than it has width
KEY_STEP = 4  # from a key to the first one that has its turn later
# How the head of a FIFO leaves: as copies, over an eject link that is free, over a mesh link that no
# other FIFO uses, or over one link by round robin.
FORKED_WAY, EJECT_WAY, ALONE_WAY, ONE_WAY = range(4)
NUM_WAYS = 4
WAY_MASK = 3


class Table(NamedTuple):
    """Equal records one after the other."""

    first: int
    number: int
    size: int

    @property
    def end(self) -> int:
        return self.first + self.number * self.size

    @property
    def handles(self) -> LongArray:
        return self.first + self.size * np.arange(self.number)

    def fill(self, cells: Cells, fields: Mapping[int, ArrayLike]) -> None:
        """Set fields of all records."""
        for field, values in fields.items():
            cells[self.handles + field] = np.asarray(values)


Tables = Mapping[str, Table]


def group(owner: list[int], num_owners: int) -> tuple[LongArray, LongArray]:
    """Return offsets and members of each owner, members in ascending order."""
    owners = np.array(owner, np.int64)
    order = np.argsort(owners, kind="stable")
    return np.searchsorted(owners[order], np.arange(num_owners + 1)), order
