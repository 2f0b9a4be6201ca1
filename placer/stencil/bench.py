"""Command: solve the contest's inputs; scores beside the asked figures and the best public solver.

Each input is solved in a process of its own, so that its peak of memory is known. A result is
stored as soon as it is there: a run that was cut off goes on where it ended. Inputs, seconds and
seed are in conf/stencil_bench.yaml.
"""

from __future__ import annotations

import resource
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from omegaconf import DictConfig

from placer.base import (
    OneOf,
    Positive,
    Settings,
    Table,
    command_line,
    make_console,
    require_folder,
    source_key,
    write_report,
)
from placer.base.config import run_command, to_dataclass
from placer.base.workers import run_jobs
from placer.stencil import search
from placer.stencil.model import INPUTS
from placer.stencil.search import Clock, accuracy_ceiling, map_volume, warm_up

KIND = "stencil benchmark"
SCHEMA_VERSION = 1
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
COLUMNS = {  # of the table, and how their values are written
    "PEs": ",", "score": ".4f", "asked": ".3f", "peer": ".3f", "accuracy": ".4f",
    "its ceiling": ".3f", "wires": ".3f", "PEs left": ",", "seconds": ".0f", "peak MB": ",.0f",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BenchConfig(Settings):
    """What `conf/stencil_bench.yaml` holds."""

    inputs: tuple[Annotated[str, OneOf(INPUTS)], ...]
    time_limit: Positive
    large_time_limit: Positive
    seed: int
    output: Path
    publish: Path | None


@dataclass(frozen=True, slots=True)
class Job:
    """One input to solve."""

    name: str
    time_limit: float
    large_time_limit: float
    seed: int

    def origin(self) -> dict[str, Any]:
        """Return what the result depends on, besides the machine."""
        code = source_key(Path(search.__file__))
        return {"kind": KIND, "schema": SCHEMA_VERSION, "code": code, **asdict(self)}


def main(config: DictConfig) -> None:
    """Solve what is not solved yet; the table is written after each input."""
    settings = to_dataclass(BenchConfig, config)
    if settings.publish is not None:
        require_folder(settings.publish)
    console = make_console()
    rows: list[list[str]] = []
    table = Table(("input", *COLUMNS), rows, "stencil mapping", "stencil")
    for name in settings.inputs:
        job = Job(name, settings.time_limit, settings.large_time_limit, settings.seed)
        # One job at a time in a process of its own: its peak of memory is that of this input.
        folder = settings.output / "jobs"
        (result,) = run_jobs([job], _solve, folder, decode=dict[str, float])
        rows.append(_row(name, result))
        publish = settings.publish if len(rows) == len(settings.inputs) else None
        command = command_line("placer.stencil.bench")
        write_report(settings.output, "stencil.md", "Stencil benchmark", command, [table], publish)
        console.print("  ".join(rows[-1]))
    console.print(table.screen())
    if settings.publish is not None:
        console.print(f"copied to {settings.publish}")


def _solve(job: Job) -> dict[str, float]:
    """Solve one input, in a process of its own; return the values of its row."""
    problem = INPUTS[job.name]()
    warm_up()
    limit = job.large_time_limit if problem.num_pes > LARGE_PES else job.time_limit
    mapping = map_volume(problem, Clock(limit, problem.num_pes), job.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    score = mapping.score
    return {
        "PEs": score.num_pes,
        "score": score.total,
        "accuracy": score.accuracy_norm,
        "its ceiling": accuracy_ceiling(problem),
        "wires": score.wires_norm,
        "PEs left": score.num_pes - score.used_pes,
        "seconds": mapping.seconds,
        "peak MB": peak,
    }


def _row(name: str, result: dict[str, float]) -> list[str]:
    known = (("asked", ASKED), ("peer", PEER))
    values = result | {column: table[name] for column, table in known if name in table}
    return [name, *(format(values[c], f) if c in values else "" for c, f in COLUMNS.items())]


if __name__ == "__main__":
    run_command(main, "stencil_bench")
