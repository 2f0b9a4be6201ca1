"""The page of a mapping: instructions in tiles and time, and what each of them does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placer.html.box_view import Arrow, Box, BoxView
from placer.html.page import Cell, Page, Section, Table, Text
from placer.streaming.draw import PLAIN, op_colours
from placer.streaming.mappers import Result
from placer.streaming.result_file import FrontPoint

TILE_HEIGHT = 1.6  # of a line of the picture, in cycles
BOX_SHARE = 0.8  # of the height of a line
MAX_TICKS = 24


def mapping_page(
    result: Result, front: Sequence[FrontPoint], command: str, config: dict[str, Any]
) -> Page:
    """The mapping, its instructions as a table, and other initiation intervals."""
    program = result.problem.program
    sections = [
        Section("Mapping", [*map(Text, _summary(result)), _view(result)]),
        Section("Instructions", [_instructions(result)]),
    ]
    if front:
        sections.append(Section("Initiation intervals", [_front(front)]))
    subtitle = f"Instructions mapped to the Streaming Engine, {result.cycles} cycles"
    return Page(program.name, subtitle, command, config, sections)


def _summary(result: Result) -> list[str]:
    mapping, problem = result.mapping, result.problem
    state = "optimal" if result.gap == 0 else f"at most {result.gap:.1%} above the optimum"
    return [
        f"{problem.num_nodes} instructions on {len(set(mapping.tile.tolist()))} of "
        f"{problem.device.tiles} tiles: {result.cycles} cycles, at least {result.bound}, {state}. "
        f"A thread starts every {mapping.ii} cycles; a result is ready after {mapping.depth}.",
        *(f"Warning: {warning}" for warning in problem.warnings),
    ]


def _view(result: Result) -> BoxView:
    mapping, program = result.mapping, result.problem.program
    colours = op_colours(program)
    lowest, highest = int(mapping.tile.min()), int(mapping.tile.max())

    def middle(tile: int) -> float:
        return TILE_HEIGHT * (tile - lowest + 0.5)

    boxes = []
    for node in range(program.num_nodes):
        tile, start = int(mapping.tile[node]), int(mapping.start[node])
        boxes.append(
            Box(
                start, middle(tile) - BOX_SHARE / 2 * TILE_HEIGHT, 1, BOX_SHARE * TILE_HEIGHT,
                str(node), f"instruction {node}",
                colours.get(_first_op(result, node), PLAIN), _facts(result, node), mapping.depth,
            )
        )  # fmt: skip
    arrows = [
        Arrow(
            a, b, (int(mapping.start[a]) + mapping.depth, middle(int(mapping.tile[a]))),
            (int(mapping.start[b]), middle(int(mapping.tile[b]))),
        )
        for a, b in program.edges
    ]  # fmt: skip
    every = mapping.ii * (1 + result.cycles // (mapping.ii * MAX_TICKS))
    lines = range(lowest, highest + 1, 1 + (highest - lowest) // MAX_TICKS)
    return BoxView(
        f"{program.name}: {program.num_nodes} instructions in time",
        "Time goes to the right, in cycles; every line is a tile. A box is the cycle in which an "
        "instruction starts, the bar behind it lasts until its result is ready, arrows are data.",
        result.cycles,
        TILE_HEIGHT * (highest - lowest + 1),
        boxes,
        arrows,
        colours,
        x_ticks=[(cycle, str(cycle)) for cycle in range(0, result.cycles + 1, every)],
        y_ticks=[(middle(tile), str(tile)) for tile in lines],
    )


def _first_op(result: Result, node: int) -> str:
    ops = result.problem.program.instructions[node].ops
    return str(ops[0]) if ops else ""


def _facts(result: Result, node: int) -> dict[str, str]:
    mapping, item = result.mapping, result.problem.program.instructions[node]
    facts = {
        "does": " ".join(map(str, item.ops)) or "sum of its inputs",
        "tile": str(mapping.tile[node]),
        "time slot": f"{mapping.spoke[node]} of {mapping.ii}",
        "starts": f"cycle {mapping.start[node]}",
        "ready": f"cycle {mapping.start[node] + mapping.depth}",
        "reads": ", ".join(item.uses),
        "writes": ", ".join(item.defines),
    }
    return {name: text for name, text in facts.items() if text}


def _instructions(result: Result) -> Table:
    """The text alternative of the picture, in the order of time."""
    program, start = result.problem.program, result.mapping.start
    header = ["instruction", "does", "tile", "time slot", "starts", "ready", "reads", "writes",
              "operands from", "result to"]  # fmt: skip
    rows: list[list[Cell]] = []
    for node in sorted(range(program.num_nodes), key=lambda n: int(start[n])):
        facts = _facts(result, node)
        ends = (program.predecessors[node], program.successors[node])
        rows.append(
            [node, *(facts.get(name, "") for name in header[1:8]),
             *(", ".join(map(str, nodes)) for nodes in ends)]
        )  # fmt: skip
    return Table("Instructions in the order of their start", header, rows)


def _front(front: Sequence[FrontPoint]) -> Table:
    rows: list[list[Cell]] = [
        [p.ii, p.reason, ""] if p.cycles is None else [p.ii, p.cycles, p.bound or ""] for p in front
    ]
    header = ["initiation interval", "cycles", "at least"]
    return Table("Fewest cycles found for every initiation interval", header, rows)
