"""The course of a search as a picture: energy and temperature over the moves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from placer.annealing import Round
from placer.show.draw_style import save_figure

_ENERGY, _BEST, _TEMPERATURE = "#4393C3", "#1B4F72", "#EE8866"


def draw_curve(curve: Sequence[Round], path: Path, title: str) -> None:
    """Write the picture to `path`, PNG or SVG by its suffix."""
    save_figure(curve_figure(curve, title), path, "curve")


def curve_figure(curve: Sequence[Round], title: str) -> Figure:
    """Return the picture as a figure; the temperature has an axis of its own, in logarithms."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    moves = [point.moves for point in curve]
    best, temperatures = [p.best_energy for p in curve], [p.temperature for p in curve]
    lines = axes.plot(moves, [p.energy for p in curve], color=_ENERGY, label="energy")
    lines += axes.plot(moves, best, color=_BEST, linestyle="--", label="best so far")
    axes.set(xlabel="moves", ylabel="energy: log(cycles per sample / bound)", title=title)
    axes.grid(alpha=0.3)
    right = axes.twinx()
    lines += right.plot(moves, temperatures, color=_TEMPERATURE, label="temperature")
    right.set(ylabel="temperature")
    if curve:
        right.set_yscale("log")
    axes.legend(handles=lines)
    return figure
