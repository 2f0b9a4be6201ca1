"""Simulate decisions: raw arrays for many, a full measurement for each."""

from __future__ import annotations

import numpy as np

from placer.decision import Decisions
from placer.errors import InputError
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist
from placer.simulation import records as at
from placer.simulation.critical import describe_critical
from placer.simulation.deadlock import describe_deadlock
from placer.simulation.engine import Limits, Outcome, empty_outcome, run_stack
from placer.simulation.layout import Layout, build_layout
from placer.simulation.measurement import Measurement, Status
from placer.simulation.routes import tree_sizes


def simulate_stack(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, limits: Limits | None = None
) -> Outcome:
    """Simulate all decisions of a stack, without Python work per decision.

    The decisions must be legal (`placer.check`); limits default to `Limits()`.
    """
    outcome, _ = run_with_layout(fabric, netlist, decisions, limits or Limits())
    return outcome


def run_with_layout(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, limits: Limits
) -> tuple[Outcome, Layout]:
    """Outcome, and the cells as the last decision left them."""
    _require_flows(netlist)
    max_nodes, max_hops = tree_sizes(
        decisions.route_start, decisions.links, decisions.parents, fabric.topology.num_mesh_links
    )
    layout = build_layout(
        fabric, netlist, max_nodes=max_nodes, max_hops=max_hops, max_samples=limits.max_samples
    )
    outcome = empty_outcome(
        len(decisions.sites), int(layout.start[at.NUM_UNITS]), int(layout.start[at.NUM_LINKS])
    )
    run_stack(
        layout.cells, layout.start, limits, decisions.sites, decisions.channels,
        decisions.route_start, decisions.links, decisions.parents, outcome,
    )  # fmt: skip
    return outcome, layout


def _require_flows(netlist: Netlist) -> None:
    used = {end for flow in netlist.flows for end in (flow.source, *flow.targets)}
    for number, unit in enumerate(netlist.units):
        if number not in used and unit.kind != SiteKind.COMPUTE:
            raise InputError(
                f"unit {unit.name!r} has no flows; a buffer or port needs one or more, "
                "or it never finishes a sample"
            )


def finish_cycles(layout: Layout) -> list[list[int]]:
    """Per unit, the cycle in which it finished each sample, of the last decision simulated."""
    cells, max_samples = layout.cells, int(layout.cells[at.MAX_SAMPLES])
    units = range(int(cells[at.UNITS]), int(cells[at.UNITS_END]), at.UNIT_SIZE)
    cycles = []
    for unit in units:
        first, finished = int(cells[unit + at.UNIT_FINISHES]), int(cells[unit + at.UNIT_FINISHED])
        # A unit may run ahead of the others, past the samples that were asked for.
        cycles.append(cells[first : first + min(finished, max_samples)].tolist())
    return cycles


def simulate(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, limits: Limits | None = None
) -> list[Measurement]:
    """Simulate all decisions of a stack and say of each where the time went."""
    outcome = simulate_stack(fabric, netlist, decisions, limits)
    return [
        _measurement(fabric, netlist, decisions[d], outcome, d, limits or Limits())
        for d in range(len(decisions))
    ]


def _measurement(
    fabric: Fabric, netlist: Netlist, decision: Decisions, outcome: Outcome, d: int, limits: Limits
) -> Measurement:
    status = Status(int(outcome.status[d]))
    period = float(outcome.cycles_per_sample[d])
    if status == Status.DEADLOCK:
        _, layout = run_with_layout(fabric, netlist, decision, limits)
        critical = describe_deadlock(netlist, layout)
    elif np.isnan(period):
        critical = "unknown: the limit was reached before the pipeline was full"
    else:
        critical = describe_critical(fabric, netlist, decision, period)
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
