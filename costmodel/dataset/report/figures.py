"""Pictures of a dataset, with one panel per family."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from costmodel.dataset import Phase
from costmodel.dataset.report.numbers import Points
from placer.base import BoolArray, LongArray

HISTOGRAM_BINS = 40
_PANELS_PER_ROW = 4
_MAX_POINTS = 4000  # more cover each other
_COLOURS = dict(
    zip(
        Phase,
        ("#999999", "#CC3311", "#EE7733", "#33BBEE", "#0077BB", "#EE3377", "#009988"),  # Paul Tol, vibrant
        strict=True,
    )
)


def label_histograms(points: Points) -> Figure:
    """Draw counts of throughput, stacked by phase."""
    figure, panels = _panels(points, "Throughput by family and phase", sharey=False)
    phases = points.phases
    for axes, own in panels:
        axes.hist(
            [points.throughput[own & (points.phase == phase.value)] for phase in phases],
            bins=HISTOGRAM_BINS,
            range=(0, 1),
            stacked=True,
            color=[_COLOURS[phase] for phase in phases],
            label=[phase.value for phase in phases],
        )
        axes.set(xlabel="normalised throughput", xlim=(0, 1))
    _finish(figure, "decisions")
    return figure


def spread_by_netlist(points: Points) -> Figure:
    """Draw worst to best decision of each netlist, netlists sorted by their best."""
    figure, panels = _panels(points, "Worst to best decision of each netlist")
    for axes, own in panels:
        first = np.flatnonzero(np.diff(points.netlist_id[own], prepend=-1))
        groups = np.split(points.throughput[own], first[1:])
        best, median, worst = np.array(sorted((g.max(), float(np.median(g)), g.min()) for g in groups)).T
        position = np.arange(len(groups))
        # Bars grow thin as netlists become many, but never thinner than can be seen.
        axes.vlines(position, worst, best, color="#BBBBBB", lw=max(1.0, 90 / len(groups)))
        axes.plot(position, best, ".", color="#0077BB", ms=4, label="best")
        axes.plot(position, median, ".", color="#000000", ms=3, label="median")
        axes.plot(position, worst, ".", color="#CC3311", ms=4, label="worst")
        axes.set(xlabel=f"{len(groups)} netlists by best", ylim=(0, 1.02), xticks=[])
        axes.margins(x=0.03)
    _finish(figure, "normalised throughput")
    return figure


def heuristic_scatter(points: Points) -> Figure:
    """Draw heuristic scores against throughput; perfect ones lie on the diagonal."""
    figure, panels = _panels(points, "Heuristic against the simulator")
    for axes, own in panels:
        for phase in points.phases:
            shown = _thinned(np.flatnonzero(own & (points.phase == phase.value)))
            axes.scatter(
                points.heuristic[shown],
                points.throughput[shown],
                s=8,
                alpha=0.5,
                linewidths=0,
                color=_COLOURS[phase],
                label=phase.value,
            )
        shown = _thinned(np.flatnonzero(own))
        calibrated = points.calibrated[shown]
        axes.scatter(points.heuristic[shown], calibrated, s=1, color="#000000", label="calibrated")
        axes.axline((0, 0), slope=1, color="#000000", lw=0.6, ls=":")
        axes.set(xlabel="heuristic score", xlim=(0, 1.02), ylim=(0, 1.02))
    _finish(figure, "normalised throughput")
    return figure


def throughput_by_phase(points: Points) -> Figure:
    """Draw boxes (quartiles; whiskers 5 to 95%) of throughput / best of the netlist."""
    figure, panels = _panels(points, "Throughput by phase, relative to the best of the netlist")
    phases = points.phases
    for axes, own in panels:
        present = [phase for phase in phases if (own & (points.phase == phase.value)).any()]
        boxes = axes.boxplot(
            [points.of_best[own & (points.phase == phase.value)] for phase in present],
            tick_labels=[phase.value for phase in present],
            whis=(5, 95),
            widths=0.7,
            patch_artist=True,
            showfliers=False,
            medianprops={"color": "#000000"},
        )
        for box, phase in zip(boxes["boxes"], present, strict=True):
            box.set_facecolor(_COLOURS[phase])
        axes.set(ylim=(0, 1.02))
        axes.tick_params(axis="x", rotation=60)
    _finish(figure, "throughput / best", legend=False)
    return figure


def _panels(points: Points, title: str, *, sharey: bool = True) -> tuple[Figure, Iterator[tuple[Axes, BoolArray]]]:
    """Return a figure with axes for each family, and which decisions belong there."""
    families = points.families
    columns = min(len(families), _PANELS_PER_ROW)
    rows = math.ceil(len(families) / columns)
    figure = Figure(figsize=(max(3.1 * columns, 5), 3.1 * rows + 0.7), layout="constrained")
    grid = figure.subplots(rows, columns, sharey=sharey, squeeze=False).ravel()
    for unused in grid[len(families) :]:
        unused.remove()
    for axes, family in zip(grid, families, strict=False):
        axes.set_title(family, fontsize=10, parse_math=False)
    figure.suptitle(title, fontsize=11)
    return figure, ((axes, points.family == f) for axes, f in zip(grid, families, strict=False))


def _finish(figure: Figure, ylabel: str, *, legend: bool = True) -> None:
    figure.supylabel(ylabel, fontsize=10)
    if legend:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8, markerscale=2, frameon=False
        )


def _thinned(numbers: LongArray) -> LongArray:
    """Return evenly spaced ones, no more than can be seen."""
    step = -(-len(numbers) // _MAX_POINTS) or 1
    return numbers[::step]
