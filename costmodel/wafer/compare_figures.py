"""Floorplans of one network side by side, as different costs choose them."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from costmodel.wafer.compare_jobs import Job, Result
from placer.kernels.model import extents, layout_of
from placer.kernels.sizing import Problem
from placer.kernels.truth import simulate_mapping

_COLOURS = colormaps["viridis"]
_SHOWN = ("contest", "learned")


def floorplans(results: list[tuple[Job, Result]]) -> Figure:
    """Draw the contest's and the learned choice, with kernels coloured by how busy they are."""
    shown = [item for item in results if item[0].method in _SHOWN]
    figure = Figure(figsize=(5.2 * len(shown) + 0.8, 5.6), layout="constrained")
    axes = [figure.add_subplot(1, len(shown), i + 1) for i in range(len(shown))]
    for part, (job, result) in zip(axes, shown, strict=True):
        _draw(part, job, result)
    scale = ScalarMappable(Normalize(0, 1), _COLOURS)
    figure.colorbar(scale, ax=axes, shrink=0.7, label="share of the time that a kernel is busy")
    return figure


def _draw(axes: Axes, job: Job, result: Result) -> None:
    graph, layout = job.graph, layout_of(np.array(result.table))
    measured = simulate_mapping(Problem(graph), layout)
    busy = measured.kernel_cycles / measured.cycles_per_sample
    axes.set(xlim=(0, graph.wafer.width), ylim=(0, graph.wafer.height), aspect="equal")
    axes.set(xticks=(), yticks=())
    for kernel, placed, share in zip(graph.kernels, layout, busy, strict=True):
        width, height = extents(kernel, placed)
        axes.add_patch(Rectangle((placed.x, placed.y), width, height, facecolor=_COLOURS(share), edgecolor="white"))
        axes.text(
            placed.x + width / 2, placed.y + height / 2, kernel.name, ha="center", va="center",
            fontsize=7, rotation=90 if height > 2 * width else 0,
            color="black" if share > 0.6 else "white", parse_math=False,
        )  # fmt: skip
    axes.set_title(
        f"{graph.name}, chosen by {job.method}\nsimulated throughput {result.throughput:.3f} of "
        f"the bound, contest score {result.score:,.0f}",
        fontsize=9, parse_math=False,
    )  # fmt: skip
