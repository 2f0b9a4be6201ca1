"""Pictures of an evaluation. All show one split, those of single decisions its first seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from costmodel.dataset.report_numbers import ALL
from costmodel.evaluation.scores import Predicted, coverage, deviations
from costmodel.evaluation.tables import Board
from costmodel.metrics import score_graphs

# Paul Tol, vibrant and muted
_COLOURS = (
    "#0077BB", "#EE7733", "#009988", "#CC3311", "#33BBEE", "#EE3377", "#999999", "#332288",
    "#999933", "#882255", "#117733", "#DDCC77",
)  # fmt: skip
_PANELS_PER_ROW = 3
_MAX_POINTS = 4000  # more cover each other
CURVE_LEVELS = tuple(level / 20 for level in range(1, 20))


def predicted_against_measured(predictions: Sequence[Predicted]) -> Figure:
    """One panel per method; a perfect one lies on the diagonal."""
    figure, panels = _panels(predictions, "Predicted against measured throughput")
    colours = dict(zip(predictions[0].families, _COLOURS, strict=False))
    for axes, p in panels:
        step = -(-len(p.ids) // _MAX_POINTS)
        for family, colour in colours.items():
            own = np.flatnonzero(p.family == family)[::step]
            axes.scatter(
                p.measured[own], p.predicted[own], s=4, alpha=0.4, lw=0, color=colour, label=family
            )
        axes.axline((0, 0), slope=1, color="#000000", lw=0.6, ls=":")
        axes.set(xlabel="measured", xlim=(0, 1.02), ylim=(0, 1.02))
    figure.supylabel("predicted", fontsize=10)
    _legend(figure)
    return figure


def rank_within_graphs(predictions: Sequence[Predicted]) -> Figure:
    """Boxes (quartiles; whiskers from 5 to 95%) of the Spearman correlation of each graph."""
    figure = Figure(figsize=(max(1.0 * len(predictions), 5), 4.2), layout="constrained")
    axes = figure.subplots()
    values = [graph_spearman(p) for p in predictions]
    boxes = axes.boxplot(
        [own[np.isfinite(own)] for own in values],
        tick_labels=[p.method for p in predictions],
        whis=(5, 95),
        widths=0.6,
        patch_artist=True,
        showfliers=False,
        medianprops={"color": "#000000"},
    )
    for number, box in enumerate(boxes["boxes"]):
        box.set_facecolor(_colour(number))
    axes.set(ylabel="Spearman within a graph", ylim=(None, 1.02))
    axes.axhline(0, color="#000000", lw=0.5)
    axes.tick_params(axis="x", rotation=30)
    axes.set_title("Rank within each graph", fontsize=11)
    return figure


def graph_spearman(predicted: Predicted) -> np.ndarray:
    """[num_graphs] in the order of their numbers."""
    return score_graphs(predicted.predicted, predicted.measured, predicted.netlist).spearman


def error_by_family(board: Board, split: str, methods: Sequence[str]) -> Figure:
    """Relative error, with the standard deviation over seeds."""
    families = [*(f for f in board.families(split) if f != ALL), ALL]
    figure = Figure(figsize=(max(1.8 * len(families), 5), 3.8), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(methods)
    for number, method in enumerate(methods):
        spreads = [board.spread(split, family, method, "relative_error") for family in families]
        axes.bar(
            np.arange(len(families)) + (number - (len(methods) - 1) / 2) * width,
            [spread.mean for spread in spreads],
            width,
            yerr=[spread.deviation or 0.0 for spread in spreads],
            color=_colour(number),
            label=method,
        )
    axes.set_xticks(range(len(families)), families)
    axes.set(ylabel="relative error")
    axes.set_title("Error by family", fontsize=11)
    _legend(figure)
    return figure


def calibration_of_uncertainty(predictions: Sequence[Predicted]) -> Figure:
    """Share of the labels within an interval against its level; well calibrated: the diagonal."""
    figure = Figure(figsize=(4.6, 4.6), layout="constrained")
    axes = figure.subplots()
    for number, p in enumerate(predictions):
        if p.log_sigma is not None:
            covered = coverage(deviations(p.predicted, p.measured, p.log_sigma), CURVE_LEVELS)
            axes.plot(CURVE_LEVELS, covered, ".-", color=_colour(number), lw=1, label=p.method)
    axes.axline((0, 0), slope=1, color="#000000", lw=0.6, ls=":")
    axes.set(xlabel="level of the interval", ylabel="labels within", xlim=(0, 1), ylim=(0, 1))
    axes.set_title("Calibration of the uncertainty", fontsize=11)
    _legend(figure)
    return figure


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _panels(
    predictions: Sequence[Predicted], title: str
) -> tuple[Figure, Iterator[tuple[Axes, Predicted]]]:
    columns = min(len(predictions), _PANELS_PER_ROW)
    rows = math.ceil(len(predictions) / columns)
    figure = Figure(figsize=(max(3.1 * columns, 5), 3.1 * rows + 0.9), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for unused in grid[len(predictions) :]:
        unused.remove()
    for axes, p in zip(grid, predictions, strict=False):
        axes.set_title(p.method, fontsize=10, parse_math=False)
    figure.suptitle(title, fontsize=11)
    return figure, zip(grid, predictions, strict=False)


def _legend(figure: Figure) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if labels:
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=min(len(labels), 6),
            fontsize=8,
            markerscale=2,
            frameon=False,
        )
