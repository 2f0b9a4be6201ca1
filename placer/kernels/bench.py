"""Command: all engines on all graphs, against the published figures, as a table.

Public benchmarks (`A.kgraph` ...) are read from `folder` if it exists; generated graphs come after.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.table import Column, Table

from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.files import make_folder, write_atomic
from placer.kernels.check import Score
from placer.kernels.engines import EngineName, map_kernels
from placer.kernels.generate import generate
from placer.kernels.graph import KernelGraph
from placer.kernels.kgraph_file import load_kgraph
from placer.kernels.problem import Problem
from placer.kernels.published import PUBLISHED
from placer.kernels.search import Search

COLUMNS = (
    "graph", "engine", "seconds", "deltaT", "bound", "published bound", "wire length", "adapters",
    "score", "to CU.POKer", "without adapters", "to best published",
)  # fmt: skip


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
    seed: int
    output: Path


def graphs(settings: BenchConfig) -> Iterator[tuple[str, KernelGraph]]:
    """Public graphs that are there, then generated ones."""
    for letter in settings.letters:
        path = settings.folder / f"{letter}.kgraph"
        if path.is_file():
            yield letter, load_kgraph(path)
    for preset in settings.presets:
        yield preset, generate(preset)


def row(name: str, engine: str, problem: Problem, score: Score, seconds: float) -> list[str]:
    """What the table says about one run."""
    bound = problem.bound / problem.graph.time_scale
    known = PUBLISHED.get(name)
    ratios = ["", "", "", ""]
    if known is not None:
        plain = known.without_adapters(problem.graph.wafer.adapter_weight)
        ratios = [
            f"{known.bound}",
            f"{score.total / known.score:.4f}",
            f"{score.total_without_adapters / plain:.4f}",
            f"{score.total / known.score / known.best_ratio:.4f}",
        ]
    return [
        name, engine, f"{seconds:.0f}", f"{float(score.slowest):.10g}", f"{bound:.10g}", ratios[0],
        f"{float(score.wire_length):.1f}", str(score.adapters), f"{score.total:.1f}", *ratios[1:],
    ]  # fmt: skip


def main(config: DictConfig) -> None:
    """Run everything, print the table and write it as CSV after every run."""
    settings = to_dataclass(BenchConfig, config)
    make_folder(settings.output.parent)
    console = make_console()
    table = Table(*(Column(name, justify="right") for name in COLUMNS))
    lines = [",".join(COLUMNS)]
    for name, graph in graphs(settings):
        is_long = name in settings.long_letters
        limit = settings.long_time_limit if is_long else settings.time_limit
        for engine in settings.engines:
            problem = Problem(graph)
            begin = time.perf_counter()
            try:
                score = map_kernels(Search(problem, limit, settings.seed), engine).score
                cells = row(name, engine, problem, score, time.perf_counter() - begin)
            except InputError as error:
                cells = [name, engine, *(("",) * (len(COLUMNS) - 3)), "no layout"]
                console.print(f"{name}, {engine}: {error}")
            table.add_row(*cells)
            lines.append(",".join(cells))
            write_atomic(settings.output, "\n".join(lines) + "\n")
    console.print(table)


if __name__ == "__main__":
    run_command(main, "kernels_bench")
