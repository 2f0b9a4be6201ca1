"""How pictures look and are saved: colour, code and hatching of units by op, their legend."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from placer.base import InputError, write_atomic
from placer.netlist import Netlist

EMPTY_COLOUR = "#F4F4F4"
EDGE_COLOUR = "#666666"
CRITICAL_COLOUR = "#D00000"
# Without its palest part, which would be lost on the white ground.
LINK_COLOURS = ListedColormap(colormaps["viridis_r"](np.linspace(0.2, 1.0, 256)))


def save_figure(figure: Figure, path: Path, salt: str) -> None:
    """Write a figure, PNG or SVG by the suffix of its path. Raises InputError for another one."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg"):
        raise InputError(f"picture {path.name!r}: suffix {path.suffix!r}; allowed .png and .svg")
    write_atomic(path, picture_bytes(figure, kind, salt, dpi=150))


def picture_bytes(figure: Figure, kind: str, salt: str, **options: Any) -> bytes:
    """Return a figure as a PNG or SVG file; the same figure gives the same bytes."""
    buffer = BytesIO()
    # Text stays text in SVG; fixed ids and no date make the same picture the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(buffer, format=kind, metadata=metadata, **options)
    return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class OpStyle:
    """How units of an op look; gradient ops are hatched copies of their forward op."""

    code: str  # before the number of the unit
    colour: str


# Light hues after the colour-blind-safe sets of Paul Tol and of Okabe and Ito; black text can be
# read on them. More ops than such a set has colours, so ops that do alike things have shades of one
# hue, and the code on the unit is the second cue. The legend has them in this order.
_STYLES = {
    "linear": OpStyle("L", "#4393C3"),
    "matmul": OpStyle("M", "#77AADD"),
    "weight_grad": OpStyle("WG", "#AAAADD"),
    # between tensors of one shape, or with a vector or number
    "add": OpStyle("A", "#99DDFF"),
    "multiply": OpStyle("Mu", "#66CCEE"),
    "bias": OpStyle("Bi", "#CCEEFF"),
    "gain": OpStyle("Ga", "#DDEE88"),
    "scale": OpStyle("Sc", "#BBCC33"),
    "sum_heads": OpStyle("SH", "#80C4C8"),
    # activations
    "relu": OpStyle("R", "#E69F00"),
    "gelu": OpStyle("G", "#EE8866"),
    "silu": OpStyle("Si", "#FFB890"),
    "sigmoid": OpStyle("Sg", "#FFD070"),
    "tanh": OpStyle("Th", "#D8A060"),
    # of rows
    "softmax": OpStyle("S", "#DD99BB"),
    "layernorm": OpStyle("LN", "#44BB99"),
    "rmsnorm": OpStyle("RN", "#88EEAA"),
    "rotary": OpStyle("Ro", "#B5D98C"),
    # experts
    "top_k": OpStyle("TK", "#FFAABB"),
    "dispatch": OpStyle("Di", "#F0C0E0"),
    "combine": OpStyle("Co", "#F07F98"),
    # windows of an image
    "depthwise": OpStyle("Dw", "#88AAFF"),
    "max_pool": OpStyle("MP", "#C8A8F8"),
    "average_pool": OpStyle("AP", "#D8CCF8"),
    # memory and DRAM
    "buffer": OpStyle("B", "#F3E79B"),
    "gradient": OpStyle("Gr", "#E0C060"),
    "weights": OpStyle("W", "#D9B88A"),
    "load": OpStyle("Ld", "#99CCBB"),
    "store": OpStyle("St", "#CCAACC"),
}


def unit_labels(netlist: Netlist) -> list[str]:
    """Return the code of each unit's op and its number among the units of that op."""
    seen: dict[str, int] = defaultdict(int)
    labels = []
    for unit in netlist.units:
        labels.append(f"{op_style(unit.op).code}{seen[unit.op]}")
        seen[unit.op] += 1
    return labels


def op_style(op: str) -> OpStyle:
    """Return code and colour of an op, also of one that is not known."""
    forward = op if op in _STYLES else op.removesuffix("_grad")
    style = _STYLES.get(forward, OpStyle(op[:2].title(), "#AAAAAA"))
    return style if op == forward else OpStyle(f"{style.code}'", style.colour)


def plain_ticks(axes: Axes) -> None:
    """Write the ticks of logarithmic axes as plain numbers: 1, 2, 5, 10 and so on."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}" if _first_digit(value) in "25" else ""))


def _first_digit(value: float) -> str:
    return f"{value:.0e}"[0] if math.isfinite(value) and value > 0 else " "


def is_gradient(op: str) -> bool:
    """Return whether units of an op are hatched."""
    return op not in _STYLES and op.endswith("_grad")


def paint(op: str) -> dict[str, Any]:
    """Return the arguments that give a patch the look of an op."""
    return {
        "facecolor": op_style(op).colour,
        "hatch": "///" if is_gradient(op) else "",
        "edgecolor": "#FFFFFF99",  # of the hatching
        "linewidth": 0,
    }


def legend_entries(netlist: Netlist, *, has_critical: bool) -> list[Artist]:
    counts = Counter(unit.op for unit in netlist.units)
    known = [op for op in _STYLES if op in counts]
    entries: list[Artist] = [
        Patch(label=f"{op_style(op).code}  {op} ({counts[op]})", **paint(op))
        for op in known + sorted(counts.keys() - _STYLES.keys())
    ]
    empty: dict[str, Any] = {"linestyle": "", "color": EMPTY_COLOUR, "mec": EDGE_COLOUR}
    entries.append(Line2D([], [], marker="s", markersize=8, label="empty compute", **empty))
    entries.append(Line2D([], [], marker="o", markersize=8, label="empty memory", **empty))
    if has_critical:
        entries.append(Patch(fill=False, edgecolor=CRITICAL_COLOUR, label="critical"))
    return entries
