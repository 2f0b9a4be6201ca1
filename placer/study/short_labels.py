"""Short labels against full ones: error, order within a netlist, and cost, by kind of netlist.

Decisions are random placements and results of anneals of varied effort, as those of a dataset.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from placer.annealing import AnnealOptions, Start, anneal
from placer.base import BoolArray, FloatArray, InputError, LongArray
from placer.cost import HeuristicCost
from placer.decision import Decisions, random_sites
from placer.decision.routing import route
from placer.fabric import Fabric
from placer.graph.workloads import ModelSpec, build
from placer.netlist import Netlist
from placer.netlist.lowering import lower_sections
from placer.simulation import LONG_SAMPLE_CYCLES, Status, label_limits, simulate_short, simulate_stack

NUM_RANDOM = 2  # placements per netlist
EFFORTS = (0.003, 0.01, 0.05, 0.1, 0.2, 0.2)  # of its anneals
WELL = 0.05  # anneals of this effort and more count as good


@dataclass(frozen=True, slots=True)
class ShortLabels:
    """Short and full labels of decisions of one netlist."""

    family: str  # or the name of the network
    name: str
    is_good: BoolArray  # [num_decisions] result of an anneal that is no hurried one
    is_settled: BoolArray  # [num_decisions]
    short_cycles: FloatArray  # [num_decisions] per sample
    full_cycles: FloatArray  # [num_decisions] per sample
    short_hops: LongArray  # [num_decisions] simulated
    full_hops: LongArray  # [num_decisions]
    short_seconds: float  # of all decisions, of one core
    full_seconds: float

    @property
    def errors(self) -> FloatArray:
        return self.short_cycles / self.full_cycles - 1

    @property
    def rank(self) -> float:
        """Return the rank correlation of short and full labels."""
        return float(spearmanr(self.short_cycles, self.full_cycles).statistic)


def varied_decisions(fabric: Fabric, netlist: Netlist, seed: int) -> Decisions:
    """Return random placements, then results of anneals by the rules, the most hurried first."""
    sites = random_sites(fabric, netlist, NUM_RANDOM + len(EFFORTS), seed)
    found = [route(fabric, netlist, sites[:NUM_RANDOM])]
    is_allowed = np.ones((netlist.num_units, fabric.topology.num_sites), np.bool_)
    for number, effort in enumerate(EFFORTS):
        start = Start(sites[NUM_RANDOM + number], np.zeros(netlist.num_flows, np.int32), is_allowed)
        options = AnnealOptions(effort=effort)
        found.append(anneal(fabric, netlist, HeuristicCost(fabric), start, options, seed + number).decision)
    return Decisions.concatenate(found)


def measure_short(fabric: Fabric, netlist: Netlist, family: str, seed: int) -> ShortLabels:
    """Label varied decisions of a netlist shortly and in full. Raises InputError if one is not steady."""
    decisions = varied_decisions(fabric, netlist, seed)
    begin = time.process_time()
    short = simulate_short(fabric, netlist, decisions)
    middle = time.process_time()
    full = simulate_stack(fabric, netlist, decisions, label_limits(netlist.bound_cycles))
    end = time.process_time()
    kept = full.status == Status.STEADY
    if not kept.any():
        raise InputError(f"netlist {netlist.name}: no placement became steady")
    is_good = np.array([False] * NUM_RANDOM + [effort >= WELL for effort in EFFORTS])
    return ShortLabels(
        family=family,
        name=netlist.name,
        is_good=is_good[kept],
        is_settled=(short.status == Status.STEADY)[kept],
        short_cycles=short.cycles_per_sample[kept],
        full_cycles=full.cycles_per_sample[kept],
        short_hops=short.vector_hops[kept],
        full_hops=full.vector_hops[kept],
        short_seconds=middle - begin,
        full_seconds=end - middle,
    )


def section_labels(fabric: Fabric, models: Sequence[str], seed: int) -> Iterator[ShortLabels]:
    """Yield labels of each section of one layer of the networks."""
    for model in models:
        for section in lower_sections(fabric, build(ModelSpec(model, 1))):
            is_long = section.netlist.bound_cycles >= LONG_SAMPLE_CYCLES
            yield measure_short(fabric, section.netlist, model if is_long else f"{model}, short samples", seed)


SHORT_HEADER = [
    *("family", "netlists", "labels", "mean error", "95% below", "worst", "bias", "annealed: mean error", "worst"),
    *("rank in a netlist", "settled", "hops", "time"),
]


def short_rows(results: Sequence[ShortLabels]) -> list[list[str]]:
    """Return a row per family: errors of short labels, and how many times cheaper they are."""
    rows = []
    for family in dict.fromkeys(result.family for result in results):
        own = [result for result in results if result.family == family]
        errors = np.concatenate([result.errors for result in own])
        good = np.abs(errors[np.concatenate([result.is_good for result in own])])
        size = np.abs(errors)
        hops = sum(int(r.full_hops.sum()) for r in own) / sum(int(r.short_hops.sum()) for r in own)
        seconds = sum(r.full_seconds for r in own) / sum(r.short_seconds for r in own)
        settled = np.concatenate([result.is_settled for result in own]).mean()
        rows.append(
            [
                *(family, str(len(own)), str(len(errors))),
                *(f"{figure:.1%}" for figure in (size.mean(), np.quantile(size, 0.95), size.max())),
                *(f"{errors.mean():+.1%}", f"{good.mean():.1%}", f"{good.max():.1%}"),
                *(f"{np.mean([result.rank for result in own]):.3f}", f"{settled:.0%}"),
                *(f"1 / {hops:.1f}", f"1 / {seconds:.1f}"),
            ]
        )
    return rows
