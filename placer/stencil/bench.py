"""Command: solve the contest's inputs and print the scores beside published ones.

The peer is the one public solver of the contest problem, as measured with the official checker.
Inputs, seconds and seeds are in conf/stencil_bench.yaml.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.files import make_folder, write_atomic
from placer.stencil.generate import INPUTS
from placer.stencil.mapper import map_volume, warm_up
from placer.study.tables import csv_table, markdown_table, screen_table

PEER = {
    "box_big": "0.767", "sample": "0.644", "hollow_sphere": "0.604", "torus": "0.676",
    "flat_big": "0.843", "sphere": "0.53",
}  # fmt: skip
HEADER = (
    "input", "PEs", "score", "accuracy", "wires", "PEs left", "seconds", "peak MB", "peer",
)  # fmt: skip
LARGE_PES = 1_000_000


@dataclass(frozen=True, slots=True)
class BenchConfig:
    """What `conf/stencil_bench.yaml` holds."""

    inputs: tuple[str, ...]
    time_limit: float
    large_time_limit: float
    seed: int
    output: Path

    def __post_init__(self) -> None:
        unknown = [name for name in self.inputs if name not in INPUTS]
        if unknown:
            raise InputError(f"unknown input {unknown[0]!r}; allowed: {', '.join(sorted(INPUTS))}")


def main(config: DictConfig) -> None:
    """Solve one input after the other; the table is written after each of them."""
    settings = to_dataclass(BenchConfig, config)
    make_folder(settings.output)
    console = make_console()
    warm_up()
    rows = []
    for name in settings.inputs:
        rows.append(_row(settings, name))
        write_atomic(settings.output / "stencil.csv", csv_table(HEADER, rows))
        write_atomic(settings.output / "stencil.md", markdown_table(HEADER, rows))
        console.print("  ".join(rows[-1]))
    console.print(screen_table(HEADER, rows, "stencil mapping"))


def _row(settings: BenchConfig, name: str) -> tuple[str, ...]:
    problem = INPUTS[name]()
    is_large = problem.num_pes > LARGE_PES
    limit = settings.large_time_limit if is_large else settings.time_limit
    mapping = map_volume(problem, limit, settings.seed)
    score = mapping.score
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        name, f"{score.num_pes:,}", f"{score.total:.4f}", f"{score.accuracy_norm:.4f}",
        f"{score.wires_norm:.3f}", f"{score.num_pes - score.used_pes:,}",
        f"{mapping.seconds:.0f}", f"{peak:.0f}", PEER.get(name, ""),
    )  # fmt: skip


if __name__ == "__main__":
    run_command(main, "stencil_bench")
