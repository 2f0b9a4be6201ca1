"""One section of a network, placed by rules in a set time and simulated: a job for workers."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placer.annealing import AnnealOptions, AnnealResult, Strategy, Task, search_starts
from placer.base import source_key
from placer.base.workers import digest_of
from placer.cost import HeuristicCost, Rules
from placer.decision import Decisions, allowed_sites
from placer.fabric import Fabric
from placer.netlist.lowering import Section
from placer.pipeline import SectionResult, SectionRun, run_of
from placer.simulation import label_limits, simulate

KIND = "section of a network"
SCHEMA_VERSION = 2
EFFORT = 0.3  # of an anneal: several short ones and a look at the best end higher than a long one
FINALISTS = 2  # anneals of the least energy that are simulated


@dataclass(frozen=True, slots=True)
class SectionJob:
    """What to place, how long, and with which seed."""

    fabric: Fabric
    section: Section
    rules: Rules
    seconds: float
    seed: tuple[int, int]  # of the run, and the number of the section: a child seed of its own

    def __str__(self) -> str:
        return f"section {self.section.netlist.name!r}"

    def origin(self) -> dict[str, Any]:
        """Return what the result depends on, besides the speed of the machine."""
        section = self.section
        return {
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "code": source_key(Path(__file__)),
            "netlist": section.netlist.fingerprint,
            "section": [section.samples, section.repeats, section.weight_bytes, section.free_bytes, section.macs],
            "fabric": digest_of(asdict(self.fabric)),
            "rules": asdict(self.rules),
            "seconds": self.seconds,
            "seed": list(self.seed),
        }


def place_section(job: SectionJob) -> SectionRun:
    """Anneal from random starts, simulate the best results and take the fastest. Runs in a worker."""
    fabric, netlist = job.fabric, job.section.netlist
    best = sorted(_anneal(job), key=lambda result: result.energy)[:FINALISTS]
    decisions = Decisions.concatenate([result.decision for result in best])
    measured = simulate(fabric, netlist, decisions, label_limits(netlist.bound_cycles))
    fastest = max(range(len(best)), key=lambda number: np.nan_to_num(measured[number].throughput))
    return run_of(fabric, SectionResult(job.section, decisions[fastest], measured[fastest]))


def _anneal(job: SectionJob) -> list[AnnealResult]:
    """Anneal as often as the time allows, once at least."""
    fabric, netlist = job.fabric, job.section.netlist
    task = Task(fabric, netlist, HeuristicCost(fabric, job.rules), allowed_sites(fabric, netlist, None))
    results: list[AnnealResult] = []
    begin, longest = time.monotonic(), 0.0
    while not results or job.seconds - (time.monotonic() - begin) > longest:
        start = time.monotonic()
        options = AnnealOptions(effort=EFFORT, time_limit=job.seconds - (start - begin))
        search = search_starts(task, Strategy(options), (*job.seed, len(results)))
        if search.ending is not None:
            raise search.ending  # half a search is no result
        results.append(search.best.result)
        longest = max(longest, time.monotonic() - start)
    return results
