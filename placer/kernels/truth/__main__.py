"""Command: simulate a mapping of kernels on the wafer, and say what limits it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.table import Column, Table

from placer.base import InputError, make_console, read_text
from placer.base.config import run_command, to_dataclass
from placer.kernels.model import KernelGraph, KernelLayout, Score, from_json, judge, load_or_generate, parse_layout
from placer.kernels.sizing import Problem
from placer.kernels.truth.simulation import Resolution, WaferMeasurement, simulate_mapping


@dataclass(frozen=True, slots=True)
class TruthConfig:
    """What `conf/kernels_truth.yaml` holds."""

    kgraph: Path | None
    preset: str
    solution: Path
    wafer: int
    cells: int
    chunks: int
    samples: int
    colours: int

    def __post_init__(self) -> None:
        for name, least, most in (
            ("wafer", 0, 1 << 16),
            ("cells", 1, 256),
            ("chunks", 1, 256),
            ("samples", 2, 1024),
            ("colours", 3, 1024),  # a kernel takes two on its own tiles
        ):
            if not least <= getattr(self, name) <= most:
                raise InputError(f"{name}={getattr(self, name)} is out of range; allowed: {least} to {most}")

    def to_layout(self, graph: KernelGraph) -> KernelLayout:
        """Return the layout of the file, in one of its two formats."""
        text = read_text(self.solution)
        if self.solution.suffix == ".json":
            return from_json(graph, text, self.wafer)
        return parse_layout(graph, text)


def main(config: DictConfig) -> None:
    """Read the config, simulate the mapping, and print."""
    settings = to_dataclass(TruthConfig, config)
    graph = load_or_generate(settings.kgraph, settings.preset)
    layout = settings.to_layout(graph)
    score, problem = judge(graph, layout), Problem(graph)
    resolution = Resolution(settings.cells, settings.chunks, settings.samples, settings.colours)
    finer = resolution._replace(cells=2 * resolution.cells, chunks=2 * resolution.chunks)
    halved = simulate_mapping(problem, layout, finer)
    start = time.process_time()
    measured = simulate_mapping(problem, layout, resolution)
    milliseconds = 1e3 * (time.process_time() - start)
    _show(graph, measured, score)
    change = halved.cycles_per_sample / measured.cycles_per_sample - 1
    make_console().print(
        f"simulated in {milliseconds:.1f} ms of processor time; cells and chunks of half the size "
        f"change the cycles per sample by {change:+.2%}"
    )


def _show(graph: KernelGraph, measured: WaferMeasurement, score: Score) -> None:
    """Print tables of kernels and streams, and the throughput."""
    console = make_console()
    kernels = Table("kernel", *(Column(name, justify="right") for name in ("tiles", "contest", "cycles", "busy")))
    period = measured.cycles_per_sample
    for kernel, shape, cycles in zip(graph.kernels, measured.shapes, measured.kernel_cycles, strict=True):
        kernels.add_row(
            kernel.name, f"{shape.extent(0)} x {shape.extent(1)}", f"{shape.contest_cycles:,.0f}",
            f"{cycles:,.0f}", f"{cycles / period:.0%}",
        )  # fmt: skip
    console.print(kernels)
    names = ("wavelets", "lanes", "tiles", "adapters", "own lanes busy", "fullest link busy")
    streams = Table("stream", *(Column(name, justify="right") for name in names))
    for stream, own, link in zip(measured.streams, measured.stream_cycles, measured.link_cycles, strict=True):
        streams.add_row(
            f"{graph.kernels[stream.source].name} -> {graph.kernels[stream.target].name}",
            f"{stream.wavelets:,.0f}", str(stream.lanes), str(stream.distance),
            str(stream.adapters), f"{own / period:.0%}", f"{link / period:.0%}",
        )  # fmt: skip
    console.print(streams)
    console.print(
        f"throughput {measured.throughput:.4f} of the bound: {period:,.0f} cycles per sample, "
        f"contest deltaT {float(score.slowest):,.10g}, bound {measured.bound_cycles:,.10g}, "
        f"score {score.total:,.1f}"
    )
    console.print(f"limited by: {measured.limit}")


if __name__ == "__main__":
    run_command(main, "kernels_truth")
