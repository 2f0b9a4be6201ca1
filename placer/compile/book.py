"""What is known about the segments of a network: their plans, what was expected of each, what was measured.

A *kind* is a segment with all that are alike. What has been measured of some plans corrects what is
expected of others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from placer.base import FloatArray
from placer.compile.draft import Draft, best_draft
from placer.compile.jobs import Candidate, Placed
from placer.fabric import Fabric
from placer.netlist.lowering import DrawnSegment, NearSegment, Recipe
from placer.pipeline import SectionRun, section_time
from placer.simulation import Measurement, Status

FIRST_ERROR = 0.04  # standard deviation of log measured / usual period before any is known,
FIRST_SPREAD = 0.015  # and of the periods of several anneals of one plan
PRIOR = 4.0  # measurements that these count as
MEAN_DEVIATION = 0.1  # of what all expectations err alike,
KIND_DEVIATION = 0.04  # those of one kind,
CHANGE_DEVIATION = 0.03  # and those of recipes that double one thing
TRUST = 0.7  # of what a cost model predicts that is believed before anything was measured,
TRUST_DEVIATION = 0.4  # and how uncertain that is
FITS = 3  # of the regression
OUTLIER = 2.0  # standard deviations from which on an error counts less
SMALL = 0.1  # share of a usual value that is added to a ratio, so that 0 has one


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
        """Return log of measured over usual period."""
        return math.log(min(self.periods) / self.candidate.run.cycles_per_sample)

    def add(self, placed: Placed) -> None:
        """Take a placement. Only one that was simulated in full can be the best."""
        self.placed.append(placed)
        run, measured = placed.run, placed.measurement
        if run is None or measured is None or not _has_time(run, measured):
            return
        best = self.run
        if best is None or run.cycles_per_sample < best.cycles_per_sample:
            self.best = placed


def _has_time(run: SectionRun, measured: Measurement) -> bool:
    is_finite = math.isfinite(run.cycles_per_sample) and math.isfinite(run.first_sample_cycles)
    return is_finite and measured.status != Status.DEADLOCK


@dataclass(slots=True, eq=False)
class Kind:
    """Segments of a network that are alike."""

    number: int
    segment: DrawnSegment
    usual: Recipe  # by rules
    places: list[NearSegment] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    num_asked: int = 0  # recipes drawn so far

    def add(self, candidates: list[Candidate]) -> None:
        """Take those that are new, and predictions of those that had none."""
        known = {entry.candidate.fingerprint: entry for entry in self.entries}
        for candidate in candidates:
            entry = known.get(candidate.fingerprint)
            if entry is None:
                known[candidate.fingerprint] = Entry(candidate)
                self.entries.append(known[candidate.fingerprint])
            elif math.isnan(entry.candidate.predicted_cycles):
                entry.candidate = candidate


class Book:
    """All kinds of a network, and what measurements say about expectations.

    The logarithm of measured over usual period is taken to be a sum: one number for all, one for each
    kind, one for each thing that a recipe changes, and what the cost model predicts times how far it
    can be trusted; with normal priors (Bayesian linear regression). So what is measured of a plan
    tells something about all others.
    """

    def __init__(self, fabric: Fabric, places: list[NearSegment], kinds: list[Kind], batch: int) -> None:
        self.fabric, self.places, self.kinds, self.batch = fabric, places, kinds, batch
        self._column = {kind.number: 1 + place for place, kind in enumerate(kinds)}
        changes = np.full(len(_changes(Recipe(0), Recipe(0))), CHANGE_DEVIATION)
        kinds_alone = np.full(len(kinds), KIND_DEVIATION)
        self._prior = np.concatenate([[MEAN_DEVIATION], kinds_alone, changes, [TRUST_DEVIATION]])
        self._first = np.append(np.zeros(len(self._prior) - 1), TRUST)
        self.update()

    def update(self) -> None:
        """Learn from all that was measured."""
        known = [(kind, entry) for kind in self.kinds for entry in kind.entries if entry.periods]
        facts = np.array([self._facts(kind, entry.candidate) for kind, entry in known])
        facts = facts.reshape(len(known), len(self._prior))
        errors = np.array([entry.log_error for _, entry in known])
        self.noise, weights = FIRST_ERROR, np.ones(len(known))
        for _ in range(FITS):  # a few plans that are far too slow should not count as much as they err
            scaled = facts.T * weights / self.noise**2
            self._covariance = np.linalg.inv(np.diag(self._prior**-2.0) + scaled @ facts)
            self._mean = self._first + self._covariance @ scaled @ (errors - facts @ self._first)
            left = np.abs(errors - facts @ self._mean)
            self.noise = _deviation(np.minimum(left, OUTLIER * self.noise), FIRST_ERROR)
            weights = 1 / np.maximum(1, left / (OUTLIER * self.noise))
        several = [np.log(entry.periods) for _, entry in known if len(entry.periods) > 1]
        self.spread = _deviation(np.concatenate([[], *(some - some.mean() for some in several)]), FIRST_SPREAD)

    def _facts(self, kind: Kind, candidate: Candidate) -> FloatArray:
        facts = np.zeros(len(self._prior))
        facts[[0, self._column[kind.number]]] = 1.0
        changes = _changes(candidate.recipe, kind.usual)
        facts[-len(changes) - 1 : -1] = changes
        if not math.isnan(candidate.predicted_cycles):
            facts[-1] = math.log(candidate.predicted_cycles / candidate.run.cycles_per_sample)
        return facts

    @property
    def trust(self) -> float:
        """Return how far the cost model can be trusted: 1 fully, 0 not at all."""
        return float(self._mean[-1])

    def error(self, kind: Kind, entry: Entry) -> tuple[float, float]:
        """Return the expected logarithm of measured over usual period, and its standard deviation."""
        facts = self._facts(kind, entry.candidate)
        return float(facts @ self._mean), math.sqrt(facts @ self._covariance @ facts + self.noise**2)

    def believed(self, kind: Kind, entry: Entry) -> SectionRun:
        """Return what was measured of a plan, or what is expected after all that is known."""
        if entry.run is not None:
            return entry.run
        expected = entry.candidate.run
        error = entry.log_error if entry.periods else self.error(kind, entry)[0]
        period = max(expected.full_bound_cycles, math.exp(error) * expected.cycles_per_sample)
        scale = period / expected.cycles_per_sample
        return replace(expected, cycles_per_sample=period, first_sample_cycles=scale * expected.first_sample_cycles)

    def cycles(self, run: SectionRun) -> float:
        """Return the cycles per input of a segment without its weights, which depend on the one before."""
        found = section_time(self.fabric, None, run, self.batch)
        return found.cycles_per_input - found.weights

    def promising(self, kind: Kind) -> list[Entry]:
        """Return the plans of a kind, that which is believed to be the fastest first."""
        return sorted(kind.entries, key=lambda entry: self.cycles(self.believed(kind, entry)))

    def fastest(self, kind: Kind) -> Entry | None:
        """Return the plan of a kind that was measured to be the fastest, if any was."""
        return next((entry for entry in self.promising(kind) if entry.run is not None), None)

    def draft(self) -> Draft:
        """Return the best way over what is believed."""
        return self._draft({k.number: self.believed(k, self.promising(k)[0]) for k in self.kinds if k.entries})

    def measured_draft(self) -> Draft:
        """Return the best way over what was measured."""
        fastest = {kind.number: self.fastest(kind) for kind in self.kinds}
        return self._draft({number: entry.run for number, entry in fastest.items() if entry is not None})

    def _draft(self, runs: Mapping[int, SectionRun | None]) -> Draft:
        return best_draft(self.fabric, self.places, [runs.get(place.kind) for place in self.places], self.batch)


def _deviation(errors: FloatArray, first: float) -> float:
    """Return the standard deviation of some errors; the first guess counts as some more."""
    return math.sqrt((PRIOR * first**2 + float(np.square(errors).sum())) / (PRIOR + len(errors)))


def _changes(recipe: Recipe, usual: Recipe) -> list[float]:
    """Return what a recipe changes: ratios as powers of two, and how much more there is of everything else."""
    more = [sum(what == part for _, what in recipe.more) for part in ("rows", "columns", "copies", "slots")]
    size = math.log2(recipe.size / usual.size) if recipe.size and usual.size else 0.0
    style = [
        math.log2((value + SMALL * (known or 1)) / (known * (1 + SMALL) or SMALL))
        for value, known in zip(recipe.style, usual.style, strict=True)
    ]
    return [size, math.log2(recipe.copies), 5 * (usual.fill - recipe.fill), *more, *style]
