"""The second engine of the simulator: slow, obvious, plain Python, to check the compiled one.

It follows `docs/simulator.md` section by section and skips nothing: every cycle is stepped, in the
order arrivals, decisions (read the state, change nothing), accounting, update.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from placer.base import InputError
from placer.decision import Decisions
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist
from placer.simulation import Status
from placer.simulation.reference.network import Network, Route, build_route
from placer.simulation.reference.units import Buffer, Compute, Dram, MemorySite, UnitState
from placer.simulation.warm import WarmState


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """All that the compiled engine must reproduce exactly."""

    status: Status
    cycles_per_sample: float  # nan unless a window of 2 w samples was complete
    first_sample_cycles: int  # cycle in which sample 0 was complete, -1 if it never was
    cycles_simulated: int
    samples: int  # complete samples
    finish: list[list[int]]  # per unit: cycle in which it finished each sample
    link_vectors: list[int]  # per link: vectors sent over it
    unit_time: list[list[int]]  # per unit: cycles by UnitTime


def simulate_reference(
    fabric: Fabric,
    netlist: Netlist,
    decisions: Decisions,
    *,
    warmup_samples: int,
    window_samples: int,
    tolerance: float,
    max_cycles: int,
    max_samples: int,
    warm: WarmState | None = None,
) -> ReferenceResult:
    """Simulate one decision until the period is steady, a limit is reached or nothing moves.

    It starts empty, or in a warm state.
    """
    if len(decisions) != 1:
        raise InputError(f"got a stack of {len(decisions)} decisions; give one, as decisions[i]")
    chip = Chip(fabric, netlist, decisions)
    if warm is not None:
        chip.warm_up(warm)
    finish = [unit.finish for unit in chip.units]
    samples = 0
    for t in range(max_cycles):
        acted = chip.step(t)
        while samples < min(map(len, finish)):
            s = samples
            samples += 1
            for window in range(window_samples, 2 * window_samples + 1):
                is_long_enough = s >= warmup_samples + 2 * window
                if is_long_enough and _is_steady(chip, s, window, tolerance):
                    return _result(chip, Status.STEADY, t, samples, window)
            if samples == max_samples:
                return _result(chip, Status.CAP, t, samples, window_samples)
        if not acted and not chip.is_pending(t):
            return _result(chip, Status.DEADLOCK, t, samples, window_samples)
    return _result(chip, Status.CAP, max_cycles - 1, samples, window_samples)


def _period(chip: Chip, s: int, window: int) -> float:
    """Return the cycles per sample of the slowest pacing unit over `window` samples up to s."""
    most_work = max((unit.spec.cycles for unit in chip.computes), default=None)
    pacing = [u for u in chip.units if not u.outlets or u.spec.cycles == most_work]
    return max(unit.finish[s] - unit.finish[s - window] for unit in pacing) / window


def _is_steady(chip: Chip, s: int, window: int, tolerance: float) -> bool:
    period = _period(chip, s, window)
    return abs(period - _period(chip, s - window, window)) <= tolerance * period


def _result(chip: Chip, status: Status, t: int, samples: int, window: int) -> ReferenceResult:
    finish = [unit.finish for unit in chip.units]
    is_measured = samples > 2 * window
    return ReferenceResult(
        status=status,
        cycles_per_sample=_period(chip, samples - 1, 2 * window) if is_measured else math.nan,
        first_sample_cycles=max(cycles[0] for cycles in finish) if samples else -1,
        cycles_simulated=t + 1,
        samples=samples,
        finish=finish,
        link_vectors=chip.network.link_vectors,
        unit_time=[unit.time for unit in chip.units],
    )


class Chip:
    """The whole state: a netlist on a fabric, placed and routed."""

    def __init__(self, fabric: Fabric, netlist: Netlist, decisions: Decisions) -> None:
        routes = [build_route(fabric, netlist, decisions, flow_id) for flow_id in range(netlist.num_flows)]
        self.network = Network(fabric, routes)
        self.units = _units(netlist, routes)
        self.computes = [unit for unit in self.units if isinstance(unit, Compute)]
        ports = [unit for unit in self.units if unit.spec.kind == SiteKind.PORT]
        self.dram = Dram(fabric.dram, ports, free_at=[0] * fabric.dram.channels)
        buffers: dict[int, list[Buffer]] = {}
        for unit, site in zip(self.units, decisions.sites[0].tolist(), strict=True):
            if isinstance(unit, Buffer):
                buffers.setdefault(site, []).append(unit)
        self.memories = [MemorySite(fabric.memory, on_site) for on_site in buffers.values()]
        self.inlets = [inlet for route in routes for inlet in route.all_inlets()]

    def warm_up(self, warm: WarmState) -> None:
        """Change the empty state before cycle 0 into a warm one."""
        for unit in self.computes:
            unit.num_fired = warm.fired[self.units.index(unit)]
        for flow_id, route in enumerate(self.network.routes):
            route.outlet.passed = warm.put[flow_id]
            route.outlet.queue.extend([0] * warm.queued[flow_id])
        first_sink = 0
        for route in self.network.routes:
            for inlet in route.all_inlets():
                sink = first_sink + inlet.position
                inlet.passed = warm.taken[sink]
                inlet.queue.visible = warm.arrived[sink]
                inlet.credits.visible -= warm.arrived[sink]
            first_sink += len(route.all_inlets())

    def step(self, t: int) -> bool:
        """Simulate cycle t; False if no unit acted and no vector moved."""
        for inlet in self.inlets:
            inlet.queue.arrive(t)
            inlet.credits.arrive(t)

        firing = [unit for unit in self.computes if unit.can_fire(t)]
        accesses = [(site.choose_write(), site.choose_read(t)) for site in self.memories]
        bursts = self.dram.choose(t)
        sent = self.network.choose(t)

        for unit in self.computes:
            unit.account(t)
        for site, (write, read) in zip(self.memories, accesses, strict=True):
            site.account(t, write, read)
        self.dram.account(bursts)

        for unit in firing:
            unit.fire(t)
        for site, (write, read) in zip(self.memories, accesses, strict=True):
            site.apply(t, write, read)
        self.dram.apply(t, bursts)
        self.network.apply(t, sent)
        for state in self.units:
            state.record_finish(t)
        return bool(firing or bursts or sent or any(w or r for w, r in accesses))

    def is_pending(self, t: int) -> bool:
        """Say whether anything is under way that may let a unit or vector move after cycle t."""
        times = [unit.next_start for unit in self.computes]
        times += [site.read_free_at for site in self.memories]
        times += self.dram.free_at
        # What stands behind the head of an output queue cannot move before it.
        times += [route.outlet.queue[0] for route in self.network.routes if route.outlet.queue]
        times += [vector.visible_at for fifo in self.network.fifos.values() for vector in fifo]
        for inlet in self.inlets:
            times += [*inlet.queue.on_way, *inlet.credits.on_way]
        return any(time > t for time in times)


def _units(netlist: Netlist, routes: list[Route]) -> list[UnitState]:
    """Make all units before cycle 0, joined to the ends of their flows."""
    kinds = {SiteKind.COMPUTE: Compute, SiteKind.MEMORY: Buffer, SiteKind.PORT: UnitState}
    units = [kinds[unit.kind](unit, [], []) for unit in netlist.units]
    for flow, route in zip(netlist.flows, routes, strict=True):
        units[flow.source].outlets.append(route.outlet)
        for inlet in route.all_inlets():
            units[flow.targets[inlet.position]].inlets.append(inlet)
    for unit in units:
        if not isinstance(unit, Compute) and not unit.inlets and not unit.outlets:
            raise InputError(
                f"unit {unit.spec.name!r} has no flows; a buffer or port needs one or more, "
                "or it never finishes a sample"
            )
    return units
