"""Run all placements of a comparison that are not finished yet."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from costmodel.comparison.cases import Case
from costmodel.comparison.methods import Method, Placed, place
from placer.errors import InputError
from placer.executor import ExecutorKind, run_tasks
from placer.files import make_folder, read_text, require_folder, write_atomic

KIND = "dataflow-costmodel comparison"
SCHEMA_VERSION = 3  # also raised when a search changes: results of other code are not used again
JOBS_FOLDER = "jobs"

OnProgress = Callable[[int, int], None]  # (finished jobs, all jobs)


@dataclass(frozen=True, slots=True)
class Job:
    """One placement by one method."""

    case: Case
    name: str  # of the method
    method: Method
    seconds: float
    seed: int

    def __str__(self) -> str:
        return f"{self.name}: netlist {self.case.name!r}, seed {self.seed}"

    def origin(self) -> dict[str, Any]:
        """What the result depends on, besides the machine."""
        return {
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "netlist": self.case.netlist.fingerprint,
            "fabric": _hash(asdict(self.case.fabric)),
            "method": self.name,
            "settings": _hash(asdict(self.method.settings)),
            "files": _file_hashes(asdict(self.method.settings)["cost"]),
            "seconds": self.seconds * self.method.time_factor,
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True)
class Finished:
    """A job and what it found."""

    job: Job
    placed: Placed


def jobs_of(
    cases: Sequence[Case], methods: dict[str, Method], seconds: float, num_seeds: int
) -> list[Job]:
    """Seed by seed, so that a run that is cut off has compared all methods with some seeds."""
    if seconds <= 0 or num_seeds < 1:
        raise InputError(f"seconds={seconds}, seeds={num_seeds}; allowed: above 0, 1 and more")
    return [
        Job(case, name, method, seconds, seed)
        for seed in range(num_seeds)
        for case in cases
        for name, method in methods.items()
        if method.max_seeds is None or seed < method.max_seeds
    ]


def require_cost_models(jobs: Sequence[Job]) -> None:
    """Raises InputError when one cannot be made: now, not when its turn comes after hours."""
    for job in {(job.name, job.case.fabric.name): job for job in jobs}.values():
        settings = job.method.settings
        settings.cost.model(job.case.fabric, settings.rules, job.seed)


def run_jobs(
    jobs: Sequence[Job],
    folder: Path,
    *,
    executor: ExecutorKind,
    workers: int,
    ray_address: str | None = None,
    on_progress: OnProgress | None = None,
) -> list[Finished]:
    """All jobs in their order; only those without a file in `folder` are run.

    Raises InputError for wrong input; what was finished is kept.
    """
    folder = folder / JOBS_FOLDER
    require_folder(folder)
    make_folder(folder)
    origins = [job.origin() for job in jobs]
    paths = [folder / f"{_digest(origin)}.json" for origin in origins]
    found = [_read(path, origin) for path, origin in zip(paths, origins, strict=True)]
    missing = [k for k, placed in enumerate(found) if placed is None]
    report = on_progress or (lambda done, total: None)
    report(len(jobs) - len(missing), len(jobs))
    tasks = [jobs[k] for k in missing]
    results = run_tasks(_compute, tasks, kind=executor, workers=workers, ray_address=ray_address)
    for done, (index, placed) in enumerate(results, len(jobs) - len(missing) + 1):
        k = missing[index]
        document = {**origins[k], "result": asdict(placed)}
        write_atomic(paths[k], json.dumps(document, indent=1) + "\n")
        found[k] = placed
        report(done, len(jobs))
    pairs = zip(jobs, found, strict=True)
    return [Finished(job, placed) for job, placed in pairs if placed is not None]


def _compute(job: Job) -> Placed:
    """Runs in a worker."""
    return place(job.case, job.method, job.seconds, job.seed)


def _read(path: Path, origin: dict[str, Any]) -> Placed | None:
    """None when there is no whole result of this very job."""
    try:
        document = json.loads(read_text(path))
        placed = Placed(**document.pop("result"))
        is_sound = all(math.isfinite(value) for value in asdict(placed).values())
        return placed if is_sound and document == origin else None
    except (InputError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _file_hashes(options: dict[str, Any]) -> dict[str, str]:
    """Contents of the files that a cost model is made from; a URI stands for itself."""
    hashes = {}
    for name, value in options.items():
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path) and ":" not in str(path):
                try:
                    hashes[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
                except OSError as error:
                    raise InputError(f"{name}: cannot read {path}: {error.strerror}") from error
    return hashes


def _hash(content: dict[str, Any]) -> str:
    text = json.dumps(content, default=_plain, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(origin: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:20]


def _plain(value: Any) -> str:
    return str(getattr(value, "value", value))
