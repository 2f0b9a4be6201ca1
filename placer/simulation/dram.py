"""How DRAM serves the bursts of loads and stores."""

from __future__ import annotations

import numpy as np

from placer.base import inlined, internal
from placer.simulation import records as at
from placer.simulation.calendar import account, finish_sample, push_output, return_credits, wake_later, wake_next
from placer.simulation.network import LAST_TURN
from placer.simulation.units import BLOCKED, BUSY, PORT_WAIT, STARVED, slowest_input, slowest_output

NOT_SEEN = 1 << 8  # a port unit none of whose streams has been looked at


@inlined
def _burst(cells, stream):
    """Return the vectors that a DRAM stream requests now, 0 if it requests nothing."""
    flow, sink = cells[stream + at.STREAM_FLOW], cells[stream + at.STREAM_SINK]
    if sink == at.NONE:
        done = np.int64(cells[flow + at.FLOW_TOKEN])
        available = np.int64(cells[flow + at.FLOW_CAPACITY]) - cells[flow + at.COUNT]
    else:
        done = np.int64(cells[sink + at.SINK_TOKEN])
        available = np.int64(cells[sink + at.SINK_ARRIVED])
    number = min(np.int64(cells[at.DRAM_BURST_VECTORS]), cells[flow + at.FLOW_TOKENS] - done)
    return number if available >= number else 0


@internal
def dram_step(cells, cycle):
    """Give every free DRAM channel to one requesting stream."""
    dram = cells[at.DRAM]
    requests = _note_bursts(cells)
    for channel in range(cells[at.CHANNELS], cells[at.CHANNELS_END]):
        if requests == 0:
            break
        if cells[channel] > cycle:
            continue
        winner = _choose_stream(cells, cycle)
        if winner == at.NONE:
            break
        requests -= 1
        flow = cells[winner + at.STREAM_FLOW]
        cells[winner + at.STREAM_GRANTED] = cycle
        cells[flow + at.FLOW_GRANTED] = cycle
        cells[at.DRAM_AFTER] = flow + at.FLOW_SIZE
        cells[channel] = cycle + cells[at.DRAM_BURST_CYCLES]
        wake_later(cells, dram, cycle + cells[at.DRAM_BURST_CYCLES])
    _account_ports(cells, cycle)
    for stream in range(cells[at.STREAMS], cells[at.STREAMS_END], at.STREAM_SIZE):
        if cells[stream + at.STREAM_GRANTED] == cycle:
            _serve_burst(cells, stream, cycle)
            cells[at.NUM_ACTED] += 1
            wake_next(cells, dram, cycle)


@inlined
def _note_bursts(cells):
    """Note at every stream what it requests; returns the number of requests."""
    requests = 0
    for stream in range(cells[at.STREAMS], cells[at.STREAMS_END], at.STREAM_SIZE):
        number = _burst(cells, stream)
        cells[stream + at.STREAM_BURST] = number
        cells[cells[stream + at.STREAM_UNIT] + at.UNIT_COULD_ACT] = NOT_SEEN
        requests += 1 if number > 0 else 0
    return requests


@inlined
def _choose_stream(cells, cycle):
    """Choose the stream that is granted the next burst, or NONE."""
    chosen, best = at.NONE, LAST_TURN
    for stream in range(cells[at.STREAMS], cells[at.STREAMS_END], at.STREAM_SIZE):
        flow = cells[stream + at.STREAM_FLOW]
        turn = flow - cells[at.DRAM_AFTER]  # wraps around: flows below come last
        if turn < best and cells[stream + at.STREAM_BURST] > 0 and cells[flow + at.FLOW_GRANTED] != cycle:
            chosen, best = stream, turn
    return chosen


@internal
def _account_ports(cells, cycle):
    """Count the time of port units; one with several streams is as busy as the busiest."""
    for stream in range(cells[at.STREAMS], cells[at.STREAMS_END], at.STREAM_SIZE):
        unit = cells[stream + at.STREAM_UNIT]
        if cells[stream + at.STREAM_GRANTED] == cycle:
            time_state = BUSY
        elif cells[stream + at.STREAM_BURST] > 0:
            time_state = PORT_WAIT
        else:
            time_state = BLOCKED if cells[stream + at.STREAM_SINK] == at.NONE else STARVED
        seen = cells[unit + at.UNIT_COULD_ACT]
        if seen == NOT_SEEN or time_state == BUSY or (time_state == PORT_WAIT and seen != BUSY):
            cells[unit + at.UNIT_COULD_ACT] = time_state
    for stream in range(cells[at.STREAMS], cells[at.STREAMS_END], at.STREAM_SIZE):
        unit = cells[stream + at.STREAM_UNIT]
        account(cells, unit, np.int64(cells[unit + at.UNIT_COULD_ACT]), cycle)


@internal
def _serve_burst(cells, stream, cycle):
    flow, sink = cells[stream + at.STREAM_FLOW], cells[stream + at.STREAM_SINK]
    number = np.int64(cells[stream + at.STREAM_BURST])
    if sink == at.NONE:
        for k in range(number):
            push_output(cells, flow, cycle + cells[at.DRAM_LATENCY] + k)
        cells[flow + at.FLOW_TOKEN] += number
        if cells[flow + at.FLOW_TOKEN] == cells[flow + at.FLOW_TOKENS]:
            cells[flow + at.FLOW_TOKEN] = 0
            cells[flow + at.FLOW_SAMPLE] += 1
    else:
        cells[sink + at.SINK_ARRIVED] -= number
        return_credits(cells, sink, number, cycle, 1)
        cells[sink + at.SINK_TOKEN] += number
        if cells[sink + at.SINK_TOKEN] == cells[flow + at.FLOW_TOKENS]:
            cells[sink + at.SINK_TOKEN] = 0
            cells[sink + at.SINK_SAMPLE] += 1
        left = np.int64(cells[flow + at.FLOW_TOKENS]) - cells[sink + at.SINK_TOKEN]
        cells[sink + at.SINK_NEEDED] = min(np.int64(cells[at.DRAM_BURST_VECTORS]), left)
    unit = cells[stream + at.STREAM_UNIT]
    slowest = min(slowest_input(cells, unit), slowest_output(cells, unit))
    if slowest > cells[unit + at.UNIT_FREED]:
        cells[unit + at.UNIT_FREED] = slowest
        finish_sample(cells, unit, cycle)
