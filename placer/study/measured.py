"""Command: do conclusions about placement change when constants of a preset are set to measured ones?

A preset is compared with itself after each change: spread of placements, rank of the expert's rules
within a netlist, and what is lost by taking the placement that the rules like best (regret).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from omegaconf import DictConfig
from scipy.stats import spearmanr

from placer.base import Cell, Count, Table, make_console, require_folder
from placer.base.config import run_command, to_dataclass
from placer.cost import HeuristicCost
from placer.decision import Decisions, random_sites
from placer.decision.routing import RoutingMethod, route
from placer.fabric import Fabric, load_fabric
from placer.netlist import Netlist
from placer.netlist.lowering import draw_netlist
from placer.simulation import Limits
from placer.study.local_search import improve
from placer.study.shared import StudyConfig, each, show_study, steady_cycles, write_study

CLIMB_STEPS = (300, 10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredConfig(StudyConfig):
    """What `conf/measured.yaml` holds."""

    placements: Count
    silicon: str  # fabric whose constants were measured
    seed: int


@dataclass(frozen=True, slots=True)
class Found:
    """One netlist on one version of the fabric."""

    version: str
    family: str
    netlist: str
    spread: float  # (best - worst) / best throughput
    spearman: float  # of the rules within the netlist
    regret: float  # how much slower the rules' favourite is than the best


def versions(preset: Fabric, silicon: Fabric) -> Iterator[tuple[str, Fabric]]:
    """Yield the preset, and the preset with constants of a measured chip, one after the other and together."""
    yield preset.name, preset
    hops = replace(preset.link, hop_cycles=silicon.link.hop_cycles, credit_hop_cycles=silicon.link.hop_cycles)
    local = replace(preset.local, hop_cycles=silicon.local.hop_cycles)
    slow = replace(preset, link=hops, local=local)
    yield "measured hops", slow
    link = replace(hops, fifo_vectors=silicon.link.fifo_vectors)
    latency = silicon.dram.latency_cycles + (silicon.cores.read_cycles if silicon.cores else 0)
    dram = replace(preset.dram, latency_cycles=latency)
    yield "hops, FIFOs, DRAM latency", replace(preset, link=link, local=local, dram=dram)
    widths = {"compute": 4 * preset.compute.window_vectors, "memory": 4 * preset.memory.window_vectors}
    wide = replace(preset, link=link, local=local, dram=replace(dram, window_vectors=4 * dram.window_vectors),
                   compute=replace(preset.compute, window_vectors=widths["compute"]),
                   memory=replace(preset.memory, window_vectors=widths["memory"]))  # fmt: skip
    yield "these, windows times four", wide


def measure(config: MeasuredConfig, version: tuple[str, Fabric], family: str, index: int) -> Found:
    """Simulate placements of one netlist and rank them by the rules."""
    name, fabric = version
    netlist = draw_netlist(fabric, family, config.sample_cycles, config.seed, index)
    decisions = _placements(config, fabric, netlist, index)
    throughput = netlist.bound_cycles / steady_cycles(fabric, netlist, decisions, Limits())
    scores = HeuristicCost(fabric).score(netlist, decisions)
    rank = float(spearmanr(scores, throughput)[0]) if np.ptp(scores) and np.ptp(throughput) else float("nan")
    best = float(throughput.max())
    regret = 1 - float(throughput[int(np.argmax(scores))]) / best
    return Found(name, family, netlist.name, 1 - float(throughput.min()) / best, rank, regret)


def _placements(config: MeasuredConfig, fabric: Fabric, netlist: Netlist, index: int) -> Decisions:
    """Return placements, half of them random, half improved on wire length."""
    sites = random_sites(fabric, netlist, config.placements, config.seed + index)
    half = config.placements // 2
    for k, steps in enumerate(np.geomspace(*CLIMB_STEPS, config.placements - half).astype(int), half):
        sites[k] = improve(fabric, netlist, sites[k], int(steps), config.seed + k)
    return route(fabric, netlist, sites, method=RoutingMethod.XY, seed=config.seed)


def summary(results: list[Found]) -> Table:
    """Return a row per version: medians and means over its netlists."""
    rows: list[list[Cell]] = []
    for version in dict.fromkeys(result.version for result in results):
        own = [result for result in results if result.version == version]
        spread, rank, regret = (np.array([getattr(r, v) for r in own]) for v in ("spread", "spearman", "regret"))
        rows.append([version, len(own), f"{np.median(spread):.0%}", f"{np.nanmean(rank):.2f}", f"{regret.mean():.1%}"])
    return Table(["constants", "netlists", "median spread", "Spearman of the rules", "regret of the rules"], rows)


def main(config: DictConfig) -> None:
    """Compare the versions, write tables and print the summary."""
    settings = to_dataclass(MeasuredConfig, config)
    require_folder(settings.output)
    both = list(versions(settings.fabric, load_fabric(settings.silicon)))
    results = list(each(partial(measure, settings), "simulating", both, settings.families, range(settings.netlists)))
    fields = ("version", "family", "netlist", "spread", "spearman", "regret")
    values: list[list[Cell]] = [[getattr(result, name) for name in fields] for result in results]
    tables = [summary(results)]
    write_study(settings.output, "measured", tables, [Table(fields, values, name="measured")])
    show_study(make_console(), settings.output, tables)


if __name__ == "__main__":
    run_command(main, "measured")
