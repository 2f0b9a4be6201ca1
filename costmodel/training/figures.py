"""Pictures of a training run."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from costmodel.model import Prediction, Selection

_COLOURS = ("#0077BB", "#EE7733", "#009988", "#CC3311", "#33BBEE", "#EE3377")  # Paul Tol, vibrant


def loss_curves(rows: list[dict[str, float]]) -> Figure:
    """Draw the loss and its parts after each epoch, and how well the validation part is told."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    epoch = [row["epoch"] for row in rows]
    parts = sorted(name.removeprefix("val_") for name in rows[0] if f"train_{name[4:]}" in rows[0])
    for colour, part in zip(_COLOURS, parts, strict=False):
        left.plot(epoch, [row[f"train_{part}"] for row in rows], "--", color=colour)
        left.plot(epoch, [row[f"val_{part}"] for row in rows], color=colour, label=part)
    left.set(xlabel="epoch", ylabel="validation (dashed: training)", yscale="symlog")
    for colour, name in zip(_COLOURS, ("relative_error", "spearman"), strict=False):
        label = name.replace("_", " ")
        right.plot(epoch, [row[f"val_{name}"] for row in rows], color=colour, label=label)
    right.set(xlabel="epoch", ylabel="validation part", ylim=(0, 1))
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.grid(alpha=0.3)
    return figure


def predicted_and_measured(selection: Selection, prediction: Prediction, title: str) -> Figure:
    """Draw one point per decision."""
    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.subplots()
    family = selection.data.family[selection.ids]
    for colour, name in zip(_COLOURS, np.unique(family), strict=False):
        own = family == name
        axes.plot(
            selection.throughput[own], prediction.throughput[own], ".", ms=3, alpha=0.6,
            color=colour, label=str(name),
        )  # fmt: skip
    axes.axline((0, 0), slope=1, color="black", lw=0.8)
    axes.set(xlabel="measured throughput", ylabel="predicted", xlim=(0, 1), ylim=(0, 1), title=title)
    axes.legend(frameon=False, markerscale=3)
    return figure
