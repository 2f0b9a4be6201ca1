"""Command: what is gained by searching plans of whole networks? Methods in equal time, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib.figure import Figure
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
    png,
    source_key,
    write_atomic,
    write_report,
)
from placer.base.config import compose_config, run_command, to_dataclass
from placer.base.workers import Workers, file_digest, run_jobs
from placer.compile import CompileConfig, prediction_error
from placer.cost import file_hashes

KIND = "compiled network of a comparison"
SCHEMA_VERSION = 2
TITLE = "Compiled networks"
INTRODUCTION = """\
Each network was compiled by each method within the same limit (those with more say so), one after the
other. Cycles per input are those of the whole time: pace, filling, weights and switching. Medians over the
seeds; in brackets the least and the most. Placements: how many it took until the network was as fast as the base
got it in the end. Error: mean of predicted against simulated cycles per sample of the
chosen plans.
"""

PICTURE = "gains.png"
PICTURE_TEXT = f"![What each method gains, by network]({PICTURE})"

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
    networks: Some[str]
    methods: Some[str]
    settings: dict[str, list[str]]
    recipes: dict[str, Method]
    output: Path
    publish: Path | None

    def check(self) -> None:
        if self.base not in self.methods:
            raise InputError(f"base={self.base!r} is no method; allowed: {', '.join(self.methods)}")
        for what, names, known in (("network", self.networks, self.settings), ("method", self.methods, self.recipes)):
            for name in names:
                if name not in known:
                    raise InputError(f"unknown {what} {name!r}; allowed: {', '.join(known)}")
        for network, method in product(self.networks, self.methods):
            self.job(network, method, 0).config()  # before the first one takes minutes

    def job(self, network: str, method: str, seed: int) -> CompileJob:
        """Return what is compiled with one seed."""
        chosen = self.recipes[method]
        rounds = None if self.max_rounds is None else round(self.max_rounds * chosen.times)
        limits = [f"time_limit={self.seconds * chosen.times}", f"max_rounds={'null' if rounds is None else rounds}"]
        workers = f"workers={'null' if self.workers is None else self.workers}"
        overrides = [*self.settings[network], *chosen.overrides, *limits, workers, f"seed={seed}"]
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
    first_cycles_per_input: float  # of the first plan that was placed
    share_of_peak: float
    seconds: float
    sections: int
    error: float  # mean relative error of what was predicted; nan without predictions
    course: list[list[float]]  # placements so far and cycles per input, whenever the best got better

    def placements_to(self, cycles: float) -> float:
        """Return after how many placements the network was as fast; nan: never."""
        return next((placed for placed, found in self.course if found <= cycles), math.nan)


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
        [[step.num_placed, step.cycles_per_input] for step in compiled.history],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InTurn(Workers):
    """Every task has the machine for itself."""

    def run(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[int, R]]:
        return ((index, function(task)) for index, task in enumerate(tasks))


def summary(config: ComparisonConfig, results: dict[tuple[str, str, int], Result]) -> Table:
    """Return a row per network and method."""
    header = [
        "network", "method", "cycles per input", "share of MAC peak", f"gain over {config.base}",
        f"placements until as fast as {config.base}", "error",
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for network, method in product(config.networks, config.methods):
        found = [results[network, method, seed] for seed in config.seeds]
        gained = gains(config, results, network, method)
        ends = [results[network, config.base, seed] for seed in config.seeds]
        rows.append(
            [
                network,
                method,
                f"{np.median([one.cycles_per_input for one in found]):,.0f}",
                f"{np.median([one.share_of_peak for one in found]):.1%}",
                f"{np.median(gained):+.1%} ({min(gained):+.1%} to {max(gained):+.1%})",
                _placements([one.placements_to(last.cycles_per_input) for one, last in zip(found, ends, strict=True)]),
                f"{np.median([one.error for one in found]):.1%}",
            ]
        )
    return Table(header, rows)


def _placements(counts: list[float]) -> str:
    """Return the median of some numbers of placements; a seed that never got there counts as infinitely many."""
    middle = float(np.median([math.inf if math.isnan(count) else count for count in counts]))
    return f"{middle:.0f}" if math.isfinite(middle) else "-"


def gains(
    config: ComparisonConfig, results: dict[tuple[str, str, int], Result], network: str, method: str
) -> list[float]:
    """Return what a method gains over the base on a network, for each seed."""
    cycles = [
        [results[network, name, seed].cycles_per_input for seed in config.seeds] for name in (config.base, method)
    ]
    return [before / after - 1 for before, after in zip(*cycles, strict=True)]


def picture(config: ComparisonConfig, results: dict[tuple[str, str, int], Result]) -> Figure:
    """Draw the median gain of each method over the base by network, with the least and the most."""
    others = [name for name in config.methods if name != config.base]
    figure = Figure(figsize=(9, 1.5 + 0.22 * len(config.networks) * max(1, len(others))), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / max(1, len(others))
    for place, method in enumerate(others):
        found = [100 * np.array(gains(config, results, network, method)) for network in config.networks]
        middle = np.array([np.median(each) for each in found])
        ends = np.array([[m - each.min(), each.max() - m] for m, each in zip(middle, found, strict=True)]).T
        rows = np.arange(len(found)) + (place - (len(others) - 1) / 2) * height
        axes.barh(rows, middle, height, xerr=ends, label=method, error_kw={"linewidth": 0.8})
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set_yticks(np.arange(len(config.networks)), [name.replace("_", " ") for name in config.networks])
    axes.invert_yaxis()
    axes.set_xlabel(f"faster than '{config.base}', % (median and range of {len(config.seeds)} seeds)")
    if others:
        axes.legend(loc="best", fontsize="small")
    return figure


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
    names = [name for name in asdict(found[0]) if name != "course"]
    rows = [[*key, *(getattr(result, name) for name in names)] for key, result in results.items()]
    numbers = Table(["network", "method", "seed", *names], rows, name="runs")
    limit = f"{settings.seconds:g} s" if settings.max_rounds is None else f"{settings.max_rounds} rounds of search"
    setting = f"Limit: {limit} each, seeds {', '.join(map(str, settings.seeds))}."
    write_report(
        settings.output, "compiled.md", TITLE, command, [INTRODUCTION, table, setting, PICTURE_TEXT],
        settings.publish, [numbers],
    )  # fmt: skip
    for folder in (settings.output, settings.publish):
        if folder is not None:
            write_atomic(folder / PICTURE, png(picture(settings, results)))
    console.print(table.screen())
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "compiled")
