"""Command: solve the contest's inputs; scores beside the asked figures and the best public solver.

Each input is solved in a process of its own, so that its peak of memory is known. A result is
stored as soon as it is there: a run that was cut off goes on where it ended. Inputs, seconds and
seed are in conf/stencil_bench.yaml.
"""

from __future__ import annotations

import hashlib
import json
import resource
import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from placer.command import make_console
from placer.compile_cache import source_key
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.executor import ExecutorKind, run_tasks
from placer.files import make_folder, read_text, require_folder, write_atomic
from placer.stencil import mapper
from placer.stencil.clock import Clock
from placer.stencil.generate import INPUTS
from placer.stencil.plan import accuracy_ceiling
from placer.study.tables import csv_table, markdown_table, screen_table

KIND = "stencil benchmark"
SCHEMA_VERSION = 1
JOBS_FOLDER = "jobs"
TABLE_FILES = ("stencil.md", "stencil.csv")
LARGE_PES = 1_000_000
ASKED = {  # scores that the mapper was built to reach
    "simple_2d": 0.5, "gradient_small": 0.5, "flat_small": 1.0, "flat_big": 1.0, "simple_3d": 0.25,
    "box_small_solved": 0.265, "circle": 0.66, "gradient_big": 0.73, "sample": 0.644,
    "box_big": 0.767, "sphere": 0.57, "hollow_sphere": 0.604, "torus": 0.68,
}  # fmt: skip
PEER = {  # the one public solver, measured with the official checker; sphere: the best of its range
    "box_big": 0.767, "sample": 0.644, "hollow_sphere": 0.604, "torus": 0.676, "flat_big": 0.843,
    "sphere": 0.53,
}  # fmt: skip
HEADER = (
    "input", "PEs", "score", "asked", "peer", "accuracy", "its ceiling", "wires", "PEs left",
    "seconds", "peak MB",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BenchConfig:
    """What `conf/stencil_bench.yaml` holds."""

    inputs: tuple[str, ...]
    time_limit: float
    large_time_limit: float
    seed: int
    output: Path
    publish: Path | None

    def __post_init__(self) -> None:
        unknown = [name for name in self.inputs if name not in INPUTS]
        if unknown:
            raise InputError(f"unknown input {unknown[0]!r}; allowed: {', '.join(sorted(INPUTS))}")
        if min(self.time_limit, self.large_time_limit) <= 0:
            raise InputError("time_limit and large_time_limit must be above 0")


@dataclass(frozen=True, slots=True)
class Job:
    """One input to solve."""

    name: str
    time_limit: float
    large_time_limit: float
    seed: int

    def origin(self) -> dict[str, Any]:
        """What the result depends on, besides the machine."""
        code = source_key(Path(mapper.__file__))
        return {"kind": KIND, "schema": SCHEMA_VERSION, "code": code, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Result:
    """What a solved input comes to."""

    num_pes: int
    score: float
    accuracy: float
    ceiling: float
    wires: float
    pes_left: int
    seconds: float
    peak_megabytes: float


def main(config: DictConfig) -> None:
    """Solve what is not solved yet; the table is written after each input."""
    settings = to_dataclass(BenchConfig, config)
    for folder in (settings.output, settings.publish):
        if folder is not None:
            require_folder(folder)
    make_folder(settings.output / JOBS_FOLDER)
    console = make_console()
    rows = []
    for name in settings.inputs:
        job = Job(name, settings.time_limit, settings.large_time_limit, settings.seed)
        rows.append(_row(name, _result(job, settings.output / JOBS_FOLDER)))
        _write_table(settings.output, rows)
        console.print("  ".join(rows[-1]))
    console.print(screen_table(HEADER, rows, "stencil mapping"))
    if settings.publish is not None:
        make_folder(settings.publish)
        for file in TABLE_FILES:
            write_atomic(settings.publish / file, (settings.output / file).read_bytes())
        console.print(f"copied to {settings.publish}")


def _result(job: Job, folder: Path) -> Result:
    """The stored result of this very job, or a new one."""
    origin = job.origin()
    digest = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:16]
    path = folder / f"{job.name}-{digest}.json"
    stored = _read(path, origin)
    if stored is not None:
        return stored
    # A process of its own: its peak of memory is that of this input.
    ((_, result),) = run_tasks(_solve, [job], kind=ExecutorKind.LOCAL, workers=1)
    write_atomic(path, json.dumps({**origin, "result": asdict(result)}, indent=1) + "\n")
    return result


def _read(path: Path, origin: dict[str, Any]) -> Result | None:
    """None when there is no whole result of this very job."""
    try:
        document = json.loads(read_text(path))
        result = document.pop("result")
        return Result(**result) if document == origin else None
    except (InputError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _solve(job: Job) -> Result:
    """Runs in a process of its own."""
    problem = INPUTS[job.name]()
    mapper.warm_up()
    limit = job.large_time_limit if problem.num_pes > LARGE_PES else job.time_limit
    mapping = mapper.map_volume(problem, Clock(limit, problem.num_pes), job.seed)
    score = mapping.score
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ceiling = accuracy_ceiling(problem)
    return Result(
        score.num_pes, score.total, score.accuracy_norm, ceiling, score.wires_norm,
        score.num_pes - score.used_pes, mapping.seconds, peak,
    )  # fmt: skip


def _row(name: str, result: Result) -> tuple[str, ...]:
    asked, peer = (f"{table[name]:.3f}" if name in table else "" for table in (ASKED, PEER))
    return (
        name, f"{result.num_pes:,}", f"{result.score:.4f}", asked, peer, f"{result.accuracy:.4f}",
        f"{result.ceiling:.3f}", f"{result.wires:.3f}", f"{result.pes_left:,}",
        f"{result.seconds:.0f}", f"{result.peak_megabytes:,.0f}",
    )  # fmt: skip


def _write_table(folder: Path, rows: list[tuple[str, ...]]) -> None:
    command = shlex.join(["python", "-m", "placer.stencil.bench", *sys.argv[1:]])
    text = f"Command: `{command}`\n\n{markdown_table(HEADER, rows)}"
    for file, content in zip(TABLE_FILES, (text, csv_table(HEADER, rows)), strict=True):
        write_atomic(folder / file, content)


if __name__ == "__main__":
    run_command(main, "stencil_bench")
