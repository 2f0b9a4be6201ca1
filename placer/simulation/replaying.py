"""What replayed traffic does in a cycle: processors follow their scripts, banks are read and written.

A *bank* is the memory of a core or a DRAM controller; its *gates* lead to one network each. The
network between gates is the one of every simulation (network.py): a read is a flow, its data the
vectors of one sample. docs/simulator.md, "Replayed traffic".
"""

from __future__ import annotations

import numpy as np

from placer.base import inlined, internal
from placer.simulation import records as at
from placer.simulation.calendar import push_output, return_credits, slots, wake_later, wake_next

SAVED_VECTORS = 4  # that a bank may move later if nothing asked for them in time


@internal
def load_traffic(cells):
    """Let banks act for the ends of all flows; all processors start in cycle 0."""
    for flow in range(cells[at.FLOWS], cells[at.FLOWS_END], at.FLOW_SIZE):
        cells[flow + at.FLOW_AGENT] = cells[cells[flow + at.FLOW_GATE] + at.GATE_BANK]
    for sink in range(cells[at.SINKS], cells[at.SINKS_END], at.SINK_SIZE):
        cells[sink + at.SINK_AGENT] = cells[cells[sink + at.SINK_GATE] + at.GATE_BANK]
    for processor in range(cells[at.PROCESSORS], cells[at.PROCESSORS_END], at.PROCESSOR_SIZE):
        wake_next(cells, processor, np.int64(-1))


@internal
def processor_step(cells, processor, cycle):
    """Do all steps that are due; a wait is over when all reads have arrived."""
    end = cells[processor + at.PROCESSOR_STEPS_END]
    step = cells[processor + at.PROCESSOR_STEP]
    if step == end:
        return
    while step != end:
        due, what = np.int64(cells[processor + at.PROCESSOR_DUE]), cells[step + at.STEP_WHAT]
        if due > cycle:
            wake_later(cells, processor, min(due, cycle + np.int64(cells[at.TIME_MASK])))
            return
        if what == at.WAIT and not cells[processor + at.PROCESSOR_IS_WAITING]:
            cells[processor + at.PROCESSOR_IS_WAITING] = 1
            cells[processor + at.PROCESSOR_DUE] = due + cells[at.WAIT_CYCLES]
            continue
        if what == at.WAIT:
            if cells[processor + at.PROCESSOR_OPEN] > 0 or cells[processor + at.PROCESSOR_WRITTEN] == cycle:
                return
            cells[processor + at.PROCESSOR_IS_WAITING] = 0
        elif what != at.MARK:
            _issue(cells, processor, what, cycle)
        cells[step + at.STEP_AT] = cycle
        cells[at.NUM_ACTED] += 1
        step = np.uint32(step + at.STEP_SIZE)
        cells[processor + at.PROCESSOR_STEP] = step
        if step != end:
            cells[processor + at.PROCESSOR_DUE] = cycle + cells[step + at.STEP_GAP]
    cells[at.NUM_DONE] += 1


@inlined
def _issue(cells, processor, flow, cycle):
    """Send the request of a read; the gate keeps requests by arrival, then by flow."""
    gate = cells[flow + at.FLOW_GATE]
    arrives = cycle + np.int64(cells[flow + at.FLOW_REQUEST_CYCLES])
    first, place = np.int64(cells[gate + at.GATE_QUEUE]), np.int64(cells[gate + at.GATE_QUEUE_END])
    cells[gate + at.GATE_QUEUE_END] = place + 2
    while place > first:
        other = np.int64(cells[place - 2])
        if other < arrives or (other == arrives and cells[place - 1] < flow):
            break
        cells[place], cells[place + 1] = cells[place - 2], cells[place - 1]
        place -= 2
    cells[place], cells[place + 1] = arrives, flow
    cells[processor + at.PROCESSOR_OPEN] += 1
    cells[processor + at.PROCESSOR_READS_END] += at.SINK_SIZE
    wake_later(cells, cells[gate + at.GATE_BANK], arrives)


