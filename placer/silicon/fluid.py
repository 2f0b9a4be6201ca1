"""Simpler models of the same traffic: no contention, fluid sharing, and rules.

*No contention*: every transfer runs at its own rate. *Fluid*: transfers under way share links, injection,
taking and DRAM controllers max-min fairly at every moment; nothing has a queue. *Rules*: what each
resource needs alone, and the slowest decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import FloatArray, InputError, LongArray
from placer.fabric import FULL_PACE, Fabric, SiteKind
from placer.simulation import Traffic

NEVER = 1e18
MAX_ROUNDS = 10_000_000


class Shared(NamedTuple):
    """Who uses what. Resources are the links of the fabric, then the DRAM controllers."""

    start: LongArray  # [num_flows + 1] into resource
    resource: LongArray  # [num_uses]
    capacity: FloatArray  # [num_resources] vectors per cycle
    rate: FloatArray  # [num_flows] vectors per cycle of a transfer alone
    tokens: FloatArray  # [num_flows] vectors
    latency: FloatArray  # [num_flows] cycles from issue to the first vector


def shared_of(fabric: Fabric, traffic: Traffic) -> Shared:
    """Return what the transfers of some traffic share."""
    cores, topology, decision = fabric.cores, fabric.topology, traffic.decision
    assert cores is not None
    capacity = np.full(topology.num_links + len(cores.controllers), cores.link_bytes_per_cycle)
    is_port = topology.site_kind == SiteKind.PORT
    first = topology.inject_link(0)
    capacity[first : first + topology.num_sites] = np.where(
        is_port, cores.port_inject_bytes_per_cycle, cores.inject_bytes_per_cycle
    )
    first = topology.eject_link(0)
    capacity[first : first + topology.num_sites] = np.where(
        is_port, cores.port_take_bytes_per_cycle, cores.take_bytes_per_cycle
    )
    capacity[topology.num_links :] = cores.controller_bytes_per_cycle
    uses: list[list[int]] = []
    latency = []
    for flow in range(traffic.netlist.num_flows):
        links = decision.route(flow)[0].tolist()
        bank = int(traffic.gate_bank[traffic.flow_gate[flow]])
        uses.append(links + ([topology.num_links + bank] if bank < len(cores.controllers) else []))
        way = int(topology.link_cycles[links].sum())
        latency.append(float(traffic.request_cycles[flow] + way + 1))
    return Shared(
        start=np.cumsum([0] + [len(use) for use in uses]),
        resource=np.array([resource for use in uses for resource in use], np.int64),
        capacity=capacity / fabric.vector_bytes,
        rate=traffic.flow_pace / FULL_PACE,
        tokens=np.array([flow.tokens for flow in traffic.netlist.flows], np.float64),
        latency=np.array(latency),
    )


def fluid_cycles(traffic: Traffic, shared: Shared, *, has_contention: bool = True) -> float:
    """Return when the last step is done if transfers share fairly, or do not hinder each other at all."""
    capacity = shared.capacity if has_contention else np.full_like(shared.capacity, NEVER)
    end: float = _fluid(
        traffic.step_start, traffic.step_gap, traffic.step_what, float(traffic.wait_cycles),
        shared.start, shared.resource, capacity, shared.rate, shared.tokens, shared.latency,
    )  # fmt: skip
    if end < 0:
        raise InputError("the fluid model came to no end")
    return end


def rule_cycles(traffic: Traffic, shared: Shared) -> float:
    """Return the time without contention, or what the busiest resource needs alone, whichever is longer."""
    uses = np.diff(shared.start)
    load = np.bincount(shared.resource, np.repeat(shared.tokens, uses), len(shared.capacity))
    begin = float(np.min(shared.latency)) + float(np.min(_first_issues(traffic)))
    return max(fluid_cycles(traffic, shared, has_contention=False), begin + float(np.max(load / shared.capacity)))


def _first_issues(traffic: Traffic) -> list[float]:
    """Return when each processor issues its first read if it waits for nothing before."""
    times = []
    for first, end in zip(traffic.step_start, traffic.step_start[1:], strict=False):
        reads = np.flatnonzero(traffic.step_what[first:end] >= 0)
        if len(reads):
            times.append(float(traffic.step_gap[first : first + reads[0] + 1].sum()))
    return times


@njit(cache=True)
def _share(live, num_live, start, resource, capacity, rate_alone, rates, left, count):
    """Fill rates of live transfers max-min fairly: raise all until a resource or a transfer is at its limit."""
    for k in range(len(left)):
        left[k] = capacity[k]
        count[k] = 0
    for k in range(num_live):
        rates[live[k]] = -1.0
        for use in range(start[live[k]], start[live[k] + 1]):
            count[resource[use]] += 1
    unset = num_live
    while unset > 0:
        level = NEVER
        for k in range(num_live):
            flow = live[k]
            if rates[flow] >= 0:
                continue
            level = min(level, rate_alone[flow])
            for use in range(start[flow], start[flow + 1]):
                level = min(level, left[resource[use]] / count[resource[use]])
        for k in range(num_live):
            flow = live[k]
            if rates[flow] >= 0:
                continue
            is_limited = rate_alone[flow] <= level * (1 + 1e-9)
            for use in range(start[flow], start[flow + 1]):
                share = left[resource[use]] / count[resource[use]]
                is_limited |= share <= level * (1 + 1e-9)
            if is_limited:
                rates[flow] = level
                unset -= 1
                for use in range(start[flow], start[flow + 1]):
                    left[resource[use]] = max(0.0, left[resource[use]] - level)
                    count[resource[use]] -= 1


@njit(cache=True)
def _fluid(step_start, gap, what, wait, start, resource, capacity, rate_alone, tokens, latency):
    """Follow all scripts from event to event; returns the time of the last step, -1 without an end."""
    num, num_flows = len(step_start) - 1, len(tokens)
    step, due = step_start[:-1].copy(), np.empty(num)
    owner, num_open = np.zeros(num_flows, np.int64), np.zeros(num, np.int64)
    is_waiting = np.zeros(num, np.bool_)
    begins, rest, rates = np.full(num_flows, NEVER), tokens.copy(), np.zeros(num_flows)
    live, num_live = np.zeros(num_flows, np.int64), 0
    left, count = np.zeros(len(capacity)), np.zeros(len(capacity), np.int64)
    coming, num_coming = np.zeros(num_flows, np.int64), 0
    for k in range(num):
        due[k] = gap[step[k]] if step[k] < step_start[k + 1] else NEVER
    now = last = 0.0
    for _ in range(MAX_ROUNDS):
        moved = True
        while moved:
            moved = False
            for k in range(num):
                if due[k] > now + 1e-9:
                    continue
                if what[step[k]] == -1 and not is_waiting[k]:
                    is_waiting[k] = True
                    due[k] = now + wait
                    continue
                if what[step[k]] == -1:
                    if num_open[k] > 0:
                        continue
                    is_waiting[k] = False
                elif what[step[k]] >= 0:
                    flow = what[step[k]]
                    owner[flow] = k
                    num_open[k] += 1
                    begins[flow] = now + latency[flow]
                    coming[num_coming] = flow
                    num_coming += 1
                last = max(last, now)
                step[k] += 1
                due[k] = now + gap[step[k]] if step[k] < step_start[k + 1] else NEVER
                moved = True
        following = NEVER
        for k in range(num):
            if due[k] > now + 1e-9:
                following = min(following, due[k])
        for k in range(num_coming):
            following = min(following, begins[coming[k]])
        for k in range(num_live):
            following = min(following, now + rest[live[k]] / rates[live[k]])
        if following >= NEVER:
            return last
        elapsed = max(0.0, following - now)
        now = following
        has_changed = False
        k = 0
        while k < num_live:
            flow = live[k]
            rest[flow] -= rates[flow] * elapsed
            if rest[flow] <= 1e-6:
                num_open[owner[flow]] -= 1
                num_live -= 1
                live[k] = live[num_live]
                has_changed = True
            else:
                k += 1
        k = 0
        while k < num_coming:
            flow = coming[k]
            if begins[flow] <= now + 1e-9:
                live[num_live] = flow
                num_live += 1
                num_coming -= 1
                coming[k] = coming[num_coming]
                has_changed = True
            else:
                k += 1
        if has_changed:
            _share(live, num_live, start, resource, capacity, rate_alone, rates, left, count)
    return -1.0
