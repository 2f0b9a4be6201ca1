"""What units do in a cycle: compute units fire, memory sites serve their ports, DRAM serves bursts."""

from __future__ import annotations

from numba import njit

from placer.simulation.calendar import (
    account,
    finish_sample,
    push_output,
    return_credits,
    wake_later,
    wake_next,
)
from placer.simulation.measurement import UnitTime

BUSY = int(UnitTime.BUSY)
STARVED = int(UnitTime.STARVED)
BLOCKED = int(UnitTime.BLOCKED)
PORT_WAIT = int(UnitTime.PORT_WAIT)

INFINITE = 1 << 30  # more samples than any simulation has

# what a buffer could do in this cycle, bits of unit_could_act
COULD_USE_PORT, COULD_READ_WITH_ROOM = 1, 2


@njit(cache=True)
def _num_outputs(cells, at, unit, flow):
    """Vectors that the next firing puts into an output queue: out(i+1) - out(i)."""
    if cells[at.unit_release_rest + unit] + cells[at.unit_releases + unit] < cells[at.unit_firings + unit]:
        return 0
    rest = cells[at.flow_rest + flow] + cells[at.flow_tokens + flow]
    releases = cells[at.unit_releases + unit]
    if rest < releases:
        return 0
    return 1 if rest < 2 * releases else rest // releases


@njit(cache=True)
def _missing(cells, at, unit):
    """STARVED, BLOCKED, or BUSY when nothing is missing for the next firing."""
    for k in range(cells[at.unit_in_start + unit], cells[at.unit_in_end + unit]):
        sink = cells[at.unit_in + k]
        takes_one = cells[at.sink_rest + sink] < cells[at.flow_tokens + cells[at.sink_flow + sink]]
        if takes_one and cells[at.sink_arrived + sink] == 0:
            return STARVED
    for k in range(cells[at.unit_out_start + unit], cells[at.unit_out_end + unit]):
        flow = cells[at.unit_out + k]
        room = cells[at.flow_capacity + flow] - cells[at.flow_count + flow]
        if _num_outputs(cells, at, unit, flow) > room:
            return BLOCKED
    return BUSY


@njit(cache=True)
def compute_step(cells, at, unit, cycle):
    """Fire if everything is there; sleep otherwise, an arrival or a freed place wakes the unit."""
    horizon = at.horizon
    if cycle < cells[at.unit_next_start + unit]:
        wake_later(cells, at, unit, min(cells[at.unit_next_start + unit], cycle + horizon - 1))
        return
    missing = _missing(cells, at, unit)
    account(cells, at, unit, missing, cycle)
    if missing != BUSY:
        return

    cells[at.num_acted] += 1
    firings, releases = cells[at.unit_firings + unit], cells[at.unit_releases + unit]
    for k in range(cells[at.unit_in_start + unit], cells[at.unit_in_end + unit]):
        sink = cells[at.unit_in + k]
        cells[at.sink_rest + sink] -= cells[at.flow_tokens + cells[at.sink_flow + sink]]
        if cells[at.sink_rest + sink] < 0:
            cells[at.sink_rest + sink] += firings
            cells[at.sink_arrived + sink] -= 1
            return_credits(cells, at, sink, 1, cycle)
    is_release = cells[at.unit_release_rest + unit] + releases >= firings
    for k in range(cells[at.unit_out_start + unit], cells[at.unit_out_end + unit]):
        flow = cells[at.unit_out + k]
        number = _num_outputs(cells, at, unit, flow)
        for _ in range(number):
            push_output(cells, at, flow, cycle + cells[at.unit_depth + unit])
        if is_release:
            cells[at.flow_rest + flow] += cells[at.flow_tokens + flow] - number * releases
    cells[at.unit_release_rest + unit] += releases - (firings if is_release else 0)

    work = cells[at.unit_cycles + unit]
    interval = work // firings
    cells[at.unit_cycle_rest + unit] += work - interval * firings
    if cells[at.unit_cycle_rest + unit] >= firings:
        cells[at.unit_cycle_rest + unit] -= firings
        interval += 1
    cells[at.unit_next_start + unit] = cycle + interval
    cells[at.unit_firing + unit] += 1
    if cells[at.unit_firing + unit] == firings:
        cells[at.unit_firing + unit] = 0
        finish_sample(cells, at, unit, cycle)
    if interval == 1:
        wake_next(cells, at, unit, cycle)
    else:
        wake_later(cells, at, unit, cycle + min(interval, horizon - 1))


