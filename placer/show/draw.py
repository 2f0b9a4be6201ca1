"""Pictures of a decision: which unit sits where, how busy the links are, what is critical.

Every tile shows its switch as a dot with the unit to the south-east of it; DRAM ports stand outside
on the left and right. Arrows between switches are links; each direction keeps to its right-hand
side, like road traffic.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Patch, Rectangle

from placer.base import FloatArray, InputError, IntArray
from placer.decision import Decisions
from placer.fabric import Fabric, SiteKind, Topology
from placer.netlist import Netlist
from placer.show.draw_geometry import PORT_SIZE, UNIT_SIZE, arrow_outlines, extent, site_lines
from placer.show.draw_style import (
    CRITICAL_COLOUR,
    EDGE_COLOUR,
    EMPTY_COLOUR,
    LINK_COLOURS,
    legend_entries,
    paint,
    save_figure,
    unit_labels,
)
from placer.simulation import CriticalResource, Measurement, ResourceKind, Status, find_critical


@dataclass(frozen=True, slots=True)
class Marks:
    """What is framed in the colour of the critical resource."""

    links: frozenset[int] = frozenset()
    sites: frozenset[int] = frozenset()


_TILE_INCHES = 0.62


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
    title = title or f"{netlist.name} on {fabric.name}"
    figure = placement_figure(fabric, netlist, decisions[index], measurement, title)
    save_figure(figure, path, "placement")


def placement_figure(
    fabric: Fabric, netlist: Netlist, decision: Decisions, measurement: Measurement | None, title: str
) -> Figure:
    """Return the picture as a matplotlib figure, for notebooks and reports."""
    sites = decision.sites[0]
    if len(sites) != netlist.num_units:
        raise InputError(
            f"the decision places {len(sites)} units, netlist {netlist.name!r} has "
            f"{netlist.num_units}; they must belong together"
        )
    marks = critical_marks(fabric, netlist, decision, measurement)
    legend = legend_entries(netlist, has_critical=marks != Marks())
    figure, axes, bar_axes = _page(fabric, title, legend, _caption(measurement))
    links, label = _draw_links(axes, fabric.topology, decision, measurement)
    figure.colorbar(links, cax=bar_axes, label=label)
    _draw_sites(axes, fabric.topology, netlist, sites, marks.sites)
    _frame_links(axes, fabric.topology, marks.links)
    return figure


def _page(fabric: Fabric, title: str, legend: list[Artist], caption: str) -> tuple[Figure, Axes, Axes]:
    """Return figure, axes of the picture and axes of the colour bar; lengths are in inches.

    The page grows with the fabric, so that tiles and the labels on them keep their size.
    """
    west, east, north, south = extent(fabric.topology)
    picture_width, picture_height = _TILE_INCHES * (east - west), _TILE_INCHES * (south - north)
    width = picture_width + 1.0
    caption = fill(caption, width=int(13 * width))
    longest = max(len(str(entry.get_label())) for entry in legend)
    num_columns = max(1, int(width / (0.5 + 0.062 * longest)))  # patch and gap, then some inches per letter
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


def critical_marks(fabric: Fabric, netlist: Netlist, decision: Decisions, measurement: Measurement | None) -> Marks:
    """Return where the critical resource is; nowhere if no period was measured."""
    if measurement is None or measurement.status == Status.DEADLOCK:
        return Marks()
    if math.isnan(measurement.cycles_per_sample):
        return Marks()
    critical = find_critical(fabric, netlist, decision, measurement.cycles_per_sample)
    return _marks_of(critical, netlist, decision)


def _marks_of(critical: CriticalResource, netlist: Netlist, decision: Decisions) -> Marks:
    """Mark a unit or port of a memory by its site, a flow by its way, DRAM by the ports in use."""
    sites, resource_id = decision.sites[0], critical.resource_id
    match critical.kind:
        case ResourceKind.UNIT:
            return Marks(sites=frozenset({int(sites[resource_id])}))
        case ResourceKind.READ_PORT | ResourceKind.WRITE_PORT:
            return Marks(sites=frozenset({resource_id}))
        case ResourceKind.LINK:
            return Marks(links=frozenset({resource_id}))
        case ResourceKind.FLOW:
            links, _ = decision.route(resource_id)
            return Marks(links=frozenset(links.tolist()))
        case ResourceKind.DRAM:
            units = enumerate(netlist.units)
            ports = (int(sites[unit_id]) for unit_id, unit in units if unit.kind == SiteKind.PORT)
            return Marks(sites=frozenset(ports))


def _draw_links(
    axes: Axes, topology: Topology, decision: Decisions, measurement: Measurement | None
) -> tuple[PolyCollection, str]:
    """Draw links; return those that are used, for the colour bar, and what their colour means."""
    num_mesh = topology.num_mesh_links
    if measurement is None:
        values = np.bincount(decision.links, minlength=topology.num_links)[:num_mesh].astype(float)
        label, top = "flows per link", max(1.0, float(values.max(initial=0)))
    else:
        values = measurement.link_utilisation[:num_mesh]
        label, top = "utilisation of links", 1.0
    arrows = arrow_outlines(topology, values / top)
    is_used = values > 0
    axes.add_collection(PolyCollection(list(arrows[~is_used]), facecolor="#DDDDDD", linewidth=0))
    used = PolyCollection(list(arrows[is_used]), cmap=LINK_COLOURS, linewidth=0, zorder=2)
    used.set_array(values[is_used])
    used.set_clim(0, top)
    axes.add_collection(used)
    return used, label


def _frame_links(axes: Axes, topology: Topology, links: frozenset[int]) -> None:
    """Draw a box around the arrow of a mesh link; retrace the line from a switch to its unit."""
    num_mesh = topology.num_mesh_links
    thickest = arrow_outlines(topology, np.ones(num_mesh))
    for outline in thickest[[link for link in links if link < num_mesh]]:
        low, high = outline.min(axis=0) - 0.04, outline.max(axis=0) + 0.04
        box = Rectangle(tuple(low), *(high - low), fill=False, zorder=3)
        box.set(edgecolor=CRITICAL_COLOUR, linewidth=1.6)
        axes.add_patch(box)
    local = [(link - num_mesh) % topology.num_sites for link in links if link >= num_mesh]
    lines = site_lines(topology)[local]
    axes.add_collection(LineCollection(list(lines), colors=CRITICAL_COLOUR, linewidths=2.4, zorder=2))


def _draw_sites(
    axes: Axes, topology: Topology, netlist: Netlist, sites: IntArray, critical_sites: frozenset[int]
) -> None:
    units_on = defaultdict(list)
    for unit_id, site in enumerate(sites):
        units_on[int(site)].append(unit_id)
    labels = unit_labels(netlist)
    lines = site_lines(topology)
    axes.add_collection(LineCollection(list(lines), colors="#AAAAAA", linewidths=0.8, zorder=1))
    for x, y in lines[: topology.num_switches, 0]:
        axes.add_patch(Circle((x, y), 0.06, color=EDGE_COLOUR, zorder=3))
    for site, centre in enumerate(lines[:, 1]):
        units = units_on[site]
        colour = "none" if units else EMPTY_COLOUR
        kind = SiteKind(topology.site_kind[site])
        outline = axes.add_patch(_outline(kind, centre, colour, site in critical_sites))
        if units:
            _fill_site(axes, outline, [netlist.units[unit].op for unit in units])
            label = labels[units[0]] if len(units) == 1 else f"{len(units)}x"
            axes.text(centre[0], centre[1], label, ha="center", va="center", fontsize=7, zorder=6)


def _outline(kind: SiteKind, centre: FloatArray, colour: str, is_critical: bool) -> Patch:
    """Return the shape of a site: compute units are square, memory round, ports flat boxes."""
    x, y = float(centre[0]), float(centre[1])
    edge: dict[str, Any] = {
        "facecolor": colour,
        "edgecolor": CRITICAL_COLOUR if is_critical else EDGE_COLOUR,
        "linewidth": 2.4 if is_critical else 0.7,
        "zorder": 5,
    }
    if kind == SiteKind.MEMORY:
        return Circle((x, y), UNIT_SIZE / 2, **edge)
    width, height = PORT_SIZE if kind == SiteKind.PORT else (UNIT_SIZE, UNIT_SIZE)
    return Rectangle((x - width / 2, y - height / 2), width, height, **edge)


def _fill_site(axes: Axes, outline: Patch, ops: list[str]) -> None:
    """Draw upright stripes, one per unit on the site, inside its outline."""
    box = outline.get_path().get_extents(outline.get_patch_transform())
    width = box.width / len(ops)
    for i, op in enumerate(ops):
        stripe = Rectangle((box.x0 + i * width, box.y0), width, box.height, zorder=4, **paint(op))
        axes.add_patch(stripe)
        stripe.set_clip_path(outline)
