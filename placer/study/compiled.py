"""Command: what is gained by searching plans of whole networks? Methods in equal time, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from omegaconf import DictConfig

from placer.base import (
    Cell,
    Count,
    InputError,
    Positive,
    Settings,
    Some,
    Table,
    Whole,
    command_line,
    counting_bar,
    make_console,
    source_key,
    write_report,
)
from placer.base.config import compose_config, run_command, to_dataclass
from placer.base.workers import Workers, file_digest, run_jobs
from placer.compile import CompileConfig, prediction_error
from placer.cost import file_hashes

KIND = "compiled network of a comparison"
SCHEMA_VERSION = 1
TITLE = "Compiled networks"
INTRODUCTION = """\
Each network was compiled by each method in the same wall-clock time (those with more say so), one after the
other. Cycles per input are those of the whole time: pace, filling, weights and switching. Medians over the
seeds; in brackets the least and the most. Error: mean of predicted against simulated cycles per sample of the
chosen plans.
"""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Method(Settings):
    """A way to compile."""

    overrides: list[str]
    times: Positive = 1.0  # the seconds of the comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonConfig(Settings):
    """What `conf/compiled.yaml` holds."""

    seconds: Positive
    max_rounds: Count | None
    seeds: Some[Whole]
    workers: Count | None
    base: str
    networks: dict[str, list[str]]
    methods: dict[str, Method]
    output: Path
    publish: Path | None

    def check(self) -> None:
        if self.base not in self.methods:
            raise InputError(f"base={self.base!r} is no method; allowed: {', '.join(self.methods)}")
        for network, method in product(self.networks, self.methods):
            self.job(network, method, 0).config()  # before the first one takes minutes

    def job(self, network: str, method: str, seed: int) -> CompileJob:
        """Return what is compiled with one seed."""
        chosen = self.methods[method]
        rounds = None if self.max_rounds is None else round(self.max_rounds * chosen.times)
        limits = [f"time_limit={self.seconds * chosen.times}", f"max_rounds={'null' if rounds is None else rounds}"]
        workers = f"workers={'null' if self.workers is None else self.workers}"
        overrides = [*self.networks[network], *chosen.overrides, *limits, workers, f"seed={seed}"]
        return CompileJob(network, method, seed, tuple(overrides))


@dataclass(frozen=True, slots=True)
class CompileJob:
    """One network, compiled in one way with one seed."""

    network: str
    method: str
    seed: int
    overrides: tuple[str, ...]

    def config(self) -> CompileConfig:
        return to_dataclass(CompileConfig, compose_config("compile", self.overrides))

    def origin(self) -> dict[str, Any]:
        """Return what the result depends on, besides the speed of the machine."""
        config = self.config()
        networks = [Path(name) for name in (config.model, config.graph, config.plan) if name is not None]
        return {
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "code": source_key(Path(__file__)),
            "overrides": list(self.overrides),
            "files": file_hashes(config.cost) | {str(path): file_digest(path) for path in networks if path.is_file()},
        }


@dataclass(frozen=True, slots=True)
class Result:
    """What came out of it."""

    cycles_per_input: float
    first_cycles_per_input: float  # of the plan by rules, placed once
    share_of_peak: float
    seconds: float
    sections: int
    error: float  # mean relative error of what was predicted; nan without predictions


def compile_once(job: CompileJob) -> Result:
    """Compile a network; processes of its own do the work."""
    compiled = job.config().compiled()
    error = prediction_error(compiled)
    return Result(
        compiled.cycles_per_input,
        compiled.history[0].cycles_per_input,
        compiled.share_of_peak,
        compiled.seconds,
        len(compiled.sections),
        math.nan if error is None else error,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InTurn(Workers):
    """Every task has the machine for itself."""

    def run(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[int, R]]:
        return ((index, function(task)) for index, task in enumerate(tasks))


def summary(config: ComparisonConfig, results: dict[tuple[str, str, int], Result]) -> Table:
    """Return a row per network and method."""
    header = ["network", "method", "cycles per input", "share of MAC peak", f"gain over {config.base}", "error"]
    rows: list[list[Cell]] = []
    for network, method in product(config.networks, config.methods):
        found = [results[network, method, seed] for seed in config.seeds]
        gains = [
            results[network, config.base, seed].cycles_per_input / one.cycles_per_input - 1
            for seed, one in zip(config.seeds, found, strict=True)
        ]
        rows.append(
            [
                network,
                method,
                f"{np.median([one.cycles_per_input for one in found]):,.0f}",
                f"{np.median([one.share_of_peak for one in found]):.1%}",
                f"{np.median(gains):+.1%} ({min(gains):+.1%} to {max(gains):+.1%})",
                f"{np.median([one.error for one in found]):.1%}",
            ]
        )
    return Table(header, rows)


def main(config: DictConfig) -> None:
    """Compile everything that is not finished, write the report and print the table."""
    settings = to_dataclass(ComparisonConfig, config)
    console, command = make_console(), command_line("placer.study.compiled")
    keys = list(product(settings.networks, settings.methods, settings.seeds))
    jobs = [settings.job(*key) for key in keys]
    with counting_bar("compiling") as on_progress:
        found = run_jobs(
            jobs, compile_once, settings.output / "jobs", decode=lambda values: Result(**values), workers=InTurn(),
            on_progress=on_progress,
        )  # fmt: skip
    results = dict(zip(keys, found, strict=True))
    table = summary(settings, results)
    rows = [[*key, *asdict(result).values()] for key, result in results.items()]
    numbers = Table(["network", "method", "seed", *asdict(found[0])], rows, name="runs")
    setting = f"Time: {settings.seconds:g} s each, seeds {', '.join(map(str, settings.seeds))}."
    write_report(
        settings.output, "compiled.md", TITLE, command, [INTRODUCTION, table, setting], settings.publish, [numbers]
    )
    console.print(table.screen())
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "compiled")
