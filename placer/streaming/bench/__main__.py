"""Command: every table of docs/streaming.md but that of the claims (conf/streaming_bench.yaml).

Measurements are kept as files in the output folder, so a run that was cut off goes on.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.files import make_folder, require_folder, write_atomic
from placer.streaming.bench import tables
from placer.streaming.bench.jobs import BenchSettings, Job, jobs_of
from placer.streaming.bench.store import stored
from placer.streaming.bench.tables import Measured
from placer.study.tables import csv_table, markdown_table, screen_table
from placer.warm_up import warm_up

REPORT_FILE = "bench.md"
TABLES = {
    "mappers": ("Mappers", tables.mapper_table),
    "zero_shot": ("The policy against list scheduling in equal time", tables.zero_shot_table),
    "fronts": ("Cycles by initiation interval", tables.front_table),
    "speed": ("Steps per second", tables.speed_table),
}


@dataclass(frozen=True, slots=True)
class BenchConfig(BenchSettings):
    """What `conf/streaming_bench.yaml` holds."""

    output: Path
    publish: Path | None


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(BenchConfig, config)
    for folder in (settings.output, settings.publish):
        if folder is not None:
            require_folder(folder)
    jobs, console = jobs_of(settings), make_console()
    warm_up()
    measured = run(jobs, settings.output, console)
    command = shlex.join(["python", "-m", "placer.streaming.bench", *sys.argv[1:]])
    names = write_report(measured, settings.output, command)
    for title, table in TABLES.values():
        header, rows = table(measured)
        if rows:
            console.print(screen_table(header, rows, title))
    console.print(*tables.zero_shot_lines(measured), sep="\n")
    console.print(f"written to {settings.output / REPORT_FILE}")
    if settings.publish is not None:
        make_folder(settings.publish)
        for name in names:
            write_atomic(settings.publish / name, (settings.output / name).read_bytes())
        console.print(f"copied to {settings.publish}")


def run(jobs: Sequence[Job], folder: Path, console: Console) -> list[Measured]:
    """All jobs in their order; those of an earlier run are read."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    measured = []
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("jobs", total=len(jobs))
        for job in jobs:
            progress.update(bar, description=f"{job.kind} {job.graph}")
            result = stored(folder / "jobs", job.origin(), job.measure)
            measured.append(Measured(job, result))
            progress.advance(bar)
    return measured


def write_report(measured: Sequence[Measured], folder: Path, command: str) -> list[str]:
    """The tables as one Markdown file and as CSV files; names of the files."""
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    parts = [
        "# Mapping instructions to a CGRA: benchmark\n",
        f"- Command: `{command}`\n- Machine: {cores} cores, load {load:.1f} at the end\n"
        "- Checker cycles; ii 6, depth 3, timing delay, siblings relaxed, no hop limit; 16 tiles "
        "up to 24 nodes, 64 above; seconds in brackets, ranges over seeds, `*` proved optimal\n",
        "## In short\n\n" + markdown_table(*tables.mapper_table(measured, tables.SUMMARY_MAPPERS)),
    ]
    names = [REPORT_FILE]
    for name, (title, table) in TABLES.items():
        header, rows = table(measured)
        parts.append(f"## {title}\n\n{markdown_table(header, rows)}")
        if name == "zero_shot":
            parts += [f"- {line}\n" for line in tables.zero_shot_lines(measured)]
        write_atomic(folder / f"{name}.csv", csv_table(header, rows))
        names.append(f"{name}.csv")
    write_atomic(folder / REPORT_FILE, "\n".join(parts))
    return names


if __name__ == "__main__":
    run_command(main, "streaming_bench")
