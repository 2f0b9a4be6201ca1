"""Run all placements of a comparison that are not finished yet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from costmodel.evaluation.comparison.cases import Case
from costmodel.evaluation.comparison.methods import Placed, PlacingMethod, place
from placer.base import InputError, source_key
from placer.base.workers import Workers, digest_of, run_jobs
from placer.cost import file_hashes

KIND = "dataflow-costmodel comparison"
SCHEMA_VERSION = 5
JOBS_FOLDER = "jobs"


@dataclass(frozen=True, slots=True)
class PlacingJob:
    """One placement by one method."""

    case: Case
    name: str  # of the method
    method: PlacingMethod
    seconds: float
    seed: int

    def __str__(self) -> str:
        return f"{self.name}: netlist {self.case.name!r}, seed {self.seed}"

    def origin(self) -> dict[str, Any]:
        """Return what the result depends on, besides the machine."""
        settings = asdict(self.method.settings)
        return {
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "code": source_key(Path(__file__).with_name("methods.py")),
            "netlist": self.case.netlist.fingerprint,
            "fabric": digest_of(asdict(self.case.fabric)),
            "method": self.name,
            "settings": digest_of(settings),
            "files": file_hashes(self.method.settings.cost),
            "seconds": self.method.seconds_of(self.seconds),
            "seed": self.seed,
        }

    def place(self) -> Placed:
        """Search and simulate. Runs in a worker."""
        return place(self.case, self.method, self.seconds, self.seed)

    def row(self, placed: Placed) -> dict[str, Any]:
        """Return the row of `run_placings` that tells what was found."""
        case = self.case
        return {
            "group": case.group,
            "netlist": case.name,
            "fabric": case.fabric.name,
            "units": case.netlist.num_units,
            "method": self.name,
            "seed": self.seed,
            **asdict(placed),
            "fingerprint": case.netlist.fingerprint,
            "work": case.work,
        }


def jobs_of(
    cases: Sequence[Case], methods: dict[str, PlacingMethod], seconds: float, num_seeds: int
) -> list[PlacingJob]:
    """Return jobs seed by seed, so that a run that is cut off has compared all methods with some.

    Raises InputError when a cost model cannot be made: now, not when its turn comes after hours.
    """
    if seconds <= 0 or num_seeds < 1:
        raise InputError(f"seconds={seconds}, seeds={num_seeds}; allowed: above 0, 1 and more")
    for fabric in {case.fabric.name: case.fabric for case in cases}.values():
        for method in methods.values():
            method.settings.cost.model(fabric, method.settings.rules, 0)
    return [
        PlacingJob(case, name, method, seconds, seed)
        for seed in range(num_seeds)
        for case in cases
        for name, method in methods.items()
        if method.max_seeds is None or seed < method.max_seeds
    ]


def run_placings(
    jobs: Sequence[PlacingJob],
    folder: Path,
    workers: Workers,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> pd.DataFrame:
    """Return a row per job; finished ones are kept in `folder`.

    Raises InputError for wrong input; what was finished is kept.
    """
    placed = run_jobs(
        jobs, PlacingJob.place, folder / JOBS_FOLDER,
        decode=_decode, workers=workers, on_progress=on_progress,
    )  # fmt: skip
    return pd.DataFrame([job.row(found) for job, found in zip(jobs, placed, strict=True)])


def _decode(values: dict[str, Any]) -> Placed:
    if not all(map(math.isfinite, values.values())):
        raise ValueError("a value is not finite")
    return Placed(**values)
