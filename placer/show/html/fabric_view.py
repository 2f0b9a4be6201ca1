"""The interactive picture of a placement: its data. `fabric.html` and `fabric.js` show it.

All places come from `draw_geometry`, all colours from `draw_style`, as in the pictures of `draw`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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
from placer.simulation import Measurement, UnitTime, link_name

SCALE = 100  # units of the drawing per tile
NUM_COLOURS = 32


@dataclass(frozen=True, slots=True)
class Frame:
    """A placement to show, and what to say about it."""

    title: str
    decision: Decisions  # a stack of one


@dataclass(frozen=True, slots=True)
class FabricView:
    """The picture; the last frame is the one that was measured."""

    fabric: Fabric
    netlist: Netlist
    frames: Sequence[Frame]
    measurement: Measurement

    def to_html(self) -> str:
        legend = dict(sorted(Counter(unit.op for unit in self.netlist.units).items()))
        return render("fabric.html", view=self, data=self.to_dict(), legend=legend, style=op_style,
                      is_gradient=is_gradient)  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return what the script needs; lengths in hundredths of a tile."""
        fabric, netlist, topology = self.fabric, self.netlist, self.fabric.topology
        west, east, north, south = extent(topology)
        thin, thick = (_scaled(arrow_outlines(topology, np.full(topology.num_mesh_links, load))) for load in (0.0, 1.0))
        marks = critical_marks(fabric, netlist, self.frames[-1].decision, self.measurement)
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
            "units": [
                _unit(unit, label, self.measurement.unit_time[number])
                for number, (unit, label) in enumerate(zip(netlist.units, unit_labels(netlist), strict=True))
            ],
            "flows": [
                {"name": f.name, "source": f.source, "targets": f.targets, "tokens": f.tokens} for f in netlist.flows
            ],
            "frames": [_frame(frame, netlist.num_flows) for frame in self.frames],
            "measured": [finite(v) for v in self.measurement.link_utilisation.round(3).tolist()],
            "criticalSites": sorted(marks.sites),
            "criticalLinks": sorted(marks.links),
        }


def _scaled(lengths: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    return (SCALE * lengths).round(1).reshape(*lengths.shape[:1], -1).squeeze().tolist()


def _palette() -> list[str]:
    return [to_hex(LINK_COLOURS(share)) for share in np.linspace(0, 1, NUM_COLOURS)]


def _frame(frame: Frame, num_flows: int) -> dict[str, Any]:
    decision = frame.decision
    return {
        "title": frame.title,
        "sites": decision.sites[0].tolist(),
        "routes": [decision.route(flow)[0].tolist() for flow in range(num_flows)],
    }


def _unit(unit: Unit, label: str, time: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    facts: dict[str, Any] = {"op": unit.op, "stage": unit.stage, "kind": unit.kind.name.lower()}
    if unit.kind == SiteKind.COMPUTE:
        facts |= {"work": f"{unit.cycles:,} cycles per sample", "firings": f"{unit.firings:,} per sample"}
    elif unit.kind == SiteKind.MEMORY:
        facts |= {"size": f"{unit.bytes:,} bytes in {unit.slots} slots"}
    facts |= {kind.name.lower().replace("_", " "): f"{share:.0%}" for kind, share in zip(UnitTime, time, strict=True)}
    return {
        "label": label,
        "name": unit.name,
        "stage": unit.stage,
        "colour": op_style(unit.op).colour,
        "isHatched": is_gradient(unit.op),
        "facts": facts,
    }
