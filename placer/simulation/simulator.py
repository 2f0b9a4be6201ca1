"""Simulate decisions: raw arrays for many, a full measurement for each."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import config

from placer.base import InputError
from placer.decision import Decisions
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist
from placer.simulation import records as at
from placer.simulation.critical import describe_deadlock, find_critical
from placer.simulation.engine import Limits, Outcome, empty_outcome, run_stack, run_traffic
from placer.simulation.machine import Machine, build_machine
from placer.simulation.measurement import Measurement, Status
from placer.simulation.traffic import Replay, Traffic
from placer.simulation.warm import WarmState


def simulate_stack(fabric: Fabric, netlist: Netlist, decisions: Decisions, limits: Limits | None = None) -> Outcome:
    """Simulate all decisions of a stack, on all cores.

    The decisions must be legal (`placer.decision.check`); limits default to `Limits()`. Decisions do
    not know of each other, so the number of cores changes nothing. Workers have one core each.
    """
    outcome, _ = run_machine(fabric, netlist, decisions, limits or Limits())
    return outcome


def run_machine(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, limits: Limits, warm: WarmState | None = None
) -> tuple[Outcome, Machine]:
    """Return the outcome, and the machine as the last decision left it."""
    _require_flows(netlist)
    machine = build_machine(fabric, netlist, decisions, limits.max_samples, warm)
    num = len(decisions.sites)
    outcome = empty_outcome(num, int(machine.start[at.NUM_UNITS]), int(machine.start[at.NUM_LINKS]))
    waiting = deque(range(num))  # the next one goes to the first core that is free

    def run_some(own: Machine) -> None:
        while waiting:
            try:
                d = waiting.popleft()
            except IndexError:  # another core was faster
                return
            run_stack(
                own.cells, own.start, limits, decisions.sites[d : d + 1], decisions.channels[d : d + 1],
                decisions.route_start[d : d + 1], decisions.links, decisions.parents,
                Outcome._make(values[d : d + 1] for values in outcome),
            )  # fmt: skip

    cores = int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    others = [machine.another() for _ in range(min(num, cores) - 1)]
    if not others:
        run_some(machine)
        return outcome, machine
    with ThreadPoolExecutor(len(others)) as pool:
        running = [pool.submit(run_some, other) for other in others]
        try:
            run_some(machine)
        finally:
            waiting.clear()  # after Ctrl-C
    for one in running:
        one.result()
    return outcome, machine


MAX_REPLAY_CYCLES = 20_000_000


def replay(fabric: Fabric, traffic: Traffic, max_cycles: int = MAX_REPLAY_CYCLES) -> Replay:
    """Replay traffic of cores to the end of all scripts."""
    decision = traffic.decision
    machine = build_machine(fabric, traffic.netlist, decision, max_samples=1, traffic=traffic)
    step_at = np.zeros(traffic.num_steps, np.int64)
    link_vectors = np.zeros(fabric.topology.num_links, np.int64)
    arrays = (decision.sites[0], decision.channels[0], decision.route_start[0], decision.links, decision.parents)
    status, cycles = run_traffic(machine.cells, machine.start, max_cycles, arrays, step_at, link_vectors)
    return Replay(Status(status), cycles, step_at, link_vectors)


def _require_flows(netlist: Netlist) -> None:
    used = {end for flow in netlist.flows for end in (flow.source, *flow.targets)}
    for number, unit in enumerate(netlist.units):
        if number not in used and unit.kind != SiteKind.COMPUTE:
            raise InputError(
                f"unit {unit.name!r} has no flows; a buffer or port needs one or more, or it never finishes a sample"
            )


def simulate(fabric: Fabric, netlist: Netlist, decisions: Decisions, limits: Limits | None = None) -> list[Measurement]:
    """Simulate all decisions of a stack and say of each where the time went."""
    outcome = simulate_stack(fabric, netlist, decisions, limits)
    return [_measurement(fabric, netlist, decisions[d], outcome, d, limits or Limits()) for d in range(len(decisions))]


def _measurement(
    fabric: Fabric, netlist: Netlist, decision: Decisions, outcome: Outcome, d: int, limits: Limits
) -> Measurement:
    status = Status(int(outcome.status[d]))
    period = float(outcome.cycles_per_sample[d])
    if status == Status.DEADLOCK:
        _, machine = run_machine(fabric, netlist, decision, limits)
        critical = describe_deadlock(netlist, machine)
    elif np.isnan(period):
        critical = "unknown: the limit was reached before the pipeline was full"
    else:
        critical = find_critical(fabric, netlist, decision, period).sentence
    counted = max(1, int(outcome.counted_cycles[d]))
    return Measurement(
        status=status,
        cycles_per_sample=period,
        bound_cycles=netlist.bound_cycles,
        first_sample_cycles=int(outcome.first_sample_cycles[d]),
        cycles_simulated=int(outcome.cycles_simulated[d]),
        samples=int(outcome.samples[d]),
        vector_hops=int(outcome.vector_hops[d]),
        unit_time=outcome.unit_time[d] / counted,
        link_utilisation=outcome.link_vectors[d] / (counted * fabric.topology.link_width),
        critical=critical,
    )
