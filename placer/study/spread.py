"""Command: how much does placement matter? Spread of simulated throughput within each netlist.

Spread of a netlist = (best - worst) / best normalised throughput over its placements.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from matplotlib.figure import Figure
from omegaconf import DictConfig

from placer.base import Cell, FloatArray, Some, Table, Whole, Within, make_console, png, require_folder, write_atomic
from placer.base.config import run_command, to_dataclass
from placer.decision import Decisions, random_sites
from placer.decision.routing import RoutingMethod, route
from placer.netlist import Netlist
from placer.netlist.lowering import draw_netlist
from placer.simulation import Limits
from placer.study.local_search import improve
from placer.study.shared import StudyConfig, by_family, each, fill_of, show_study, steady_cycles, write_study

CLIMB_STEPS = (300, 10_000)  # few to many: from a little better than random to settled


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadConfig(StudyConfig):
    """What `conf/spread.yaml` holds."""

    placements: Annotated[int, Within(4)]
    routing: RoutingMethod
    seeds: Some[Whole]


@dataclass(frozen=True, slots=True)
class NetlistSpread:
    """Throughput of all placements of one netlist."""

    family: str
    seed: int
    name: str
    fill: float  # share of the compute units that the netlist uses
    throughput: FloatArray  # [placements] first half random, second half improved

    @property
    def spread(self) -> float:
        return 1 - self.worst / self.best

    @property
    def worst(self) -> float:
        return float(self.throughput.min())

    @property
    def best(self) -> float:
        return float(self.throughput.max())

    @property
    def random_median(self) -> float:
        return float(np.median(self.throughput[: len(self.throughput) // 2]))

    @property
    def gain(self) -> float:
        """Return the best improved over the median random placement."""
        return float(self.throughput[len(self.throughput) // 2 :].max() / self.random_median)


def measure_spread(config: SpreadConfig, family: str, seed: int, index: int) -> NetlistSpread:
    """Draw netlist number `index` of a family and simulate its placements."""
    netlist = draw_netlist(config.fabric, family, config.sample_cycles, seed, index)
    decisions = _placements(config, netlist, seed, index)
    throughput = netlist.bound_cycles / steady_cycles(config.fabric, netlist, decisions, Limits())
    fill = fill_of(config.fabric, netlist)
    return NetlistSpread(family, seed, netlist.name, fill, throughput)


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
VALUES = ("fill", "worst", "random_median", "best", "spread", "gain")


def summary(results: list[NetlistSpread]) -> Table:
    """Return a row per family: medians over its netlists."""
    rows: list[list[Cell]] = []
    for family, own in by_family(results).items():
        spreads, fills = [result.spread for result in own], [result.fill for result in own]
        by_seed = [
            np.median([result.spread for result in own if result.seed == seed])
            for seed in dict.fromkeys(result.seed for result in own)
        ]
        rows.append(
            [
                family,
                len(own),
                f"{np.median(spreads):.0%}",
                f"{min(by_seed):.0%} .. {max(by_seed):.0%}",
                f"{min(spreads):.0%} .. {max(spreads):.0%}",
                f"{np.median([result.best for result in own]):.2f}",
                f"{np.median([result.gain for result in own]):.2f}x",
                f"{min(fills):.0%} .. {max(fills):.0%}",
            ]
        )
    return Table(HEADER, rows)


def netlists(results: list[NetlistSpread]) -> Table:
    """Return a row per netlist."""
    rows: list[list[Cell]] = [
        [result.family, result.seed, result.name, *(f"{getattr(result, v):.4f}" for v in VALUES)] for result in results
    ]
    return Table(["family", "seed", "netlist", *VALUES], rows, name="spread")


def _figure(results: list[NetlistSpread]) -> Figure:
    groups = by_family(results)
    figure = Figure(figsize=(3 * len(groups), 3.6), layout="constrained")
    panels = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    for axes, (family, own) in zip(panels, groups.items(), strict=True):
        for position, result in enumerate(sorted(own, key=lambda result: result.best)):
            half = len(result.throughput) // 2
            for part, colour in ((result.throughput[:half], "#999999"), (result.throughput[half:], "#0072B2")):
                axes.plot([position] * len(part), part, ".", color=colour, ms=3)
        axes.set(title=family, xlabel="netlist", ylim=(0, 1.02), xticks=[])
    figure.axes[0].set_ylabel("normalised throughput")
    figure.suptitle("Simulated throughput: random (grey) and improved (blue) placements")
    return figure


def main(config: DictConfig) -> None:
    """Measure the spread within each netlist, write tables and figure, and print the summary."""
    settings = to_dataclass(SpreadConfig, config)
    require_folder(settings.output)
    measure, indices = partial(measure_spread, settings), range(settings.netlists)
    results = list(each(measure, "simulating", settings.families, settings.seeds, indices))
    tables = [summary(results)]
    write_study(settings.output, "spread", tables, [netlists(results)])
    write_atomic(settings.output / "spread.png", png(_figure(results)))
    show_study(make_console(), settings.output, tables)


if __name__ == "__main__":
    run_command(main, "spread")
