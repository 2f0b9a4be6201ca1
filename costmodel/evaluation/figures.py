"""Pictures of an evaluation. All show one split, those of single decisions its first seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from costmodel.base import score_graphs
from costmodel.dataset import ALL
from costmodel.evaluation.scores import coverage, deviations
from costmodel.evaluation.tables import Board, families_of

# Paul Tol, vibrant and muted
_COLOURS = (
    "#0077BB", "#EE7733", "#009988", "#CC3311", "#33BBEE", "#EE3377", "#999999", "#332288",
    "#999933", "#882255", "#117733", "#DDCC77",
)  # fmt: skip
_PANELS_PER_ROW = 3
_MAX_POINTS = 4000  # more cover each other
CURVE_LEVELS = tuple(level / 20 for level in range(1, 20))


def predicted_against_measured(predictions: pd.DataFrame) -> Figure:
    """Draw one panel per method; a perfect one lies on the diagonal."""
    methods = dict(iter(predictions.groupby("method", sort=False)))
    columns = min(len(methods), _PANELS_PER_ROW)
    rows = math.ceil(len(methods) / columns)
    figure = Figure(figsize=(max(3.1 * columns, 5), 3.1 * rows + 0.9), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for unused in grid[len(methods) :]:
        unused.remove()
    figure.suptitle("Predicted against measured throughput", fontsize=11)
    colours = dict(zip(sorted(predictions["family"].unique()), _COLOURS, strict=False))
    for axes, (method, p) in zip(grid, methods.items(), strict=False):
        step = -(-len(p) // _MAX_POINTS)
        for family, colour in colours.items():
            own = p[p["family"] == family][::step]
            axes.scatter(own["measured"], own["predicted"], s=4, alpha=0.4, lw=0, color=colour, label=family)
        axes.axline((0, 0), slope=1, color="#000000", lw=0.6, ls=":")
        axes.set(xlabel="measured", xlim=(0, 1.02), ylim=(0, 1.02))
        axes.set_title(method, fontsize=10, parse_math=False)
    figure.supylabel("predicted", fontsize=10)
    _legend(figure)
    return figure


def rank_within_graphs(predictions: pd.DataFrame) -> Figure:
    """Draw boxes (quartiles; whiskers from 5 to 95%) of the Spearman correlation of each graph."""
    groups = predictions.groupby("method", sort=False)
    ranks = {method: graph_ranks(own)["spearman"] for method, own in groups}
    figure = Figure(figsize=(max(1.0 * len(ranks), 5), 4.2), layout="constrained")
    axes = figure.subplots()
    boxes = axes.boxplot(
        [own[np.isfinite(own)] for own in ranks.values()],
        tick_labels=list(ranks),
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


def graph_ranks(own: pd.DataFrame) -> pd.DataFrame:
    """Return number, family and Spearman correlation of each graph, for one method and seed."""
    found = score_graphs(own["predicted"], own["measured"], own["netlist"])
    family = own.groupby("netlist")["family"].first()
    return pd.DataFrame({"netlist": found.graph, "family": family, "spearman": found.spearman})


def error_by_family(board: Board, split: str, methods: Sequence[str]) -> Figure:
    """Draw the relative error, with the standard deviation over seeds."""
    families = [*families_of(board, split)[1:], ALL]
    figure = Figure(figsize=(max(1.8 * len(families), 5), 3.8), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(methods)
    for number, method in enumerate(methods):
        spreads = [board[split, family, method]["relative_error"] for family in families]
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


def calibration_of_uncertainty(predictions: pd.DataFrame) -> Figure:
    """Draw the share of the labels within an interval; well calibrated is the diagonal."""
    figure = Figure(figsize=(4.6, 4.6), layout="constrained")
    axes = figure.subplots()
    for number, (method, p) in enumerate(predictions.groupby("method", sort=False)):
        if p["log_sigma"].notna().all():
            columns = (p[name].to_numpy() for name in ("predicted", "measured", "log_sigma"))
            covered = coverage(deviations(*columns), CURVE_LEVELS)
            axes.plot(CURVE_LEVELS, covered, ".-", color=_colour(number), lw=1, label=method)
    axes.axline((0, 0), slope=1, color="#000000", lw=0.6, ls=":")
    axes.set(xlabel="level of the interval", ylabel="labels within", xlim=(0, 1), ylim=(0, 1))
    axes.set_title("Calibration of the uncertainty", fontsize=11)
    _legend(figure)
    return figure


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


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
