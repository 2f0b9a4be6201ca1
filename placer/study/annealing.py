"""Command: what is annealing worth? Random placements, the heuristic and the simulator in the loop.

All are compared by simulated throughput. The gap between the heuristic annealer and the simulator
in the loop is what a better cost model could win.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from omegaconf import DictConfig
from rich.progress import Progress

from placer.annealing import AnnealOptions, AnnealResult, AnnealStatus, Schedule, anneal
from placer.annealing.multistart import fit_schedule
from placer.annealing.starts import start_of
from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.cost import CostModel, SimulatorCost
from placer.decision import Decisions
from placer.errors import InputError
from placer.fabric import Fabric
from placer.files import make_folder, require_folder, write_atomic
from placer.heuristic import HeuristicCost
from placer.lowering import draw_netlist
from placer.netlist import Netlist
from placer.placement import random_sites
from placer.routing import RoutingMethod, route
from placer.simulation import PRECISE_LIMITS, Limits
from placer.study.tables import csv_table, markdown_table, screen_table
from placer.workloads import FAMILIES

# Of the simulator in the loop, as in conf/cost/simulator.yaml.
START_TEMPERATURE, END_TEMPERATURE = 0.003, 5e-4
NUM_FINALISTS = 20  # random placements that are simulated for long


@dataclass(frozen=True, slots=True)
class AnnealingConfig:
    """What `conf/annealing.yaml` holds."""

    fabric: Fabric
    families: list[str]
    netlists: int
    searches: int
    sample_cycles: int
    random_placements: int
    effort: float
    restarts: int
    simulator_moves: int
    seed: int
    output: Path

    def __post_init__(self) -> None:
        for family in self.families:
            if family not in FAMILIES:
                raise InputError(f"unknown family {family!r}; allowed: {', '.join(FAMILIES)}")
        numbers = (
            "netlists", "searches", "sample_cycles", "random_placements", "restarts",
            "simulator_moves",
        )  # fmt: skip
        for name in numbers:
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}; allowed 1 or more")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Simulated throughput of one netlist and one search."""

    family: str
    netlist: str
    units: int
    search: int
    random_median: float
    random_best: float
    heuristic: float  # of one anneal
    restarts: float  # the best in simulation of several anneals
    simulator: float  # the same, refined with the simulator in the loop
    restarts_seconds: float
    simulator_seconds: float  # of the refinement alone

    @property
    def gap(self) -> float:
        """What the simulator in the loop gains over one heuristic anneal."""
        return self.simulator / self.heuristic - 1

    @property
    def gap_to_restarts(self) -> float:
        """What it gains over the best of several."""
        return self.simulator / self.restarts - 1


def compare(config: AnnealingConfig, family: str, index: int) -> list[Comparison]:
    """All searches on netlist number `index` of a family."""
    fabric = config.fabric
    netlist = draw_netlist(fabric, family, config.sample_cycles, config.seed, index)
    sites = random_sites(fabric, netlist, config.random_placements, config.seed + index)
    decisions = route(fabric, netlist, sites, method=RoutingMethod.MIXED, seed=config.seed)
    random_median, random_best = _simulate_random(fabric, netlist, decisions)
    truth, results = SimulatorCost(fabric, PRECISE_LIMITS), []
    refining = fit_schedule(_refining(config), netlist.num_units)
    for number in range(config.searches):
        begin = perf_counter()
        anneals = [
            _anneal_by_rules(config, netlist, (config.seed, index, number, k))
            for k in range(config.restarts)
        ]
        simulated = [float(truth.score(netlist, decision)[0]) for decision in anneals]
        best = int(np.argmax(simulated))
        restarted = perf_counter()
        refined = _search(fabric, netlist, truth, anneals[best], refining, config.seed + number)
        results.append(
            Comparison(
                family=family,
                netlist=netlist.name,
                units=netlist.num_units,
                search=number,
                random_median=random_median,
                random_best=random_best,
                heuristic=simulated[0],
                restarts=simulated[best],
                simulator=float(truth.score(netlist, refined.decision)[0]),
                restarts_seconds=restarted - begin,
                simulator_seconds=perf_counter() - restarted,
            )
        )
    return results


