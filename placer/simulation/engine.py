"""The compiled cycle-level engine: docs/simulator.md, event by event instead of cycle by cycle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from placer.fabric import SiteKind
from placer.simulation.calendar import account, wake_now
from placer.simulation.measurement import Status
from placer.simulation.network import arrivals, move_vectors
from placer.simulation.routes import load_decision
from placer.simulation.units import INFINITE, compute_step, dram_step, memory_step

STEADY, CAP, DEADLOCK = int(Status.STEADY), int(Status.CAP), int(Status.DEADLOCK)
COMPUTE_KIND, MEMORY_KIND = int(SiteKind.COMPUTE), int(SiteKind.MEMORY)
RUNNING = -1


class Limits(NamedTuple):
    """When a simulation ends (docs/simulator.md, "Steady state")."""

    warmup_samples: int = 1
    window_samples: int = 4
    tolerance: float = 0.01
    max_cycles: int = 2_000_000
    max_samples: int = 256
    statistics_from_sample: int = 1  # statistics count after this sample; -1: from cycle 0


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


@njit(cache=True)
def _period(cells, at, last, window):
    """Largest time between the finishes of sample `last - window` and `last` of a pacing unit."""
    longest = 0
    for unit in range(at.num_units):
        if cells[at.unit_sets_period + unit]:
            finishes = at.finish_cycle + unit * at.max_samples
            longest = max(longest, cells[finishes + last] - cells[finishes + last - window])
    return longest


@njit(cache=True)
def _restart_statistics(cells, at, cycle):
    cells[at.time_spent : at.time_spent + 4 * at.num_units] = 0
    for link in range(at.num_links):
        cells[at.link_vectors + link] = 0
    for unit in range(at.num_units):
        cells[at.unit_time_since + unit] = cycle


@njit(cache=True)
def _complete_samples(cells, at, limits: Limits, counted_from, cycle):
    """Note complete samples; returns the status and the cycle from which statistics count."""
    num_units = at.num_units
    window = limits.window_samples
    sample = cells[at.num_samples]
    while sample < limits.max_samples and cells[at.num_finishers + sample] == num_units:
        cells[at.num_samples] = sample + 1
        if sample == limits.statistics_from_sample:
            _restart_statistics(cells, at, cycle + 1)
            counted_from = cycle + 1
        if sample >= limits.warmup_samples + 2 * window:
            period = _period(cells, at, sample, window)
            earlier = _period(cells, at, sample - window, window)
            if abs(period - earlier) <= limits.tolerance * period:
                return STEADY, counted_from
        if sample + 1 == limits.max_samples:
            return CAP, counted_from
        sample += 1
    return RUNNING, counted_from


@njit(cache=True)
def _next_event(cells, at, cycle):
    """First later cycle in which something arrives; there is one."""
    while True:
        cycle += 1
        bucket = cycle & (at.horizon - 1)
        if cells[at.bucket_credits + bucket] or cells[at.bucket_wakes + bucket]:
            return cycle
        if cells[at.bucket_arrivals + (cycle & (at.arrival_horizon - 1))]:
            return cycle


@njit(cache=True)
def _step(cells, at, cycle):
    """One cycle: arrivals, then units and links decide and act."""
    num_units = at.num_units
    num_now = cells[at.num_next]
    for k in range(num_now):
        cells[at.now_agents + k] = cells[at.next_agents + k]
    cells[at.num_now] = num_now
    cells[at.num_next] = 0
    cells[at.num_acted] = 0
    arrivals(cells, at, cycle)
    for k in range(cells[at.num_now]):
        agent = cells[at.now_agents + k]
        if agent < num_units:
            compute_step(cells, at, agent, cycle)
        elif agent < num_units + at.num_sites:
            memory_step(cells, at, agent - num_units, cycle)
        else:
            dram_step(cells, at, cycle)
    move_vectors(cells, at, cycle)


@njit(cache=True)
def _wake_all(cells, at):
    num_units = at.num_units
    for unit in range(num_units):
        if cells[at.unit_kind + unit] == COMPUTE_KIND:
            wake_now(cells, at, unit, 0)
        elif cells[at.unit_kind + unit] == MEMORY_KIND:
            wake_now(cells, at, num_units + cells[at.unit_site + unit], 0)
        else:
            wake_now(cells, at, num_units + at.num_sites, 0)
    for k in range(cells[at.num_now]):
        cells[at.next_agents + k] = cells[at.now_agents + k]
    cells[at.num_next] = cells[at.num_now]


@njit(cache=True)
def run(cells, at, limits: Limits):
    """Simulate one decision to its end: status, last cycle + 1, cycle statistics count from."""
    _wake_all(cells, at)
    cycle, counted_from = 0, 0
    while True:
        _step(cells, at, cycle)
        status, counted_from = _complete_samples(
            cells, at, limits, counted_from, cycle
        )
        if status != RUNNING:
            return status, cycle + 1, counted_from
        is_idle = cells[at.num_acted] == 0
        if is_idle and cells[at.num_pending] == 0:
            return DEADLOCK, cycle + 1, counted_from
        can_skip = is_idle or (cells[at.num_next] == 0 and cells[at.num_active_links] == 0)
        cycle = _next_event(cells, at, cycle) if can_skip else cycle + 1
        if cycle >= limits.max_cycles:
            return CAP, limits.max_cycles, counted_from


@njit(cache=True)
def _reset(cells, at):
    """State at the start of cycle 0."""
    cells[at.route_end : at.zero_end] = 0
    cells[at.zero_end : at.minus_one_end] = -1
    for sink in range(at.num_sinks):
        cells[at.sink_credits + sink] = cells[at.sink_window + sink]
    for unit in range(at.num_units):
        if cells[at.unit_in_start + unit] == cells[at.unit_in_end + unit]:
            cells[at.unit_written + unit] = INFINITE  # resident weights


@njit(cache=True, nogil=True)
def run_stack(cells, layout, limits: Limits, sites, channels, route_start, links, parents):
    """Simulate a stack of decisions one after the other, without Python work in between."""
    at = layout[0]
    num = len(sites)
    outcome = Outcome(
        np.empty(num, np.int32), np.full(num, np.nan), np.full(num, -1, np.int64),
        np.empty(num, np.int64), np.empty(num, np.int64), np.empty(num, np.int64),
        np.empty(num, np.int64), np.empty((num, at.num_units, 4), np.int64),
        np.empty((num, at.num_links), np.int64),
    )  # fmt: skip
    for d in range(num):
        load_decision(cells, at, sites[d], channels[d], route_start[d], links, parents)
        _reset(cells, at)
        status, end, counted_from = run(cells, at, limits)
        outcome.status[d] = status
        outcome.cycles_simulated[d] = end
        outcome.counted_cycles[d] = end - counted_from
        _report(cells, at, limits, outcome, d, end)
    return outcome


@njit(cache=True)
def _report(cells, at, limits: Limits, outcome, d, end):
    window, samples = 2 * limits.window_samples, cells[at.num_samples]
    outcome.samples[d] = samples
    outcome.vector_hops[d] = cells[at.num_hops]
    if samples > window:
        outcome.cycles_per_sample[d] = _period(cells, at, samples - 1, window) / window
    for unit in range(at.num_units):
        if samples > 0:
            first = cells[at.finish_cycle + unit * at.max_samples]
            outcome.first_sample_cycles[d] = max(outcome.first_sample_cycles[d], first)
        account(cells, at, unit, -1, end)  # closes the last interval
        for k in range(4):
            outcome.unit_time[d, unit, k] = cells[at.time_spent + unit * 4 + k]
    for link in range(at.num_links):
        outcome.link_vectors[d, link] = cells[at.link_vectors + link]
