"""Short simulations: an estimate of the period from two or three samples, with a known error.

A full simulation starts empty and ends when windows of whole samples agree. A short one starts warm
(warm.py) and watches how far the slowest pacing unit has come, in parts of a sample: `m(t)` is the
number of samples that it has worked on since cycle 0. With T(m) the cycle in which it has worked on m
samples, and n the whole samples between the warm-up m0 and now, the estimate of the period is the
mean of

    (T(m + n) - T(m)) / n        over m from m0 to now - n

that is, between the same places of samples, because units do not advance evenly within one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from placer.base import BoolArray, FloatArray, LongArray
from placer.decision import Decisions
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist
from placer.simulation import records as at
from placer.simulation.engine import (
    LONG_SAMPLE_LIMITS,
    RUNNING,
    Limits,
    Outcome,
    advance_one,
    begin_one,
    empty_outcome,
    label_limits,
    report_one,
)
from placer.simulation.machine import Machine, build_machine, sets_period
from placer.simulation.measurement import Status
from placer.simulation.warm import sinks_of, warm_state

STEPS = 32  # looks per sample, or four of them where samples are short, if no unit ever waits
NUM_PLACES = 9  # of samples, over which an estimate is averaged
_ENDLESS = Limits(warmup_samples=64, max_samples=64, statistics_from_sample=-1)


class ShortLimits(NamedTuple):
    """When a short simulation ends, in samples; times four where samples are short (`label_limits`)."""

    warmup: float = 0.5
    least: float = 2.0
    most: float = 3.5
    tolerance: float = 0.005  # between two estimates half of their length apart
    lead: float = 1.25  # pace of all compute units over the slowest; above, buffers are still being filled


class ShortRun:
    """A short simulation of one decision, which can be taken further.

    1. `ShortRun(short_machine(fabric, netlist, decisions), netlist, decision)` begins it.
    2. `advance(limits)` simulates until the estimate has settled or the limits are reached. Later
       calls with wider limits go on where it stopped.
    3. `period`, `is_settled`, `cycles` and `hops` tell what came out.
    """

    def __init__(self, machine: Machine, netlist: Netlist, decision: Decisions) -> None:
        self._cells = machine.cells
        begin_one(
            machine.cells, machine.start, decision.sites[0], decision.channels[0],
            decision.route_start[0], decision.links, decision.parents,
        )  # fmt: skip
        self._units, self._sinks, self._is_pacing = _watched(netlist, machine)
        self._scale = label_limits(netlist.bound_cycles).window_samples / LONG_SAMPLE_LIMITS.window_samples
        self._bound = netlist.bound_cycles
        self._step = max(1, int(netlist.bound_cycles * self._scale) // STEPS)
        self._began = self._places()
        # At every look: the cycle, the progress of the slowest pacing unit, and of the mean compute unit.
        self._times, self._samples, self._mean = [0.0], [0.0], [0.0]
        self.cycles = 0
        self.status = RUNNING
        self.period = math.nan  # cycles per sample
        self.is_settled = False

    @property
    def samples(self) -> float:
        """Return the samples that the slowest pacing unit has worked on."""
        return self._samples[-1]

    @property
    def hops(self) -> int:
        return int(self._cells[at.NUM_HOPS])

    def _places(self) -> FloatArray:
        """Return the samples that compute units have worked on, and that others have taken, by sink."""
        cells, units, sinks = self._cells, self._units, self._sinks
        fired = cells[units + at.UNIT_FINISHED] + cells[units + at.UNIT_FIRING] / cells[units + at.UNIT_FIRINGS]
        taken = cells[sinks + at.SINK_SAMPLE] + cells[sinks + at.SINK_TOKEN] / cells[sinks + at.SINK_TOKENS]
        return np.concatenate([fired, taken])

    def advance(self, limits: ShortLimits) -> None:
        """Simulate until the estimate has settled, or the most samples are reached."""
        self.is_settled = False
        while self.status == RUNNING:
            done = self._samples[-1] / self._scale
            if done >= limits.least and self._settle(limits):
                return
            if done >= limits.most:
                return
            self.status, self.cycles, _ = advance_one(self._cells, _ENDLESS, self.cycles, 0, self.cycles + self._step)
            moved = self._places() - self._began
            self._times.append(float(self.cycles))
            self._samples.append(float(moved[self._is_pacing].min()) + 1e-9 * len(self._times))
            self._mean.append(float(moved[: len(self._units)].mean()))

    def _settle(self, limits: ShortLimits) -> bool:
        """Estimate the period, and say whether an estimate from half as far back is the same."""
        now, first = self._samples[-1], limits.warmup * self._scale
        number = max(1, int(now - first))
        mean = float(np.mean(self._periods(np.linspace(first, now - number, NUM_PLACES), number)))
        self.period = max(mean, float(self._bound))  # the rounding of places must not beat the bound
        half = max(1, number // 2)
        last, before = self._periods(np.array([now - half, now - 1.5 * half]), half)
        begin, end = np.interp([now - number, now], self._samples, self._mean)
        is_even = end - begin <= limits.lead * number
        self.is_settled = bool(is_even and abs(last - before) <= limits.tolerance * last)
        return self.is_settled

    def _periods(self, places: FloatArray, number: int) -> FloatArray:
        """Return cycles per sample over `number` samples from each of the places on."""
        begin, end = (np.interp(where, self._samples, self._times) for where in (places, places + number))
        return (end - begin) / number


def short_machine(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> Machine:
    """Return a machine for short runs of decisions, which starts warm if that is possible."""
    return build_machine(fabric, netlist, decisions, _ENDLESS.max_samples, warm_state(fabric, netlist))


def _watched(netlist: Netlist, machine: Machine) -> tuple[LongArray, LongArray, BoolArray]:
    """Return handles of compute units and of sinks of other pacing units, and which of all set the pace."""
    is_compute = np.array([unit.kind == SiteKind.COMPUTE for unit in netlist.units])
    sets_pace = np.array(sets_period(netlist))
    targets = np.array([target for _, target in sinks_of(netlist)], np.int64)
    units, sinks = np.flatnonzero(is_compute), np.flatnonzero(sets_pace[targets] & ~is_compute[targets])
    first_unit, first_sink = int(machine.start[at.UNITS]), int(machine.start[at.SINKS])
    is_pacing = np.concatenate([sets_pace[units], np.ones(len(sinks), np.bool_)])
    return first_unit + at.UNIT_SIZE * units, first_sink + at.SINK_SIZE * sinks, is_pacing


def simulate_short(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, limits: ShortLimits | None = None
) -> Outcome:
    """Estimate the periods of all decisions of a stack: STEADY where the estimate has settled."""
    machine = short_machine(fabric, netlist, decisions)
    outcome = empty_outcome(len(decisions), netlist.num_units, fabric.topology.num_links)
    for d in range(len(decisions)):
        short = ShortRun(machine, netlist, decisions[d])
        short.advance(limits or ShortLimits())
        report_one(machine.cells, _ENDLESS, outcome, d, short.cycles)
        outcome.cycles_per_sample[d] = short.period
        outcome.cycles_simulated[d] = outcome.counted_cycles[d] = short.cycles
        unsettled = Status.CAP if short.status == RUNNING else short.status
        outcome.status[d] = Status.STEADY if short.is_settled else unsettled
    return outcome
