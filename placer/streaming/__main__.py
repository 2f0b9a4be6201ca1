"""Command: map a program to the Streaming Engine (conf/streaming.yaml)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.files import make_folder, require_folder, write_atomic
from placer.streaming.device import Device
from placer.streaming.draw import draw_mapping
from placer.streaming.mappers import MapOptions, MapperName, Result, map_program
from placer.streaming.problem import InfeasibleError
from placer.streaming.program import Program
from placer.streaming.program_file import load_program
from placer.streaming.result_file import result_text


@dataclass(frozen=True, slots=True)
class StreamingConfig:
    """What `conf/streaming.yaml` holds."""

    graph: Path
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
            self.fine_tune,
        )  # fmt: skip


def main(config: DictConfig) -> None:
    """Entry point: config -> checked mapping -> files and screen."""
    settings = to_dataclass(StreamingConfig, config)
    if settings.output.suffix != ".json":
        raise InputError(f"output={settings.output}; name a .json file")
    require_folder(settings.output.parent)
    device, options = settings.device(), settings.options()
    program = load_program(settings.graph)
    result = map_program(program, device, options, values=settings.values)
    front = find_front(program, device, options) if settings.front else []
    picture = settings.output.with_suffix(".png")
    make_folder(settings.output.parent)
    write_atomic(settings.output, result_text(result, options, front))
    draw_mapping(result, picture)
    console = make_console()
    show(console, result, front)
    console.print(f"written to {settings.output}, picture {picture}")


def find_front(program: Program, device: Device, options: MapOptions) -> list[Result]:
    """The best mapping for every initiation interval up to that of the device."""
    front = []
    for ii in range(1, device.ii + 1):
        try:
            front.append(map_program(program, replace(device, ii=ii), options, values=False))
        except InfeasibleError:
            continue
    return front


def show(console: Console, result: Result, front: list[Result]) -> None:
    problem = result.problem
    for warning in problem.warnings:
        console.print(f"warning: {warning}")
    state = "optimal" if result.gap == 0 else f"gap at most {100 * result.gap:.1f}%"
    console.print(
        f"{problem.program.name}: {problem.num_nodes} instructions, {result.cycles} cycles, "
        f"lower bound {result.bound}, {state}, {result.seconds:.1f} s"
    )
    if front:
        table = Table("ii", "cycles", "lower bound")
        for point in front:
            table.add_row(*map(str, (point.problem.device.ii, point.cycles, point.bound)))
        console.print(table)


if __name__ == "__main__":
    run_command(main, "streaming")
