"""The course of a search as a table and as a picture: energy and temperature over the moves."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import astuple, fields
from io import BytesIO, StringIO
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from placer.annealing import Round
from placer.errors import InputError
from placer.files import write_atomic

_ENERGY, _BEST, _TEMPERATURE = "#4393C3", "#1B4F72", "#EE8866"


def curve_csv(curve: Sequence[Round]) -> str:
    """One line per round, below a line of names."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(Round))
    writer.writerows(astuple(point) for point in curve)
    return text.getvalue()


def draw_curve(curve: Sequence[Round], path: Path, title: str) -> None:
    """Write the picture to `path`, PNG or SVG by its suffix."""
    file_format = path.suffix.lower().removeprefix(".")
    if file_format not in ("png", "svg"):
        raise InputError(f"picture {path.name!r}: suffix {path.suffix!r}; allowed .png and .svg")
    figure = curve_figure(curve, title)
    buffer = BytesIO()
    # Text stays text in SVG; fixed ids and no date make the same picture the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "curve"}):
        metadata = {"Date": None} if file_format == "svg" else None
        figure.savefig(buffer, format=file_format, dpi=150, metadata=metadata)
    write_atomic(path, buffer.getvalue())


def curve_figure(curve: Sequence[Round], title: str) -> Figure:
    """The picture as a matplotlib figure; the temperature has an axis of its own, in logarithms."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    moves = [point.moves for point in curve]
    lines = axes.plot(moves, [p.energy for p in curve], color=_ENERGY, label="energy")
    lines += axes.plot(
        moves, [p.best_energy for p in curve], color=_BEST, linestyle="--", label="best so far"
    )
    axes.set(xlabel="moves", ylabel="energy: log(cycles per sample / bound)", title=title)
    axes.grid(alpha=0.3)
    right = axes.twinx()
    lines += right.plot(
        moves, [p.temperature for p in curve], color=_TEMPERATURE, label="temperature"
    )
    right.set(ylabel="temperature")
    if curve:
        right.set_yscale("log")
    axes.legend(handles=lines)
    return figure
