"""Command: how much does placement matter? Spread of simulated throughput within each netlist.

Spread of a netlist = (best - worst) / best normalised throughput over its placements.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import Progress

from placer.config import run_command, to_dataclass
from placer.decision import Decisions
from placer.errors import InputError
from placer.fabric import Fabric, SiteKind
from placer.files import make_folder, require_folder, write_atomic
from placer.lowering import draw_netlist
from placer.netlist import Netlist
from placer.placement import random_sites
from placer.routing import RoutingMethod, route
from placer.simulation import Status, simulate_stack
from placer.study.local_search import improve
from placer.study.tables import csv_table, markdown_table, screen_table
from placer.workloads import FAMILIES

CLIMB_STEPS = (300, 10_000)  # few to many: from a little better than random to settled


@dataclass(frozen=True, slots=True)
class SpreadConfig:
    """What `conf/spread.yaml` holds."""

    fabric: Fabric
    families: list[str]
    netlists: int
    placements: int
    sample_cycles: int
    routing: RoutingMethod
    seeds: list[int]
    output: Path

    def __post_init__(self) -> None:
        for family in self.families:
            if family not in FAMILIES:
                raise InputError(f"unknown family {family!r}; allowed: {', '.join(FAMILIES)}")
        if self.netlists < 1 or self.placements < 4:
            raise InputError("netlists must be at least 1 and placements at least 4")
        if not self.seeds or min(self.seeds) < 0:
            raise InputError(f"seeds={self.seeds}; allowed: one or more, none below 0")


@dataclass(frozen=True, slots=True)
class NetlistSpread:
    """Throughput of all placements of one netlist."""

    family: str
    seed: int
    name: str
    fill: float  # share of the compute units that the netlist uses
    throughput: NDArray[np.float64]  # [placements] first half random, second half improved

    @property
    def spread(self) -> float:
        return float(1 - self.throughput.min() / self.throughput.max())

    @property
    def random_median(self) -> float:
        return float(np.median(self.throughput[: len(self.throughput) // 2]))

    @property
    def gain(self) -> float:
        """Best improved over median random placement."""
        return float(self.throughput[len(self.throughput) // 2 :].max() / self.random_median)


def measure_spread(config: SpreadConfig, family: str, seed: int, index: int) -> NetlistSpread:
    """Draw netlist number `index` of a family and simulate its placements."""
    netlist = draw_netlist(config.fabric, family, config.sample_cycles, seed, index)
    decisions = _placements(config, netlist, seed, index)
    outcome = simulate_stack(config.fabric, netlist, decisions)
    if (outcome.status != Status.STEADY).any():
        raise InputError(f"netlist {netlist.name}: a placement did not reach a steady state")
    fill = netlist.count(SiteKind.COMPUTE) / config.fabric.num_sites(SiteKind.COMPUTE)
    return NetlistSpread(
        family, seed, netlist.name, fill, netlist.bound_cycles / outcome.cycles_per_sample
    )


def _placements(config: SpreadConfig, netlist: Netlist, seed: int, index: int) -> Decisions:
    sites = random_sites(config.fabric, netlist, config.placements, seed + index)
    steps = np.geomspace(*CLIMB_STEPS, config.placements - config.placements // 2).astype(int)
    for k, number in enumerate(steps, config.placements // 2):
        sites[k] = improve(config.fabric, netlist, sites[k], int(number), seed + k)
    return route(config.fabric, netlist, sites, method=config.routing, seed=seed)


HEADER = [
    "family", "netlists", "median spread", "by seed", "range", "best throughput",
    "improved / random", "fill",
]  # fmt: skip
NETLIST_HEADER = [
    "family", "seed", "netlist", "fill", "worst", "random_median", "best", "spread", "gain",
]  # fmt: skip


def summary_rows(results: list[NetlistSpread]) -> list[list[str]]:
    """One row per family: medians over its netlists."""
    rows = []
    for family in dict.fromkeys(result.family for result in results):
        own = [result for result in results if result.family == family]
        spreads, fills = [result.spread for result in own], [result.fill for result in own]
        by_seed = [
            np.median([result.spread for result in own if result.seed == seed])
            for seed in dict.fromkeys(result.seed for result in own)
        ]
        rows.append(
            [
                family,
                str(len(own)),
                f"{np.median(spreads):.0%}",
                f"{min(by_seed):.0%} .. {max(by_seed):.0%}",
                f"{min(spreads):.0%} .. {max(spreads):.0%}",
                f"{np.median([result.throughput.max() for result in own]):.2f}",
                f"{np.median([result.gain for result in own]):.2f}x",
                f"{min(fills):.0%} .. {max(fills):.0%}",
            ]
        )
    return rows


def netlist_rows(results: list[NetlistSpread]) -> list[list[object]]:
    """One row per netlist."""
    return [
        [result.family, result.seed, result.name]
        + [
            f"{value:.4f}"
            for value in (
                result.fill, result.throughput.min(), result.random_median,
                result.throughput.max(), result.spread, result.gain,
            )
        ]
        for result in results
    ]  # fmt: skip


def write(config: SpreadConfig, results: list[NetlistSpread]) -> None:
    """Write the table (Markdown), a line per netlist (CSV) and a picture."""
    make_folder(config.output)
    write_atomic(config.output / "spread.md", markdown_table(HEADER, summary_rows(results)))
    write_atomic(config.output / "spread.csv", csv_table(NETLIST_HEADER, netlist_rows(results)))
    picture = io.BytesIO()
    _figure(results).savefig(picture, format="png", dpi=110)
    write_atomic(config.output / "spread.png", picture.getvalue())


def _figure(results: list[NetlistSpread]) -> Figure:
    families = list(dict.fromkeys(result.family for result in results))
    figure = Figure(figsize=(3 * len(families), 3.6), layout="constrained")
    for axes, family in zip(
        figure.subplots(1, len(families), sharey=True, squeeze=False)[0], families, strict=True
    ):
        own = [result for result in results if result.family == family]
        for position, result in enumerate(sorted(own, key=lambda r: float(r.throughput.max()))):
            half = len(result.throughput) // 2
            axes.plot([position] * half, result.throughput[:half], ".", color="#999999", ms=3)
            improved = result.throughput[half:]
            axes.plot([position] * len(improved), improved, ".", color="#0072B2", ms=3)
        axes.set(title=family, xlabel="netlist", ylim=(0, 1.02), xticks=[])
    figure.axes[0].set_ylabel("normalised throughput")
    figure.suptitle("Simulated throughput: random (grey) and improved (blue) placements")
    return figure


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(SpreadConfig, config)
    require_folder(settings.output)
    work = [
        (family, seed, index)
        for family in settings.families
        for seed in settings.seeds
        for index in range(settings.netlists)
    ]
    with Progress(transient=True) as progress:
        results = [
            measure_spread(settings, *item)
            for item in progress.track(work, description="simulating")
        ]
    console = Console()
    console.print(screen_table(HEADER, summary_rows(results)))
    write(settings, results)
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "spread")