def _anneal_by_rules(
    config: AnnealingConfig, netlist: Netlist, entropy: tuple[int, ...]
) -> Decisions:
    fabric, options = config.fabric, AnnealOptions(effort=config.effort)
    words = np.random.SeedSequence(entropy).generate_state(2, np.uint64)
    start = route(fabric, netlist, random_sites(fabric, netlist, 1, int(words[0])))
    return _search(fabric, netlist, HeuristicCost(fabric), start, options, int(words[1])).decision


def _simulate_random(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> tuple[float, float]:
    """Median of short simulations, and the best by a long one of those that do best in them."""
    short = SimulatorCost(fabric, Limits()).score(netlist, decisions)
    finalists = np.argsort(-short, kind="stable")[:NUM_FINALISTS]
    truth = SimulatorCost(fabric, PRECISE_LIMITS)
    best = max(float(truth.score(netlist, decisions[int(k)])[0]) for k in finalists)
    return float(np.median(short)), best


def _refining(config: AnnealingConfig) -> AnnealOptions:
    return AnnealOptions(
        max_moves=config.simulator_moves,
        start_temperature=START_TEMPERATURE,
        schedule=Schedule(end=END_TEMPERATURE),
    )


def _search(
    fabric: Fabric,
    netlist: Netlist,
    cost: CostModel,
    start: Decisions,
    options: AnnealOptions,
    seed: int,
) -> AnnealResult:
    is_allowed = np.ones((netlist.num_units, fabric.topology.num_sites), np.bool_)
    result = anneal(fabric, netlist, cost, start_of(fabric, start, is_allowed), options, seed)
    if result.status is AnnealStatus.INTERRUPTED:
        raise KeyboardInterrupt  # half a search is no result
    return result


HEADER = [
    "family", "netlists", "searches", "random median", "best random", "heuristic", "restarts",
    "simulator", "over heuristic (deviation; range)", "over restarts (deviation; range)",
    "seconds: restarts, simulator", "beat random",
]  # fmt: skip


def summary_rows(results: list[Comparison]) -> list[list[str]]:
    """One row per family: means over its searches, the gaps, and how many beat random placement."""
    rows = []
    for family in dict.fromkeys(result.family for result in results):
        own = [result for result in results if result.family == family]
        names = ("random_median", "random_best", "heuristic", "restarts", "simulator")
        means = [f"{np.mean([getattr(result, name) for result in own]):.3f}" for name in names]
        gaps = [_spread([getattr(r, name) for r in own]) for name in ("gap", "gap_to_restarts")]
        timed = ("restarts_seconds", "simulator_seconds")
        seconds = [f"{np.mean([getattr(result, name) for result in own]):.0f}" for name in timed]
        num_netlists = len({result.netlist for result in own})
        num_better = sum(result.heuristic > result.random_best for result in own)
        better = f"{num_better} of {len(own)}"
        rows.append(
            [family, str(num_netlists), str(len(own)), *means, *gaps, ", ".join(seconds), better]
        )
    return rows


def _spread(gaps: list[float]) -> str:
    return f"{np.mean(gaps):+.1%} ({np.std(gaps):.1%}; {min(gaps):+.1%} .. {max(gaps):+.1%})"


def write(output: Path, results: list[Comparison]) -> None:
    """Write the table (Markdown) and all values (CSV)."""
    make_folder(output)
    write_atomic(output / "annealing.md", markdown_table(HEADER, summary_rows(results)))
    names = [field.name for field in fields(Comparison)]
    values = [[_cell(value) for value in asdict(result).values()] for result in results]
    write_atomic(output / "annealing.csv", csv_table(names, values))


def _cell(value: Any) -> str:
    return f"{value:.5f}" if isinstance(value, float) else str(value)


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(AnnealingConfig, config)
    require_folder(settings.output)
    work = [(family, k) for family in settings.families for k in range(settings.netlists)]
    results: list[Comparison] = []
    with Progress(transient=True) as progress:
        for family, index in progress.track(work, description="annealing"):
            results += compare(settings, family, index)
    console = make_console()
    console.print(screen_table(HEADER, summary_rows(results)))
    write(settings.output, results)
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "annealing")
