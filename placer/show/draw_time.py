"""Where the time of a network goes: bars by section, and a roofline with a point per section."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from placer.show.draw_style import plain_ticks

# Of the parts of a bar, in their order: colours that also differ in lightness.
_COLOURS = ("#4393C3", "#1B5E42", "#B03A1E", "#F3C77B", "#8C6BB1", "#999999")
_ROOF, _POINT = "#444444", "#B03A1E"
_WIDTH = 9.0  # inches
# Of the roofline, in typographic points: its axes, what a label takes, and how far from its point it is at best.
_AXES_SIZE = (590.0, 325.0)
_LABEL_WIDTH, _LABEL_HEIGHT, _NEAR = 11.0, 8.5, 11.5
_LABEL_DEGREES = (0, 45, 90, 135, 180, 225, 315, 270)  # directions in which there may be room, the best first


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a name, and the lengths of its parts."""

    label: str
    parts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """A section in a roofline."""

    label: str  # short: it stands beside the point
    macs_per_byte: float
    macs_per_cycle: float
    whole_macs_per_cycle: float  # with what is not steady
    limit: str  # in words


def time_figure(bars: Sequence[Bar], parts: Sequence[str], title: str, axis: str) -> Figure:
    """Return horizontal bars in the given order; each tells its share of all, parts have a legend.

    Parts below 0 and those that were not measured are left out.
    """
    figure = Figure(figsize=(_WIDTH, 1.7 + 0.34 * len(bars)), layout="constrained")
    axes = figure.subplots()
    rows = range(len(bars))
    lefts = [0.0] * len(bars)
    for number, name in enumerate(parts):
        widths = [_length(bar.parts[number]) for bar in bars]
        colour = _COLOURS[number % len(_COLOURS)]
        axes.barh(rows, widths, 0.72, lefts, color=colour, label=name)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    total = sum(lefts)
    for row, left in enumerate(lefts):
        text = f" {left / total:.1%}" if total > 0 else " not measured"
        axes.text(left, row, text, va="center", fontsize=8)
    axes.set_yticks(rows, [bar.label for bar in bars], fontsize=8, parse_math=False)
    axes.set(xlabel=axis, xlim=(0, 1.12 * max(lefts, default=0) or 1.0))
    figure.suptitle(title, fontsize=11, parse_math=False)
    axes.set_ylim(len(bars) - 0.4, -0.6)  # the first on top
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=len(parts), fontsize=8, frameon=False)
    return figure


