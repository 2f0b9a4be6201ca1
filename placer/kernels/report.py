"""What `python -m placer.kernels` shows while it runs, prints and writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from placer.files import make_folder, write_atomic
from placer.kernels.chain import Part
from placer.kernels.check import adapter_cost
from placer.kernels.draw import draw_layout
from placer.kernels.layout_file import format_layout, to_json
from placer.kernels.mapping import Mapping
from placer.kernels.variants import find_variants


class BestLine:
    """A line with the best score so far, in a terminal only; use as a context."""

    def __init__(self, name: str) -> None:
        console = Console(stderr=True, markup=False, emoji=False)
        text = TextColumn("{task.description}: {task.fields[note]}", markup=False)
        self._line = Progress(
            text, TimeElapsedColumn(), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._line.add_task(name, note="no layout yet")

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.stop()

    def on_better(self, mapping: Mapping) -> None:
        """After every mapping that is the best so far."""
        score = mapping.score
        self._line.update(
            self._task,
            note=f"best score {score.total:,.1f} (slowest {float(score.slowest):,.0f}, wires "
            f"{float(score.wire_length):,.1f}, adapters {score.adapters})",
        )


def show(parts: Sequence[Part], bounds: Sequence[float], console: Console) -> None:
    """How many ways there are to execute each kernel, and a table with one row per wafer."""
    kinds = {kernel.convs: (kernel, part.graph) for part in parts for kernel in part.graph.kernels}
    variants = sum(len(find_variants(*kind)) for kind in kinds.values())
    console.print(f"{len(kinds)} kinds of kernels, {variants:,} non-dominated variants")
    numbers = (
        "kernels", "deltaT", "bound", "wire length", "adapters", "with min(c,k)", "score",
        "without adapters", "utilisation",
    )  # fmt: skip
    table = Table("wafer", *(Column(name, justify="right") for name in numbers))
    for i, (part, bound) in enumerate(zip(parts, bounds, strict=True), 1):
        score, wafer = part.mapping.score, part.graph.wafer
        other = adapter_cost(
            part.graph,
            part.mapping.layout,
            {"conv": "min(c,k)", "dblock": "min(c,k)", "cblock": "min(c,k)"},
        )
        table.add_row(
            f"{i}: {wafer.width} x {wafer.height}", str(len(part.graph.kernels)),
            f"{float(score.slowest):,.10g}", f"{bound:,.10g}", f"{float(score.wire_length):,.1f}",
            str(score.adapters), str(other), f"{score.total:,.1f}",
            f"{score.total_without_adapters:,.1f}", f"{100 * score.utilisation:.1f}%",
        )  # fmt: skip
    console.print(table)
    if len(parts) > 1:
        slowest = max(float(part.mapping.score.slowest) for part in parts)
        console.print(f"slowest wafer of the chain: deltaT {slowest:,.10g}")


def write(parts: Sequence[Part], output: Path, settings: dict[str, Any]) -> list[Path]:
    """Layouts in the contest's format and pictures, one per wafer, and a JSON file of all."""
    make_folder(output.parent)
    paths = []
    for i, part in enumerate(parts, 1):
        path = output if len(parts) == 1 else output.with_suffix(f".wafer{i}{output.suffix}")
        layout, score = part.mapping.layout, part.mapping.score
        write_atomic(path, format_layout(part.graph, layout))
        draw_layout(part.graph, layout, score, path.with_suffix(".png"))
        paths += [path, path.with_suffix(".png")]
    documents = [(part.graph, part.mapping.layout, part.mapping.score) for part in parts]
    write_atomic(output.with_suffix(".json"), to_json(documents, settings))
    return [*paths, output.with_suffix(".json")]
