"""Command: what is annealing worth? Random placements, the heuristic and the simulator in the loop.

All are compared by simulated throughput. The gap between the heuristic annealer and the simulator
in the loop is what a better cost model could win.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from omegaconf import DictConfig

from placer.annealing import AnnealOptions, AnnealResult, AnnealStatus, Schedule, anneal, fit_schedule, start_of
from placer.base import Count, Positive, Table, Whole, make_console, require_folder
from placer.base.config import run_command, to_dataclass
from placer.cost import CostModel, HeuristicCost, SimulatorCost
from placer.decision import Decisions, random_sites
from placer.decision.routing import RoutingMethod, route
from placer.fabric import Fabric
from placer.netlist import Netlist
from placer.netlist.lowering import draw_netlist
from placer.simulation import PRECISE_LIMITS, Limits
from placer.study.shared import StudyConfig, by_family, each, show_study, write_study

# Of the simulator in the loop, as in conf/cost/simulator.yaml.
START_TEMPERATURE, END_TEMPERATURE = 0.003, 5e-4
NUM_FINALISTS = 20  # random placements that are simulated for long


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnealingConfig(StudyConfig):
    """What `conf/annealing.yaml` holds."""

    searches: Count
    random_placements: Count
    effort: Positive
    restarts: Count
    simulator_moves: Count
    seed: Whole


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
        """Return what the simulator in the loop gains over one heuristic anneal."""
        return self.simulator / self.heuristic - 1

    @property
    def gap_to_restarts(self) -> float:
        """Return what it gains over the best of several."""
        return self.simulator / self.restarts - 1


def compare(config: AnnealingConfig, family: str, index: int) -> list[Comparison]:
    """Return all searches on netlist number `index` of a family."""
    fabric = config.fabric
    netlist = draw_netlist(fabric, family, config.sample_cycles, config.seed, index)
    sites = random_sites(fabric, netlist, config.random_placements, config.seed + index)
    decisions = route(fabric, netlist, sites, method=RoutingMethod.MIXED, seed=config.seed)
    random_median, random_best = _simulate_random(fabric, netlist, decisions)
    truth, results = SimulatorCost(fabric, PRECISE_LIMITS), []
    refining = fit_schedule(_refining(config), netlist.num_units)
    for number in range(config.searches):
        begin = perf_counter()
        anneals = [_anneal_by_rules(config, netlist, (config.seed, index, number, k)) for k in range(config.restarts)]
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


def _anneal_by_rules(config: AnnealingConfig, netlist: Netlist, entropy: tuple[int, ...]) -> Decisions:
    fabric, options = config.fabric, AnnealOptions(effort=config.effort)
    words = np.random.SeedSequence(entropy).generate_state(2, np.uint64)
    start = route(fabric, netlist, random_sites(fabric, netlist, 1, int(words[0])))
    return _search(fabric, netlist, HeuristicCost(fabric), start, options, int(words[1])).decision


def _simulate_random(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> tuple[float, float]:
    """Return the median of short simulations, and the best of the finalists by a long one."""
    short = SimulatorCost(fabric, Limits()).score(netlist, decisions)
    finalists = np.argsort(-short, kind="stable")[:NUM_FINALISTS]
    truth = SimulatorCost(fabric, PRECISE_LIMITS)
    best = max(float(truth.score(netlist, decisions[int(k)])[0]) for k in finalists)
    return float(np.median(short)), best


def _refining(config: AnnealingConfig) -> AnnealOptions:
    return AnnealOptions(
        max_moves=config.simulator_moves, start_temperature=START_TEMPERATURE, schedule=Schedule(end=END_TEMPERATURE)
    )


def _search(
    fabric: Fabric, netlist: Netlist, cost: CostModel, start: Decisions, options: AnnealOptions, seed: int
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
    """Return a row per family: means of its searches, gaps, how many beat random placement."""
    rows = []
    for family, own in by_family(results).items():
        names = ("random_median", "random_best", "heuristic", "restarts", "simulator")
        means = [f"{np.mean([getattr(result, name) for result in own]):.3f}" for name in names]
        gaps = [_spread([getattr(r, name) for r in own]) for name in ("gap", "gap_to_restarts")]
        timed = ("restarts_seconds", "simulator_seconds")
        seconds = [f"{np.mean([getattr(result, name) for result in own]):.0f}" for name in timed]
        num_netlists = len({result.netlist for result in own})
        num_better = sum(result.heuristic > result.random_best for result in own)
        better = f"{num_better} of {len(own)}"
        rows.append([family, str(num_netlists), str(len(own)), *means, *gaps, ", ".join(seconds), better])
    return rows


def _spread(gaps: list[float]) -> str:
    return f"{np.mean(gaps):+.1%} ({np.std(gaps):.1%}; {min(gaps):+.1%} .. {max(gaps):+.1%})"


def write(output: Path, results: list[Comparison]) -> list[Table]:
    """Write the table (Markdown) and all values (CSV); return what is to be shown."""
    names = [field.name for field in fields(Comparison)]
    values = [[f"{v:.5f}" if isinstance(v, float) else v for v in asdict(result).values()] for result in results]
    tables = [Table(HEADER, summary_rows(results))]
    write_study(output, "annealing", tables, [Table(names, values, name="annealing")])
    return tables


def main(config: DictConfig) -> None:
    """Compare the searches on each netlist, write the tables and print the summary."""
    settings = to_dataclass(AnnealingConfig, config)
    require_folder(settings.output)
    measure, indices = partial(compare, settings), range(settings.netlists)
    results = [one for some in each(measure, "annealing", settings.families, indices) for one in some]
    show_study(make_console(), settings.output, write(settings.output, results))


if __name__ == "__main__":
    run_command(main, "annealing")
