"""Command: how precise are the labels, and how much of the fabric do the workloads use?

Error of a label = cycles per sample of a simulation over those of a much longer one, minus 1, for
the default limits and for stricter ones ("precise").
Fill of a netlist = share of the compute units that it uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import Progress

from placer.config import run_command, to_dataclass
from placer.decision import Decisions
from placer.errors import InputError
from placer.fabric import Fabric, SiteKind
from placer.files import make_folder, require_folder, write_atomic
from placer.lowering import draw_netlist, lower, macs_for_cycles
from placer.netlist import Netlist
from placer.placement import random_sites
from placer.routing import RoutingMethod, route
from placer.simulation import PRECISE_LIMITS, Limits, Status, simulate_stack
from placer.study.tables import csv_table, markdown_table, screen_table
from placer.workloads import FAMILIES, build, default_spec

LONG_WINDOWS = 8  # windows after the warm-up in which the long simulation must become steady


@dataclass(frozen=True, slots=True)
class LabelsConfig:
    """What `conf/labels.yaml` holds."""

    fabric: Fabric
    families: list[str]
    seeds: list[int]
    netlists: int
    labelled: int
    placements: int
    sample_cycles: int
    routing: RoutingMethod
    long_warmup_samples: int
    long_window_samples: int
    output: Path

    def __post_init__(self) -> None:
        for family in self.families:
            if family not in FAMILIES:
                raise InputError(f"unknown family {family!r}; allowed: {', '.join(FAMILIES)}")
        if not self.families or not self.seeds or min(self.seeds) < 0:
            raise InputError("families and seeds must not be empty, and no seed below 0")
        if not 1 <= self.labelled <= self.netlists or self.placements < 1:
            raise InputError("placements must be at least 1, labelled 1 to netlists")
        if self.sample_cycles < 1 or self.long_warmup_samples < 1 or self.long_window_samples < 1:
            raise InputError("sample_cycles and the samples of the long simulation start at 1")

    @property
    def long_limits(self) -> Limits:
        return Limits(
            warmup_samples=self.long_warmup_samples,
            window_samples=self.long_window_samples,
            max_samples=self.long_warmup_samples + LONG_WINDOWS * self.long_window_samples,
        )


@dataclass(frozen=True, slots=True)
class NetlistLabels:
    """Fill of one random netlist, and the labels of its placements if it was simulated."""

    family: str
    seed: int
    name: str
    fill: float
    cycles: NDArray[np.float64]  # [placements] per sample, default limits
    precise_cycles: NDArray[np.float64]  # [placements] per sample, stricter limits
    long_cycles: NDArray[np.float64]  # [placements] per sample, long simulation

    @property
    def errors(self) -> NDArray[np.float64]:
        return self.cycles / self.long_cycles - 1

    @property
    def precise_errors(self) -> NDArray[np.float64]:
        return self.precise_cycles / self.long_cycles - 1


def fill_of(fabric: Fabric, netlist: Netlist) -> float:
    """Share of the compute units that a netlist uses."""
    return netlist.count(SiteKind.COMPUTE) / fabric.num_sites(SiteKind.COMPUTE)


def default_fill(config: LabelsConfig, family: str) -> float:
    """Fill of the typical workload of a family."""
    spec = default_spec(family, macs_for_cycles(config.fabric, config.sample_cycles))
    return fill_of(config.fabric, lower(config.fabric, build(spec)))


def measure_labels(config: LabelsConfig, family: str, seed: int, index: int) -> NetlistLabels:
    """Draw netlist number `index` of a family; label its placements if it is one to label."""
    netlist = draw_netlist(config.fabric, family, config.sample_cycles, seed, index)
    labels = [np.zeros(0)] * 3
    if index < config.labelled:
        path = [seed, FAMILIES.index(family), index]  # no two netlists share their draws
        placement_seed = int(np.random.SeedSequence(path).generate_state(1)[0])
        sites = random_sites(config.fabric, netlist, config.placements, placement_seed)
        decisions = route(config.fabric, netlist, sites, method=config.routing, seed=seed)
        labels = [
            _steady_cycles(config.fabric, netlist, decisions, limits)
            for limits in (Limits(), PRECISE_LIMITS, config.long_limits)
        ]
    fill = fill_of(config.fabric, netlist)
    return NetlistLabels(family, seed, netlist.name, fill, *labels)


def _steady_cycles(
    fabric: Fabric, netlist: Netlist, decisions: Decisions, limits: Limits
) -> NDArray[np.float64]:
    outcome = simulate_stack(fabric, netlist, decisions, limits)
    if (outcome.status != Status.STEADY).any():
        raise InputError(
            f"netlist {netlist.name}: a placement is not steady within {limits.max_samples} samples"
        )
    return outcome.cycles_per_sample


CYCLES = ("cycles", "precise_cycles", "long_cycles")
ERRORS = ("errors", "precise_errors")
FIGURES = ["mean error", "95% below", "worst", "bias"]
LABEL_HEADER = ["family", "labels", *FIGURES, *(f"precise: {figure}" for figure in FIGURES)]
FILL_HEADER = ["family", "default fill", "random netlists", "min", "median", "max", "in 50-95%"]


def label_rows(results: list[NetlistLabels]) -> list[list[str]]:
    """Precision of the labels: one row per family, and one over all of them."""
    by_family = {family: _of_family(results, family) for family in _families(results)}
    rows = []
    for name, own in [*by_family.items(), ("all", results)]:
        errors = np.concatenate([result.errors for result in own])
        precise = np.concatenate([result.precise_errors for result in own])
        rows.append([name, str(len(errors)), *_figures(errors), *_figures(precise)])
    return rows


def _figures(errors: NDArray[np.float64]) -> list[str]:
    size = np.abs(errors)
    figures = (size.mean(), np.quantile(size, 0.95), size.max())
    return [*(f"{figure:.1%}" for figure in figures), f"{errors.mean():+.1%}"]


def fill_rows(results: list[NetlistLabels], defaults: dict[str, float]) -> list[list[str]]:
    """Fill of the typical workload of each family, and of its random netlists."""
    rows = []
    for family in _families(results):
        fills = np.array([result.fill for result in _of_family(results, family)])
        figures = (fills.min(), np.median(fills), fills.max())
        good = np.mean((fills >= 0.5) & (fills <= 0.95))
        rows.append(
            [family, f"{defaults[family]:.0%}", str(len(fills))]
            + [f"{figure:.0%}" for figure in (*figures, good)]
        )
    return rows


def _families(results: list[NetlistLabels]) -> list[str]:
    return list(dict.fromkeys(result.family for result in results))


def _of_family(results: list[NetlistLabels], family: str) -> list[NetlistLabels]:
    return [result for result in results if result.family == family]


def write(output: Path, results: list[NetlistLabels], defaults: dict[str, float]) -> None:
    """Write both tables (Markdown) and all values (CSV)."""
    make_folder(output)
    tables = (
        markdown_table(LABEL_HEADER, label_rows(results)),
        markdown_table(FILL_HEADER, fill_rows(results, defaults)),
    )
    write_atomic(output / "labels.md", "\n".join(tables))
    labels = (
        [result.family, result.seed, result.name, k]
        + [f"{getattr(result, name)[k]:.3f}" for name in CYCLES]
        + [f"{getattr(result, name)[k]:.5f}" for name in ERRORS]
        for result in results
        for k in range(len(result.cycles))
    )
    columns = ["family", "seed", "netlist", "placement", *CYCLES, *ERRORS]
    write_atomic(output / "labels.csv", csv_table(columns, labels))
    fills = [[family, "default", "", "", f"{fill:.3f}"] for family, fill in defaults.items()]
    fills += [[r.family, "random", str(r.seed), r.name, f"{r.fill:.3f}"] for r in results]
    columns = ["family", "sizes", "seed", "netlist", "fill"]
    write_atomic(output / "labels_fill.csv", csv_table(columns, fills))


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(LabelsConfig, config)
    require_folder(settings.output)
    defaults = {family: default_fill(settings, family) for family in settings.families}
    work = [
        (family, seed, index)
        for family in settings.families
        for seed in settings.seeds
        for index in range(settings.netlists)
    ]
    with Progress(transient=True) as progress:
        results = [
            measure_labels(settings, *item)
            for item in progress.track(work, description="simulating")
        ]
    console = Console()
    for title, header, rows in (
        ("Error of the labels", LABEL_HEADER, label_rows(results)),
        ("Compute units in use", FILL_HEADER, fill_rows(results, defaults)),
    ):
        console.print(screen_table(header, rows, title))
    write(settings.output, results, defaults)
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "labels")
