"""Picture of a layout: kernels as rectangles coloured by their time, edges as arrows."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from placer.files import write_atomic
from placer.kernels.check import Score, extents, kernel_performance
from placer.kernels.graph import KernelGraph
from placer.kernels.layout import Layout

_COLOURS = colormaps["viridis"]
_ARROW = {"arrowstyle": "-|>", "color": "#D00000", "linewidth": 0.9, "mutation_scale": 7}


def time_colour(share: float) -> str:
    """Colour of a kernel that takes this share 0..1 of the time of the slowest."""
    return to_hex(_COLOURS(share))


def draw_layout(graph: KernelGraph, layout: Layout, score: Score, path: Path) -> None:
    """Write a PNG of the wafer."""
    buffer = BytesIO()
    _figure(graph, layout, score).savefig(buffer, format="png", dpi=100)
    write_atomic(path, buffer.getvalue())


def _figure(graph: KernelGraph, layout: Layout, score: Score) -> Figure:
    wafer = graph.wafer
    figure = Figure(figsize=(7.6, 6.6 * min(2.0, max(0.5, wafer.height / wafer.width))))
    axes = figure.add_axes((0.07, 0.06, 0.78, 0.86))
    axes.set(xlim=(0, wafer.width), ylim=(0, wafer.height), aspect="equal")
    centres = []
    for kernel, placed in zip(graph.kernels, layout.kernels, strict=True):
        width, height = extents(kernel, placed)
        share = float(kernel_performance(kernel, placed.execution).time / score.slowest)
        colour = time_colour(share)
        axes.add_patch(
            Rectangle((placed.x, placed.y), width, height, facecolor=colour, edgecolor="white")
        )
        centre = (placed.x + width / 2, placed.y + height / 2)
        centres.append(centre)
        axes.text(
            *centre,
            kernel.name,
            ha="center",
            va="bottom",
            fontsize=7,
            rotation=90 if height > 2 * width else 0,
            color="black" if share > 0.6 else "white",
            parse_math=False,
        )
    for source, target in graph.edges:
        axes.annotate("", centres[target], centres[source], arrowprops=_ARROW)
    title = (
        f"{graph.name}: slowest {float(score.slowest):,.0f}, "
        f"wires {float(score.wire_length):,.1f}, adapters {score.adapters}"
    )
    figure.suptitle(title, y=0.975, fontsize=10, parse_math=False)
    bar = figure.add_axes((0.88, 0.2, 0.02, 0.55))
    scale = ScalarMappable(Normalize(0, 1), _COLOURS)
    figure.colorbar(scale, cax=bar, label="time of the kernel / slowest")
    return figure
