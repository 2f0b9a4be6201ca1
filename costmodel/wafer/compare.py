"""Command: layouts by contest score, learned cost and truth model (conf/wafer_compare.yaml)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from omegaconf import DictConfig
from rich.table import Table

from costmodel.training.figures import png
from costmodel.wafer.compare_figures import floorplans
from costmodel.wafer.compare_jobs import (
    Job,
    Method,
    Result,
    read_result,
    run_job,
    write_result,
)
from costmodel.wafer.evaluate import fold_folder
from costmodel.wafer.graphs import FAMILIES, draw_fitting
from placer.command import command_line, make_console
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.executor import ExecutorKind, run_tasks
from placer.files import make_folder, require_folder, write_atomic
from placer.html.report_page import report_page
from placer.kernels.generate import generate
from placer.kernels.graph import KernelGraph
from placer.kernels.kgraph_file import load_kgraph

_COLUMNS = (
    "throughput", "cycles", "score", "slowest", "wire_length", "adapters", "aspect", "rows",
    "utilisation",
)  # fmt: skip
_SHOWN = {"throughput": ".3f", "score": ",.0f", "slowest": ".3f", "aspect": ".2f", "rows": ".2f"}

Results = list[tuple[Job, Result]]


@dataclass(frozen=True, slots=True)
class WaferCompareConfig:
    """What `conf/wafer_compare.yaml` holds."""

    models: Path
    families: list[str]
    graphs_per_family: int
    presets: list[list[str]]  # name and family
    folder: Path
    letters: list[list[str]]  # name and family
    methods: list[Method]
    seconds: float
    seed: int
    workers: int
    floorplans: str
    output: Path
    publish: Path | None

    def __post_init__(self) -> None:
        if not self.methods or self.methods[0] != "contest":
            raise InputError(f"methods={self.methods}; the first must be contest")
        for pair in (*self.presets, *self.letters):
            if len(pair) != 2:
                raise InputError(f"{pair}: write [name, family]")
        named = [family for _, family in (*self.presets, *self.letters)]
        for family in (*self.families, *named):
            if family not in FAMILIES:
                raise InputError(f"unknown family {family!r}; allowed: {', '.join(FAMILIES)}")
        if not self.seconds > 0:
            raise InputError(f"seconds={self.seconds}; allowed above 0")


def make_jobs(config: WaferCompareConfig) -> list[Job]:
    """All searches: public graphs, presets, and graphs of each family that are in no dataset."""
    cases: list[tuple[KernelGraph, str]] = []
    for letter, family in config.letters:
        path = config.folder / f"{letter}.kgraph"
        if path.exists():
            cases.append((replace(load_kgraph(path), name=letter), family))
    cases += [(generate(preset), family) for preset, family in config.presets]
    for number, family in enumerate(config.families):
        for k in range(config.graphs_per_family):
            rng = np.random.default_rng([config.seed, number, k])
            cases.append((draw_fitting(family, rng, [])[0].graph, family))
    return [
        Job(graph, family, method, _model_file(config, family), config.seconds, config.seed)
        for graph, family in cases
        for method in config.methods
    ]


def _model_file(config: WaferCompareConfig, family: str) -> Path:
    """Of the model that has not seen the family. Raises InputError when it is needed and absent."""
    path = fold_folder(config.models, "family", family) / "flow.pt"
    if "learned" in config.methods and not path.exists():
        raise InputError(
            f"there is no {path}, the model that has not seen {family}; make it with "
            f"python -m costmodel.wafer.evaluate families=[{family}] output={config.models}"
        )
    return path


def run_all(config: WaferCompareConfig, on_note: Callable[[str], None]) -> Results:
    """Results that are there are used again. Raises InputError when there is nothing to compare."""
    folder = config.output / "jobs"
    jobs = make_jobs(config)
    if not jobs:
        raise InputError("nothing to compare: name presets, families or letters of graphs")
    make_folder(folder)
    known = {i: read_result(folder, job) for i, job in enumerate(jobs)}
    missing = [i for i, result in known.items() if result is None]
    on_note(f"{len(jobs)} searches, {len(jobs) - len(missing)} of them done before")
    tasks = [jobs[i] for i in missing]
    results = run_tasks(run_job, tasks, kind=ExecutorKind.LOCAL, workers=config.workers)
    for done, (number, found) in enumerate(results, len(jobs) - len(missing) + 1):
        job = tasks[number]
        known[missing[number]] = found
        write_result(folder, job, found)
        says = f"{job.graph.name}, {job.method}: throughput {found.throughput:.3f}"
        on_note(f"{done} of {len(jobs)}: {says}")
    return [(job, result) for i, job in enumerate(jobs) if (result := known[i]) is not None]


SUMMARY = (
    "chosen by", "graphs", "throughput", "median gain", "least gain", "most", "of simulator's",
    "least share", "score / contest's", "aspect", "squarer", "rows", "more rows", "scores/s",
)  # fmt: skip


def summary(results: Results, methods: list[Method]) -> list[list[str]]:
    """Per method: throughput beside that of other choices (medians over graphs), and the layouts.

    Gains are over the contest's choice; scores per second are those of the slowest graph.
    """
    cases: dict[KernelGraph, dict[str, Result]] = {}
    for job, result in results:
        cases.setdefault(job.graph, {})[job.method] = result
    rows = []
    for method in methods:
        pairs = [(case["contest"], case[method]) for case in cases.values()]
        gains = [other.throughput / first.throughput - 1 for first, other in pairs]
        squarer = sum(other.aspect < first.aspect for first, other in pairs)
        more_rows = sum(other.rows > first.rows for first, other in pairs)
        rates = [rate for _, other in pairs if (rate := other.scores_per_second) is not None]
        rows.append(
            [
                method, str(len(pairs)),
                f"{np.median([other.throughput for _, other in pairs]):.3f}",
                f"{np.median(gains):+.1%}", f"{np.min(gains):+.1%}", f"{np.max(gains):+.1%}",
                *_of_simulators(method, list(cases.values())),
                f"{np.median([other.score / first.score for first, other in pairs]):.3f}",
                f"{np.median([other.aspect for _, other in pairs]):.2f}", str(squarer),
                f"{np.median([other.rows for _, other in pairs]):.2f}", str(more_rows),
                f"{min(rates):,.0f}" if rates else "-",
            ]
        )  # fmt: skip
    return rows


def _of_simulators(method: Method, cases: list[dict[str, Result]]) -> tuple[str, str]:
    """Throughput of the truth model's choice that is reached: median and least."""
    shares = [
        case[method].throughput / case["simulator"].throughput
        for case in cases
        if "simulator" in case
    ]
    return (f"{np.median(shares):.0%}", f"{min(shares):.0%}") if shares else ("-", "-")


