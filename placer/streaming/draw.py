"""Picture of a mapping: tiles by cycles, an arrow for every edge."""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from placer.files import write_atomic
from placer.streaming.mappers import Result
from placer.streaming.program import Program

# Light hues of Paul Tol's colour-blind-safe set, one per first op; black text can be read on them.
_COLOURS = (
    "#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#99DDFF", "#44BB99", "#BBCC33", "#AAAA00",
)  # fmt: skip
PLAIN = "#DDDDDD"  # of instructions without ops, and of rare ops
_CYCLE_INCHES, _TILE_INCHES = 0.34, 0.36
_LEAST_INCHES = 5.0  # of the width, for the legend
_MOST_INCHES = 40.0  # of a side; larger mappings are drawn smaller
_MOST_TICKS = 40


def draw_mapping(result: Result, path: Path) -> None:
    """Write the picture as PNG or SVG, by the suffix of `path`."""
    mapping, program = result.mapping, result.problem.program
    lowest, highest = int(mapping.tile.min()), int(mapping.tile.max())
    size = (
        min(_MOST_INCHES, max(_LEAST_INCHES, 1.4 + _CYCLE_INCHES * result.cycles)),
        min(_MOST_INCHES, 1.2 + _TILE_INCHES * (highest - lowest + 1)),
    )
    turns = 1 + result.cycles // (mapping.ii * _MOST_TICKS)  # between two ticks
    with rc_context({"svg.hashsalt": "streaming"}):
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
        axes.set_title(
            f"{program.name}: {result.cycles} cycles, at least {result.bound}", parse_math=False
        )
        axes.set_axisbelow(True)
        buffer = BytesIO()
        kind = path.suffix.removeprefix(".")
        figure.savefig(
            buffer, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else {}
        )
    write_atomic(path, buffer.getvalue())


def op_colours(program: Program) -> dict[str, str]:
    """Colours of the most frequent first ops."""
    kinds = Counter(filter(None, _first_ops(program))).most_common(len(_COLOURS))
    return dict(zip(sorted(op for op, _ in kinds), _COLOURS, strict=False))


def _first_ops(program: Program) -> list[str]:
    return [str(item.ops[0]) if item.ops else "" for item in program.instructions]


def _draw_boxes(axes: Axes, result: Result) -> None:
    """A box in the cycle of the start, with the node id, and a bar until the result is ready."""
    mapping, program = result.mapping, result.problem.program
    colours = op_colours(program)
    for node, op in enumerate(_first_ops(program)):
        colour = colours.get(op, PLAIN)
        start, tile = int(mapping.start[node]), int(mapping.tile[node])
        box: dict[str, Any] = {"facecolor": colour, "edgecolor": "#666666", "linewidth": 0.6}
        axes.add_patch(Rectangle((start, tile - 0.12), mapping.depth, 0.24, alpha=0.5, **box))
        axes.add_patch(Rectangle((start, tile - 0.38), 1, 0.76, zorder=3.5, **box))
        axes.text(start + 0.5, tile, str(node), ha="center", va="center", fontsize=7, zorder=4)
    if colours:
        legend = axes.legend(
            [Patch(color=colour) for colour in colours.values()], [_label(op) for op in colours],
            loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)


def _label(op: str) -> str:
    """Ops may be any text; fonts have few of its signs."""
    return op.encode("ascii", "replace").decode().lstrip("_")[:24] or "?"
