"""What `python -m placer.kernels` prints and writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from placer.files import make_folder, write_atomic
from placer.html.box_view import Arrow, Box, BoxView
from placer.html.page import Cell, Page, Section
from placer.html.page import Table as HtmlTable
from placer.kernels.chain import Part
from placer.kernels.check import adapter_cost, extents, kernel_performance
from placer.kernels.draw import draw_layout, time_colour
from placer.kernels.layout_file import Throughput, WaferResult, format_layout, to_json

NUMBERS = (
    "kernels", "deltaT", "bound", "wire length", "adapters", "with min(c,k)", "score",
    "without adapters", "utilisation", "throughput",
)  # fmt: skip
LEGEND_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def show(parts: Sequence[Part], console: Console) -> None:
    """A table with one row per wafer, and what the chain of them reaches."""
    table = Table("wafer", *(Column(name, justify="right") for name in NUMBERS))
    for row in _rows(parts):
        table.add_row(*row)
    console.print(table)
    if len(parts) > 1:
        slowest = max(float(part.mapping.score.slowest) for part in parts)
        console.print(f"slowest wafer of the chain: deltaT {slowest:,.10g}")
        known = [item for part in parts if (item := _throughput(part)) is not None]
        if len(known) == len(parts):
            longest = max(throughput.cycles_per_sample for throughput in known)
            console.print(
                f"simulated: {longest:,.0f} cycles per sample, those of its slowest wafer"
            )


def _throughput(part: Part) -> Throughput | None:
    """None where the score chose, and no cost."""
    simulated, predicted = part.mapping.throughput, part.mapping.predicted
    if simulated is None or predicted is None:
        return None
    return Throughput(predicted, simulated, float(part.bound) / simulated)


def _rows(parts: Sequence[Part]) -> list[list[str]]:
    """One per wafer, in the order of `NUMBERS`."""
    rows = []
    for part in parts:
        score, wafer, throughput = part.mapping.score, part.graph.wafer, _throughput(part)
        other = adapter_cost(
            part.graph,
            part.mapping.layout,
            {"conv": "min(c,k)", "dblock": "min(c,k)", "cblock": "min(c,k)"},
        )
        rows.append(
            [
                f"{part.wafer + 1}: {wafer.width} x {wafer.height}", str(len(part.graph.kernels)),
                f"{float(score.slowest):,.10g}", f"{float(part.bound):,.10g}",
                f"{float(score.wire_length):,.1f}", str(score.adapters), str(other),
                f"{score.total:,.1f}", f"{score.total_without_adapters:,.1f}",
                f"{100 * score.utilisation:.1f}%",
                "-" if throughput is None else f"{throughput.simulated:.4f}",
            ]
        )  # fmt: skip
    return rows


def write(
    parts: Sequence[Part],
    output: Path,
    settings: dict[str, Any],
    command: str,
    *,
    is_interrupted: bool,
) -> list[Path]:
    """Layouts in the contest's format and pictures, one per wafer; JSON and a page of all."""
    make_folder(output.parent)
    paths = []
    for part in parts:
        number = f".wafer{part.wafer + 1}" if len(parts) > 1 else ""
        path = output.with_suffix(number + output.suffix)
        layout, score = part.mapping.layout, part.mapping.score
        write_atomic(path, format_layout(part.graph, layout))
        draw_layout(part.graph, layout, score, path.with_suffix(".png"))
        paths += [path, path.with_suffix(".png")]
    results = [
        WaferResult(part.graph, part.mapping.layout, part.mapping.score, _throughput(part))
        for part in parts
    ]
    text = to_json(results, settings, is_interrupted=is_interrupted)
    write_atomic(output.with_suffix(".json"), text)
    page = layout_page(parts, settings, command).to_html(is_interrupted=is_interrupted)
    write_atomic(output.with_suffix(".html"), page)
    return [*paths, output.with_suffix(".json"), output.with_suffix(".html")]


def layout_page(parts: Sequence[Part], settings: dict[str, Any], command: str) -> Page:
    """The figures of all wafers, then each with its floorplan."""
    graph = parts[0].graph
    summary = Section("Score", [HtmlTable("Wafers", ["wafer", *NUMBERS], _rows(parts))])
    floorplans = [_floorplan(part) for part in parts]
    subtitle = f"Kernels mapped to {len(parts)} wafer{'s' * (len(parts) > 1)}"
    return Page(graph.name, subtitle, command, settings, [summary, *floorplans])


def _floorplan(part: Part) -> Section:
    graph, layout, score = part.graph, part.mapping.layout, part.mapping.score
    rows: list[list[Cell]] = []
    boxes: list[Box] = []
    for kernel, placed in zip(graph.kernels, layout.kernels, strict=True):
        width, height = extents(kernel, placed)
        time = float(kernel_performance(kernel, placed.execution).time)
        share = time / float(score.slowest)
        rows.append(
            [kernel.name, placed.x, placed.y, width, height, f"{time:,.10g}", f"{share:.0%}"]
        )
        facts = {
            "type": kernel.type,
            "place": f"({placed.x}, {placed.y})",
            "size": f"{width} x {height}",
            "time": f"{time:,.10g}, {share:.0%} of the slowest",
        }
        boxes.append(
            Box(placed.x, placed.y, width, height, kernel.name, f"kernel {kernel.name}",
                time_colour(share), facts)
        )  # fmt: skip
    header = ["kernel", "x", "y", "width", "height", "time", "of the slowest"]
    return Section(
        f"Wafer {part.wafer + 1}", [_view(part, boxes), HtmlTable("Kernels", header, rows)]
    )


def _view(part: Part, boxes: Sequence[Box]) -> BoxView:
    wafer = part.graph.wafer
    middles = [(box.x + box.width / 2, box.y + box.height / 2) for box in boxes]
    return BoxView(
        f"Floorplan of wafer {part.wafer + 1}: {len(boxes)} kernels",
        "Kernels as rectangles on the wafer, coloured by their time; arrows are streams.",
        wafer.width,
        wafer.height,
        boxes,
        [Arrow(a, b, middles[a], middles[b]) for a, b in part.graph.edges],
        {f"{share:.0%} of the slowest": time_colour(share) for share in LEGEND_SHARES},
    )
