"""Command: all engines on all graphs against published figures, as tables.

Public benchmarks (`A.kgraph` ...) are read from `folder` if it exists; generated graphs come after.
A run takes one core; `workers` of them run at once. What was finished is kept: a benchmark that was
cut off goes on where it stopped, as long as code, graphs and settings are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

from omegaconf import DictConfig

from placer.base import InputError, StatusLine, command_line, make_console, require_folder, write_report
from placer.base.config import run_command, to_dataclass
from placer.base.workers import Workers, run_jobs
from placer.kernels.bench.jobs import Job, Result, compute, decode
from placer.kernels.bench.tables import PUBLISHED, TWINS, tables_of
from placer.kernels.engines import EngineName
from placer.kernels.model import KernelGraph, OutRule, generate, load_kgraph


@dataclass(frozen=True, slots=True)
class BenchConfig:
    """What `conf/kernels_bench.yaml` holds."""

    folder: Path
    letters: str
    presets: list[str]
    engines: list[EngineName]
    time_limit: float
    long_letters: str
    long_time_limit: float
    others_limit: float
    times: list[str]
    times_limit: float
    wafers: int
    variants_of: str
    seeds: list[int]
    rules: list[OutRule]
    workers: int
    output: Path
    publish: Path | None

    def __post_init__(self) -> None:
        if not self.engines:
            raise InputError("engines=[]; name one or more")
        if not self.seeds or not self.rules or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds={self.seeds}, rules={self.rules}; name one or more of each, each once")
        for letter in (*self.letters, *self.long_letters):
            if letter not in PUBLISHED:
                allowed = "".join(PUBLISHED)
                raise InputError(f"letters={self.letters!r}: no benchmark {letter!r}; {allowed}")
        for name in (*self.presets, self.variants_of):
            generate(name)
        for name in self.times:
            if name not in PUBLISHED:
                generate(name)
        limits = (self.time_limit, self.long_time_limit, self.others_limit, self.times_limit)
        if min(limits) <= 0 or self.wafers < 2:
            raise InputError("time limits must be more than 0 seconds, wafers 2 or more")

    def to_graphs(self) -> dict[str, KernelGraph]:
        """Return public graphs that are there, then generated ones that are no twins of them."""
        paths = {letter: self.folder / f"{letter}.kgraph" for letter in self.letters}
        graphs = {name: load_kgraph(path) for name, path in paths.items() if path.is_file()}
        presets = [preset for preset in self.presets if TWINS.get(preset) not in graphs]
        return {**graphs, **{preset: generate(preset) for preset in presets}}

    def to_jobs(self) -> list[Job]:
        """List the first engine on all graphs, then smallest times, then the other engines.

        The first engine runs with every seed and every rule of adapters, all else with the first.
        """
        graphs, jobs = self.to_graphs(), []
        first, *others = self.engines
        seed = self.seeds[0]
        for own_seed, rule in product(self.seeds, self.rules):
            for name, graph in graphs.items():
                limit = self.long_time_limit if name in self.long_letters else self.time_limit
                jobs.append(Job("map", name, graph, first, limit, own_seed, rule=rule))
        for name in self.times:
            if name not in graphs and name in PUBLISHED:
                continue  # not public
            graph = graphs[name] if name in graphs else generate(name)
            jobs.append(Job("time", name, graph, "auto", self.times_limit, seed))
            jobs.append(Job("chain", name, graph, "auto", self.times_limit, seed, self.wafers))
        for engine in others:
            for name, graph in graphs.items():
                jobs.append(Job("map", name, graph, engine, self.others_limit, seed))
        return [*jobs, Job("variants", self.variants_of, generate(self.variants_of), "auto", 1, 0)]


def main(config: DictConfig) -> None:
    """Run what is missing, print the tables, write them as Markdown and CSV."""
    settings = to_dataclass(BenchConfig, config)
    folders = [settings.output, *([] if settings.publish is None else [settings.publish])]
    for folder in folders:
        require_folder(folder)
    jobs = settings.to_jobs()
    console = make_console()
    with StatusLine("benchmark", f"{len(jobs)} runs") as line:

        def on_result(job: Job, result: Result) -> None:
            found = result.problem or f"{result.score:,.1f}, {result.seconds:.0f} s"
            line.note(f"{job.what} {job.name} {job.engine}, seed {job.seed}, {job.rule}: {found}")

        results = run_jobs(
            jobs, compute, settings.output / "jobs", decode=decode,
            workers=Workers(workers=settings.workers), on_result=on_result,
        )  # fmt: skip
    found = dict(zip(jobs, results, strict=True))
    tables = tables_of(found, settings.engines, settings.engines[0])
    for table in tables:
        console.print(table.screen())
    title, command = "Benchmark of the kernel mapper", command_line("placer.kernels.bench")
    write_report(settings.output, "report.md", title, command, tables, settings.publish)
    console.print("written to " + ", ".join(map(str, folders)))


if __name__ == "__main__":
    run_command(main, "kernels_bench")
