"""What `python -m placer.kernels` prints, writes and draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from rich.console import Console
from rich.table import Column, Table

from placer.base import make_folder, png, write_atomic
from placer.kernels.model import (
    KERNEL_TYPES,
    OutRules,
    Part,
    adapter_cost,
    extents,
    format_layout,
    kernel_performance,
    to_json,
)
from placer.show.html import Arrow, Box, BoxView, Cell, Chapter, Page, PageTable, Scale

_COLOURS = colormaps["viridis"]
_ARROW = {"arrowstyle": "-|>", "color": "#D00000", "linewidth": 0.9, "mutation_scale": 7}
NUMBERS = (
    "kernels", "deltaT", "bound", "wire length", "adapters", "with min(c,k)", "score",
    "without adapters", "utilisation", "throughput",
)  # fmt: skip
NUM_COLOURS = 16  # of the scale on a page
OTHER_RULES: OutRules = dict.fromkeys(KERNEL_TYPES, "min(c,k)")


class _Drawn(NamedTuple):
    """A kernel as pictures show it."""

    name: str
    kind: str
    x: int
    y: int
    width: int
    height: int
    time: float
    share: float  # of the time of the slowest

    @property
    def centre(self) -> tuple[float, float]:
        """Return the middle of the rectangle."""
        return self.x + self.width / 2, self.y + self.height / 2

    def entry(self, other: _Drawn) -> tuple[float, float]:
        """Return where the line from the centre of another kernel enters this one."""
        (x, y), (from_x, from_y) = self.centre, other.centre
        steps = [abs(x - from_x) / self.width, abs(y - from_y) / self.height]  # in sizes of this kernel
        left = 0.5 / max(*steps, 0.5)  # share of the line that lies within
        return x + left * (from_x - x), y + left * (from_y - y)


def _scale_colours() -> list[str]:
    return [time_colour(number / (NUM_COLOURS - 1)) for number in range(NUM_COLOURS)]


def time_colour(share: float) -> str:
    """Return the colour of a kernel that takes this share 0..1 of the time of the slowest."""
    return to_hex(_COLOURS(share))


def _drawn(part: Part) -> list[_Drawn]:
    drawn = []
    for kernel, placed in zip(part.graph.kernels, part.mapping.layout, strict=True):
        time = float(kernel_performance(kernel, placed.execution).time)
        place = (placed.x, placed.y, *extents(kernel, placed))
        share = time / float(part.mapping.score.slowest)
        drawn.append(_Drawn(kernel.name, kernel.type, *place, time, share))
    return drawn


def draw_wafer(part: Part) -> Figure:
    """Return a picture: kernels as rectangles coloured by their time, edges as arrows."""
    wafer, score, kernels = part.graph.wafer, part.mapping.score, _drawn(part)
    figure = Figure(figsize=(7.6, 6.6 * min(2.0, max(0.5, wafer.height / wafer.width))))
    axes = figure.add_axes((0.07, 0.06, 0.78, 0.86))
    axes.set(xlim=(0, wafer.width), ylim=(0, wafer.height), aspect="equal")
    for kernel in kernels:
        width, height = kernel.width, kernel.height
        corner, colour = (kernel.x, kernel.y), time_colour(kernel.share)
        box = Rectangle(corner, width, height, facecolor=colour, edgecolor="white")
        axes.add_patch(box)
        axes.text(
            *kernel.centre, kernel.name, ha="center", va="bottom", fontsize=7,
            rotation=90 if height > 2 * width else 0,
            color="black" if kernel.share > 0.6 else "white", parse_math=False,
        )  # fmt: skip
    for source, target in part.graph.edges:
        axes.annotate("", kernels[target].centre, kernels[source].centre, arrowprops=_ARROW)
    title = (
        f"{part.graph.name}: slowest {float(score.slowest):,.0f}, "
        f"wires {float(score.wire_length):,.1f}, adapters {score.adapters}"
    )
    figure.suptitle(title, y=0.975, fontsize=10, parse_math=False)
    bar = figure.add_axes((0.88, 0.2, 0.02, 0.55))
    scale = ScalarMappable(Normalize(0, 1), _COLOURS)
    figure.colorbar(scale, cax=bar, label="time of the kernel / slowest")
    return figure


def show(parts: Sequence[Part], console: Console) -> None:
    """Print a table with one row per wafer, and what the chain of them reaches."""
    table = Table("wafer", *(Column(name, justify="right") for name in NUMBERS))
    for part in parts:
        table.add_row(*_row(part))
    console.print(table)
    if len(parts) > 1:
        slowest = max(float(part.mapping.score.slowest) for part in parts)
        console.print(f"slowest wafer of the chain: deltaT {slowest:,.10g}")
        cycles = [part.cycles_per_sample for part in parts if part.cycles_per_sample is not None]
        if len(cycles) == len(parts):
            longest = f"{max(cycles):,.0f} cycles per sample"
            console.print(f"simulated: {longest}, those of its slowest wafer")


def _row(part: Part) -> list[str]:
    """Return the wafer, and what it reaches in the order of `NUMBERS`."""
    mapping, score, wafer = part.mapping, part.mapping.score, part.graph.wafer
    return [
        f"{part.wafer + 1}: {wafer.width} x {wafer.height}", str(len(part.graph.kernels)),
        f"{float(score.slowest):,.10g}", f"{float(part.bound):,.10g}",
        f"{float(score.wire_length):,.1f}", str(score.adapters),
        str(adapter_cost(part.graph, mapping.layout, OTHER_RULES)),
        f"{score.total:,.1f}", f"{score.total_without_adapters:,.1f}",
        f"{100 * score.utilisation:.1f}%",
        "-" if mapping.throughput is None else f"{mapping.throughput:.4f}",
    ]  # fmt: skip


def write(
    parts: Sequence[Part], output: Path, settings: dict[str, Any], command: str,
    *, is_interrupted: bool,
) -> list[Path]:  # fmt: skip
    """Write layouts in the contest's format and pictures, one per wafer; JSON and a page of all."""
    contents: dict[Path, str | bytes] = {}
    for part in parts:
        number = f".wafer{part.wafer + 1}" if len(parts) > 1 else ""
        path = output.with_suffix(number + output.suffix)
        contents[path] = format_layout(part.graph, part.mapping.layout)
        contents[path.with_suffix(".png")] = png(draw_wafer(part), 100)
    text = to_json(parts, settings, is_interrupted=is_interrupted)
    page = layout_page(parts, settings, command).to_html(is_interrupted=is_interrupted)
    contents |= {output.with_suffix(".json"): text, output.with_suffix(".html"): page}
    make_folder(output.parent)
    for path, content in contents.items():
        write_atomic(path, content)
    return list(contents)


