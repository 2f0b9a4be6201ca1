"""Record what units and links do in a window of cycles: the compiled engine, stopped after every cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placer.base import LongArray
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.netlist import Netlist
from placer.simulation import records as at
from placer.simulation.engine import RUNNING, Limits, advance_one, begin_one
from placer.simulation.machine import build_machine

SKIPPED_SAMPLES = 3  # complete before the window begins, as many as measurements skip
MAX_SPANS = 500_000  # of units and links together, idle ones too: a file of some megabytes
_NEVER_STEADY = 1 << 20  # samples


@dataclass(frozen=True, slots=True)
class Spans:
    """Stretches of cycles in which something did the same all the time; arrays of one length."""

    what: LongArray  # unit or link
    value: LongArray  # of a unit: UnitTime; of a link: vectors that it took in each of the cycles
    sample: LongArray  # of a unit: samples that it had finished; of a link: 0
    begin: LongArray  # cycle
    end: LongArray  # cycle behind the last one

    def __len__(self) -> int:
        return len(self.what)


@dataclass(frozen=True, slots=True)
class Recording:
    """What every unit and link of a decision did in a window, cycle by cycle."""

    begin: int  # cycle
    end: int  # cycle behind the last one
    units: Spans
    links: Spans  # of links that moved something
    samples: tuple[tuple[int, int], ...]  # cycle in which a sample was complete, and its number
    is_cut: bool  # it ends early, since there was too much to tell


def record(
    fabric: Fabric,
    netlist: Netlist,
    decision: Decisions,
    samples: int,
    skipped: int = SKIPPED_SAMPLES,
    max_spans: int = MAX_SPANS,
) -> Recording:
    """Record a decision until so many samples more are complete; a window of too many spans is cut."""
    machine = build_machine(fabric, netlist, decision, skipped + samples)
    cells = machine.cells
    begin_one(
        cells, machine.start, decision.sites[0], decision.channels[0], decision.route_start[0],
        decision.links, decision.parents,
    )  # fmt: skip
    status, cycle = RUNNING, 0
    if skipped:
        never = int(at.NEVER)
        _, cycle, _ = advance_one(cells, _until(skipped), 0, 0, never)
    begin, limits, complete = cycle, _until(skipped + samples), []
    units = _UnitSpans(cells, cycle)
    links = _LinkSpans(cells)
    while status == RUNNING and len(units) + len(links) < max_spans and cycle < limits.max_cycles:
        known = int(cells[at.NUM_SAMPLES])
        status, later, _ = advance_one(cells, limits, cycle, 0, cycle + 1)
        units.look(cycle)
        links.look(cycle)
        complete += [(cycle, sample) for sample in range(known, int(cells[at.NUM_SAMPLES]))]
        cycle = later
    is_cut = status == RUNNING and int(cells[at.NUM_SAMPLES]) < skipped + samples
    return Recording(begin, cycle, units.close(cycle), links.close(cycle), tuple(complete), is_cut)


def _until(samples: int) -> Limits:
    """Return limits that end a simulation when so many samples are complete, and never before."""
    return Limits(warmup_samples=_NEVER_STEADY, max_samples=samples, statistics_from_sample=-1)


class _Changes:
    """Values of many things by cycle, as spans between their changes."""

    def __init__(self, values: LongArray, cycle: int) -> None:
        self._values, self._since = values, np.full(len(values), cycle, np.int64)
        self._parts: list[tuple[LongArray, LongArray, LongArray, LongArray]] = []
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def change(self, values: LongArray, cycle: int) -> None:
        """Note the values from a cycle on."""
        changed = np.flatnonzero(values != self._values)
        if len(changed):
            begin = self._since[changed]
            lasted = changed[begin < cycle]
            self._parts.append((lasted, self._values[lasted], self._since[lasted], np.full(len(lasted), cycle)))
            self._number += len(lasted)
            self._since[changed] = cycle
            self._values = values

    def columns(self) -> tuple[LongArray, LongArray, LongArray, LongArray]:
        """Return thing, value, begin and end of all spans."""
        what, value, begin, end = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return what, value, begin, end


class _UnitSpans(_Changes):
    """States of units; a value is a state and the samples that the unit has finished."""

    def __init__(self, cells: at.Cells, cycle: int) -> None:
        self._cells = cells
        self._units = np.arange(int(cells[at.UNITS]), int(cells[at.UNITS_END]), at.UNIT_SIZE)
        super().__init__(self._now(), cycle)

    def _now(self) -> LongArray:
        states = self._cells[self._units + at.UNIT_TIME_STATE].astype(np.int64)
        return 4 * self._cells[self._units + at.UNIT_FINISHED].astype(np.int64) + states

    def look(self, cycle: int) -> None:
        """Note what is so since a cycle that has just been simulated."""
        self.change(self._now(), cycle)

    def close(self, cycle: int) -> Spans:
        self.change(np.full(len(self._units), -1, np.int64), cycle)
        what, value, begin, end = self.columns()
        return Spans(what, value % 4, value // 4, begin, end)


class _LinkSpans(_Changes):
    """Vectors that links take in a cycle, of those that a decision uses."""

    def __init__(self, cells: at.Cells) -> None:
        self._cells, first = cells, int(cells[at.LINK_OF])
        records = cells[first : first + int(cells[at.NUM_LINKS])].astype(np.int64)
        self._links = np.flatnonzero(records != at.NONE)
        self._sent = records[self._links] + at.LINK_VECTORS
        self._before = cells[self._sent].astype(np.int64)
        self._idle = np.zeros(len(self._links), np.int64)
        self._next = 0  # the cycle after the last one
        super().__init__(self._idle, 0)

    def look(self, cycle: int) -> None:
        """Note what was sent in a cycle that has just been simulated; in those left out nothing was."""
        if cycle > self._next:
            self.change(self._idle, self._next)
        now = self._cells[self._sent].astype(np.int64)
        self.change(now - self._before, cycle)
        self._before, self._next = now, cycle + 1

    def close(self, cycle: int) -> Spans:
        self.change(self._idle - 1, min(cycle, self._next))
        link, value, begin, end = self.columns()
        moved = value > 0
        link, value, begin, end = self._links[link[moved]], value[moved], begin[moved], end[moved]
        return Spans(link, value, np.zeros_like(link), begin, end)
