"""Command: layouts by contest score, learned cost and truth model (conf/wafer_compare.yaml)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

from costmodel.wafer.compare_figures import floorplans
from costmodel.wafer.compare_jobs import Job, Method, Result, run_job
from costmodel.wafer.evaluate import fold_folder
from costmodel.wafer.graphs import FAMILIES, draw_fitting
from placer.base import (
    Cell,
    InputError,
    Picture,
    Table,
    command_line,
    make_console,
    require_folder,
    write_atomic,
    write_report,
)
from placer.base.config import run_command, to_dataclass
from placer.base.workers import Workers, run_jobs
from placer.kernels.model import KernelGraph, generate, load_kgraph
from placer.show.html import report_page

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
    """Return all searches: public graphs, presets, and graphs of families in no dataset."""
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
    """Return the model that has not seen the family. Raises InputError when it is absent."""
    path = fold_folder(config.models, "family", family) / "flow.pt"
    if "learned" in config.methods and not path.exists():
        raise InputError(
            f"there is no {path}, the model that has not seen {family}; make it with "
            f"python -m costmodel.wafer.evaluate families=[{family}] output={config.models}"
        )
    return path


def run_all(config: WaferCompareConfig, on_note: Callable[[str], None]) -> Results:
    """Run all searches; results that are there are used again.

    Raises InputError when there is nothing to compare.
    """
    jobs, notes = make_jobs(config), list[str]()
    if not jobs:
        raise InputError("nothing to compare: name presets, families or letters of graphs")

    def take(job: Job, found: Result) -> None:
        notes.append(f"{job.graph.name}, {job.method}: throughput {found.throughput:.3f}")

    def tell(done: int, total: int) -> None:
        before = f"{total} searches, {done} of them done before"
        on_note(f"{done} of {total}: {notes[-1]}" if notes else before)

    found = run_jobs(
        jobs,
        run_job,
        config.output / "jobs",
        decode=lambda values: Result(**values),
        workers=Workers(workers=config.workers),
        on_progress=tell,
        on_result=take,
    )
    return list(zip(jobs, found, strict=True))


SUMMARY = (
    "chosen by", "graphs", "throughput", "median gain", "least gain", "most", "of simulator's",
    "least share", "score / contest's", "aspect", "squarer", "rows", "more rows", "scores/s",
)  # fmt: skip


def summary(results: Results, methods: list[Method]) -> Table:
    """Return per method throughput beside that of others (medians over graphs), and the layouts.

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
    return Table(SUMMARY, rows)


def _of_simulators(method: Method, cases: list[dict[str, Result]]) -> tuple[str, str]:
    """Return how much of the truth model's throughput is reached: median and least."""
    shares = [case[method].throughput / case["simulator"].throughput for case in cases if "simulator" in case]
    return (f"{np.median(shares):.0%}", f"{min(shares):.0%}") if shares else ("-", "-")


def tables_of(results: Results) -> tuple[Table, Table]:
    """Return every result for readers, and exactly for a CSV file."""
    shown, exact = list[tuple[Cell, ...]](), list[tuple[Cell, ...]]()
    for job, result in results:
        about = job.graph.name, job.family, len(job.graph.kernels), job.method
        cells = (format(getattr(result, name), form) for name, form in _SHOWN.items())
        shown.append((*about, *cells))
        exact.append((*about, *(getattr(result, name) for name in _COLUMNS), result.limit))
    header = ("graph", "unseen family", "kernels", "chosen by", "throughput", "score")
    columns = ("graph", "family", "kernels", "method", *_COLUMNS, "limit")
    return (Table((*header, "deltaT / bound", "aspect", "rows"), shown), Table(columns, exact, name="comparison"))


def main(config: DictConfig) -> None:
    """Search for layouts by each method, write the comparison and print its summary."""
    settings, console = to_dataclass(WaferCompareConfig, config), make_console()
    require_folder(settings.output)
    results = run_all(settings, console.print)
    table, (shown, exact) = summary(results, settings.methods), tables_of(results)
    drawn = [item for item in results if item[0].graph.name == settings.floorplans]
    title, command = "Layouts by cost", command_line("costmodel.wafer.compare")
    parts: list[str | Table | Picture] = [
        f"Equal time: {settings.seconds:g} s of processor time per search.",
        table,
        shown,
    ]
    if drawn:
        parts.append(Picture("floorplans", f"Layouts of {settings.floorplans}", floorplans(drawn)))
    write_report(
        settings.output, "comparison.md", title, command, parts,
        publish=settings.publish, numbers=[exact],
    )  # fmt: skip
    page = report_page(settings.output / "comparison.md", title, command, asdict(settings))
    write_atomic(settings.output / "comparison.html", page.to_html())
    console.print(table.screen())
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "wafer_compare")
