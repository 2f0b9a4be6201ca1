"""A network that was cut into sections, as a picture: their order, and how each fills the fabric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from placer.show.draw_style import op_style, paint

_WIDTH = 12.0
_STRIP_BOXES = 60  # sections in a line of the strip
_LETTER = 0.085  # inches that a letter of a label takes


@dataclass(frozen=True, slots=True)
class CutGroup:
    """A group of ops in a section, and the compute units that run it."""

    name: str
    op: str
    units: int


@dataclass(frozen=True, slots=True)
class CutSection:
    """A distinct section: how it is called, and its groups in order."""

    label: str
    groups: tuple[CutGroup, ...]


def section_colour(number: int) -> str:
    """Return the colour of a section; neighbours differ."""
    return str(to_hex(colormaps["tab20"](number % 20)))


def cut_figure(sections: Sequence[CutSection], order: Sequence[int], num_compute: int, title: str) -> Figure:
    """Return the order in which sections run on top, below it the groups of each distinct one by their units."""
    lines = -(-len(order) // _STRIP_BOXES)
    heights = [0.3 + 0.22 * lines, 0.6 + 0.42 * len(sections)]
    figure = Figure(figsize=(_WIDTH, 1.3 + sum(heights)), layout="constrained")
    strip, rows = figure.subplots(2, 1, height_ratios=heights)
    _draw_strip(strip, order, lines)
    _draw_rows(rows, sections, num_compute)
    figure.suptitle(title, fontsize=11, parse_math=False)
    ops = dict.fromkeys(group.op for section in sections for group in section.groups)
    handles = [Patch(label=f"{op_style(op).code}  {op}", **paint(op)) for op in ops]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(8, len(handles)), fontsize=8, frameon=False)
    return figure


def _draw_strip(axes: Axes, order: Sequence[int], lines: int) -> None:
    for place, number in enumerate(order):
        line, column = divmod(place, _STRIP_BOXES)
        axes.add_patch(Rectangle((column, line), 0.94, 0.86, facecolor=section_colour(number)))
        axes.text(column + 0.47, line + 0.45, str(number), ha="center", va="center", fontsize=7)
    axes.set(xlim=(0, min(len(order), _STRIP_BOXES)), ylim=(lines, 0))
    told = "1 section" if len(order) == 1 else f"{len(order)} sections in the order in which they run"
    axes.set_title(told, fontsize=9, loc="left")
    axes.axis("off")


def _draw_rows(axes: Axes, sections: Sequence[CutSection], num_compute: int) -> None:
    inches = 0.72 * _WIDTH / (1.06 * num_compute)  # of a unit, about
    for row, section in enumerate(sections):
        left = 0
        for group in section.groups:
            style = paint(group.op) | {"edgecolor": "#FFFFFF", "linewidth": 0.8}
            axes.barh(row, group.units, 0.72, left, **style)
            label = _fit(group, group.units * inches)
            axes.text(left + group.units / 2, row, label, ha="center", va="center", fontsize=7, parse_math=False)
            left += group.units
        axes.add_patch(Rectangle((-0.012 * num_compute, row - 0.36), 0.01 * num_compute, 0.72, clip_on=False,
                                 facecolor=section_colour(row)))  # fmt: skip
    axes.axvline(num_compute, color="#666666", linewidth=1.0, linestyle=":")
    axes.set_yticks(range(len(sections)), [section.label for section in sections], fontsize=8, parse_math=False)
    axes.tick_params(axis="y", length=0, pad=10)
    axes.set(xlim=(0, 1.06 * num_compute), ylim=(len(sections) - 0.5, -0.6))
    axes.set_xlabel(f"compute units that run each group; the fabric has {num_compute}", fontsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _fit(group: CutGroup, inches: float) -> str:
    """Return as much of a group's name as fits: all of it, its end, the code of its op, or nothing."""
    code = op_style(group.op).code
    for text in (f"{group.name} ({group.units})", group.name, group.name.rpartition(".")[2], code):
        if len(text) * _LETTER * 0.75 <= inches:
            return text
    return ""