@njit(cache=True)
def memory_step(cells, at, site, cycle):
    """Serve the write port and the read port of a memory site once."""
    agent = at.num_units + site
    for k in range(cells[at.site_unit_start + site], cells[at.site_unit_end + site]):
        cells[at.unit_could_act + cells[at.site_units + k]] = 0
    sink = _choose_write(cells, at, site)
    flow = _choose_read(cells, at, site, cycle)
    is_held = cycle < cells[at.site_read_busy_until + site]
    _account_buffers(cells, at, site, sink, flow, is_held, cycle)
    if is_held:
        wake_later(cells, at, agent, cells[at.site_read_busy_until + site])
    if sink >= 0:
        _write_vector(cells, at, sink, cycle)
        cells[at.site_write_last + site] = cells[at.sink_flow + sink]
    if flow >= 0:
        _read_vector(cells, at, flow, cycle)
        cells[at.site_read_last + site] = flow
        cells[at.site_read_holder + site] = cells[at.flow_source + flow]
        cells[at.site_read_busy_until + site] = cycle + cells[at.flow_read_cycles + flow]
    if sink >= 0 or flow >= 0:
        cells[at.num_acted] += 1
        wake_next(cells, at, agent, cycle)


@njit(cache=True)
def _choose_write(cells, at, site):
    """Sink whose vector is written in this cycle, or -1."""
    first, following = -1, -1
    for k in range(cells[at.site_in_start + site], cells[at.site_in_end + site]):
        sink = cells[at.site_in + k]
        unit = cells[at.sink_unit + sink]
        has_slot = cells[at.sink_sample + sink] < cells[at.unit_freed + unit] + cells[at.unit_slots + unit]
        if cells[at.sink_arrived + sink] > 0 and has_slot:
            cells[at.unit_could_act + unit] |= COULD_USE_PORT
            if first < 0:
                first = sink
            if following < 0 and cells[at.sink_flow + sink] > cells[at.site_write_last + site]:
                following = sink
    return following if following >= 0 else first


@njit(cache=True)
def _choose_read(cells, at, site, cycle):
    """Flow whose vector is read in this cycle, or -1."""
    first, following = -1, -1
    for k in range(cells[at.site_out_start + site], cells[at.site_out_end + site]):
        flow = cells[at.site_out + k]
        unit = cells[at.flow_source + flow]
        if cells[at.flow_sample + flow] < cells[at.unit_written + unit]:
            if cells[at.flow_count + flow] >= cells[at.flow_capacity + flow]:
                cells[at.unit_could_act + unit] |= COULD_READ_WITH_ROOM
                continue
            cells[at.unit_could_act + unit] |= COULD_USE_PORT
            if first < 0:
                first = flow
            if following < 0 and flow > cells[at.site_read_last + site]:
                following = flow
    if cycle < cells[at.site_read_busy_until + site]:
        return -1
    return following if following >= 0 else first


@njit(cache=True)
def _account_buffers(cells, at, site, sink, flow, is_held, cycle):
    for k in range(cells[at.site_unit_start + site], cells[at.site_unit_end + site]):
        unit = cells[at.site_units + k]
        writes = sink >= 0 and cells[at.sink_unit + sink] == unit
        reads = flow >= 0 and cells[at.flow_source + flow] == unit
        holds = is_held and cells[at.site_read_holder + site] == unit
        if writes or reads or holds:
            time_state = BUSY
        elif cells[at.unit_could_act + unit] & COULD_USE_PORT:
            time_state = PORT_WAIT
        elif cells[at.unit_could_act + unit] & COULD_READ_WITH_ROOM:
            time_state = BLOCKED
        else:
            time_state = STARVED
        account(cells, at, unit, time_state, cycle)


@njit(cache=True)
def _write_vector(cells, at, sink, cycle):
    unit = cells[at.sink_unit + sink]
    cells[at.sink_arrived + sink] -= 1
    return_credits(cells, at, sink, 1, cycle)
    cells[at.sink_token + sink] += 1
    if cells[at.sink_token + sink] < cells[at.flow_tokens + cells[at.sink_flow + sink]]:
        return
    cells[at.sink_token + sink] = 0
    cells[at.sink_sample + sink] += 1
    slowest = INFINITE
    for k in range(cells[at.unit_in_start + unit], cells[at.unit_in_end + unit]):
        slowest = min(slowest, cells[at.sink_sample + cells[at.unit_in + k]])
    is_accumulator = cells[at.unit_out_start + unit] == cells[at.unit_out_end + unit]
    if slowest > cells[at.unit_written + unit] and is_accumulator:
        cells[at.unit_freed + unit] = slowest
        finish_sample(cells, at, unit, cycle)
    cells[at.unit_written + unit] = slowest


@njit(cache=True)
def _read_vector(cells, at, flow, cycle):
    unit = cells[at.flow_source + flow]
    push_output(cells, at, flow, cycle + at.memory_latency)
    cells[at.flow_token + flow] += 1
    if cells[at.flow_token + flow] < cells[at.flow_tokens + flow]:
        return
    cells[at.flow_token + flow] = 0
    cells[at.flow_sample + flow] += 1
    slowest = _slowest_output(cells, at, unit)
    if slowest > cells[at.unit_freed + unit]:
        cells[at.unit_freed + unit] = slowest
        finish_sample(cells, at, unit, cycle)


