"""Waking things up: agent lists, timers, credits on their way back, output queues, accounting.

Nothing is polled: an agent (compute unit, memory site, DRAM) is looked at only in cycles in which
something it waits for may have changed.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def wake_next(cells, at, agent, cycle):
    """Look at an agent in the next cycle."""
    if cells[at.queued_for + agent] != cycle + 1:
        cells[at.queued_for + agent] = cycle + 1
        cells[at.next_agents + cells[at.num_next]] = agent
        cells[at.num_next] += 1


@njit(cache=True)
def wake_now(cells, at, agent, cycle):
    """Look at an agent in this cycle; only while arrivals are handled."""
    if cells[at.queued_for + agent] != cycle:
        cells[at.queued_for + agent] = cycle
        cells[at.now_agents + cells[at.num_now]] = agent
        cells[at.num_now] += 1


@njit(cache=True)
def wake_later(cells, at, wake_id, cycle):
    """Enter an agent, or a flow as `num_agents + flow`, for a later cycle within the horizon."""
    if cells[at.wake_at + wake_id] != cycle:
        cells[at.wake_at + wake_id] = cycle
        bucket = cycle & (at.horizon - 1)
        count = cells[at.bucket_wakes + bucket]
        cells[at.wakes + bucket * at.max_wakes + count] = wake_id
        cells[at.bucket_wakes + bucket] = count + 1
        cells[at.num_pending] += 1


@njit(cache=True)
def return_credits(cells, at, sink, number, cycle):
    """Send `number` credits of a sink back to its source."""
    bucket = (cycle + cells[at.sink_credit_cycles + sink]) & (at.horizon - 1)
    count = cells[at.bucket_credits + bucket]
    cells[at.credit_sink + bucket * at.num_sinks + count] = sink
    cells[at.credit_number + bucket * at.num_sinks + count] = number
    cells[at.bucket_credits + bucket] = count + 1
    cells[at.num_pending] += 1


@njit(cache=True)
def push_output(cells, at, flow, ready):
    """Put one vector into the output queue of a flow."""
    count, capacity = cells[at.flow_count + flow], cells[at.flow_capacity + flow]
    place = cells[at.flow_head + flow] + count
    if place >= capacity:
        place -= capacity
    cells[at.queue_ready + cells[at.flow_queue_start + flow] + place] = ready
    if count == 0:
        wake_later(cells, at, at.num_agents + flow, ready)
    cells[at.flow_count + flow] = count + 1


@njit(cache=True)
def account(cells, at, unit, time_state, cycle):
    """From `cycle` on, the time of a unit counts as `time_state`."""
    now = cells[at.unit_time_state + unit]
    if now != time_state:
        cells[at.time_spent + unit * 4 + now] += cycle - cells[at.unit_time_since + unit]
        cells[at.unit_time_since + unit] = cycle
        cells[at.unit_time_state + unit] = time_state


@njit(cache=True)
def finish_sample(cells, at, unit, cycle):
    """Note that a unit has finished its next sample."""
    sample = cells[at.unit_finished + unit]
    cells[at.unit_finished + unit] = sample + 1
    if sample < at.max_samples:
        cells[at.finish_cycle + unit * at.max_samples + sample] = cycle
        cells[at.num_finishers + sample] += 1
