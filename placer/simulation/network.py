"""How vectors move: arrivals, requests of FIFO heads, round-robin links, multicast forks."""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from placer.fabric import SiteKind
from placer.simulation.calendar import wake_later, wake_next, wake_now


MEMORY_KIND, PORT_KIND = int(SiteKind.MEMORY), int(SiteKind.PORT)
FAR = 1 << 30  # greater than any flow id


@intrinsic
def _lowest_bit(typing_context, mask):  # type: ignore[no-untyped-def]
    """Position of the lowest set bit of a 64-bit mask that is not 0."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@njit(cache=True)
def agent_of(cells, at, unit):
    """Agent that acts for a unit."""
    num_units = at.num_units
    if cells[at.unit_kind + unit] == MEMORY_KIND:
        return num_units + cells[at.unit_site + unit]
    if cells[at.unit_kind + unit] == PORT_KIND:
        return num_units + at.num_sites
    return unit


@njit(cache=True)
def _activate(cells, at, link):
    if cells[at.link_is_active + link] == 0:
        cells[at.link_is_active + link] = 1
        cells[at.active_links + cells[at.num_active_links]] = link
        cells[at.num_active_links] += 1


@njit(cache=True)
def _request_head(cells, at, fifo):
    """Ask every link over which the new head of a FIFO must be sent."""
    node = cells[at.fifo_nodes + fifo * at.fifo_depth + cells[at.fifo_head + fifo]]
    slot = cells[at.fifo_slot + fifo]
    first, end = cells[at.node_child_start + node], cells[at.node_child_end + node]
    cells[at.fifo_unsent + fifo] = end - first
    for k in range(first, end):
        child = cells[at.children + k]
        link = cells[at.node_link + child]
        cells[at.link_requests + link] |= 1 << slot
        cells[at.requested_nodes + link * at.num_slots + slot] = child
        _activate(cells, at, link)


@njit(cache=True)
def _request_injection(cells, at, flow, cycle):
    """Ask the inject link for a flow that has a ready head and all credits."""
    if cells[at.flow_count + flow] == 0 or cells[at.flow_requests + flow] != 0:
        return
    ready = cells[at.queue_ready + cells[at.flow_queue_start + flow] + cells[at.flow_head + flow]]
    if ready <= cycle and cells[at.flow_sinks_without_credit + flow] == 0:
        cells[at.flow_requests + flow] = 1
        _activate(cells, at, cells[at.node_link + cells[at.flow_root + flow]])


@njit(cache=True)
def _arrive(cells, at, node, cycle):
    """A vector has passed the link of a route node."""
    fifo = cells[at.node_fifo + node]
    if fifo >= 0:
        cells[at.fifo_visible + fifo] += 1
        if cells[at.fifo_visible + fifo] == 1:
            _request_head(cells, at, fifo)
        return
    for k in range(cells[at.node_sink_start + node], cells[at.node_sink_end + node]):
        sink = cells[at.node_sinks + k]
        cells[at.sink_arrived + sink] += 1
        wake_now(cells, at, agent_of(cells, at, cells[at.sink_unit + sink]), cycle)


@njit(cache=True)
def arrivals(cells, at, cycle):
    """Make visible what arrives in this cycle: vectors, credits, timers."""
    bucket = cycle & (at.arrival_horizon - 1)
    num_vectors = cells[at.bucket_arrivals + bucket]
    for k in range(num_vectors):
        _arrive(cells, at, cells[at.arrivals + bucket * at.max_arrivals + k], cycle)
    cells[at.bucket_arrivals + bucket] = 0

    bucket = cycle & (at.horizon - 1)
    num_credits, num_wakes = cells[at.bucket_credits + bucket], cells[at.bucket_wakes + bucket]
    for k in range(num_credits):
        sink = cells[at.credit_sink + bucket * at.num_sinks + k]
        flow = cells[at.sink_flow + sink]
        if cells[at.sink_credits + sink] == 0:
            cells[at.flow_sinks_without_credit + flow] -= 1
        cells[at.sink_credits + sink] += cells[at.credit_number + bucket * at.num_sinks + k]
        _request_injection(cells, at, flow, cycle)
    for k in range(num_wakes):
        wake_id = cells[at.wakes + bucket * at.max_wakes + k]
        if wake_id < at.num_agents:
            wake_now(cells, at, wake_id, cycle)
        else:
            _request_injection(cells, at, wake_id - at.num_agents, cycle)
    cells[at.bucket_credits + bucket] = 0
    cells[at.bucket_wakes + bucket] = 0
    cells[at.num_pending] -= num_vectors + num_credits + num_wakes


@njit(cache=True)
def _send(cells, at, node, link, cycle):
    """Put a vector on the link of a route node."""
    fifo = cells[at.node_fifo + node]
    if fifo >= 0:
        occupancy = cells[at.fifo_occupancy + fifo]
        place = cells[at.fifo_head + fifo] + occupancy
        if place >= cells[at.fifo_capacity + fifo]:
            place -= cells[at.fifo_capacity + fifo]
        cells[at.fifo_nodes + fifo * at.fifo_depth + place] = node
        cells[at.fifo_occupancy + fifo] = occupancy + 1
    bucket = (cycle + cells[at.link_cycles + link]) & (at.arrival_horizon - 1)
    count = cells[at.bucket_arrivals + bucket]
    cells[at.arrivals + bucket * at.max_arrivals + count] = node
    cells[at.bucket_arrivals + bucket] = count + 1
    cells[at.link_vectors + link] += 1
    cells[at.num_hops] += 1


@njit(cache=True)
def _has_room(cells, at, fifo):
    """Whether a FIFO takes one more vector; behind an eject link (-1) there always is room."""
    return fifo < 0 or cells[at.fifo_occupancy + fifo] < cells[at.fifo_capacity + fifo]


@njit(cache=True)
def _serve_inject_link(cells, at, link, cycle):
    """Grant up to `width` flows of a site; returns whether any flow still requests."""
    site = link - at.num_mesh_links
    begin, end = cells[at.site_out_start + site], cells[at.site_out_end + site]
    for _ in range(cells[at.link_width + link]):
        first, following = -1, -1
        for k in range(begin, end):
            flow = cells[at.site_out + k]
            if (
                cells[at.flow_requests + flow] != 0
                and cells[at.flow_injected + flow] != cycle
                and _has_room(cells, at, cells[at.node_fifo + cells[at.flow_root + flow]])
            ):
                if first < 0:
                    first = flow
                if following < 0 and flow > cells[at.link_last + link]:
                    following = flow
        winner = following if following >= 0 else first
        if winner < 0:
            break
        cells[at.link_last + link] = winner
        _inject(cells, at, winner, link, cycle)
    for k in range(begin, end):
        if cells[at.flow_requests + cells[at.site_out + k]] != 0:
            return True
    return False


@njit(cache=True)
def _inject(cells, at, flow, link, cycle):
    """Move the head of an output queue onto the inject link and pay its credits."""
    _send(cells, at, cells[at.flow_root + flow], link, cycle)
    cells[at.flow_injected + flow] = cycle
    cells[at.flow_head + flow] += 1
    if cells[at.flow_head + flow] == cells[at.flow_capacity + flow]:
        cells[at.flow_head + flow] = 0
    cells[at.flow_count + flow] -= 1
    for sink in range(cells[at.flow_sink_start + flow], cells[at.flow_sink_end + flow]):
        cells[at.sink_credits + sink] -= 1
        if cells[at.sink_credits + sink] == 0:
            cells[at.flow_sinks_without_credit + flow] += 1
    wake_next(cells, at, agent_of(cells, at, cells[at.flow_source + flow]), cycle)
    cells[at.flow_requests + flow] = 0
    if cells[at.flow_count + flow] > 0:
        ready = cells[at.queue_ready + cells[at.flow_queue_start + flow] + cells[at.flow_head + flow]]
        if ready > cycle + 1:
            wake_later(cells, at, at.num_agents + flow, ready)
        elif cells[at.flow_sinks_without_credit + flow] == 0:
            cells[at.flow_requests + flow] = 1


@njit(cache=True)
def _serve_switch_link(cells, at, link, num_popped, cycle):
    """Grant up to `width` FIFO heads of the source switch; returns the length of the pop list."""
    switch = cells[at.link_source + link]
    for _ in range(cells[at.link_width + link]):
        mask = cells[at.link_requests + link]
        last = cells[at.link_last + link]
        first_flow, following_flow = FAR, FAR
        first_slot, following_slot = -1, -1
        while mask != 0:
            slot = _lowest_bit(mask)
            mask &= mask - 1
            node = cells[at.requested_nodes + link * at.num_slots + slot]
            if _has_room(cells, at, cells[at.node_fifo + node]):
                flow = cells[at.node_flow + node]
                if flow < first_flow:
                    first_flow, first_slot = flow, slot
                if last < flow < following_flow:
                    following_flow, following_slot = flow, slot
        slot = following_slot if following_slot >= 0 else first_slot
        if slot < 0:
            break
        node = cells[at.requested_nodes + link * at.num_slots + slot]
        _send(cells, at, node, link, cycle)
        cells[at.link_last + link] = cells[at.node_flow + node]
        cells[at.link_requests + link] &= ~(1 << slot)
        fifo = cells[at.slot_fifo + switch * at.num_slots + slot]
        cells[at.fifo_unsent + fifo] -= 1
        if cells[at.fifo_unsent + fifo] == 0:
            cells[at.popped_fifos + num_popped] = fifo
            num_popped += 1
    return num_popped


@njit(cache=True)
def move_vectors(cells, at, cycle):
    """All links decide on the state at the start of the cycle, then finished heads leave."""
    first_inject = at.num_mesh_links
    first_eject = at.num_mesh_links + at.num_sites
    hops_before = cells[at.num_hops]
    num_popped = 0
    position = 0
    while position < cells[at.num_active_links]:
        link = cells[at.active_links + position]
        if first_inject <= link < first_eject:
            stays = _serve_inject_link(cells, at, link, cycle)
        else:
            num_popped = _serve_switch_link(cells, at, link, num_popped, cycle)
            stays = cells[at.link_requests + link] != 0
        if stays:
            position += 1
        else:
            cells[at.link_is_active + link] = 0
            cells[at.num_active_links] -= 1
            cells[at.active_links + position] = cells[at.active_links + cells[at.num_active_links]]
    for k in range(num_popped):
        fifo = cells[at.popped_fifos + k]
        head = cells[at.fifo_head + fifo] + 1
        cells[at.fifo_head + fifo] = 0 if head == cells[at.fifo_capacity + fifo] else head
        cells[at.fifo_occupancy + fifo] -= 1
        cells[at.fifo_visible + fifo] -= 1
        if cells[at.fifo_visible + fifo] > 0:
            _request_head(cells, at, fifo)
    num_sent = cells[at.num_hops] - hops_before
    cells[at.num_acted] += num_sent
    cells[at.num_pending] += num_sent
