"""Sections that tell about a placement and its simulation, whoever made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from placer.decision import Decisions
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist
from placer.show import unit_labels
from placer.show.html.fabric_view import FabricView, Frame
from placer.show.html.page import Cell, Chapter, PageTable, Shares, Text
from placer.simulation import Measurement, UnitTime, link_name

TIMES = [kind.name.lower().replace("_", " ") for kind in UnitTime]


def placement_sections(
    fabric: Fabric, netlist: Netlist, measurement: Measurement, frames: Sequence[Frame], beside: Frame | None = None
) -> list[Chapter]:
    """Tell the fabric and where the time goes; the last frame is the one that was measured.

    Another placement of the same netlist may stand beside it.
    """
    decision = frames[-1].decision
    panels = [[*frames[:-1], replace(frames[-1], measurement=measurement)]]
    panels += [] if beside is None else [[beside]]
    return [
        Chapter("Fabric", [Text(_summary(netlist)), FabricView(fabric, netlist, panels)]),
        Chapter("Where the time goes", [_stages(netlist, measurement)]),
        Chapter("Units and flows", [_units(fabric, netlist, decision, measurement), _flows(fabric, netlist, decision)]),
    ]


def _summary(netlist: Netlist) -> str:
    return f"{netlist.num_units} units, {netlist.num_flows} flows, {netlist.num_stages} stages."


def _stages(netlist: Netlist, measured: Measurement) -> PageTable:
    """Return the mean over the compute units of each stage."""
    rows: list[list[Cell]] = []
    for stage in range(netlist.num_stages):
        own = [
            number for number, unit in enumerate(netlist.units) if unit.stage == stage and unit.kind == SiteKind.COMPUTE
        ]
        if own:
            time = measured.unit_time[own].mean(axis=0)
            ops = sorted({netlist.units[number].op for number in own})
            rows.append([f"{stage}", ", ".join(ops), len(own), *_time_cells(time)])
    header = ["stage", "ops", "compute units", "shares", *TIMES]
    return PageTable("Stall breakdown: mean over the compute units of each stage", header, rows)


def _time_cells(time: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[str | Shares]:
    return [Shares(tuple(time.tolist())), *(f"{share:.0%}" for share in time)]


def _units(fabric: Fabric, netlist: Netlist, decision: Decisions, measured: Measurement) -> PageTable:
    """Return all units, those that are busy least first."""
    labels, order = unit_labels(netlist), np.argsort(measured.unit_time[:, UnitTime.BUSY])
    rows: list[list[Cell]] = []
    for number in order.tolist():
        unit = netlist.units[number]
        rows.append(
            [
                unit.name, labels[number], unit.op, unit.stage,
                _place(fabric, int(decision.sites[0, number])),
                *_time_cells(measured.unit_time[number]),
            ]
        )  # fmt: skip
    header = ["unit", "label", "op", "stage", "place (row, column)", "shares", *TIMES]
    return PageTable("Units, those that wait most first", header, rows)


def _place(fabric: Fabric, site: int) -> str:
    row, column = divmod(int(fabric.topology.site_switch[site]), fabric.columns)
    is_port = fabric.topology.site_kind[site] == SiteKind.PORT
    return f"port at ({row}, {column})" if is_port else f"({row}, {column})"


def _flows(fabric: Fabric, netlist: Netlist, decision: Decisions) -> PageTable:
    rows: list[list[Cell]] = []
    for number, flow in enumerate(netlist.flows):
        links, _ = decision.route(number)
        mesh = [link for link in links.tolist() if link < fabric.topology.num_mesh_links]
        way = ", ".join(link_name(fabric, link) for link in mesh) or "none"
        targets = ", ".join(netlist.units[target].name for target in flow.targets)
        rows.append([flow.name, netlist.units[flow.source].name, targets, flow.tokens, len(mesh), way])
    header = ["flow", "from", "to", "vectors per sample", "links", "way"]
    return PageTable("Flows and their ways", header, rows)
