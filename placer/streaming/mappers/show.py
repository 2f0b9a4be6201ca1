"""What is shown of a mapping: a picture, tiles by cycles, and a page that tells more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from placer.show.html import Arrow, Box, BoxView, Cell, Chapter, Page, PageTable, Text
from placer.streaming.mappers.mappers import FrontPoint, Result
from placer.streaming.model import Program

# Light hues of Paul Tol's colour-blind-safe set, one per first op; black text can be read on them.
_COLOURS = (
    "#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#99DDFF", "#44BB99", "#BBCC33", "#AAAA00",
)  # fmt: skip
_PLAIN = "#DDDDDD"  # of instructions without ops, and of rare ops
_CYCLE_INCHES, _TILE_INCHES = 0.34, 0.36
_LEAST_INCHES = 5.0  # of the width, for the legend
_MOST_INCHES = 40.0  # of a side; larger mappings are drawn smaller
_MOST_TICKS = 40
_TILE_HEIGHT = 1.6  # of a line of the picture, in cycles
_BOX_SHARE = 0.8  # of the height of a line
_PAGE_TICKS = 24


def draw_mapping(result: Result) -> Figure:
    """Return the picture: boxes in tiles and time, arrows between them."""
    mapping, program = result.mapping, result.problem.program
    lowest, highest = int(mapping.tile.min()), int(mapping.tile.max())
    size = (
        min(_MOST_INCHES, max(_LEAST_INCHES, 1.4 + _CYCLE_INCHES * result.cycles)),
        min(_MOST_INCHES, 1.2 + _TILE_INCHES * (highest - lowest + 1)),
    )
    turns = 1 + result.cycles // (mapping.ii * _MOST_TICKS)  # between two ticks
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    _draw_boxes(axes, result)
    for start, end in program.edges:
        axes.add_patch(
            FancyArrowPatch(
                (mapping.start[start] + mapping.depth, mapping.tile[start]),
                (mapping.start[end], mapping.tile[end]),
                arrowstyle="-|>", mutation_scale=7, linewidth=0.8, color="#444444",
                shrinkA=0, shrinkB=0, zorder=3,
            )
        )  # fmt: skip
    axes.set_xlim(-0.3, result.cycles + 0.3)
    axes.set_ylim(lowest - 0.6, highest + 0.6)
    axes.set_xticks(range(0, result.cycles + 1, mapping.ii * turns))
    axes.set_yticks(range(lowest, highest + 1, 1 + (highest - lowest) // 20))
    axes.grid(axis="x", color="#BBBBBB", linewidth=0.8)
    axes.set_xlabel(f"cycle (a thread starts every {mapping.ii})")
    axes.set_ylabel("tile")
    title = f"{program.name}: {result.cycles} cycles, at least {result.bound}"
    axes.set_title(title, parse_math=False)
    axes.set_axisbelow(True)
    return figure


def op_colours(program: Program) -> tuple[dict[str, str], list[str]]:
    """Return the colours of the most frequent first ops, and that of each instruction."""
    ops = [str(item.ops[0]) if item.ops else "" for item in program.instructions]
    kinds = Counter(filter(None, ops)).most_common(len(_COLOURS))
    legend = dict(zip(sorted(op for op, _ in kinds), _COLOURS, strict=False))
    return legend, [legend.get(op, _PLAIN) for op in ops]


def _draw_boxes(axes: Axes, result: Result) -> None:
    """Draw a box in the cycle of the start, with the node id, and a bar until the result."""
    mapping = result.mapping
    legend, colours = op_colours(result.problem.program)
    for node, colour in enumerate(colours):
        start, tile = int(mapping.start[node]), int(mapping.tile[node])
        box: dict[str, Any] = {"facecolor": colour, "edgecolor": "#666666", "linewidth": 0.6}
        axes.add_patch(Rectangle((start, tile - 0.12), mapping.depth, 0.24, alpha=0.5, **box))
        axes.add_patch(Rectangle((start, tile - 0.38), 1, 0.76, zorder=3.5, **box))
        axes.text(start + 0.5, tile, str(node), ha="center", va="center", fontsize=7, zorder=4)
    if legend:
        names = axes.legend(
            [Patch(color=colour) for colour in legend.values()], [_label(op) for op in legend],
            loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False,
        )  # fmt: skip
        for text in names.get_texts():
            text.set_parse_math(False)


def _label(op: str) -> str:
    """Return an op for the legend; ops may be any text, of which fonts have few signs."""
    return op.encode("ascii", "replace").decode().lstrip("_")[:24] or "?"


def mapping_page(result: Result, front: Sequence[FrontPoint], command: str, config: dict[str, Any]) -> Page:
    """Return the page: the mapping, its instructions, and other initiation intervals."""
    program = result.problem.program
    sections = [
        Chapter("Mapping", [*map(Text, _summary(result)), _view(result)]),
        Chapter("Instructions", [_instructions(result)]),
    ]
    if front:
        sections.append(Chapter("Initiation intervals", [_front(front)]))
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
        *(f"Not executed: {line}" for line in result.not_executed),
    ]


def _view(result: Result) -> BoxView:
    mapping, program = result.mapping, result.problem.program
    legend, colours = op_colours(program)
    lowest, highest = int(mapping.tile.min()), int(mapping.tile.max())
    start = mapping.start.tolist()
    middle = (_TILE_HEIGHT * (mapping.tile - lowest + 0.5)).tolist()
    boxes = [
        Box(
            start[node], middle[node] - _BOX_SHARE / 2 * _TILE_HEIGHT, 1, _BOX_SHARE * _TILE_HEIGHT,
            str(node), f"instruction {node}", colours[node], _facts(result, node), mapping.depth,
        )
        for node in range(program.num_nodes)
    ]  # fmt: skip
    arrows = [Arrow(a, b, (start[a] + mapping.depth, middle[a]), (start[b], middle[b])) for a, b in program.edges]
    every = mapping.ii * (1 + result.cycles // (mapping.ii * _PAGE_TICKS))
    lines = range(lowest, highest + 1, 1 + (highest - lowest) // _PAGE_TICKS)
    return BoxView(
        f"{program.name}: {program.num_nodes} instructions in time",
        "Time goes to the right, in cycles; every line is a tile. A box is the cycle in which an "
        "instruction starts, the bar behind it lasts until its result is ready, arrows are data.",
        result.cycles,
        _TILE_HEIGHT * (highest - lowest + 1),
        boxes,
        arrows,
        legend,
        x_ticks=[(cycle, str(cycle)) for cycle in range(0, result.cycles + 1, every)],
        y_ticks=[(_TILE_HEIGHT * (tile - lowest + 0.5), str(tile)) for tile in lines],
    )


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


def _instructions(result: Result) -> PageTable:
    """Return the text alternative of the picture, in the order of time."""
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
    return PageTable("Instructions in the order of their start", header, rows)


def _front(front: Sequence[FrontPoint]) -> PageTable:
    rows: list[list[Cell]] = [
        [p.ii, p.reason, ""] if p.cycles is None else [p.ii, p.cycles, p.bound or ""] for p in front
    ]
    header = ["initiation interval", "cycles", "at least"]
    return PageTable("Fewest cycles found for every initiation interval", header, rows)
