"""Command: how much does placement matter? Spread of simulated throughput within each netlist.

Spread of a netlist = (best - worst) / best normalised throughput over its placements.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

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
    seed: int
    output: Path


@dataclass(frozen=True, slots=True)
class NetlistSpread:
    """Throughput of all placements of one netlist."""

    family: str
    name: str
    fill: float  # share of the compute units that the netlist uses
    throughput: NDArray[np.float64]  # [placements] first half random, second half improved

    @property
    def spread(self) -> float:
        return float(1 - self.throughput.min() / self.throughput.max())

    @property
    def gain(self) -> float:
        """Best improved over median random placement."""
        half = len(self.throughput) // 2
        return float(self.throughput[half:].max() / np.median(self.throughput[:half]))


def measure_spread(config: SpreadConfig, family: str, index: int) -> NetlistSpread:
    """Draw netlist number `index` of a family and simulate its placements."""
    netlist = draw_netlist(config.fabric, family, config.sample_cycles, config.seed, index)
    decisions = _placements(config, netlist, index)
    outcome = simulate_stack(config.fabric, netlist, decisions)
    if (outcome.status != Status.STEADY).any():
        raise InputError(f"netlist {netlist.name}: a placement did not reach a steady state")
    fill = netlist.count(SiteKind.COMPUTE) / config.fabric.num_sites(SiteKind.COMPUTE)
    return NetlistSpread(
        family, netlist.name, fill, netlist.bound_cycles / outcome.cycles_per_sample
    )


def _placements(config: SpreadConfig, netlist: Netlist, index: int) -> Decisions:
    sites = random_sites(config.fabric, netlist, config.placements, config.seed + index)
    steps = np.geomspace(*CLIMB_STEPS, config.placements - config.placements // 2).astype(int)
    for k, number in enumerate(steps, config.placements // 2):
        sites[k] = improve(config.fabric, netlist, sites[k], int(number), config.seed + k)
    return route(config.fabric, netlist, sites, method=config.routing, seed=config.seed)


def summary_rows(results: list[NetlistSpread]) -> list[list[str]]:
    """One row per family: medians over its netlists."""
    rows = []
    for family in dict.fromkeys(result.family for result in results):
        own = [result for result in results if result.family == family]
        spreads = np.array([result.spread for result in own])
        fills = [result.fill for result in own]
        rows.append(
            [
                family,
                str(len(own)),
                f"{np.median(spreads):.0%}",
                f"{spreads.min():.0%} .. {spreads.max():.0%}",
                f"{np.median([result.throughput.max() for result in own]):.2f}",
                f"{np.median([result.gain for result in own]):.2f}x",
                f"{min(fills):.0%} .. {max(fills):.0%}",
            ]
        )
    return rows


HEADER = [
    "family",
    "netlists",
    "median spread",
    "range",
    "best throughput",
    "improved / random",
    "fill",
]


def write(config: SpreadConfig, results: list[NetlistSpread]) -> None:
    """Write the table (Markdown), all values (CSV) and a picture."""
    make_folder(config.output)
    lines = [HEADER, ["---"] * len(HEADER), *summary_rows(results)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    write_atomic(config.output / "spread.md", table + "\n")
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["family", "netlist", "fill", "placement", "throughput"])
    for result in results:
        for k, value in enumerate(result.throughput):
            writer.writerow([result.family, result.name, f"{result.fill:.3f}", k, f"{value:.5f}"])
    write_atomic(config.output / "spread.csv", text.getvalue())
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
    for family in settings.families:
        if family not in FAMILIES:
            raise InputError(f"unknown family {family!r}; allowed: {', '.join(FAMILIES)}")
    if settings.netlists < 1 or settings.placements < 4:
        raise InputError("netlists must be at least 1 and placements at least 4")
    require_folder(settings.output)
    work = [(family, k) for family in settings.families for k in range(settings.netlists)]
    results = []
    with Progress(transient=True) as progress:
        for family, index in progress.track(work, description="simulating"):
            results.append(measure_spread(settings, family, index))
    console = Console()
    table = Table(*HEADER)
    for row in summary_rows(results):
        table.add_row(*row)
    console.print(table)
    write(settings, results)
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "spread")
