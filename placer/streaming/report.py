"""What the command does after its input is found right: map, write, draw, print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from placer.command import make_console
from placer.files import make_folder, write_atomic
from placer.streaming.device import Device
from placer.streaming.draw import draw_mapping
from placer.streaming.mappers import Result, map_program
from placer.streaming.options import MapOptions
from placer.streaming.problem import InfeasibleError
from placer.streaming.program import Program
from placer.streaming.result_file import result_text


def run_and_report(
    program: Program,
    device: Device,
    options: MapOptions,
    output: Path,
    *,
    values: bool,
    front: bool,
) -> None:
    """Write the checked mapping to `output` and its picture beside it."""
    result = map_program(program, device, options, values=values)
    points = find_front(program, device, options) if front else []
    picture = output.with_suffix(".png")
    make_folder(output.parent)
    write_atomic(output, result_text(result, options, points))
    draw_mapping(result, picture)
    console = make_console()
    show(console, result, points)
    console.print(f"written to {output}, picture {picture}")


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
