"""Fields of the records that make up the cells of a simulation.

A thing of the simulation (unit, flow, link, ...) is a record in one array of cells, and its
*handle* is the address of that record: `cells[fifo + at.FIFO_HEAD]` is one load from an address
known at once, and the fields of a record share a cache line. Handle 0 means "none". Handles of a
kind ascend with the ids of the netlist and the fabric, so they also serve for round robin.

A *sink* is one (flow, target) pair, sinks are sorted by flow; a *stream* is a flow at a DRAM port;
a *node* is one link in the route tree of one flow; an *agent* is what acts in a cycle: a compute
unit, a memory site or the DRAM.
"""

NONE = 0
NEVER = (1 << 32) - 1  # no cycle has this number
INFINITE = 1 << 30  # more samples than any simulation has

# Header: single values, at these addresses. X and X_END bound the records of a kind or a list.
(
    UNITS, UNITS_END, FLOWS, FLOWS_END, SINKS, SINKS_END, SITES, SITES_END,
    STREAMS, STREAMS_END, LINKS, LINKS_END, FIFOS, NODES, LISTS, DRAM,
    CHANNELS, CHANNELS_END,  # DRAM channels: cycle until which each is busy
    NUM_UNITS, NUM_LINKS, NUM_MESH_LINKS, NUM_SITES, NUM_CHANNELS, CREDIT_HOP_CYCLES,
    MEMORY_LATENCY, DRAM_LATENCY, DRAM_BURST_VECTORS, DRAM_BURST_CYCLES,
    MAX_SAMPLES, LINK_SIZE, FIFO_SIZE,  # sizes of records that depend on the fabric
    RING_MASK,  # places in the ring of a FIFO - 1
    # Calendar, rings of buckets, a bucket per cycle: number of entries, then the entries.
    LINK_MASK,  # buckets - 1, of the two that follow
    HEADS, HEADS_STRIDE,  # FIFOs whose head becomes visible
    EJECTED, EJECTED_STRIDE,  # nodes of eject links that a vector has passed
    TIME_MASK,
    CREDITS, CREDITS_STRIDE,  # pairs: sink, number
    WAKES, WAKES_STRIDE,  # agents, and flows whose head becomes ready
    NUM_FINISHERS,  # list: units that have finished a sample
    ACTIVE_LINKS, ACTIVE_LINKS_END,
    LEAVING,  # list: FIFOs and flows whose head has been sent in this cycle
    NOW, NOW_END,  # list: agents to look at in this cycle
    NEXT, NEXT_END,  # list: agents to look at in the next cycle
    NUM_SAMPLES,  # complete
    NUM_ACTED,  # actions in this cycle
    NUM_HOPS,  # vectors moved over links
    DRAM_AFTER,  # the flow after the last winner
    HEADER_END,
) = range(1, 56)  # fmt: skip

# What can be woken, or is the source of a node, begins with its kind.
KIND = 0
COMPUTE_UNIT, OTHER_UNIT, MEMORY_SITE, OTHER_SITE, DRAM_AGENT, FLOW, FIFO = range(7)
QUEUED_FOR = 1  # agent: last cycle in whose agent list it stands
UNSENT = 1  # flow and FIFO: copies of the head that have asked for a link and wait for it
WAKE_AT = 2  # agent and flow: last cycle it was entered for
DRAM_SIZE = 3

(
    UNIT_FIRINGS,  # per sample
    UNIT_INTERVAL,  # cycles per firing, rounded down ...
    UNIT_INTERVAL_REST,  # ... and cycles per sample that this leaves over
    UNIT_RELEASES,
    UNIT_DEPTH,
    UNIT_SLOTS,
    UNIT_SETS_PERIOD,  # 1 for a pacing unit
    UNIT_IN, UNIT_IN_END,  # list: its sinks by flow
    UNIT_OUT, UNIT_OUT_END,  # list: its flows
    UNIT_FINISHES,  # list: cycle in which it finished each sample
    UNIT_SELF,  # its own handle
    UNIT_SITE,
    UNIT_AGENT,  # agent that acts for it
    UNIT_FIRING,  # number of the next firing in its sample
    UNIT_NEXT_START,  # cycle
    UNIT_CYCLE_REST,  # cycles * firings done, modulo firings
    UNIT_RELEASE_REST,  # releases * firings done, modulo firings
    UNIT_WRITTEN,  # samples
    UNIT_FREED,  # samples
    UNIT_FINISHED,  # samples
    UNIT_COULD_ACT,  # scratch of a step
    UNIT_TIME_SINCE,  # cycle
    UNIT_TIME_STATE,  # UnitTime
    UNIT_TIME,  # four cells: cycles by UnitTime
) = range(3, 29)  # fmt: skip
UNIT_SIZE = UNIT_TIME + 4

