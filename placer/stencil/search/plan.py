"""Which samplings are worth a try, from the distribution of the heat alone.

Tiles of resolution R have edge 10 R0 / (s R), with s the sampling and R0 the resolution of the
finest level. If every point had the smallest R = R0 / 2^r above its heat h, the volume would take

    PEs   = (s / (10 R0))^d * integral of R^d
    value = (s / (10 R0))^d * integral of h R^(d - 1).

That is a bound: on top come tiles that are too fine because blocks straddle a threshold, adapters,
and fine strips along the border where the cells along an axis cannot be halved often enough. The
strips are counted; for the rest, what a plan really came to corrects the estimates of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placer.base import FloatArray, SingleArray
from placer.stencil.model import TILE_POINTS, Problem, sampling_unit
from placer.stencil.search.pyramid import Pyramid, build_pyramid, cell_counts

BINS_PER_OCTAVE = 32
OCTAVES = 12  # of heat, from the largest down
SUMMARY_CELLS = 400_000  # over which the heat is summarised, unless the lattice is finer
MAX_SUMMARY_CELLS = 40_000_000
MAX_SPARE_LEVELS = 6
LEAST_FACTOR = 0.1  # of corrections
MAX_SAMPLINGS = 200  # per number of spare levels
SPLIT_YIELD = {2: 0.3, 3: 0.4}  # per PE, of splits of the hottest tiles: 1/3 and 3/7 less adapters
_SIGMAS = [2.0 ** (k / 32) for k in range(32)]  # R0 of the finest level in use / highest heat


@dataclass(frozen=True, slots=True)
class Plan:
    """A sampling to try, the resolution of its finest level, and what it may come to."""

    sampling: int
    spare_levels: int  # levels that are finer than the heat asks for
    finest_limit: float  # R0: resolution of the finest level
    accuracy: float  # estimated, normalised; 0 when not estimated


class Correction(NamedTuple):
    """By which factors PEs and value of the tree of a plan exceed the bounds.

    Tiles have a size: where heat changes within one, it is finer than its mean heat asks for. So
    the factors are good for plans with tiles of about the same size.
    """

    density: float  # s / (10 R0): tiles of R = 1 along a unit of the volume
    pes: float
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class HeatSummary:
    """Volume by heat: bins of log2(highest / heat) over the cells of the lattice."""

    size: tuple[int, ...]  # of the whole volume, along its axes
    highest: float
    volume: FloatArray  # [bins]
    heat: FloatArray  # [bins]: integral of the mean heat
    border: FloatArray  # [axes, octaves]: share of the far border at least so cold, without 0

    @property
    def dimension(self) -> int:
        return len(self.size)

    def integrals(self, sigma: float) -> tuple[float, float]:
        """Return the integrals of R^d and of h R^(d - 1), for R = sigma * highest / 2^r, r >= 0."""
        bins = np.arange(len(self.volume)) / BINS_PER_OCTAVE
        resolution = sigma * self.highest * 0.5 ** np.floor(bins + np.log2(sigma) + 1e-9)
        pes = float((self.volume * resolution**self.dimension).sum())
        return pes, float((self.heat * resolution ** (self.dimension - 1)).sum())

    def strip_pes(self, sampling: int, spare: int) -> float:
        """Return the PEs of the border strips where the number of cells is odd at some level.

        A strip of level r is lost where tiles would be larger than it: wherever there is heat if r
        is a spare level, else where the heat is at least r + 1 - spare octaves below the highest.
        """
        cells = cell_counts(self.size, sampling)[: self.dimension]
        total = 0.0
        for axis, n in enumerate(cells):
            others = np.array([m for k, m in enumerate(cells) if k != axis], float)
            for level in range(spare + 3):
                if (n >> level) % 2:
                    share = self.border[axis, max(0, level + 1 - spare)]
                    total += float(np.prod(others / 2**level)) * float(share)
        return total


def summarise(problem: Problem) -> HeatSummary:
    """Return the distribution of the heat over cells of a moderate size, by their maxima."""
    pyramid = _summary_pyramid(problem)
    high = pyramid.high[: pyramid.base[1]]
    highest = float(problem.heat.max())
    border = _border_shares(high.reshape(pyramid.cells[::-1]), highest, problem.dimension)
    return HeatSummary(problem.volume, highest, *_binned(pyramid, high, highest), border)


def _summary_pyramid(problem: Problem) -> Pyramid:
    unit = sampling_unit(problem.volume)
    lattice = float(np.prod(problem.volume))
    num_cells = min(max(lattice, SUMMARY_CELLS), MAX_SUMMARY_CELLS)
    wanted = TILE_POINTS * (num_cells / lattice) ** (1 / problem.dimension)
    return build_pyramid(problem, max(1, round(wanted / unit)) * unit)


def _binned(pyramid: Pyramid, key: SingleArray, highest: float) -> tuple[FloatArray, FloatArray]:
    """Return volume and integral of the heat of the cells, in bins of log2(highest / key)."""
    is_hot = key > 0
    size = BINS_PER_OCTAVE * OCTAVES
    depth = np.log2(highest / key[is_hot].astype(np.float64))
    bins = np.clip(np.floor(depth * BINS_PER_OCTAVE + 1e-4), 0, size - 1).astype(np.int64)
    mean = pyramid.mean[: pyramid.base[1]][is_hot]
    cell = (TILE_POINTS / pyramid.sampling) ** pyramid.dimension
    volume: FloatArray = cell * np.bincount(bins, minlength=size).astype(np.float64)
    heat: FloatArray = cell * np.bincount(bins, weights=mean, minlength=size).astype(np.float64)
    return volume, heat


def _border_shares(high: SingleArray, highest: float, dimension: int) -> FloatArray:
    """Return, per axis, which share of the last layer is 0, 1, ... octaves below the highest.

    Cells without heat do not count: a strip along them takes no PEs.
    """
    layers = [np.take(high, -1, axis=2 - axis) for axis in range(dimension)]
    limits = [highest * 0.5**octave for octave in range(OCTAVES)]
    shares = [[((a > 0) & (a <= limit)).mean() for limit in limits] for a in layers]
    return np.array(shares, np.float64)


def accuracy_ceiling(problem: Problem) -> float:
    """Return an accuracy that no solution exceeds, up to how finely the heat is sampled.

    All resolutions R of a solution differ by powers of two, and R >= h everywhere. A tile takes a
    PE, so accuracy <= integral of h R^(d - 1) / integral of R^d (module docstring). Twice the R at
    a point changes both by a ratio of at most 3/7 (2-D: 1/3): as long as the smallest R give more
    than that, they are the best ones, and only R0 is left to choose.
    """
    highest = float(problem.heat.max())
    if highest <= 0:
        return 0.0
    pyramid = _summary_pyramid(problem)
    binned = _binned(pyramid, pyramid.mean[: pyramid.base[1]], highest)
    summary = HeatSummary(problem.volume, highest, *binned, border=np.zeros((0, 0)))
    parts = [summary.integrals(sigma) for sigma in _SIGMAS]
    return max(1 / 3 if problem.dimension == 2 else 3 / 7, *(value / pes for pes, value in parts))


def make_plans(
    summary: HeatSummary, max_pes: int, max_cells: int, corrections: Sequence[Correction] = ()
) -> list[Plan]:
    """Return samplings that may fill `max_pes` PEs, the most promising first."""
    if summary.highest <= 0:
        return []
    unit = sampling_unit(summary.size)
    bounds = np.array([summary.integrals(sigma) for sigma in _SIGMAS])
    factors = np.array(corrections or [Correction(1.0, 1.0, 1.0)])
    full = TILE_POINTS * summary.highest * (max_pes / bounds[0, 0]) ** (1 / summary.dimension)
    plans = []
    for spare in range(MAX_SPARE_LEVELS + 1):
        first = max(1, int(0.3 * full * 2**spare / unit))
        last = int(2.1 * full * 2**spare / unit) + 2
        stride = max(1, (last - first) // MAX_SAMPLINGS)
        if spare:  # half of an even sampling with one spare level less gives the same tiles
            first, stride = first | 1, 2 * stride
        for sampling in range(first * unit, (last + 1) * unit, stride * unit):
            if np.prod(cell_counts(summary.size, sampling), dtype=float) > max_cells:
                break
            plan = _plan(summary, bounds, factors, max_pes, sampling, spare)
            if plan is not None:
                plans.append(plan)
    return sorted(plans, key=lambda p: (-p.accuracy, p.spare_levels, p.sampling))


def last_resorts(summary: HeatSummary) -> list[Plan]:
    """Return the lowest sampling with larger and larger tiles, for fabrics that are hardly enough.

    No estimate says whether they fit.
    """
    unit = sampling_unit(summary.size)
    spares = range(max(cell_counts(summary.size, unit)).bit_length() + 1)
    return [Plan(unit, spare, summary.highest * 2.0**spare, 0.0) for spare in spares]


def _plan(
    summary: HeatSummary,
    bounds: FloatArray,  # [sigmas, 2]: integrals for PEs and value
    factors: FloatArray,  # [corrections, 3]: density, factors for PEs and value
    max_pes: int,
    sampling: int,
    spare: int,
) -> Plan | None:
    """Return the R0 that promises the highest accuracy of a sampling; None when none fits."""
    d = summary.dimension
    limits = np.array(_SIGMAS) * summary.highest * 2**spare
    density = sampling / (TILE_POINTS * limits)
    distance = np.abs(np.log(density[:, None] / factors[:, 0]))
    nearest = factors[distance.argmin(axis=1)]
    used = density**d * bounds[:, 0] * nearest[:, 1] + summary.strip_pes(sampling, spare)
    left = max_pes - used
    if left.max() < 0:
        return None
    value = density**d * bounds[:, 1] * nearest[:, 2]
    can_split = np.minimum(left, used * (2**d - 1))  # every tile once
    value += can_split * SPLIT_YIELD[d] / np.array(_SIGMAS)
    best = int(np.argmax(np.where(left >= 0, value, -1.0)))
    return Plan(sampling, spare, float(limits[best]), float(value[best]) / max_pes)


def learn(summary: HeatSummary, plan: Plan, value: float, pes: float) -> Correction:
    """Return the correction by what the coarsest tree of a plan came to."""
    density = plan.sampling / (TILE_POINTS * plan.finest_limit)
    sigma = plan.finest_limit / (summary.highest * 2**plan.spare_levels)
    all_pes, all_value = (density**summary.dimension * b for b in summary.integrals(sigma))
    pes -= summary.strip_pes(plan.sampling, plan.spare_levels)
    factors = (max(LEAST_FACTOR, share) for share in (pes / all_pes, value / all_value))
    return Correction(density, *factors)
