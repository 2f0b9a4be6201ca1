"""The pages of a placement that was simulated, and of one that a search has found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from placer.annealing import Round
from placer.base import count_text
from placer.fabric import SiteKind
from placer.pipeline.network_time import NetworkTime
from placer.pipeline.placing import INTERVAL, Judged, PlaceConfig, PlacedSection
from placer.pipeline.simulating import SimulateConfig, SimulatedSection
from placer.pipeline.source import SectionResult, Source
from placer.pipeline.time_report import time_chapters
from placer.show import curve_figure
from placer.show.html import Cell, Chapter, Folded, Frame, Page, PageTable, Text, picture_of, placement_sections
from placer.simulation import UnitTime

MAX_CURVE_ROWS = 60  # of the table beside the picture


def simulated_page(
    config: SimulateConfig, result: SimulatedSection, command: str, more: Sequence[Chapter] = ()
) -> Page:
    """Return everything about one section of a graph: placement and simulation; `more` goes to the end."""
    fabric, netlist, other = config.fabric, result.section.netlist, result.beside
    frame, beside = Frame(f"placement: {config.placement}", result.decision), None
    if other is not None:
        beside = Frame(f"beside: {config.beside}", other.decision, other.measurement)
    sections = placement_sections(fabric, netlist, result.measurement, [frame], beside)
    if other is not None:
        sections[1:1] = [_two_placements(config, result, other)]
    title, subtitle = f"{netlist.name} on {fabric.name}", f"Simulated, seed {config.seed}"
    return Page(title, subtitle, command, asdict(config), [*sections, *more])


def placing_page(config: PlaceConfig, placed: PlacedSection, command: str, more: Sequence[Chapter] = ()) -> Page:
    """Return everything about one section of a graph: placement, search, prediction; `more` goes to the end."""
    fabric, netlist = config.fabric, placed.section.netlist
    sections = placement_sections(fabric, netlist, placed.measurement, _frames(placed))
    subtitle = f"Placed by simulated annealing with the cost model {config.cost.name!r}, seed {config.seed}"
    sections[2:2] = [_search(placed)]
    sections[1:1] = [_predicted(config, placed)]
    title = f"{netlist.name} on {fabric.name}"
    return Page(title, subtitle, command, asdict(config), [*sections, *more])


def total_page(config: Source, time: NetworkTime, name: str, pages: Mapping[str, str], command: str) -> Page:
    """Return everything about a network of several sections; `pages` are those of the sections, by netlist."""
    num_all = sum(section.run.repeats for section in time.sections)
    subtitle = (
        f"The whole network: {count_text(num_all, 'section')}, {len(time.sections)} distinct; batch of {time.batch}"
    )
    chapters = time_chapters(time, name, pages)
    return Page(f"{name} on {config.fabric.name}", subtitle, command, asdict(config), chapters)


def _two_placements(config: SimulateConfig, result: SectionResult, other: SectionResult) -> Chapter:
    """Tell what differs between a placement and the one beside it."""
    both = [_placement_facts(config, one) for one in (result, other)]
    rows = [[name, both[0][name], both[1][name]] for name in both[0]]
    moved = int((result.decision.sites != other.decision.sites).sum())
    text = f"{moved} of {result.section.netlist.num_units} units are at another site."
    header = ["", config.placement, str(config.beside)]
    return Chapter("Two placements", [Text(text), PageTable("Figures of both", header, rows)])


def _placement_facts(config: SimulateConfig, result: SectionResult) -> dict[str, str]:
    netlist, measured, num_mesh = result.section.netlist, result.measurement, config.fabric.topology.num_mesh_links
    links = [int((result.decision.route(flow)[0] < num_mesh).sum()) for flow in range(netlist.num_flows)]
    compute = [number for number, unit in enumerate(netlist.units) if unit.kind == SiteKind.COMPUTE]
    return {
        "cycles per sample": f"{measured.cycles_per_sample:,.1f}",
        "throughput": f"{measured.throughput:.3f}",
        "compute units busy, mean": f"{measured.unit_time[compute, UnitTime.BUSY].mean():.1%}",
        "vectors x links per sample": f"{sum(n * f.tokens for n, f in zip(links, netlist.flows, strict=True)):,}",
        "busiest link between switches": f"{measured.link_utilisation[:num_mesh].max():.1%}",
        "most links of a flow": str(max(links, default=0)),
        "critical": measured.critical,
    }


def _frames(placed: PlacedSection) -> list[Frame]:
    """Return the start, what the search found on its way, and the result with its final routes."""
    best, measured = placed.search.best, {one.name: one.measurement for one in placed.judged}
    steps = [
        Frame(f"after {s.moves:,} moves: energy {s.energy:.4f}", s.decision, measured.get(f"after {s.moves:,} moves"))
        for s in best.replay
    ]
    start = Frame(f"start: energy {placed.start.energy:.4f}", best.start, placed.start.measurement)
    result = Frame(f"result: energy {placed.result.energy:.4f}", placed.decision)
    return [start, *steps, result]


def _predicted(config: PlaceConfig, placed: PlacedSection) -> Chapter:
    header = ["placement", "energy", "predicted throughput", "simulated throughput", "error"]
    text = (
        "Throughput is the bound over cycles per sample: 1 is the best that can be. "
        f"Predicted by the cost model {config.cost.name!r}, simulated cycle by cycle."
    )
    if (interval := placed.result.interval) is not None:
        low, high = interval
        text += f" {INTERVAL:.0%} of such results lie between {low:.3f} and {high:.3f}, says the cost model."
    if placed.remarks:
        text += f" It is a guess, far from what the cost model has learned from: {', '.join(placed.remarks)}."
    num = len(placed.judged)
    words = f"Predicted against simulated throughput of {num} placements; table below"
    return Chapter(
        "Predicted and simulated",
        [
            Text(text),
            picture_of(_predicted_figure(placed.judged), words),
            PageTable("Predicted against simulated", header, [_row(one) for one in placed.judged]),
        ],
    )


def _row(judged: Judged) -> list[str]:
    predicted, simulated = judged.predicted, judged.measurement.throughput
    row = [judged.name, f"{judged.energy:.4f}", f"{predicted:.4f}"]
    if math.isnan(simulated):
        return [*row, "not measured", ""]
    return [*row, f"{simulated:.4f}", f"{predicted / simulated - 1:+.1%}"]


def _predicted_figure(judged: Sequence[Judged]) -> Figure:
    figure = Figure(figsize=(4.6, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.axline((0, 0), slope=1, color="#000000", linewidth=0.8, linestyle=":")
    groups: tuple[tuple[Sequence[Judged], str, dict[str, Any]], ...] = (
        (judged[1:-1], "during the search", {"s": 18, "color": "#4393C3"}),
        (judged[:1], "start", {"s": 40, "color": "#B03A1E", "marker": "s"}),
        (judged[-1:], "result", {"s": 110, "color": "#B03A1E", "marker": "*"}),
    )
    for group, name, style in groups:
        if group:
            simulated = [one.measurement.throughput for one in group]
            axes.scatter(simulated, [one.predicted for one in group], label=name, **style)
    axes.set(xlim=(0, 1.05), ylim=(0, 1.05), xlabel="simulated", ylabel="predicted")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    return figure


def _search(placed: PlacedSection) -> Chapter:
    result = placed.search.best.result
    facts: list[list[Cell]] = [
        ["ended by", result.status.value],
        ["seconds", f"{result.seconds:.1f}"],
        ["moves", f"{result.moves:,}"],
        ["moves per second", f"{result.moves_per_second:,.0f}"],
        ["routes", placed.routing.value.replace("_", " ")],
    ]
    facts += [[f"accepted: {name.replace('_', ' ')}", n] for name, n in result.accepted.items()]
    facts += [[f"refused: {name.replace('_', ' ')}", n] for name, n in result.refused.items()]
    starts: list[list[Cell]] = [[f"{s.number}", f"{s.result.energy:.4f}", s.result.moves] for s in placed.search.starts]
    words = "Energy, best energy and temperature over the moves of the search; table below"
    is_curve = len(result.curve) > 1
    return Chapter(
        "Course of the search",
        [
            picture_of(curve_figure(result.curve, ""), words) if is_curve else Text("Too short for a curve."),
            Folded("The course as a table", [_curve_table(result.curve)]),
            PageTable("The search", ["", "value"], facts),
            PageTable("Starts", ["start", "energy", "moves"], starts),
        ],
    )


def _curve_table(curve: Sequence[Round]) -> PageTable:
    every = max(1, math.ceil(len(curve) / MAX_CURVE_ROWS))
    rows = [
        [
            f"{p.moves:,}", f"{p.temperature:.2e}", f"{p.acceptance:.0%}", f"{p.energy:.4f}",
            f"{p.best_energy:.4f}",
        ]
        for p in curve[::every]
    ]  # fmt: skip
    header = ["moves", "temperature", "accepted", "energy", "best energy"]
    return PageTable("Course of the search", header, rows)
