"""The interactive picture of placements: its data. `fabric.html`, `fabric.js` and `explore.js` show it.

All places come from `draw_geometry`, all colours from `draw_style`, as in the pictures of `draw`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex

from placer.base import finite
from placer.decision import Decisions
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist, Unit
from placer.show import (
    LINK_COLOURS,
    PORT_SIZE,
    UNIT_SIZE,
    arrow_outlines,
    critical_marks,
    extent,
    is_gradient,
    op_style,
    site_lines,
    unit_labels,
)
from placer.show.html.page import render
from placer.simulation import Measurement, link_name

SCALE = 100  # units of the drawing per tile
NUM_COLOURS = 32


@dataclass(frozen=True, slots=True)
class Frame:
    """A placement to show, and what to say about it."""

    title: str
    decision: Decisions  # a stack of one
    measurement: Measurement | None = None  # None: it was not simulated


@dataclass(frozen=True, slots=True)
class FabricView:
    """Placements of one netlist: each panel, beside the others, replays its frames and begins with the last."""

    fabric: Fabric
    netlist: Netlist
    panels: Sequence[Sequence[Frame]]

    def to_html(self) -> str:
        num_frames = max(map(len, self.panels))
        return render("fabric.html", view=self, data=self.to_dict(), num_frames=num_frames)

    def to_dict(self) -> dict[str, Any]:
        """Return what the script needs; lengths in hundredths of a tile."""
        fabric, netlist, topology = self.fabric, self.netlist, self.fabric.topology
        west, east, north, south = extent(topology)
        thin, thick = (_scaled(arrow_outlines(topology, np.full(topology.num_mesh_links, load))) for load in (0.0, 1.0))
        return {
            "view": _scaled(np.array([west, north, east - west, south - north])),
            "unitSize": SCALE * UNIT_SIZE,
            "portSize": [SCALE * length for length in PORT_SIZE],
            "columns": topology.columns,
            "siteKind": topology.site_kind.tolist(),
            "siteSwitch": topology.site_switch.tolist(),
            "siteLines": _scaled(site_lines(topology)),
            "numMesh": topology.num_mesh_links,
            "thin": thin,
            "thick": thick,
            "linkNames": [link_name(fabric, link) for link in range(topology.num_links)],
            "linkWidth": topology.link_width.tolist(),
            "palette": _palette(),
            "bound": netlist.bound_cycles,
            "units": [_unit(unit, label) for unit, label in zip(netlist.units, unit_labels(netlist), strict=True)],
            "flows": [
                {"name": f.name, "source": f.source, "targets": f.targets, "tokens": f.tokens} for f in netlist.flows
            ],
            "panels": [[self._frame(frame) for frame in frames] for frames in self.panels],
        }

    def _frame(self, frame: Frame) -> dict[str, Any]:
        decision = frame.decision
        return {
            "title": frame.title,
            "text": figures_text(frame.measurement),
            "sites": decision.sites[0].tolist(),
            "routes": [decision.route(flow)[0].tolist() for flow in range(self.netlist.num_flows)],
            "measured": None if frame.measurement is None else self._measured(decision, frame.measurement),
        }

    def _measured(self, decision: Decisions, measured: Measurement) -> dict[str, Any]:
        marks = critical_marks(self.fabric, self.netlist, decision, measured)
        return {
            "load": [finite(v) for v in measured.link_utilisation.round(3).tolist()],
            "time": measured.unit_time.round(3).tolist(),
            "criticalSites": sorted(marks.sites),
            "criticalLinks": sorted(marks.links),
        }


def figures_text(measured: Measurement | None) -> str:
    """Say what a simulation found, or that there was none."""
    if measured is None:
        return "Not simulated: links show the load to expect."
    if math.isnan(measured.cycles_per_sample):
        return f"The simulation ended without a result: {measured.status.name.lower()}."
    return (
        f"Simulated: {measured.cycles_per_sample:,.1f} cycles per sample, bound {measured.bound_cycles:,}, "
        f"throughput {measured.throughput:.3f} ({measured.status.name.lower()}). Critical: {measured.critical}."
    )


def _scaled(lengths: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    return (SCALE * lengths).round(1).reshape(*lengths.shape[:1], -1).squeeze().tolist()


def _palette() -> list[tuple[str, str]]:
    """Return colours of links from idle to full, for a light and for a dark ground: the busiest stand out."""
    shares = np.linspace(0, 1, NUM_COLOURS)
    return [(to_hex(LINK_COLOURS(share)), to_hex(colormaps["viridis"](0.3 + 0.7 * share))) for share in shares]


def _unit(unit: Unit, label: str) -> dict[str, Any]:
    layer = unit.name.rpartition(".")[0] or unit.name
    facts: dict[str, Any] = {"op": unit.op, "layer": layer, "stage": unit.stage, "kind": unit.kind.name.lower()}
    if unit.kind == SiteKind.COMPUTE:
        facts |= {"work": f"{unit.cycles:,} cycles per sample", "firings": f"{unit.firings:,} per sample"}
    elif unit.kind == SiteKind.MEMORY:
        facts |= {"size": f"{unit.bytes:,} bytes in {unit.slots} slots"}
    return {
        "label": label,
        "name": unit.name,
        "stage": unit.stage,
        "colour": op_style(unit.op).colour,
        "isHatched": is_gradient(unit.op),
        "facts": facts,
    }