def _csv(results: Results) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("graph", "family", "kernels", "method", *_COLUMNS, "limit"))
    for job, result in results:
        numbers = [f"{getattr(result, name):.6g}" for name in _COLUMNS]
        writer.writerow(
            (job.graph.name, job.family, len(job.graph.kernels), job.method, *numbers, result.limit)
        )
    return text.getvalue()


def _markdown(results: Results, config: WaferCompareConfig) -> str:
    """The summary, then every graph."""
    lines = [f"Equal time: {config.seconds:g} s of processor time per search.", ""]
    lines += [*_table(list(SUMMARY), summary(results, config.methods)), ""]
    rows = [
        [job.graph.name, job.family, str(len(job.graph.kernels)), job.method]
        + [format(getattr(result, name), form) for name, form in _SHOWN.items()]
        for job, result in results
    ]
    header = ["graph", "unseen family", "kernels", "chosen by", "throughput", "score"]
    lines += _table([*header, "deltaT / bound", "aspect", "rows"], rows)
    return "\n".join(lines) + "\n"


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]


def main(config: DictConfig) -> None:
    """Entry point."""
    settings, console = to_dataclass(WaferCompareConfig, config), make_console()
    require_folder(settings.output)
    results = run_all(settings, console.print)
    files: dict[str, str | bytes] = {"comparison.csv": _csv(results)}
    text = _markdown(results, settings)
    drawn = [item for item in results if item[0].graph.name == settings.floorplans]
    if drawn:
        files["floorplans.png"] = png(floorplans(drawn))
        text += f"\n![Layouts of {settings.floorplans}](floorplans.png)\n"
    files["comparison.md"] = text
    for folder in (settings.output, settings.publish):
        if folder is not None:
            make_folder(folder)
            for name, content in files.items():
                write_atomic(folder / name, content)
    command, title = command_line("costmodel.wafer.compare"), "Layouts by cost"
    page = report_page(settings.output / "comparison.md", title, command, asdict(settings))
    write_atomic(settings.output / "comparison.html", page.to_html())
    table = Table(*SUMMARY)
    for row in summary(results, settings.methods):
        table.add_row(*row)
    console.print(table)
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "wafer_compare")
