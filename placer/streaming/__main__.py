"""Command: map a program to the Streaming Engine (conf/streaming.yaml).

Ctrl-C ends the search: the best mapping so far is written, and the exit code is 130.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from omegaconf import DictConfig

from placer.base import (
    InputError,
    Interrupt,
    Table,
    command_line,
    make_console,
    make_folder,
    notice_file_name,
    output_file,
    png,
    require_folder,
    write_atomic,
)
from placer.base.config import run_command, to_dataclass
from placer.streaming.model import Device, MapOptions, Program, groups_of, load_program

if TYPE_CHECKING:
    from placer.streaming.mappers import FrontPoint, Result

_MOST_NAMES = 12  # to print


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingConfig(MapOptions):
    """What `conf/streaming.yaml` holds."""

    graph: Path
    trust_graph: bool
    tiles: int
    ii: int
    depth: int
    timing: Literal["delay", "exact"]
    sibling: Literal["relax", "strict"]
    max_hop: int | None
    values: bool
    front: bool
    output: Path

    @property
    def file(self) -> Path:
        """Return where the mapping goes; picture and page have the same name."""
        return output_file(self.output, "mapping.json")

    def device(self) -> Device:
        return Device(self.tiles, self.ii, self.depth, self.timing, self.sibling, self.max_hop)


def main(config: DictConfig) -> None:
    """Map a program to the Streaming Engine, check the mapping, write its files and print it."""
    settings = to_dataclass(StreamingConfig, config)
    if settings.file.suffix != ".json":
        raise InputError(f"output={settings.output}: the mapping is a .json file; name a folder")
    require_folder(settings.file.parent)
    program = load_program(settings.graph, is_trusted=settings.trust_graph)
    groups_of(program, settings.device())  # refuses wrong input before compiled code is loaded
    _map(program, settings)


def _map(program: Program, settings: StreamingConfig) -> None:
    """Write the checked mapping, its picture and its page beside it.

    KeyboardInterrupt is raised after Ctrl-C, when the best so far is written.
    """
    from placer.streaming import mappers

    device, output = settings.device(), settings.file
    with Interrupt() as interrupt:
        try:
            result = mappers.map_program(
                program, device, settings, values=settings.values,
                is_interrupted=lambda: interrupt.is_asked,
            )  # fmt: skip
        except mappers.NotFoundError:
            if interrupt.is_asked:
                raise KeyboardInterrupt from None
            raise
        front = []
        if settings.front:
            front = mappers.find_front(program, device, settings, lambda: interrupt.is_asked)
    make_folder(output.parent)
    picture, page = output.with_suffix(".png"), output.with_suffix(".html")
    is_cut = interrupt.is_asked
    write_atomic(output, mappers.result_text(result, settings, front, is_interrupted=is_cut))
    write_atomic(picture, png(mappers.draw_mapping(result)))
    content = mappers.mapping_page(result, front, command_line("placer.streaming"), asdict(settings))
    write_atomic(page, content.to_html(is_interrupted=is_cut))
    _print(result, front)
    make_console().print(f"written to {output}, picture {picture}, page {page}")
    notice_file_name(settings.output)
    if is_cut:
        # The mapping is safe; the exit code tells that it is not final.
        raise KeyboardInterrupt


def _print(result: Result, front: list[FrontPoint]) -> None:
    """Print a mapping and its front."""
    console, problem = make_console(), result.problem
    for warning in problem.warnings:
        console.print(f"warning: {warning}")
    state = "optimal" if result.gap == 0 else f"gap at most {100 * result.gap:.1f}%"
    console.print(
        f"{problem.program.name}: {problem.num_nodes} instructions, {result.cycles} cycles, "
        f"lower bound {result.bound}, {state}, {result.seconds:.1f} s"
    )
    if result.not_executed:
        console.print(
            f"not executed ({len(result.not_executed)} of {problem.num_nodes} instructions; that their data arrives is "
            "checked, their numbers are not):"
        )
        for line in result.not_executed[:_MOST_NAMES]:
            console.print(f"  {line}")
        if len(result.not_executed) > _MOST_NAMES:
            console.print("  ... all of them are in the file")
    if result.made_up:
        names = ", ".join(map(repr, result.made_up[:_MOST_NAMES]))
        more = ", ..." if len(result.made_up) > _MOST_NAMES else ""
        console.print(f"values are right with random numbers for {names}{more}")
    if front:
        rows = [(p.ii, p.cycles or "-", p.bound or "-", p.reason) for p in front]
        console.print(Table(("ii", "cycles", "lower bound", ""), rows).screen())


if __name__ == "__main__":
    run_command(main, "streaming")
