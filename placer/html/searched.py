"""The page of a placement that a search has found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from matplotlib.figure import Figure

from placer.annealing import Round
from placer.draw_curve import curve_figure
from placer.html.fabric_view import Frame
from placer.html.page import Cell, Folded, Page, Section, Table, Text, picture_of
from placer.html.placement import placement_sections
from placer.placing import Figures, PlaceConfig, PlacedSection, Step

MAX_CURVE_ROWS = 60  # of the table beside the picture


def placing_page(config: PlaceConfig, placed: PlacedSection, command: str) -> Page:
    """Everything about one section of a graph: placement, search, prediction."""
    fabric, netlist = config.fabric, placed.section.netlist
    sections = placement_sections(fabric, netlist, placed.result.measurement, _frames(placed))
    return Page(
        title=f"{netlist.name} on {fabric.name}",
        subtitle=f"Placed by simulated annealing with the cost model {config.cost.name!r}, "
        f"seed {config.seed}",
        command=command,
        config=asdict(config),
        sections=[
            sections[0],
            _predicted(config, placed),
            sections[1],
            _search(placed),
            *sections[2:],
        ],
    )


def _frames(placed: PlacedSection) -> list[Frame]:
    """The start, what the search found on its way, and the result with its final routes."""
    best = placed.search.best
    steps = [
        Frame(f"after {s.moves:,} moves: energy {s.energy:.4f}", s.decision) for s in best.replay
    ]
    start = Frame(f"start: energy {placed.start.energy:.4f}", best.start)
    result = Frame(f"result: energy {placed.result.energy:.4f}", placed.decision)
    return [start, *steps, result]


def _predicted(config: PlaceConfig, placed: PlacedSection) -> Section:
    rows = [_figures("start", placed.start), *map(_step, placed.steps)]
    rows.append(_figures("result", placed.result))
    header = ["placement", "energy", "predicted throughput", "simulated throughput", "error"]
    points = [(s.predicted, s.simulated) for s in placed.steps]
    ends = [(f.predicted, f.measurement.throughput) for f in (placed.start, placed.result)]
    figure = _predicted_figure(points, ends)
    words = f"Predicted against simulated throughput of {len(points) + 2} placements; table below"
    return Section(
        "Predicted and simulated",
        [
            Text(
                f"Throughput is the bound over cycles per sample: 1 is the best that can be. "
                f"Predicted by the cost model {config.cost.name!r}, simulated cycle by cycle."
            ),
            picture_of(figure, words),
            Table("Predicted against simulated", header, rows),
        ],
    )


def _figures(name: str, figures: Figures) -> list[str]:
    simulated = figures.measurement.throughput
    return _row(name, figures.energy, figures.predicted, simulated)


def _step(step: Step) -> list[str]:
    snapshot = step.snapshot
    name = f"after {snapshot.moves:,} moves"
    return _row(name, snapshot.energy, step.predicted, step.simulated)


def _row(name: str, energy: float, predicted: float, simulated: float) -> list[str]:
    if math.isnan(simulated):
        return [name, f"{energy:.4f}", f"{predicted:.4f}", "not measured", ""]
    error = f"{predicted / simulated - 1:+.1%}"
    return [name, f"{energy:.4f}", f"{predicted:.4f}", f"{simulated:.4f}", error]


def _predicted_figure(
    steps: Sequence[tuple[float, float]], ends: Sequence[tuple[float, float]]
) -> Figure:
    figure = Figure(figsize=(4.6, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.axline((0, 0), slope=1, color="#000000", linewidth=0.8, linestyle=":")
    if steps:
        predicted, simulated = zip(*steps, strict=True)
        axes.scatter(simulated, predicted, s=18, color="#4393C3", label="during the search")
    for (predicted_end, simulated_end), mark, name in zip(
        ends, ("s", "*"), ("start", "result"), strict=True
    ):
        size = 40 if mark == "s" else 110
        axes.scatter(simulated_end, predicted_end, s=size, marker=mark, color="#B03A1E", label=name)
    axes.set(xlim=(0, 1.05), ylim=(0, 1.05), xlabel="simulated", ylabel="predicted")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    return figure


def _search(placed: PlacedSection) -> Section:
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
    starts: list[list[Cell]] = [
        [f"{s.number}", f"{s.result.energy:.4f}", s.result.moves] for s in placed.search.starts
    ]
    words = "Energy, best energy and temperature over the moves of the search; table below"
    return Section(
        "Course of the search",
        [
            picture_of(curve_figure(result.curve, ""), words),
            Folded("The course as a table", [_curve_table(result.curve)]),
            Table("The search", ["", "value"], facts),
            Table("Starts", ["start", "energy", "moves"], starts),
        ],
    )


def _curve_table(curve: Sequence[Round]) -> Table:
    every = max(1, math.ceil(len(curve) / MAX_CURVE_ROWS))
    rows = [
        [
            f"{p.moves:,}", f"{p.temperature:.2e}", f"{p.acceptance:.0%}", f"{p.energy:.4f}",
            f"{p.best_energy:.4f}",
        ]
        for p in curve[::every]
    ]  # fmt: skip
    header = ["moves", "temperature", "accepted", "energy", "best energy"]
    return Table("Course of the search", header, rows)
