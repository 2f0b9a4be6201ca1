"""What `python -m placer.kernels` prints and writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from placer.files import make_folder, write_atomic
from placer.kernels.chain import Part
from placer.kernels.check import adapter_cost
from placer.kernels.draw import draw_layout
from placer.kernels.layout_file import format_layout, to_json


def show(parts: Sequence[Part], console: Console) -> None:
    """A table with one row per wafer, and what the chain of them reaches."""
    numbers = (
        "kernels", "deltaT", "bound", "wire length", "adapters", "with min(c,k)", "score",
        "without adapters", "utilisation",
    )  # fmt: skip
    table = Table("wafer", *(Column(name, justify="right") for name in numbers))
    for part in parts:
        score, wafer = part.mapping.score, part.graph.wafer
        other = adapter_cost(
            part.graph,
            part.mapping.layout,
            {"conv": "min(c,k)", "dblock": "min(c,k)", "cblock": "min(c,k)"},
        )
        table.add_row(
            f"{part.wafer + 1}: {wafer.width} x {wafer.height}", str(len(part.graph.kernels)),
            f"{float(score.slowest):,.10g}", f"{float(part.bound):,.10g}",
            f"{float(score.wire_length):,.1f}", str(score.adapters), str(other),
            f"{score.total:,.1f}", f"{score.total_without_adapters:,.1f}",
            f"{100 * score.utilisation:.1f}%",
        )  # fmt: skip
    console.print(table)
    if len(parts) > 1:
        slowest = max(float(part.mapping.score.slowest) for part in parts)
        console.print(f"slowest wafer of the chain: deltaT {slowest:,.10g}")


def write(parts: Sequence[Part], output: Path, settings: dict[str, Any]) -> list[Path]:
    """Layouts in the contest's format and pictures, one per wafer, and a JSON file of all."""
    make_folder(output.parent)
    paths = []
    for part in parts:
        number = f".wafer{part.wafer + 1}" if len(parts) > 1 else ""
        path = output.with_suffix(number + output.suffix)
        layout, score = part.mapping.layout, part.mapping.score
        write_atomic(path, format_layout(part.graph, layout))
        draw_layout(part.graph, layout, score, path.with_suffix(".png"))
        paths += [path, path.with_suffix(".png")]
    documents = [(part.graph, part.mapping.layout, part.mapping.score) for part in parts]
    write_atomic(output.with_suffix(".json"), to_json(documents, settings))
    return [*paths, output.with_suffix(".json")]
