"""Command: how long do whole networks take? Each section is placed by tuned rules and simulated.

Alike sections are placed once and counted as often as the network has them; a network is lowered
once, whatever the number of seeds. Finished sections are kept in `jobs`: a run that was cut off goes
on where it was, and each finished network is written.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
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
    InputError,
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
from placer.graph.workloads import DECODERS, MODELS, NETWORKS, WorkloadConfig, build, resolve
from placer.netlist.lowering import Section, lower_sections
from placer.pipeline import NetworkTime, SectionRun, network_time, section_values, write_time
from placer.show.html import report_page
from placer.study.section_job import SectionJob, place_section

TITLE = "Whole networks"
HEADER = [
    "network", "layers", "pass", "sections", "bound", "full bound", "simulated", "whole", "lowest section",
    "cycles per input", "ms per input",
]  # fmt: skip
INTRODUCTION = """\
The share of the MAC peak is how many multiply-accumulates a network needs per input, over how many all
compute units of the fabric could do in the time that the input takes. Counted are those of matrix products
(linear layers, attention, convolutions, gradients of weights), each once; all other work counts as time only.

Bound takes the work of the slowest compute unit of each section for its time, full bound the most needed
resource of its netlist, simulated the measured pace of the placed section, and whole also filling, weights and
switching. Sections: distinct (all). Lowest section: the least simulated throughput over the full bound, and
which section it is.
"""
# Taken with all blocks, whatever `layers` says: the stages differ, so one block says little about it.
ALWAYS_WHOLE = ("resnet50",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsConfig(Workers):
    """What `conf/models.yaml` holds."""

    fabric: Fabric
    models: list[Annotated[str, OneOf(NETWORKS)]] | None
    layers: Some[int | None]
    training: Some[bool]
    decode: Some[bool]
    sequence: Count | None
    batch: Count
    seconds: Positive
    rules: Rules
    seeds: Some[Whole]
    output: Path
    publish: Path | None

    def check(self) -> None:
        if not workloads(self):
            raise InputError(f"decode={self.decode}: only these decode: {', '.join(DECODERS)}; choose one of them")
        for workload in workloads(self):
            resolve(workload, 1, np.random.default_rng(0))  # sizes that the network has


@dataclass(frozen=True, slots=True)
class ModelResult:
    """One network, all its sections placed and simulated, once for each seed."""

    workload: WorkloadConfig
    seeds: Sequence[int]
    times: Sequence[NetworkTime]  # one per seed

    @property
    def time(self) -> NetworkTime:
        """Return the time with the first seed, which pictures show."""
        return self.times[0]

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
    way = "decode" if workload.decode else "training" if workload.training else "forward"
    return [workload.family, layers, way]


def name_of(workload: WorkloadConfig) -> str:
    """Return how texts call it."""
    network, layers, way = labels_of(workload)
    return f"{network} {way}" if workload.layers is None else f"{network} {way}, layers: {layers}"


def workloads(config: ModelsConfig) -> list[WorkloadConfig]:
    """Return all combinations that are asked for and that there can be, each once."""
    names = NETWORKS if config.models is None else config.models
    found = [
        WorkloadConfig(
            name,
            layers=None if name in ALWAYS_WHOLE else layers,
            sequence=config.sequence if name in (*MODELS, *DECODERS) and not decode else None,
            training=training,
            decode=decode,
        )
        for name, layers, decode, training in product(names, config.layers, config.decode, config.training)
        if not decode or (name in DECODERS and not training)
    ]
    return list(dict.fromkeys(found))


def sections_of(config: ModelsConfig, workload: WorkloadConfig) -> tuple[Section, ...]:
    """Lower a network. Raises InputError if it has no backward pass, DoesNotFitError if it does not fit."""
    graph = build(resolve(workload, 1, np.random.default_rng(0)))
    return lower_sections(config.fabric, graph, batch=config.batch)


def measure_model(
    config: ModelsConfig, workload: WorkloadConfig, sections: Sequence[Section], console: Console
) -> ModelResult:
    """Place and simulate each section of a network with each seed."""
    fabric = config.fabric
    jobs = [
        SectionJob(fabric, section, config.rules, config.seconds, (seed, number))
        for seed in config.seeds
        for number, section in enumerate(sections)
    ]
    folder = config.output / "jobs"
    with counting_bar(name_of(workload)) as on_progress:
        runs = run_jobs(
            jobs, place_section, folder, decode=lambda values: SectionRun(**values), workers=config,
            on_progress=on_progress,
        )  # fmt: skip
    count = len(sections)
    of_seeds = [runs[first : first + count] for first in range(0, len(runs), count)]
    return ModelResult(workload, config.seeds, [network_time(fabric, some, config.batch) for some in of_seeds])


def summary_row(result: ModelResult) -> list[Cell]:
    """Return the row of a network: means over the seeds; sections are counted as `distinct (all)`."""
    runs = [section.run for section in result.time.sections]
    num_sections = f"{len(runs)} ({sum(run.repeats for run in runs)})"
    cycles = float(np.mean([time.cycles_per_input for time in result.times]))
    milliseconds = [m for time in result.times if (m := time.milliseconds_per_input) is not None]
    return [
        *result.labels,
        num_sections,
        *(f"{_share(result, name):.1%}" for name in ("bound_cycles", "full_bound_cycles", "cycles_per_sample")),
        _with_spread([time.share_of_peak for time in result.times]),
        _lowest_section(result.times),
        f"{cycles:,.0f}",
        f"{np.mean(milliseconds):,.4g}" if milliseconds else "-",
    ]


def _share(result: ModelResult, name: str) -> float:
    """Return the mean share of the peak if a sample of each section took the cycles called `name`."""
    return float(
        np.mean(
            [
                time.share_at(sum(s.run.repeats * s.run.samples * float(getattr(s.run, name)) for s in time.sections))
                for time in result.times
            ]
        )
    )


def _with_spread(shares: Sequence[float]) -> str:
    """Return the mean of some shares, and from where to where they go if there are several."""
    spread = f" ({min(shares):.1%} to {max(shares):.1%})" if len(shares) > 1 else ""
    return f"{np.mean(shares):.1%}{spread}"


def _lowest_section(times: Sequence[NetworkTime]) -> str:
    """Return the least simulated throughput over the full bound; one that was not measured counts as least."""
    reached = np.array([[s.run.full_bound_cycles / s.run.cycles_per_sample for s in time.sections] for time in times])
    return f"{reached.flat[reached.argmin()]:.3f} (section {reached.argmin() % reached.shape[1]})"


def section_table(results: list[ModelResult]) -> Table:
    """Return all values of each distinct section, with each seed."""
    rows = [
        {
            **dict(zip(("network", "layers", "pass"), result.labels, strict=True)),
            "batch": time.batch,
            "seed": seed,
            "section": number,
            **section_values(section),
        }
        for result in results
        for seed, time in zip(result.seeds, result.times, strict=True)
        for number, section in enumerate(time.sections)
    ]
    return Table(list(rows[0]) if rows else [], [list(row.values()) for row in rows], name="models")


def write(
    config: ModelsConfig, results: list[ModelResult], skipped: list[str], command: str, publish: Path | None = None
) -> Table:
    """Write report, page and a line per distinct section (CSV); return the table of networks."""
    table = Table(HEADER, [summary_row(result) for result in results])
    parts: list[str | Table] = [INTRODUCTION, table, _setting_text(config), *(f"Left out: {line}" for line in skipped)]
    for result in results:
        name, stem = result.name, result.stem
        parts.append(f"## {name}")
        parts += [f"![Time by section of {name}](time.{stem}.png)", f"![Roofline of {name}](roofline.{stem}.png)"]
    write_report(config.output, "models.md", TITLE, command, parts, publish, [section_table(results)])
    page = report_page(config.output / "models.md", TITLE, command, asdict(config))
    write_atomic(config.output / "models.html", page.to_html())
    if publish is not None:
        for result in results:
            for kind in ("time", "roofline"):
                name = f"{kind}.{result.stem}.png"
                shutil.copyfile(config.output / name, publish / name)
    return table


def _setting_text(config: ModelsConfig) -> str:
    """Say under which settings the table was made, and what a mean is of."""
    seeds = ", ".join(map(str, config.seeds))
    text = f"Fabric `{config.fabric.name}`, batch of {config.batch}, {config.seconds:g} s of annealing per section, "
    if len(config.seeds) == 1:
        return f"{text}one seed ({seeds})."
    return (
        f"{text}seeds {seeds}: means, and for the whole the least to the most; the lowest section is that of any "
        f"seed, pictures are of seed {config.seeds[0]}."
    )


def main(config: DictConfig) -> None:
    """Place and simulate the sections of each network, write what is found and print the table."""
    settings = to_dataclass(ModelsConfig, config)
    for folder in (settings.output, settings.publish):
        if folder is not None:
            require_folder(folder)
    make_folder(settings.output)
    console, command = make_console(), command_line("placer.study.models")
    results: list[ModelResult] = []
    skipped: list[str] = []
    for workload in workloads(settings):
        name = name_of(workload)
        try:
            sections = sections_of(settings, workload)
        except InputError as error:
            skipped.append(f"{name}: {error}")
            console.print(skipped[-1])
            continue
        result = measure_model(settings, workload, sections, console)
        results.append(result)
        write_time(settings.output, result.stem, result.time, name)
        console.print(f"{name}: {result.time.cycles_per_input:,.0f} cycles per input")
        if not all(section.run.is_steady for time in result.times for section in time.sections):
            console.print("warning: not every section reached a steady state", style="bold red")
        write(settings, results, skipped, command)  # each takes minutes; what is done stays
    table = write(settings, results, skipped, command, settings.publish)
    console.print(table.screen())
    console.print(f"written to {settings.output}")
    if settings.publish is not None:
        console.print(f"copied to {settings.publish}")


if __name__ == "__main__":
    run_command(main, "models")
