"""Which samplings are worth a try, from the distribution of the heat alone.

Tiles of resolution R have edge 10 R0 / (s R), with s the sampling and R0 the resolution of the
finest level. If every point had the smallest R = R0 / 2^r above its heat h, the volume would take

    PEs   = (s / (10 R0))^d * integral of R^d
    value = (s / (10 R0))^d * integral of h R^(d - 1).

That is a bound: on top come tiles that are too fine because blocks straddle a threshold, adapters,
and fine strips along the border where the cells along an axis cannot be halved often enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placer.stencil.problem import TILE_POINTS, Problem, sampling_unit
from placer.stencil.pyramid import FloatArray, build_pyramid, cell_counts

BINS_PER_OCTAVE = 32
OCTAVES = 12  # of heat, from the largest down
SUMMARY_CELLS = 400_000  # over which the heat is summarised, unless the lattice is finer
MAX_SUMMARY_CELLS = 40_000_000
MAX_SPARE_LEVELS = 8
MAX_SAMPLINGS = 200  # per number of spare levels
SPLIT_YIELD = {2: 0.3, 3: 0.4}  # per PE, of splits of the hottest tiles: 1/3 and 3/7 less adapters


@dataclass(frozen=True, slots=True)
class Plan:
    """A sampling to try, the resolution of its finest level, and what it may come to."""

    sampling: int
    spare_levels: int  # levels that are finer than the heat asks for
    finest_limit: float  # R0: resolution of the finest level
    accuracy: float  # estimated, normalised


@dataclass(frozen=True, slots=True, eq=False)
class HeatSummary:
    """Volume by heat: bins of log2(highest / heat) over the cells of the lattice."""

    highest: float
    volume: FloatArray  # [bins]
    heat: FloatArray  # [bins]: integral of the mean heat

    def integrals(self, sigma: float, dimension: int) -> tuple[float, float]:
        """Integrals of R^d and of h R^(d - 1), for R = sigma * highest / 2^r, r >= 0."""
        bins = np.arange(len(self.volume)) / BINS_PER_OCTAVE
        resolution = sigma * self.highest * 0.5 ** np.floor(bins + np.log2(sigma) + 1e-9)
        pes = float((self.volume * resolution**dimension).sum())
        return pes, float((self.heat * resolution ** (dimension - 1)).sum())


def summarise(problem: Problem) -> HeatSummary:
    """Distribution of the heat over the cells of a moderate sampling."""
    unit = sampling_unit(problem.volume)
    lattice = float(np.prod(problem.volume))
    num_cells = min(max(lattice, SUMMARY_CELLS), MAX_SUMMARY_CELLS)
    wanted = TILE_POINTS * (num_cells / lattice) ** (1 / problem.dimension)
    pyramid = build_pyramid(problem, max(1, round(wanted / unit)) * unit)
    high = pyramid.high[: pyramid.base[1]].astype(np.float64)
    mean = pyramid.mean[: pyramid.base[1]].astype(np.float64)
    highest = float(problem.heat.max())
    is_hot = high > 0
    depth = np.log2(highest / high[is_hot])
    size = BINS_PER_OCTAVE * OCTAVES
    bins = np.clip(np.floor(depth * BINS_PER_OCTAVE + 1e-4), 0, size - 1).astype(np.int64)
    cell = (TILE_POINTS / pyramid.sampling) ** problem.dimension
    return HeatSummary(
        highest,
        (cell * np.bincount(bins, minlength=size)).astype(np.float64),
        (cell * np.bincount(bins, weights=mean[is_hot], minlength=size)).astype(np.float64),
    )


def make_plans(problem: Problem, max_cells: int) -> list[Plan]:
    """Samplings that may fill the fabric, the most promising first."""
    summary = summarise(problem)
    unit = sampling_unit(problem.volume)
    if summary.highest <= 0:
        return [Plan(unit, 0, 1.0, 0.0)]
    d = problem.dimension
    pes, _ = summary.integrals(1.0, d)
    full = TILE_POINTS * summary.highest * (problem.num_pes / pes) ** (1 / d)
    plans: dict[tuple[int, int], Plan] = {}
    for spare in range(MAX_SPARE_LEVELS + 1):
        first = max(1, int(0.6 * full * 2**spare / unit))
        last = int(2.1 * full * 2**spare / unit) + 2
        stride = unit * max(1, (last - first) // MAX_SAMPLINGS)
        for sampling in range(first * unit, (last + 1) * unit, stride):
            if np.prod(cell_counts(problem.volume, sampling), dtype=float) > max_cells:
                break
            if spare and sampling % (2 * unit) == 0:
                continue  # half the sampling with one spare level less gives the same tiles
            plan = _plan(problem, summary, sampling, spare)
            if plan is not None:
                plans[sampling, spare] = plan
    found = sorted(plans.values(), key=lambda p: (-p.accuracy, p.spare_levels, p.sampling))
    return found or [Plan(unit, 0, summary.highest, 0.0)]


def _plan(problem: Problem, summary: HeatSummary, sampling: int, spare: int) -> Plan | None:
    """The R0 with which the sampling may come to the highest accuracy."""
    d, num_pes = problem.dimension, problem.num_pes
    cold = 1 - float(summary.volume[:BINS_PER_OCTAVE].sum()) / float(np.prod(problem.volume))
    strips = _strip_pes(cell_counts(problem.volume, sampling)[:d], spare, cold)
    best: Plan | None = None
    for sigma in 2.0 ** (np.arange(32) / 32):
        limit = float(sigma) * summary.highest * 2**spare
        density = (sampling / (TILE_POINTS * limit)) ** d
        pes, value = summary.integrals(float(sigma), d)
        used = density * pes + strips
        if used <= num_pes:
            left = (num_pes - used) * SPLIT_YIELD[d] / float(sigma)
            accuracy = (density * value + left) / num_pes
            if best is None or accuracy > best.accuracy:
                best = Plan(sampling, spare, limit, accuracy)
    return best


def _strip_pes(cells: tuple[int, ...], spare: int, cold: float) -> float:
    """PEs of the border strips where the number of cells is odd at some level.

    `cold` is the share of the volume that asks for less than the finest resolution: elsewhere
    only the spare levels leave strips.
    """
    total = 0.0
    for axis, n in enumerate(cells):
        others = np.array([m for k, m in enumerate(cells) if k != axis], float)
        for level in range(spare + 3):
            if (n >> level) % 2:
                total += float(np.prod(others / 2**level)) * (cold if level >= spare else 1.0)
    return total