@njit(cache=True)
def _slowest_output(cells, at, unit):
    slowest = INFINITE
    for k in range(cells[at.unit_out_start + unit], cells[at.unit_out_end + unit]):
        slowest = min(slowest, cells[at.flow_sample + cells[at.unit_out + k]])
    return slowest


@njit(cache=True)
def _burst(cells, at, stream):
    """Vectors that a DRAM stream requests now, 0 if it requests nothing."""
    flow, sink = cells[at.stream_flow + stream], cells[at.stream_sink + stream]
    if sink < 0:
        left = cells[at.flow_tokens + flow] - cells[at.flow_token + flow]
        available = cells[at.flow_capacity + flow] - cells[at.flow_count + flow]
    else:
        left = cells[at.flow_tokens + flow] - cells[at.sink_token + sink]
        available = cells[at.sink_arrived + sink]
    number = min(at.dram_burst_vectors, left)
    return number if available >= number else 0


@njit(cache=True)
def dram_step(cells, at, cycle):
    """Give every free DRAM channel to one requesting stream."""
    agent = at.num_agents - 1
    num_streams = at.num_streams
    for channel in range(at.dram_channels):
        if cells[at.channel_busy_until + channel] > cycle:
            continue
        first, following = -1, -1
        for stream in range(num_streams):
            was_granted = cells[at.flow_granted + cells[at.stream_flow + stream]] == cycle
            if not was_granted and _burst(cells, at, stream) > 0:
                if first < 0:
                    first = stream
                if following < 0 and cells[at.stream_flow + stream] > cells[at.dram_last]:
                    following = stream
        winner = following if following >= 0 else first
        if winner < 0:
            break
        cells[at.stream_granted + winner] = cycle
        cells[at.flow_granted + cells[at.stream_flow + winner]] = cycle
        cells[at.dram_last] = cells[at.stream_flow + winner]
        cells[at.channel_busy_until + channel] = cycle + at.dram_burst_cycles
        wake_later(cells, at, agent, cycle + at.dram_burst_cycles)
    _account_ports(cells, at, cycle)
    for stream in range(num_streams):
        if cells[at.stream_granted + stream] == cycle:
            _serve_burst(cells, at, stream, cycle)
            cells[at.num_acted] += 1
            wake_next(cells, at, agent, cycle)


@njit(cache=True)
def _account_ports(cells, at, cycle):
    """A port unit with several streams counts as the busiest of them."""
    for stream in range(at.num_streams):
        cells[at.unit_could_act + _stream_unit(cells, at, stream)] = -1
    for stream in range(at.num_streams):
        unit = _stream_unit(cells, at, stream)
        if cells[at.stream_granted + stream] == cycle:
            time_state = BUSY
        elif _burst(cells, at, stream) > 0:
            time_state = PORT_WAIT
        else:
            time_state = BLOCKED if cells[at.stream_sink + stream] < 0 else STARVED
        seen = cells[at.unit_could_act + unit]
        if seen < 0 or time_state == BUSY or (time_state == PORT_WAIT and seen != BUSY):
            cells[at.unit_could_act + unit] = time_state
    for stream in range(at.num_streams):
        unit = _stream_unit(cells, at, stream)
        account(cells, at, unit, cells[at.unit_could_act + unit], cycle)


@njit(cache=True)
def _stream_unit(cells, at, stream):
    sink = cells[at.stream_sink + stream]
    return cells[at.sink_unit + sink] if sink >= 0 else cells[at.flow_source + cells[at.stream_flow + stream]]


@njit(cache=True)
def _serve_burst(cells, at, stream, cycle):
    flow, sink = cells[at.stream_flow + stream], cells[at.stream_sink + stream]
    unit = _stream_unit(cells, at, stream)
    number = _burst(cells, at, stream)
    if sink < 0:
        for k in range(number):
            push_output(cells, at, flow, cycle + at.dram_latency + k)
        cells[at.flow_token + flow] += number
        if cells[at.flow_token + flow] == cells[at.flow_tokens + flow]:
            cells[at.flow_token + flow] = 0
            cells[at.flow_sample + flow] += 1
    else:
        cells[at.sink_arrived + sink] -= number
        return_credits(cells, at, sink, number, cycle)
        cells[at.sink_token + sink] += number
        if cells[at.sink_token + sink] == cells[at.flow_tokens + flow]:
            cells[at.sink_token + sink] = 0
            cells[at.sink_sample + sink] += 1
    slowest = _slowest_output(cells, at, unit)
    for k in range(cells[at.unit_in_start + unit], cells[at.unit_in_end + unit]):
        slowest = min(slowest, cells[at.sink_sample + cells[at.unit_in + k]])
    if slowest > cells[at.unit_freed + unit]:
        cells[at.unit_freed + unit] = slowest
        finish_sample(cells, at, unit, cycle)