@internal
def bank_step(cells, bank, cycle):
    """Write what has arrived, then read what was asked for, as far as the pace of the bank allows."""
    credit = _bank_credit(cells, bank, cycle)
    budget = before = credit >> 10
    is_held_up = False
    for processor in range(cells[bank + at.BANK_READERS], cells[bank + at.BANK_READERS_END], at.PROCESSOR_SIZE):
        budget, is_late = _write_reads(cells, processor, budget, cycle)
        is_held_up |= is_late
    first, num = np.int64(cells[bank + at.BANK_GATES]), np.int64(cells[bank + at.BANK_GATES_END])
    num, turn = (num - first) // at.GATE_SIZE, np.int64(cells[bank + at.BANK_TURN])
    for number in range(turn, turn + num):
        gate = first + number % num * at.GATE_SIZE
        head = np.int64(cells[gate + at.GATE_QUEUE])
        if head == cells[gate + at.GATE_QUEUE_END] or cells[head] > cycle:
            continue
        flow = cells[head + 1]
        if cells[flow + at.COUNT] == cells[flow + at.FLOW_CAPACITY]:
            continue  # a vector that leaves wakes the bank
        if budget == 0 or slots(cells[flow + at.FLOW_PACE], cycle) == 0:
            is_held_up = True
            continue
        budget -= 1
        cells[bank + at.BANK_TURN] = (number + 1) % num
        push_output(cells, flow, cycle + 1)
        cells[flow + at.FLOW_TOKEN] += 1
        if cells[flow + at.FLOW_TOKEN] == cells[flow + at.FLOW_TOKENS]:
            cells[gate + at.GATE_QUEUE] = head + 2
    cells[bank + at.BANK_CREDIT] = credit - (before - budget << 10)
    if is_held_up or budget < before:
        cells[at.NUM_ACTED] += 1
        wake_next(cells, bank, cycle)


@inlined
def _bank_credit(cells, bank, cycle):
    """Return what a bank may move in this cycle, in 1024ths: its pace, and what it has saved before."""
    pace = np.int64(cells[bank + at.BANK_PACE])
    earned = pace * (cycle + 1 - np.int64(cells[bank + at.BANK_SINCE]))
    cells[bank + at.BANK_SINCE] = cycle + 1
    return min(np.int64(cells[bank + at.BANK_CREDIT]) + earned, pace + (SAVED_VECTORS << 10))


@inlined
def _write_reads(cells, processor, budget, cycle):
    """Write arrived vectors of the reads of a processor, oldest first: budget left, and if some must wait."""
    is_late = False
    end = np.int64(cells[processor + at.PROCESSOR_READS_END])
    for sink in range(np.int64(cells[processor + at.PROCESSOR_READS]), end, at.SINK_SIZE):
        if cells[sink + at.SINK_ARRIVED] == 0:
            continue
        gate = cells[sink + at.SINK_GATE]
        is_open = cells[gate + at.GATE_TAKEN] != cycle and slots(cells[gate + at.GATE_TAKE_PACE], cycle) > 0
        if budget > 0 and is_open:
            budget -= 1
            cells[gate + at.GATE_TAKEN] = cycle
            _write_vector(cells, processor, sink, cycle)
        is_late |= cells[sink + at.SINK_ARRIVED] > 0
    first = np.int64(cells[processor + at.PROCESSOR_READS])
    while first < end and cells[first + at.SINK_TOKEN] == cells[first + at.SINK_TOKENS]:
        first += at.SINK_SIZE
    cells[processor + at.PROCESSOR_READS] = first
    return budget, is_late


@inlined
def _write_vector(cells, processor, sink, cycle):
    cells[sink + at.SINK_ARRIVED] -= 1
    return_credits(cells, sink, 1, cycle, 1)
    cells[sink + at.SINK_TOKEN] += 1
    if cells[sink + at.SINK_TOKEN] == cells[sink + at.SINK_TOKENS]:
        cells[processor + at.PROCESSOR_OPEN] -= 1
        cells[processor + at.PROCESSOR_WRITTEN] = cycle
        wake_next(cells, processor, cycle)
