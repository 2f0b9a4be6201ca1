"""What the command does after its input is found right: map, write, draw, print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from placer.annealing.interrupt import Interrupt
from placer.command import make_console
from placer.files import make_folder, write_atomic
from placer.streaming.device import Device
from placer.streaming.draw import draw_mapping
from placer.streaming.mappers import NotFoundError, Result, map_program
from placer.streaming.options import MapOptions
from placer.streaming.page import mapping_page
from placer.streaming.program import Program
from placer.streaming.result_file import FrontPoint, result_text
from placer.streaming.rules import InfeasibleError

_MOST_NAMES = 12  # to print


def run_and_report(
    program: Program,
    device: Device,
    options: MapOptions,
    output: Path,
    *,
    values: bool,
    front: bool,
    command: str,
    config: dict[str, Any],
) -> None:
    """Write the checked mapping to `output`, its picture and its page beside it.

    Ctrl-C ends the search; KeyboardInterrupt is raised when the best so far is written.
    """
    with Interrupt() as interrupt:
        try:
            result = map_program(
                program, device, options, values=values, is_interrupted=lambda: interrupt.is_asked
            )
        except NotFoundError:
            if interrupt.is_asked:
                raise KeyboardInterrupt from None
            raise
        points = []
        if front:
            points = find_front(program, device, options, lambda: interrupt.is_asked)
    picture, page = output.with_suffix(".png"), output.with_suffix(".html")
    make_folder(output.parent)
    text = result_text(result, options, points, is_interrupted=interrupt.is_asked)
    write_atomic(output, text)
    draw_mapping(result, picture)
    content = mapping_page(result, points, command, config)
    write_atomic(page, content.to_html(is_interrupted=interrupt.is_asked))
    console = make_console()
    show(console, result, points)
    console.print(f"written to {output}, picture {picture}, page {page}")
    if interrupt.is_asked:
        # The mapping is safe; the exit code tells that it is not final.
        raise KeyboardInterrupt


def find_front(
    program: Program,
    device: Device,
    options: MapOptions,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> list[FrontPoint]:
    """The best mapping for every initiation interval up to that of the device."""
    front: list[FrontPoint] = []
    for ii in range(1, device.ii + 1):
        try:
            result = map_program(
                program, replace(device, ii=ii), options, values=False,
                is_interrupted=is_interrupted,
            )  # fmt: skip
            point = FrontPoint(ii, result.cycles, result.bound)
        except (InfeasibleError, NotFoundError) as error:
            point = FrontPoint(ii, None, None, str(error))
        if is_interrupted():
            break  # half a search is no point
        front.append(point)
    return front


def show(console: Console, result: Result, front: list[FrontPoint]) -> None:
    problem = result.problem
    for warning in problem.warnings:
        console.print(f"warning: {warning}")
    state = "optimal" if result.gap == 0 else f"gap at most {100 * result.gap:.1f}%"
    console.print(
        f"{problem.program.name}: {problem.num_nodes} instructions, {result.cycles} cycles, "
        f"lower bound {result.bound}, {state}, {result.seconds:.1f} s"
    )
    if result.made_up:
        names = ", ".join(map(repr, result.made_up[:_MOST_NAMES]))
        more = ", ..." if len(result.made_up) > _MOST_NAMES else ""
        console.print(f"values are right with random numbers for {names}{more}")
    if front:
        table = Table("ii", "cycles", "lower bound", "")
        for point in front:
            found = ("-", "-") if point.cycles is None else (str(point.cycles), str(point.bound))
            table.add_row(str(point.ii), *found, point.reason)
        console.print(table)
