"""The page of a compiled network, and those of its sections beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from placer.base import count_text, file_name, write_atomic
from placer.compile.compiled import CompiledNetwork, CompiledSection
from placer.fabric import SiteKind
from placer.netlist import Netlist
from placer.pipeline import time_chapters
from placer.show import CutGroup, CutSection, cut_figure, plain_ticks
from placer.show.html import Cell, Chapter, Folded, Frame, Page, PageTable, Text, picture_of, placement_sections

_LINE, _POINT = "#4393C3", "#B03A1E"
_CUT_TEXT = (
    "The strip shows the sections in the order in which they run; equal numbers are alike, placed once. Below it, each "
    "distinct section with the groups of ops that it runs at the same time: a group is as wide as the compute units "
    "that it takes, and what is left to the dotted line stays empty."
)
_PREDICTED_TEXT = (
    "Cycles per sample of each distinct section as the search expected them before it was simulated, and as simulated."
)


def write_page(compiled: CompiledNetwork, path: Path, command: str, config: dict[str, Any]) -> None:
    """Write the page of a network, and beside it one for each distinct section: `<stem>.<netlist>.html`."""
    pages = {}
    for section in compiled.sections:
        netlist = section.result.section.netlist
        pages[netlist.name] = file_name(f"{path.stem}.{netlist.name}.html")
        write_atomic(path.parent / pages[netlist.name], section_page(compiled, section, command, config).to_html())
    write_atomic(path, compiled_page(compiled, pages, command, config).to_html())


def compiled_page(compiled: CompiledNetwork, pages: Mapping[str, str], command: str, config: dict[str, Any]) -> Page:
    """Return everything about a compiled network; `pages` are those of its sections, by netlist."""
    fabric, time, num = compiled.fabric, compiled.time, len(compiled.plan.sections)
    subtitle = (
        f"Compiled with the cost model {compiled.cost!r} in {compiled.seconds:,.0f} s, seed {compiled.seed}: "
        f"{count_text(num, 'section')}, {len(compiled.sections)} distinct; batch of {time.batch}"
    )
    whole, sections, *rest = time_chapters(time, compiled.graph.name, pages)
    chapters = [whole, _cut(compiled), sections, _predicted(compiled), _search(compiled), *rest]
    return Page(f"{compiled.graph.name} on {fabric.name}", subtitle, command, config, chapters)


def section_page(compiled: CompiledNetwork, section: CompiledSection, command: str, config: dict[str, Any]) -> Page:
    """Return the placement of one section and where its time goes."""
    fabric, result = compiled.fabric, section.result
    netlist = result.section.netlist
    chapters = placement_sections(fabric, netlist, result.measurement, [Frame("result", result.decision)])
    alike = f", one of {result.section.repeats} alike" if result.section.repeats > 1 else ""
    subtitle = f"A section of {compiled.graph.name}{alike}"
    return Page(f"{netlist.name} on {fabric.name}", subtitle, command, config, chapters)


def _cut(compiled: CompiledNetwork) -> Chapter:
    time = compiled.time
    rows = []
    for number, (section, spent) in enumerate(zip(compiled.sections, time.sections, strict=True)):
        share = spent.cycles_per_input / time.cycles_per_input
        alike = f" x {spent.run.repeats}" if spent.run.repeats > 1 else ""
        rows.append(CutSection(f"{number}{alike}: {share:.1%} of the time", groups_of(section.result.section.netlist)))
    layouts = list(dict.fromkeys(cut.layout for cut in compiled.plan.sections))
    order = [layouts.index(cut.layout) for cut in compiled.plan.sections]
    num_compute = compiled.fabric.num_sites(SiteKind.COMPUTE)
    figure = cut_figure(rows, order, num_compute, f"{compiled.graph.name}: where it is cut")
    header = ["section", "groups of ops", "compute units", "of the fabric"]
    table: list[list[Cell]] = []
    for number, row in enumerate(rows):
        units = sum(group.units for group in row.groups)
        names = ", ".join(f"{group.name} ({group.units})" for group in row.groups)
        table.append([str(number), names, units, f"{units / num_compute:.0%}"])
    words = "Sections in their order, and the groups of each; the table below tells the same"
    blocks = [Text(_CUT_TEXT), picture_of(figure, words), PageTable("Groups of each section", header, table)]
    return Chapter("The cut", blocks)


def groups_of(netlist: Netlist) -> tuple[CutGroup, ...]:
    """Return the groups of a netlist in the order of its units, each with how many units run it."""
    units: dict[str, list[str]] = {}
    for unit in netlist.units:
        if unit.kind == SiteKind.COMPUTE:
            units.setdefault(unit.name.rpartition(".")[0] or unit.name, []).append(unit.op)
    return tuple(CutGroup(name, ops[0], len(ops)) for name, ops in units.items())


def _predicted(compiled: CompiledNetwork) -> Chapter:
    rows: list[list[Cell]] = []
    for number, section in enumerate(compiled.sections):
        predicted, simulated = section.predicted_cycles, section.result.measurement.cycles_per_sample
        is_known = math.isfinite(predicted) and math.isfinite(simulated)
        rows.append(
            [
                str(number), f"{predicted:,.0f}" if math.isfinite(predicted) else "nobody was asked",
                f"{simulated:,.1f}", f"{predicted / simulated - 1:+.1%}" if is_known else "",
            ]
        )  # fmt: skip
    header = ["section", "predicted cycles per sample", "simulated", "error"]
    blocks = [Text(_PREDICTED_TEXT), PageTable("Predicted against simulated", header, rows)]
    error = prediction_error(compiled)
    if error is not None:
        words = f"Predicted against simulated cycles per sample; the mean error over the time is {error:.1%}"
        blocks.insert(1, picture_of(_predicted_figure(compiled), words))
        blocks.insert(1, Text(f"Mean error, weighted with the time that a section takes: {error:.1%}."))
    return Chapter("Predicted and simulated", blocks)


def prediction_error(compiled: CompiledNetwork) -> float | None:
    """Return the mean relative error of predicted periods, weighted with the time; None when nobody was asked."""
    weighted = [
        (abs(section.predicted_cycles / section.result.measurement.cycles_per_sample - 1), spent.cycles_per_input)
        for section, spent in zip(compiled.sections, compiled.time.sections, strict=True)
        if math.isfinite(section.predicted_cycles / section.result.measurement.cycles_per_sample)
    ]
    total = sum(weight for _, weight in weighted)
    return sum(error * weight for error, weight in weighted) / total if total else None


def _predicted_figure(compiled: CompiledNetwork) -> Figure:
    figure = Figure(figsize=(4.8, 4.0), layout="constrained")
    axes = figure.subplots()
    points = [
        (section.result.measurement.cycles_per_sample, section.predicted_cycles, number)
        for number, section in enumerate(compiled.sections)
        if math.isfinite(section.predicted_cycles / section.result.measurement.cycles_per_sample)
    ]
    axes.loglog([x for x, _, _ in points], [y for _, y, _ in points], "o", color=_LINE)
    ends = [0.7 * min(min(x, y) for x, y, _ in points), 1.4 * max(max(x, y) for x, y, _ in points)]
    axes.plot(ends, ends, color="#000000", linewidth=0.8, linestyle=":")
    for x, y, number in points:
        axes.annotate(str(number), (x, y), xytext=(5, -9), textcoords="offset points", fontsize=8)
    axes.set(xlabel="simulated cycles per sample", ylabel="predicted")
    plain_ticks(axes)
    axes.grid(alpha=0.3, which="both")
    return figure


def _search(compiled: CompiledNetwork) -> Chapter:
    steps = compiled.history
    if not steps:
        return Chapter("Course of the search", [Text("Nothing was noted on the way.")])
    first, best = steps[0], min(step.cycles_per_input for step in steps)
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    seconds = [step.seconds for step in steps] + [max(compiled.seconds, steps[-1].seconds)]
    cycles = [step.cycles_per_input for step in steps] + [steps[-1].cycles_per_input]
    axes.step(seconds, cycles, where="post", color=_LINE)
    axes.plot(seconds[:-1], cycles[:-1], "o", color=_POINT, markersize=4)
    axes.set(xlabel="seconds", ylabel="best whole time, cycles per input", xlim=(0, None))
    axes.grid(alpha=0.3)
    gain = f"The best whole time so far: from {first.cycles_per_input:,.0f} to {best:,.0f} cycles per input"
    text = f"{gain}, {first.cycles_per_input / best - 1:.1%} faster than the first."
    rows: list[list[Cell]] = [[f"{step.seconds:,.1f}", f"{step.cycles_per_input:,.0f}"] for step in steps]
    table = PageTable("Whenever the best got better", ["seconds", "cycles per input"], rows)
    picture = picture_of(figure, f"{gain}; table below")
    return Chapter("Course of the search", [Text(text), picture, Folded("All steps", [table])])
