"""Pictures of a decision: which unit sits where, how busy the links are, what is critical.

Every tile shows its switch as a dot with the unit to the south-east of it; DRAM ports stand outside
on the left and right. Arrows between switches are links; each direction keeps to its right-hand
side, like road traffic.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Rectangle
from numpy.typing import NDArray

from placer.decision import Decisions
from placer.errors import InputError
from placer.fabric import Fabric, SiteKind, Topology
from placer.files import write_atomic
from placer.netlist import Netlist
from placer.simulation.measurement import Measurement

FloatArray = NDArray[np.float64]


# Without its palest part, which would be lost on the white ground.
_LINK_COLOURS = ListedColormap(colormaps["viridis_r"](np.linspace(0.2, 1.0, 256)))

_TILE_INCHES = 0.62
_UNIT_OFFSET = 0.44  # from the switch of a tile to the centre of its unit, in tiles
_UNIT_SIZE = 0.54
_PORT_DISTANCE = 0.95  # from the outermost switch or unit to the centre of a port
_LINK_OFFSET = 0.065  # from the line between two switches to each of its two links
_LINK_GAP = 0.13  # from a switch to the ends of its links


def draw_placement(
    fabric: Fabric,
    netlist: Netlist,
    decisions: Decisions,
    path: Path,
    *,
    index: int = 0,
    measurement: Measurement | None = None,
    title: str = "",
) -> None:
    """Write a picture of decision number `index` to `path`, PNG or SVG by its suffix.

    Links show their utilisation if a measurement is given, else how many flows use them. Raises
    InputError for another suffix or a decision of another netlist.
    """
    file_format = path.suffix.lower().removeprefix(".")
    if file_format not in ("png", "svg"):
        raise InputError(f"picture {path.name!r}: suffix {path.suffix!r}; allowed .png and .svg")
    figure = placement_figure(
        fabric, netlist, decisions[index], measurement, title or f"{netlist.name} on {fabric.name}"
    )
    buffer = BytesIO()
    # Text stays text in SVG; fixed ids and no date make the same picture the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "placement"}):
        metadata = {"Date": None} if file_format == "svg" else None
        figure.savefig(buffer, format=file_format, dpi=150, metadata=metadata)
    write_atomic(path, buffer.getvalue())


def placement_figure(
    fabric: Fabric,
    netlist: Netlist,
    decision: Decisions,
    measurement: Measurement | None,
    title: str,
) -> Figure:
    """The picture as a matplotlib figure, for notebooks and reports."""
    sites = decision.sites[0]
    if len(sites) != netlist.num_units:
        raise InputError(
            f"the decision places {len(sites)} units, netlist {netlist.name!r} has "
            f"{netlist.num_units}; they must belong together"
        )
    legend = legend(netlist, measurement)
    figure, axes, bar_axes = _page(fabric, title, legend, _caption(measurement))
    links, label = _draw_links(axes, fabric.topology, decision, measurement)
    figure.colorbar(links, cax=bar_axes, label=label)
    _draw_sites(axes, fabric.topology, netlist, sites, _critical_unit(netlist, measurement))
    return figure


def _page(
    fabric: Fabric, title: str, legend: list[Artist], caption: str
) -> tuple[Figure, Axes, Axes]:
    """Figure, axes of the picture and axes of the colour bar; lengths are in inches.

    The page grows with the fabric, so that tiles and the labels on them keep their size.
    """
    west, east = -1.45, fabric.columns + 0.9  # the ports stand outside the grid
    north, south = -0.35, fabric.rows - 0.15
    picture_width, picture_height = _TILE_INCHES * (east - west), _TILE_INCHES * (south - north)
    width = picture_width + 1.0
    caption = fill(caption, width=int(13 * width))
    num_columns = int(width / 1.45)
    legend_height = 0.18 * math.ceil(len(legend) / num_columns)
    bottom = 0.3 + legend_height + 0.18 * len(caption.splitlines())
    height = bottom + picture_height + 0.45
    figure = Figure(figsize=(width, height))

    def add_axes(x: float, y: float, w: float, h: float) -> Axes:
        return figure.add_axes((x / width, y / height, w / width, h / height))

    axes = add_axes(0.1, bottom, picture_width, picture_height)
    axes.set(xlim=(west, east), ylim=(south, north))  # y grows downwards: row 0 is north
    axes.axis("off")
    bar_height = min(0.7 * picture_height, 5.0)
    bar = add_axes(width - 0.8, bottom + (picture_height - bar_height) / 2, 0.14, bar_height)
    figure.suptitle(title, y=1 - 0.12 / height, va="top", fontsize=11, parse_math=False)
    figure.text(0.5, 0.1 / height, caption, ha="center", va="bottom", fontsize=9, parse_math=False)
    figure.legend(
        handles=legend,
        loc="upper center",
        bbox_to_anchor=(0.5, bottom / height),
        ncols=num_columns,
        fontsize=8,
        frameon=False,
    )
    return figure, axes, bar


def _caption(measurement: Measurement | None) -> str:
    if measurement is None:
        return ""
    return (
        f"critical: {measurement.critical}; {measurement.cycles_per_sample:.1f} cycles per sample, "
        f"bound {measurement.bound_cycles}, throughput {measurement.throughput:.3f} "
        f"({measurement.status.name.lower()})"
    )


def _critical_unit(netlist: Netlist, measurement: Measurement | None) -> int | None:
    """The unit that the measurement names as critical; the longest name that occurs wins."""
    text = "" if measurement is None else measurement.critical
    found = [
        unit_id
        for unit_id, unit in enumerate(netlist.units)
        if re.search(rf"(?<!\w){re.escape(unit.name)}(?!\w)", text)
    ]
    return max(found, key=lambda unit_id: len(netlist.units[unit_id].name), default=None)


def _draw_links(
    axes: Axes, topology: Topology, decision: Decisions, measurement: Measurement | None
) -> tuple[PolyCollection, str]:
    """The links that are used, for the colour bar, and what their colour means."""
    num_mesh = topology.num_mesh_links
    if measurement is None:
        values = np.bincount(decision.links, minlength=topology.num_links)[:num_mesh].astype(float)
        label, top = "flows per link", max(1.0, float(values.max(initial=0)))
    else:
        values = measurement.link_utilisation[:num_mesh]
        label, top = "utilisation of links", 1.0
    source, target = topology.link_source[:num_mesh], topology.link_target[:num_mesh]
    arrows = _arrows(_switch_xy(topology, source), _switch_xy(topology, target), values / top)
    is_used = values > 0
    axes.add_collection(PolyCollection(list(arrows[~is_used]), facecolor="#DDDDDD", linewidth=0))
    used = PolyCollection(list(arrows[is_used]), cmap=_LINK_COLOURS, linewidth=0, zorder=2)
    used.set_array(values[is_used])
    used.set_clim(0, top)
    axes.add_collection(used)
    if measurement is not None and is_used.any():
        axes.add_patch(_frame(arrows[int(values.argmax())]))
    return used, label


def _frame(outline: FloatArray) -> Rectangle:
    """A box around an arrow, in the colour of what is critical."""
    low, high = outline.min(axis=0) - 0.04, outline.max(axis=0) + 0.04
    width, height = high - low
    style: dict[str, Any] = {"fill": False, "edgecolor": CRITICAL_COLOUR, "linewidth": 1.6}
    return Rectangle((low[0], low[1]), width, height, zorder=3, **style)


def _arrows(start: FloatArray, end: FloatArray, load: FloatArray) -> FloatArray:
    """Outlines [num_links, 7, 2] of arrows that are as thick as their `load` in 0..1."""
    along = end - start
    aside = np.stack([-along[:, 1], along[:, 0]], axis=1)  # to the right of the way, y goes down
    tail = start + _LINK_GAP * along + _LINK_OFFSET * aside
    tip = end - _LINK_GAP * along + _LINK_OFFSET * aside
    neck = tip - 0.16 * along
    shaft = (0.008 + 0.03 * load)[:, None] * aside
    head = (0.025 + 0.035 * load)[:, None] * aside
    outline = [tail - shaft, neck - shaft, neck - head, tip, neck + head, neck + shaft]
    return np.stack([*outline, tail + shaft], axis=1)


def _switch_xy(topology: Topology, switch: NDArray[np.int32]) -> FloatArray:
    return np.stack([switch % topology.columns, switch // topology.columns], axis=1).astype(float)


def _site_xy(topology: Topology) -> FloatArray:
    """Centre [num_sites, 2] of every site."""
    xy = _switch_xy(topology, topology.site_switch)
    is_port = topology.site_kind == SiteKind.PORT
    is_left = xy[:, 0] == 0
    xy[~is_port] += _UNIT_OFFSET
    xy[is_port & is_left, 0] -= _PORT_DISTANCE
    xy[is_port & ~is_left, 0] += _UNIT_OFFSET + _PORT_DISTANCE
    return xy


def _draw_sites(
    axes: Axes,
    topology: Topology,
    netlist: Netlist,
    sites: NDArray[np.int32],
    critical_unit: int | None,
) -> None:
    units_on = defaultdict(list)
    for unit_id, site in enumerate(sites):
        units_on[int(site)].append(unit_id)
    labels = unit_labels(netlist)
    centres = _site_xy(topology)
    switches = _switch_xy(topology, topology.site_switch)
    axes.add_collection(
        LineCollection(
            list(np.stack([switches, centres], axis=1)), colors="#AAAAAA", linewidths=0.8, zorder=1
        )
    )
    for x, y in switches[: topology.num_switches]:
        axes.add_patch(Circle((x, y), 0.06, color=EDGE_COLOUR, zorder=3))
    for site, centre in enumerate(centres):
        units = units_on[site]
        colour = "none" if units else EMPTY_COLOUR
        kind = SiteKind(topology.site_kind[site])
        outline = axes.add_patch(_outline(kind, centre, colour, critical_unit in units))
        if units:
            _fill_site(axes, outline, [netlist.units[unit].op for unit in units])
            label = labels[units[0]] if len(units) == 1 else f"{len(units)}x"
            axes.text(centre[0], centre[1], label, ha="center", va="center", fontsize=7, zorder=6)


def _outline(kind: SiteKind, centre: FloatArray, colour: str, is_critical: bool) -> Patch:
    """Compute units are square, memory units round, ports flat boxes."""
    x, y = float(centre[0]), float(centre[1])
    edge: dict[str, Any] = {
        "facecolor": colour,
        "edgecolor": CRITICAL_COLOUR if is_critical else EDGE_COLOUR,
        "linewidth": 2.4 if is_critical else 0.7,
        "zorder": 5,
    }
    if kind == SiteKind.MEMORY:
        return Circle((x, y), _UNIT_SIZE / 2, **edge)
    width, height = (0.8, 0.42) if kind == SiteKind.PORT else (_UNIT_SIZE, _UNIT_SIZE)
    return Rectangle((x - width / 2, y - height / 2), width, height, **edge)


def _fill_site(axes: Axes, outline: Patch, ops: list[str]) -> None:
    """Upright stripes, one per unit on the site, inside its outline."""
    box = outline.get_path().get_extents(outline.get_patch_transform())
    width = box.width / len(ops)
    for i, op in enumerate(ops):
        stripe = Rectangle((box.x0 + i * width, box.y0), width, box.height, zorder=4, **paint(op))
        axes.add_patch(stripe)
        stripe.set_clip_path(outline)