def layout_page(parts: Sequence[Part], settings: dict[str, Any], command: str) -> Page:
    """Return a page with the figures of all wafers, then each with its floorplan."""
    rows = [_row(part) for part in parts]
    summary = Chapter("Score", [PageTable("Wafers", ["wafer", *NUMBERS], rows)])
    subtitle = f"Kernels mapped to {len(parts)} wafer{'s' * (len(parts) > 1)}"
    sections = [summary, *(_floorplan(part) for part in parts)]
    return Page(parts[0].graph.name, subtitle, command, settings, sections)


def _floorplan(part: Part) -> Chapter:
    rows: list[list[Cell]] = []
    boxes: list[Box] = []
    wafer, kernels = part.graph.wafer, _drawn(part)
    for name, kind, x, y, width, height, time, share in kernels:
        rows.append([name, x, y, width, height, f"{time:,.10g}", f"{share:.0%}"])
        facts = {
            "type": kind,
            "place": f"({x}, {y})",
            "size": f"{width} x {height}",
            "time": f"{time:,.10g}, {share:.0%} of the slowest",
        }
        boxes.append(Box(x, y, width, height, f"{name} {kind}", f"kernel {name}", time_colour(share), facts))
    view = BoxView(
        f"Floorplan of wafer {part.wafer + 1}: {len(boxes)} kernels",
        "Kernels as rectangles on the wafer, coloured by their time; arrows are streams.",
        wafer.width,
        wafer.height,
        boxes,
        [Arrow(a, b, kernels[a].centre, kernels[b].entry(kernels[a])) for a, b in part.graph.edges],
        scale=Scale("Time of a kernel / the slowest", "0%", "100%", _scale_colours()),
    )
    header = ["kernel", "x", "y", "width", "height", "time", "of the slowest"]
    return Chapter(f"Wafer {part.wafer + 1}", [view, PageTable("Kernels", header, rows)])
