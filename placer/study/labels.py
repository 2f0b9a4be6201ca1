"""Command: how precise are the labels, and how much of the fabric do the workloads use?

Error of a label = cycles per sample of a simulation over those of a much longer one, minus 1, for
the default limits and for stricter ones ("precise").
Fill of a netlist = share of the compute units that it uses.
Short labels (docs/simulator.md) are compared with full ones, also on sections of networks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from omegaconf import DictConfig

from placer.base import Cell, Count, FloatArray, InputError, Some, Table, Whole, make_console, require_folder
from placer.base.config import run_command, to_dataclass
from placer.decision import random_sites
from placer.decision.routing import RoutingMethod, route
from placer.fabric import load_fabric
from placer.graph.workloads import FAMILIES, build, default_spec
from placer.netlist.lowering import draw_netlist, lower, macs_for_cycles
from placer.simulation import PRECISE_LIMITS, Limits
from placer.study.shared import StudyConfig, by_family, each, fill_of, show_study, steady_cycles, write_study
from placer.study.short_labels import SHORT_HEADER, ShortLabels, measure_short, section_labels, short_rows

LONG_WINDOWS = 8  # windows after the warm-up in which the long simulation must become steady


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsConfig(StudyConfig):
    """What `conf/labels.yaml` holds."""

    seeds: Some[Whole]
    labelled: Count
    placements: Count
    routing: RoutingMethod
    long_warmup_samples: Count
    long_window_samples: Count
    models: tuple[str, ...]
    model_fabric: str

    def check(self) -> None:
        if self.labelled > self.netlists:
            raise InputError(f"labelled={self.labelled}; allowed: 1 to netlists={self.netlists}")

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
    cycles: FloatArray  # [placements] per sample, default limits
    precise_cycles: FloatArray  # [placements] per sample, stricter limits
    long_cycles: FloatArray  # [placements] per sample, long simulation

    @property
    def errors(self) -> FloatArray:
        return self.cycles / self.long_cycles - 1

    @property
    def precise_errors(self) -> FloatArray:
        return self.precise_cycles / self.long_cycles - 1


def default_fill(config: LabelsConfig, family: str) -> float:
    """Return the fill of the typical workload of a family."""
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
            steady_cycles(config.fabric, netlist, decisions, limits)
            for limits in (Limits(), PRECISE_LIMITS, config.long_limits)
        ]
    fill = fill_of(config.fabric, netlist)
    return NetlistLabels(family, seed, netlist.name, fill, *labels)


CYCLES = ("cycles", "precise_cycles", "long_cycles")
ERRORS = ("errors", "precise_errors")
FIGURES = ["mean error", "95% below", "worst", "bias"]
LABEL_HEADER = ["family", "labels", *FIGURES, *(f"precise: {figure}" for figure in FIGURES)]
FILL_HEADER = ["family", "default fill", "random netlists", "min", "median", "max", "in 50-95%"]


def label_rows(results: list[NetlistLabels]) -> list[list[str]]:
    """Return the precision of the labels: a row per family, and one over all of them."""
    rows = []
    for name, own in [*by_family(results).items(), ("all", results)]:
        errors, precise = (np.concatenate([getattr(r, name) for r in own]) for name in ERRORS)
        rows.append([name, str(len(errors)), *_figures(errors), *_figures(precise)])
    return rows


def _figures(errors: FloatArray) -> list[str]:
    size = np.abs(errors)
    figures = (size.mean(), np.quantile(size, 0.95), size.max())
    return [*(f"{figure:.1%}" for figure in figures), f"{errors.mean():+.1%}"]


def fill_rows(results: list[NetlistLabels], defaults: dict[str, float]) -> list[list[str]]:
    """Return the fill of the typical workload of each family, and of its random netlists."""
    rows = []
    for family, own in by_family(results).items():
        fills = np.array([result.fill for result in own])
        good = np.mean((fills >= 0.5) & (fills <= 0.95))
        figures = (fills.min(), np.median(fills), fills.max(), good)
        default = f"{defaults[family]:.0%}"
        rows.append([family, default, str(len(fills)), *(f"{figure:.0%}" for figure in figures)])
    return rows


def values(results: list[NetlistLabels], defaults: dict[str, float]) -> list[Table]:
    """Return all labels and all fills."""
    labels: list[list[Cell]] = [
        [
            *(result.family, result.seed, result.name, k),
            *(f"{getattr(result, name)[k]:.3f}" for name in CYCLES),
            *(f"{getattr(result, name)[k]:.5f}" for name in ERRORS),
        ]
        for result in results
        for k in range(len(result.cycles))
    ]
    columns = ["family", "seed", "netlist", "placement", *CYCLES, *ERRORS]
    fills = [[family, "default", "", "", f"{fill:.3f}"] for family, fill in defaults.items()]
    fills += [[r.family, "random", str(r.seed), r.name, f"{r.fill:.3f}"] for r in results]
    fill_columns = ["family", "sizes", "seed", "netlist", "fill"]
    return [Table(columns, labels, name="labels"), Table(fill_columns, fills, name="labels_fill")]


def short_labels(config: LabelsConfig) -> Iterator[ShortLabels]:
    """Yield short and full labels of the first netlist of each family and seed, and of sections."""
    for family, seed in product(config.families, config.seeds):
        netlist = draw_netlist(config.fabric, family, config.sample_cycles, seed, 0)
        yield measure_short(config.fabric, netlist, family, seed)
    yield from section_labels(load_fabric(config.model_fabric), config.models, config.seeds[0])


def short_values(results: list[ShortLabels]) -> Table:
    """Return all short labels."""
    rows: list[list[Cell]] = [
        [
            *(result.family, result.name, k, int(result.is_good[k]), int(result.is_settled[k])),
            *(f"{cycles[k]:.3f}" for cycles in (result.short_cycles, result.full_cycles)),
            *(f"{result.errors[k]:.5f}", int(result.short_hops[k]), int(result.full_hops[k])),
        ]
        for result in results
        for k in range(len(result.errors))
    ]
    columns = ["family", "netlist", "decision", "is_good", "is_settled", "short_cycles", "full_cycles", "errors"]
    return Table([*columns, "short_hops", "full_hops"], rows, name="labels_short")


def main(config: DictConfig) -> None:
    """Measure the error of labels and the fill of netlists, write the tables and print them."""
    settings = to_dataclass(LabelsConfig, config)
    require_folder(settings.output)
    defaults = {family: default_fill(settings, family) for family in settings.families}
    measure, indices = partial(measure_labels, settings), range(settings.netlists)
    results = list(each(measure, "simulating", settings.families, settings.seeds, indices))
    tables = [
        Table(LABEL_HEADER, label_rows(results), "Error of the labels"),
        Table(FILL_HEADER, fill_rows(results, defaults), "Compute units in use"),
    ]
    short = list(short_labels(settings))
    tables.append(Table(SHORT_HEADER, short_rows(short), "Short labels against full ones"))
    write_study(settings.output, "labels", tables, [*values(results, defaults), short_values(short)])
    show_study(make_console(), settings.output, tables)


if __name__ == "__main__":
    run_command(main, "labels")
