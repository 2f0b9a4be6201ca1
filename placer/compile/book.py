"""What is known about the segments of a network: their plans, what was expected of each, what was measured.

A *kind* is a segment with all that are alike. What has been measured of some plans corrects what is
expected of others: by the mean error in the same kind, or in all kinds where there is none yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from placer.compile.jobs import Candidate, Placed
from placer.netlist.lowering import DrawnSegment, NearSegment
from placer.pipeline import SectionRun

FIRST_ERROR = 0.06  # standard deviation of log expected / measured period before any is known,
FIRST_SPREAD = 0.015  # and of the periods of several anneals of one plan
PRIOR = 4.0  # measurements that these count as


@dataclass(slots=True, eq=False)
class Entry:
    """One plan of a kind, and its placements so far."""

    candidate: Candidate
    placed: list[Placed] = field(default_factory=list)
    best: Placed | None = None  # the fastest that was simulated in full
    num_begun: int = 0  # anneals, also those under way or lost

    @property
    def run(self) -> SectionRun | None:
        """Return what was measured, None before."""
        return None if self.best is None else self.best.run

    @property
    def periods(self) -> list[float]:
        return [one.period for one in self.placed if math.isfinite(one.period)]

    @property
    def log_error(self) -> float:
        """Return log of measured over expected period."""
        return math.log(min(self.periods) / self.candidate.run.cycles_per_sample)

    def add(self, placed: Placed) -> None:
        """Take a placement. Only a steady one that was simulated in full can be the best."""
        self.placed.append(placed)
        run = placed.run
        if run is None or not run.is_steady or math.isnan(run.first_sample_cycles):
            return
        best = self.run
        if best is None or run.cycles_per_sample < best.cycles_per_sample:
            self.best = placed


@dataclass(slots=True, eq=False)
class Kind:
    """Segments of a network that are alike."""

    number: int
    segment: DrawnSegment
    places: list[NearSegment] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)  # fingerprints
    num_asked: int = 0  # recipes drawn so far

    def add(self, candidates: list[Candidate]) -> None:
        """Take those that are new."""
        for candidate in candidates:
            if candidate.fingerprint not in self.seen:
                self.seen.add(candidate.fingerprint)
                self.entries.append(Entry(candidate))


class Book:
    """All kinds of a network, and how far expectations can be trusted."""

    def __init__(self, kinds: list[Kind]) -> None:
        self.kinds = kinds
        self.update()

    def update(self) -> None:
        """Learn from what was measured since the last time."""
        errors = {kind.number: [one.log_error for one in kind.entries if one.periods] for kind in self.kinds}
        together = [error for some in errors.values() for error in some]
        mean = float(np.sum(together)) / (len(together) + 1)
        self.shifts = {number: (float(np.sum(some)) + mean) / (len(some) + 1) for number, some in errors.items()}
        left = [error - self.shifts[number] for number, some in errors.items() for error in some]
        self.error = _deviation(left, FIRST_ERROR)
        several = [np.log(one.periods) for kind in self.kinds for one in kind.entries if len(one.periods) > 1]
        self.spread = _deviation([x for some in several for x in some - some.mean()], FIRST_SPREAD)

    def believed(self, kind: Kind, entry: Entry) -> SectionRun:
        """Return what was measured of a plan, or what is expected after all that is known."""
        if entry.run is not None:
            return entry.run
        expected = entry.candidate.run
        factor = (
            min(entry.periods) / expected.cycles_per_sample if entry.periods else math.exp(self.shifts[kind.number])
        )
        period = max(expected.full_bound_cycles, factor * expected.cycles_per_sample)
        scale = period / expected.cycles_per_sample
        return replace(expected, cycles_per_sample=period, first_sample_cycles=scale * expected.first_sample_cycles)


def _deviation(errors: list[float], first: float) -> float:
    """Return the standard deviation of some errors; the first guess counts as some more."""
    return math.sqrt((PRIOR * first**2 + float(np.square(errors).sum())) / (PRIOR + len(errors)))
