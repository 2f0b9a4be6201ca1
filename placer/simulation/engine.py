"""The compiled cycle-level engine: docs/simulator.md, event by event instead of cycle by cycle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.base import inlined, internal
from placer.simulation import records as at
from placer.simulation.calendar import close_interval, has_heads, wake_later, wake_next
from placer.simulation.dram import dram_step
from placer.simulation.measurement import Status
from placer.simulation.network import arrivals, has_requests, move_vectors
from placer.simulation.replaying import bank_step, load_traffic, processor_step
from placer.simulation.routes import load_decision, load_start
from placer.simulation.units import compute_step, memory_step

STEADY, CAP, DEADLOCK = int(Status.STEADY), int(Status.CAP), int(Status.DEADLOCK)
RUNNING = -1


class Limits(NamedTuple):
    """When a simulation ends (docs/simulator.md, "Steady state")."""

    warmup_samples: int = 2
    window_samples: int = 6
    tolerance: float = 0.01
    max_cycles: int = 2_000_000
    max_samples: int = 256
    statistics_from_sample: int = 2  # statistics count after this sample; -1: from cycle 0


# For labels and results that are published: half the error of the default limits, twice the time.
PRECISE_LIMITS = Limits(warmup_samples=12, window_samples=12)
LONG_SAMPLE_CYCLES = 2048  # netlists with samples of at least this length need fewer of them
LONG_SAMPLE_LIMITS = Limits(warmup_samples=4, window_samples=3)


def label_limits(bound_cycles: int) -> Limits:
    """Return limits for many labels: precise, but with fewer samples where these are long.

    What a window misses or has too much is less than a sample's pipeline delay, which does not grow
    with the sample: three long samples tell the period to about 0.3% in a third of the time.
    """
    return PRECISE_LIMITS if bound_cycles < LONG_SAMPLE_CYCLES else LONG_SAMPLE_LIMITS


class Outcome(NamedTuple):
    """Raw results of a stack of decisions."""

    status: NDArray[np.int32]  # [num_decisions]
    cycles_per_sample: NDArray[np.float64]  # [num_decisions]
    first_sample_cycles: NDArray[np.int64]  # [num_decisions]
    cycles_simulated: NDArray[np.int64]  # [num_decisions]
    samples: NDArray[np.int64]  # [num_decisions]
    vector_hops: NDArray[np.int64]  # [num_decisions]
    counted_cycles: NDArray[np.int64]  # [num_decisions] cycles covered by the two below
    unit_time: NDArray[np.int64]  # [num_decisions, num_units, 4]
    link_vectors: NDArray[np.int64]  # [num_decisions, num_links]


def empty_outcome(num: int, num_units: int, num_links: int) -> Outcome:
    """Make the arrays that `run_stack` fills."""
    return Outcome(
        status=np.empty(num, np.int32),
        cycles_per_sample=np.full(num, np.nan),
        first_sample_cycles=np.full(num, -1, np.int64),
        cycles_simulated=np.empty(num, np.int64),
        samples=np.empty(num, np.int64),
        vector_hops=np.empty(num, np.int64),
        counted_cycles=np.empty(num, np.int64),
        unit_time=np.empty((num, num_units, 4), np.int64),
        link_vectors=np.empty((num, num_links), np.int64),
    )


@internal
def _period(cells, last, window):
    """Return the longest time from finishing `last - window` to `last` of a pacing unit."""
    longest = 0
    for unit in range(cells[at.UNITS], cells[at.UNITS_END], at.UNIT_SIZE):
        if cells[unit + at.UNIT_SETS_PERIOD]:
            end = cells[unit + at.UNIT_FINISHES] + last
            longest = max(longest, np.int64(cells[end]) - cells[end - window])
    return longest


@internal
def _steady_window(cells, limits: Limits, last):
    """Find the shortest window over which the period was the same twice, or 0.

    Several lengths are tried since the finishes may repeat in a pattern of some samples.
    """
    longest = min(2 * limits.window_samples, (last - limits.warmup_samples) // 2)
    for window in range(limits.window_samples, longest + 1):
        period = _period(cells, last, window)
        if abs(period - _period(cells, last - window, window)) <= limits.tolerance * period:
            return window
    return 0


@internal
def _restart_statistics(cells, cycle):
    for unit in range(cells[at.UNITS], cells[at.UNITS_END], at.UNIT_SIZE):
        for k in range(unit + at.UNIT_TIME, unit + at.UNIT_SIZE):
            cells[k] = 0
        cells[unit + at.UNIT_TIME_SINCE] = cycle
    first = np.int64(cells[at.LINK_OF])
    for k in range(first, first + cells[at.NUM_LINKS]):
        if cells[k] != at.NONE:
            cells[cells[k] + at.LINK_VECTORS] = 0


@internal
def _is_complete(cells, sample):
    return cells[cells[at.NUM_FINISHERS] + sample] == cells[at.NUM_UNITS]


@internal
def _complete_samples(cells, limits: Limits, counted_from, cycle):
    """Note complete samples; returns the status and the cycle from which statistics count."""
    sample = np.int64(cells[at.NUM_SAMPLES])
    while sample < limits.max_samples and _is_complete(cells, sample):
        cells[at.NUM_SAMPLES] = sample + 1
        if sample == limits.statistics_from_sample:
            _restart_statistics(cells, cycle + 1)
            counted_from = cycle + 1
        if _steady_window(cells, limits, sample) > 0:
            return STEADY, counted_from
        if sample + 1 == limits.max_samples:
            return CAP, counted_from
        sample += 1
    return RUNNING, counted_from


@internal
def _next_event(cells, cycle):
    """Find the first later cycle in which something arrives, or NEVER."""
    link_mask, time_mask = np.int64(cells[at.LINK_MASK]), np.int64(cells[at.TIME_MASK])
    for later in range(cycle + 1, cycle + 2 + max(link_mask, time_mask)):
        bucket, link_bucket = later & time_mask, later & link_mask
        if (
            has_heads(cells, later)
            or cells[cells[at.EJECTED] + link_bucket * cells[at.EJECTED_STRIDE]]
            or cells[cells[at.CREDITS] + bucket * cells[at.CREDITS_STRIDE]]
            or cells[cells[at.WAKES] + bucket * cells[at.WAKES_STRIDE]]
        ):
            return later
    return at.NEVER


@internal
def _step(cells, cycle):
    """Simulate one cycle: arrivals, then units and links decide and act."""
    first = cells[at.NEXT]
    cells[at.NEXT] = cells[at.NOW]
    cells[at.NOW], cells[at.NOW_END] = first, cells[at.NEXT_END]
    cells[at.NEXT_END] = cells[at.NEXT]
    cells[at.NUM_ACTED] = 0
    arrivals(cells, cycle)
    for k in range(first, cells[at.NOW_END]):
        agent = cells[k]
        kind = cells[agent + at.KIND]
        if kind == at.COMPUTE_UNIT:
            compute_step(cells, agent, cycle)
        elif kind == at.MEMORY_SITE:
            memory_step(cells, agent, cycle)
        elif kind == at.DRAM_AGENT:
            dram_step(cells, cycle)
        elif kind == at.BANK:
            bank_step(cells, agent, cycle)
        elif kind == at.PROCESSOR:
            processor_step(cells, agent, cycle)
    move_vectors(cells, cycle)


@internal
def begin(cells, start, sites, channels, route_start, links, parents):
    """Write the state before cycle 0 and a decision into the cells, and wake everybody."""
    load_start(cells, start)
    load_decision(cells, sites, channels, route_start, links, parents)
    for unit in range(cells[at.UNITS], cells[at.UNITS_END], at.UNIT_SIZE):
        wake_next(cells, cells[unit + at.UNIT_AGENT], np.int64(-1))
    for flow in range(cells[at.FLOWS], cells[at.FLOWS_END], at.FLOW_SIZE):
        if cells[flow + at.COUNT] > 0:
            wake_later(cells, flow, np.int64(0))


@internal
def run(cells, limits: Limits, cycle, counted_from, pause):
    """Simulate from a cycle to the end: status, last cycle + 1, cycle statistics count from.

    At the first cycle from `pause` on the status is RUNNING, and that cycle is the next one.
    """
    while cycle < pause:
        _step(cells, cycle)
        status, counted_from = _complete_samples(cells, limits, counted_from, cycle)
        if status != RUNNING:
            return status, cycle + 1, counted_from
        later = _next_cycle(cells, cycle)
        if later == at.NEVER:
            return DEADLOCK, cycle + 1, counted_from
        cycle = later
        if cycle >= limits.max_cycles:
            return CAP, limits.max_cycles, counted_from
    return RUNNING, cycle, counted_from


@inlined
def _next_cycle(cells, cycle):
    """Return the next cycle in which something can act, or NEVER."""
    is_idle = cells[at.NUM_ACTED] == 0
    nobody_acts = cells[at.NEXT_END] == cells[at.NEXT]
    if is_idle or (nobody_acts and not has_requests(cells)):
        return _next_event(cells, cycle)
    return cycle + 1


@njit(cache=True, nogil=True)
def run_traffic(cells, start, max_cycles, decision, step_at, link_vectors):
    """Replay traffic to the end of all scripts: status and cycles; fills the times of steps and loads of links."""
    load_start(cells, start)
    sites, channels, route_start, links, parents = decision
    load_decision(cells, sites, channels, route_start, links, parents)
    load_traffic(cells)
    num_processors = (cells[at.PROCESSORS_END] - cells[at.PROCESSORS]) // at.PROCESSOR_SIZE
    cycle, status = np.int64(0), RUNNING
    while status == RUNNING:
        _step(cells, cycle)
        later = _next_cycle(cells, cycle)
        if cells[at.NUM_DONE] == num_processors:
            status = STEADY
        elif later == at.NEVER:
            status = DEADLOCK
        elif later >= max_cycles:
            status = CAP
        else:
            cycle = later
    for k in range(len(step_at)):
        step_at[k] = cells[cells[at.STEPS] + np.int64(k) * at.STEP_SIZE + at.STEP_AT]
    for k in range(len(link_vectors)):
        link = cells[cells[at.LINK_OF] + k]
        link_vectors[k] = cells[link + at.LINK_VECTORS] if link != at.NONE else 0
    return status, cycle + 1


@njit(cache=True, nogil=True)
def run_stack(cells, start, limits: Limits, sites, channels, route_start, links, parents, outcome):
    """Simulate a stack of decisions one after the other, without Python work in between.

    `start` are the cells at the start of cycle 0, without a decision. `outcome` is filled, not
    returned: a Ctrl-C while numba makes a named tuple crashes Python.
    """
    first, never = np.int64(0), np.int64(at.NEVER)  # literals would compile everything twice
    for d in range(len(sites)):
        begin(cells, start, sites[d], channels[d], route_start[d], links, parents)
        status, end, counted_from = run(cells, limits, first, first, never)
        outcome.status[d] = status
        outcome.cycles_simulated[d] = end
        outcome.counted_cycles[d] = end - counted_from
        report(cells, limits, outcome, d, end)


@njit(cache=True, nogil=True)
def begin_one(cells, start, sites, channels, route_start, links, parents):
    """Begin a simulation that `advance_one` takes further."""
    begin(cells, start, sites, channels, route_start, links, parents)


@njit(cache=True, nogil=True)
def advance_one(cells, limits: Limits, cycle, counted_from, pause):
    """Simulate from a cycle up to `pause`, as `run` does."""
    return run(cells, limits, cycle, counted_from, pause)


@njit(cache=True)
def report_one(cells, limits: Limits, outcome, d, end):
    """Fill the row of a decision whose simulation has ended."""
    report(cells, limits, outcome, d, end)


@internal
def report(cells, limits: Limits, outcome, d, end):
    """Fill the row of a decision whose simulation has ended."""
    samples = np.int64(cells[at.NUM_SAMPLES])
    window = 2 * max(limits.window_samples, _steady_window(cells, limits, samples - 1))
    outcome.samples[d] = samples
    outcome.vector_hops[d] = cells[at.NUM_HOPS]
    if samples > window:
        outcome.cycles_per_sample[d] = _period(cells, samples - 1, window) / window
    for u in range(outcome.unit_time.shape[1]):
        unit = cells[at.UNITS] + u * at.UNIT_SIZE
        if samples > 0:
            first = np.int64(cells[cells[unit + at.UNIT_FINISHES]])
            outcome.first_sample_cycles[d] = max(outcome.first_sample_cycles[d], first)
        close_interval(cells, unit, end)
        for k in range(4):
            outcome.unit_time[d, u, k] = cells[unit + at.UNIT_TIME + k]
    for k in range(outcome.link_vectors.shape[1]):
        link = cells[cells[at.LINK_OF] + k]
        outcome.link_vectors[d, k] = cells[link + at.LINK_VECTORS] if link != at.NONE else 0
