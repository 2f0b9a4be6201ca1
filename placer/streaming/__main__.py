"""Command: map a program to the Streaming Engine (conf/streaming.yaml).

Ctrl-C ends the search: the best mapping so far is written, and the exit code is 130.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig

from placer.command import command_line
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.files import require_folder
from placer.streaming.device import Device
from placer.streaming.options import MapOptions, MapperName
from placer.streaming.program_file import load_program
from placer.streaming.rules import groups_of
from placer.streaming.values import meaning_of


@dataclass(frozen=True, slots=True)
class StreamingConfig:
    """What `conf/streaming.yaml` holds."""

    graph: Path
    trust_graph: bool
    mapper: MapperName
    tiles: int
    ii: int
    depth: int
    timing: Literal["delay", "exact"]
    sibling: Literal["relax", "strict"]
    max_hop: int | None
    time_limit: float
    seed: int
    workers: int
    samples: int
    ranks: int
    policy: Path | None
    fine_tune: bool
    values: bool
    front: bool
    output: Path

    def device(self) -> Device:
        return Device(self.tiles, self.ii, self.depth, self.timing, self.sibling, self.max_hop)

    def options(self) -> MapOptions:
        return MapOptions(
            self.mapper, self.time_limit, self.seed, self.workers, self.samples, self.policy,
            self.ranks, self.fine_tune,
        )  # fmt: skip


def main(config: DictConfig) -> None:
    """Entry point: config -> checked mapping -> files and screen."""
    settings = to_dataclass(StreamingConfig, config)
    if settings.output.suffix != ".json":
        raise InputError(f"output={settings.output}; name a .json file")
    require_folder(settings.output.parent)
    device, options = settings.device(), settings.options()
    program = load_program(settings.graph, is_trusted=settings.trust_graph)
    if settings.values:
        meaning_of(program)
    groups_of(program, device)  # refuses wrong input before compiled code and solvers are loaded
    from placer.streaming.report import run_and_report

    run_and_report(
        program, device, options, settings.output,
        values=settings.values, front=settings.front,
        command=command_line("placer.streaming"), config=asdict(settings),
    )  # fmt: skip


if __name__ == "__main__":
    run_command(main, "streaming")
