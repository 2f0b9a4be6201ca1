"""Command: how long do whole networks take? Each section is placed by tuned rules and simulated.

Alike sections are placed once and counted as often as the network has them. Finished sections are
kept in `jobs`: a run that was cut off goes on where it was, and each finished network is written.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
from omegaconf import DictConfig
from rich.console import Console

from placer.base import (
    Cell,
    Count,
    DoesNotFitError,
    OneOf,
    Positive,
    Some,
    Table,
    Whole,
    command_line,
    counting_bar,
    make_console,
    make_folder,
    require_folder,
    write_atomic,
    write_report,
)
from placer.base.config import run_command, to_dataclass
from placer.base.workers import Workers, run_jobs
from placer.cost import Rules
from placer.fabric import Fabric
from placer.graph.workloads import MODELS, WorkloadConfig, build, resolve
from placer.netlist.lowering import lower_sections
from placer.pipeline import NetworkTime, SectionRun, network_time, section_values, write_time
from placer.show.html import report_page
from placer.study.section_job import SectionJob, place_section

TITLE = "Whole networks"
HEADER = [
    "network", "layers", "pass", "sections", "bound", "full bound", "simulated", "whole", "lowest section",
    "cycles per input", "ms per input",
]  # fmt: skip
INTRODUCTION = """\
Sections: distinct (all). Shares of the MAC peak: bound counts the work of the slowest compute unit of each
section, full bound every resource of the netlist, simulated is the measured pace, whole also filling, weights and
switching. Lowest section: the least simulated throughput over the full bound, and which section it is.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsConfig(Workers):
    """What `conf/models.yaml` holds."""

    fabric: Fabric
    models: list[Annotated[str, OneOf(MODELS)]] | None
    layers: Some[int | None]
    training: Some[bool]
    sequence: Count | None
    batch: Count
    seconds: Positive
    rules: Rules
    seed: Whole
    output: Path


@dataclass(frozen=True, slots=True)
class ModelResult:
    """One network, all its sections placed and simulated."""

    workload: WorkloadConfig
    time: NetworkTime

    @property
    def labels(self) -> list[str]:
        """Return network, layers and pass."""
        return labels_of(self.workload)

    @property
    def stem(self) -> str:
        """Return the part of the names of files that tells the network."""
        return ".".join(self.labels)

    @property
    def name(self) -> str:
        return name_of(self.workload)


def labels_of(workload: WorkloadConfig) -> list[str]:
    """Return network, layers and pass."""
    layers = "all" if workload.layers is None else str(workload.layers)
    return [workload.family, layers, "training" if workload.training else "forward"]


def name_of(workload: WorkloadConfig) -> str:
    """Return how texts call it."""
    network, layers, way = labels_of(workload)
    return f"{network} {way}" if workload.layers is None else f"{network} {way}, layers: {layers}"


def workloads(config: ModelsConfig) -> list[WorkloadConfig]:
    """Return all combinations that are asked for."""
    return [
        WorkloadConfig(model, layers=layers, sequence=config.sequence, training=training)
        for model, layers, training in product(config.models or MODELS, config.layers, config.training)
    ]


def measure_model(config: ModelsConfig, workload: WorkloadConfig, console: Console) -> ModelResult:
    """Lower a network onto the fabric, and place and simulate each of its sections.

    Raises DoesNotFitError if it cannot be lowered.
    """
    fabric = config.fabric
    graph = build(resolve(workload, 1, np.random.default_rng(config.seed)))
    jobs = [
        SectionJob(fabric, section, config.rules, config.seconds, (config.seed, number))
        for number, section in enumerate(lower_sections(fabric, graph))
    ]
    folder = config.output / "jobs"
    with counting_bar(console, name_of(workload)) as on_progress:
        runs = run_jobs(
            jobs, place_section, folder, decode=lambda values: SectionRun(**values), workers=config,
            on_progress=on_progress,
        )  # fmt: skip
    return ModelResult(workload, network_time(fabric, runs, config.batch))


def summary_row(result: ModelResult) -> list[Cell]:
    """Return the row of a network; sections are counted as `distinct (all)`."""
    time = result.time
    runs = [section.run for section in time.sections]

    def share(name: str) -> str:
        return f"{time.share_at(sum(r.repeats * r.samples * float(getattr(r, name)) for r in runs)):.1%}"

    reached = [run.full_bound_cycles / run.cycles_per_sample for run in runs]
    lowest = int(np.argmin(reached))  # one that was not measured counts as lowest
    milliseconds = time.milliseconds_per_input
    return [
        *result.labels,
        f"{len(runs)} ({sum(run.repeats for run in runs)})",
        *(share(name) for name in ("bound_cycles", "full_bound_cycles", "cycles_per_sample")),
        f"{time.share_of_peak:.1%}",
        f"{reached[lowest]:.3f} (section {lowest})",
        f"{time.cycles_per_input:,.0f}",
        "-" if milliseconds is None else f"{milliseconds:,.4g}",
    ]


def section_table(results: list[ModelResult]) -> Table:
    """Return all values of each distinct section."""
    rows = [
        {
            **dict(zip(("network", "layers", "pass"), result.labels, strict=True)),
            "batch": result.time.batch,
            "section": number,
            **section_values(section),
        }
        for result in results
        for number, section in enumerate(result.time.sections)
    ]
    return Table(list(rows[0]) if rows else [], [list(row.values()) for row in rows], name="models")


def write(config: ModelsConfig, results: list[ModelResult], misfits: list[str], command: str) -> Table:
    """Write report, page and a line per distinct section (CSV); return the table of networks."""
    table = Table(HEADER, [summary_row(result) for result in results])
    parts: list[str | Table] = [INTRODUCTION, table, *misfits]
    for result in results:
        name, stem = result.name, result.stem
        parts.append(f"## {name}")
        parts += [f"![Time by section of {name}](time.{stem}.png)", f"![Roofline of {name}](roofline.{stem}.png)"]
    write_report(config.output, "models.md", TITLE, command, parts, numbers=[section_table(results)])
    page = report_page(config.output / "models.md", TITLE, command, asdict(config))
    write_atomic(config.output / "models.html", page.to_html())
    return table


def main(config: DictConfig) -> None:
    """Place and simulate the sections of each network, write what is found and print the table."""
    settings = to_dataclass(ModelsConfig, config)
    require_folder(settings.output)
    make_folder(settings.output)
    console, command = make_console(), command_line("placer.study.models")
    results: list[ModelResult] = []
    misfits: list[str] = []
    for workload in workloads(settings):
        name = name_of(workload)
        try:
            result = measure_model(settings, workload, console)
        except DoesNotFitError as error:
            misfits.append(f"{name}: {error}")
            console.print(misfits[-1])
        else:
            results.append(result)
            write_time(settings.output, result.stem, result.time, name)
            console.print(f"{name}: {result.time.cycles_per_input:,.0f} cycles per input")
            if not all(section.run.is_steady for section in result.time.sections):
                console.print("warning: not every section reached a steady state", style="bold red")
        table = write(settings, results, misfits, command)  # each takes minutes; what is done stays
    console.print(table.screen())
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "models")
