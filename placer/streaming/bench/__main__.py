"""Command: every table of docs/streaming.md but that of the claims (conf/streaming_bench.yaml).

Measurements are kept as files in the output folder, so a run that was cut off goes on.
"""

from __future__ import annotations

import os

from omegaconf import DictConfig

from placer.base import StatusLine, command_line, make_console, require_folder, write_report
from placer.base.config import run_command, to_dataclass
from placer.base.workers import run_jobs
from placer.streaming.bench import tables
from placer.streaming.bench.jobs import BenchConfig, jobs_of, measure

REPORT_FILE = "bench.md"
HOW = (
    "Checker cycles; ii 6, depth 3, timing delay, siblings relaxed, no hop limit; 16 tiles up to "
    "24 nodes, 64 above; seconds in brackets, ranges over seeds, `*` proved optimal"
)


def main(config: DictConfig) -> None:
    """Run the measurements, write the report and print its tables."""
    settings = to_dataclass(BenchConfig, config)
    if settings.publish is not None:
        require_folder(settings.publish)
    jobs, console = jobs_of(settings), make_console()
    with StatusLine("jobs", "none done") as line:
        results = run_jobs(
            jobs, measure, settings.output / "jobs", decode=lambda values: values,
            on_progress=lambda done, total: line.note(f"{done} of {total} done"),
        )  # fmt: skip
    measured = list(zip(jobs, results, strict=True))
    mappers, shots = tables.mapper_table(measured), tables.zero_shot_table(measured)
    fronts, speeds = tables.front_table(measured), tables.speed_table(measured)
    lines = tables.zero_shot_lines(measured)
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    machine = f"- Machine: {cores} cores, load {load:.1f} at the end\n- {HOW}"
    said = "".join(f"- {line}\n" for line in lines)
    write_report(
        settings.output, REPORT_FILE, "Mapping instructions to a CGRA: benchmark",
        command_line("placer.streaming.bench"),
        [machine, tables.summary_table(mappers), mappers, shots, said, fronts, speeds],
        settings.publish,
    )  # fmt: skip
    for table in (mappers, shots, fronts, speeds):
        if table.rows:
            console.print(table.screen())
    console.print(*lines, sep="\n")
    console.print(f"written to {settings.output / REPORT_FILE}")
    if settings.publish is not None:
        console.print(f"copied to {settings.publish}")


if __name__ == "__main__":
    run_command(main, "streaming_bench")