(
    FLOW_TOKENS,
    FLOW_SOURCE,  # unit
    FLOW_AGENT,  # of the source
    FLOW_ROOT,  # node of the inject link
    FLOW_SINKS, FLOW_SINKS_END,
    FLOW_READ_CYCLES,
    FLOW_QUEUE, FLOW_QUEUE_END,  # ring: ready times of the output queue
    FLOW_CAPACITY,  # vectors in the output queue
    FLOW_COUNT,  # vectors in the output queue now
    FLOW_HEAD,  # address in the ring
    FLOW_TAIL,  # address in the ring
    FLOW_SINKS_WITHOUT_CREDIT,
    FLOW_REST,  # compute source: tokens * releases done, modulo releases
    FLOW_SAMPLE,  # memory or port source: sample that is being read
    FLOW_TOKEN,
    FLOW_GRANTED,  # cycle of the last DRAM grant
    FLOW_SIZE,
) = range(3, 22)  # fmt: skip

(
    SINK_FLOW,
    SINK_UNIT,
    SINK_AGENT,  # of the unit
    SINK_TOKENS,  # of the flow
    SINK_CREDIT_CYCLES,  # delay of a credit on its way back
    SINK_CREDITS,
    SINK_START,  # compute target: vectors that must be there when a sample starts
    SINK_ARRIVED,  # vectors in the input queue
    SINK_REST,  # compute target: -tokens * firings done, modulo firings
    SINK_SAMPLE,  # memory or port target: sample that is being written
    SINK_TOKEN,
    SINK_SIZE,
) = range(12)

(
    SITE_OUT, SITE_OUT_END,  # list: flows that leave it
    SITE_IN, SITE_IN_END,  # list: sinks on it
    SITE_UNITS, SITE_UNITS_END,  # list: units on it
    SITE_READ_BUSY_UNTIL,  # cycle
    SITE_READ_HOLDER,  # unit that holds the read port
    SITE_READ_AFTER,  # the flow after the last winner
    SITE_WRITE_AFTER,
    SITE_SIZE,
) = range(3, 14)  # fmt: skip

(
    STREAM_FLOW,
    STREAM_SINK,  # NONE for a load
    STREAM_UNIT,
    STREAM_GRANTED,  # cycle of the last grant; a flow may end in several stores
    STREAM_SIZE,
) = range(5)

(
    LINK_NUM_REQUESTS,
    LINK_AFTER,  # the flow after the last winner
    LINK_VECTORS,  # sent since the statistics began
    LINK_WIDTH,
    LINK_CYCLES,
    LINK_REQUESTS,  # to the end of the record: nodes that ask for the link, in no order
) = range(6)

(
    FIFO_HEAD,  # vectors that have left
    FIFO_TAIL,  # vectors that have been sent to it
    FIFO_CAPACITY,
    FIFO_RING,  # to the end of the record, pairs: node, cycle in which it becomes visible
) = range(2, 6)

(
    NODE_FLOW,
    NODE_LINK,
    NODE_FIFO,  # FIFO behind the link, NONE behind an eject link
    NODE_SOURCE,  # FIFO before the link, the flow at its root
    NODE_NEXT, NODE_NEXT_END,  # list: nodes that follow it; behind an eject link: sinks
    NODE_PARENT,  # NONE at the root
    NODE_HOPS,  # mesh links from the source up to and with this node
    NODE_SIZE,
) = range(9)  # fmt: skip
