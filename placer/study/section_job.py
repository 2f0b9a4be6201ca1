"""One section of a network, placed by rules in a set time and simulated: a job for workers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from placer.annealing import AnnealOptions, Strategy, Task, search_starts
from placer.base import source_key
from placer.base.workers import digest_of
from placer.cost import HeuristicCost, Rules
from placer.decision import allowed_sites
from placer.fabric import Fabric
from placer.netlist.lowering import Section
from placer.pipeline import SectionResult, SectionRun, run_of
from placer.simulation import label_limits, simulate

KIND = "section of a network"
SCHEMA_VERSION = 1


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
    """Anneal from a random start and simulate the result. Runs in a worker."""
    fabric, netlist = job.fabric, job.section.netlist
    task = Task(fabric, netlist, HeuristicCost(fabric, job.rules), allowed_sites(fabric, netlist, None))
    search = search_starts(task, Strategy(AnnealOptions(time_limit=job.seconds)), job.seed)
    if search.ending is not None:
        raise search.ending  # half a search is no result
    decision = search.best.result.decision
    measured = simulate(fabric, netlist, decision, label_limits(netlist.bound_cycles))[0]
    return run_of(fabric, SectionResult(job.section, decision, measured))