def _length(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0


def _short(value: float) -> str:
    """Return a count with a suffix, so that long axes stay readable."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g} {suffix}"
    return f"{value:g}"


def roofline_figure(points: Sequence[RoofPoint], peak: float, dram_rate: float, title: str) -> Figure:
    """Return MACs per byte of DRAM traffic against MACs per cycle, under the roofs of both.

    A dot is a section at its simulated pace, the ring below it the same with all that is not
    steady. The caption says what limits each. A section without MACs, DRAM traffic or a
    measured rate has no place here.
    """
    shown = [
        p
        for p in points
        if all(0 < value < math.inf for value in (p.macs_per_byte, p.macs_per_cycle, p.whole_macs_per_cycle))
    ]
    caption = fill(roof_caption(shown), 118)
    figure = Figure(figsize=(_WIDTH, 5.2 + 0.17 * len(caption.splitlines())), layout="constrained")
    axes = figure.subplots()
    _draw_roof(axes, shown, peak, dram_rate)
    for point in shown:
        both = point.macs_per_cycle, point.whole_macs_per_cycle
        axes.plot([point.macs_per_byte] * 2, both, color=_POINT, linewidth=0.7, alpha=0.6, zorder=2)
    x = [p.macs_per_byte for p in shown]
    axes.scatter(x, [p.macs_per_cycle for p in shown], s=26, color=_POINT, zorder=4, label="at the simulated period")
    axes.scatter(
        x, [p.whole_macs_per_cycle for p in shown], s=26, facecolor="#FFFFFF", edgecolor=_POINT, zorder=3,
        label="with filling, weights and switching",
    )  # fmt: skip
    _label_points(axes, shown)
    axes.set(xlabel="MACs per byte of DRAM traffic", ylabel="MACs per cycle")
    axes.set_title(title, fontsize=11, parse_math=False)
    axes.grid(alpha=0.3, which="both", linewidth=0.5)
    axes.legend(loc="lower right", fontsize=8)
    figure.supxlabel(caption, fontsize=8, x=0.01, ha="left", parse_math=False)
    return figure


def _draw_roof(axes: Axes, shown: Sequence[RoofPoint], peak: float, dram_rate: float) -> None:
    """Draw both roofs over all points and the ridge where they meet."""
    ridge = peak / dram_rate
    xs = [p.macs_per_byte for p in shown]
    left, right = min([*xs, ridge]) / 2, max([*xs, ridge]) * 2
    lowest = min([y for p in shown for y in (p.macs_per_cycle, p.whole_macs_per_cycle)] + [peak / 2]) / 3
    roofs = f"roofs: DRAM {dram_rate:,.0f} bytes per cycle, compute {peak:,.0f} MACs per cycle"
    axes.loglog([left, ridge, right], [left * dram_rate, peak, peak], color=_ROOF, linewidth=1.6, zorder=1, label=roofs)
    axes.axvline(ridge, color=_ROOF, linewidth=0.7, linestyle=":")
    axes.set(xlim=(left, right), ylim=(lowest, peak * 1.6))
    plain_ticks(axes)


def _label_points(axes: Axes, shown: Sequence[RoofPoint]) -> None:
    """Write a label beside each point, further away with a line to it where others are in the way."""
    taken = [_on_page(axes, x, y) for p in shown for x, y in _marks(p)]
    for point in sorted(shown, key=lambda p: p.macs_per_byte):
        x, y = _on_page(axes, point.macs_per_byte, point.macs_per_cycle)
        offset = _free_offset(x, y, taken)
        taken.append((x + offset[0], y + offset[1]))
        line = {"arrowstyle": "-", "color": _ROOF, "linewidth": 0.5} if math.hypot(*offset) > _NEAR else None
        axes.annotate(
            point.label, (point.macs_per_byte, point.macs_per_cycle), xytext=offset, textcoords="offset points",
            ha="center", va="center", fontsize=8, parse_math=False, arrowprops=line, zorder=5,
        )  # fmt: skip


def _marks(point: RoofPoint) -> tuple[tuple[float, float], tuple[float, float]]:
    x = point.macs_per_byte
    return (x, point.macs_per_cycle), (x, point.whole_macs_per_cycle)


def _free_offset(x: float, y: float, taken: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the nearest offset to (x, y) with room for a label; lengths are in typographic points."""
    for radius in (_NEAR, *range(18, 120, 8)):
        for degrees in _LABEL_DEGREES:
            right, up = (radius * f(math.radians(degrees)) for f in (math.cos, math.sin))
            if all(abs(x + right - a) > _LABEL_WIDTH or abs(y + up - b) > _LABEL_HEIGHT for a, b in taken):
                return right, up
    return _NEAR, _NEAR


def _on_page(axes: Axes, x: float, y: float) -> tuple[float, float]:
    """Return about where a point of both logarithmic axes is, in typographic points."""
    shares = []
    for value, (low, high) in ((x, axes.get_xlim()), (y, axes.get_ylim())):
        shares.append(math.log(value / low) / math.log(high / low))
    return _AXES_SIZE[0] * shares[0], _AXES_SIZE[1] * shares[1]


def roof_caption(points: Sequence[RoofPoint]) -> str:
    """Return what limits each section, the limit of most sections first."""
    limits: dict[str, list[str]] = {}
    for point in points:
        limits.setdefault(point.limit, []).append(point.label)
    often = sorted(limits.items(), key=lambda item: -len(item[1]))
    told = "; ".join(f"{limit}: {', '.join(labels)}" for limit, labels in often)
    return f"What limits each section: {told}." if told else "No section has a measured rate."
