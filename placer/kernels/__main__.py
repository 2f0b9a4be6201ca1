"""Command: map a graph of kernels to a wafer, or to a chain of wafers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig

from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.files import require_folder
from placer.kernels.chain import Chain, Part
from placer.kernels.check import OutRule
from placer.kernels.engines import EngineName, map_kernels
from placer.kernels.generate import generate
from placer.kernels.graph import KERNEL_TYPES, KernelGraph
from placer.kernels.kgraph_file import load_kgraph
from placer.kernels.problem import Problem
from placer.kernels.report import BestLine, show, write
from placer.kernels.search import Search


@dataclass(frozen=True, slots=True)
class KernelsConfig:
    """What `conf/kernels.yaml` holds."""

    kgraph: Path | None
    preset: str
    output: Path
    engine: EngineName
    time_limit: float
    seed: int
    wafers: int
    wafer_sizes: list[list[int]] | None
    out_rules: dict[str, OutRule]

    def __post_init__(self) -> None:
        if self.wafers < 1:
            raise InputError(f"wafers={self.wafers} is out of range; allowed: 1 or more")
        if not self.time_limit > 0:
            raise InputError(f"time_limit={self.time_limit} must be more than 0 seconds")
        if self.seed < 0:
            raise InputError(f"seed={self.seed} is out of range; allowed: 0 or more")
        if self.output.suffix in ("", ".json", ".png"):
            raise InputError(f"output={self.output}: name a file such as layout.txt")
        if set(self.out_rules) != set(KERNEL_TYPES):
            raise InputError(f"out_rules must hold exactly {', '.join(KERNEL_TYPES)}")
        for size in self.wafer_sizes or []:
            if len(size) != 2 or min(size) < 1:
                raise InputError(f"wafer_sizes: {size} is no [width, height]")

    def to_graph(self) -> KernelGraph:
        """The graph of the file, or of the preset."""
        return generate(self.preset) if self.kgraph is None else load_kgraph(self.kgraph)

    def to_sizes(self, graph: KernelGraph) -> list[tuple[int, int]]:
        """Width and height of every wafer of the chain."""
        if self.wafer_sizes is not None:
            return [(width, height) for width, height in self.wafer_sizes]
        return [(graph.wafer.width, graph.wafer.height)] * self.wafers


def run(settings: KernelsConfig) -> tuple[list[Part], list[float]]:
    """The mapping of every wafer, and the lower bounds of their times."""
    graph = settings.to_graph()
    sizes = settings.to_sizes(graph)
    if len(sizes) > 1:
        parts = Chain(graph, sizes, settings.seed).run()
        problems = [Problem(part.graph) for part in parts]
    else:
        problem = Problem(graph)
        with BestLine(graph.name) as line:
            search = Search(
                problem,
                settings.time_limit,
                settings.seed,
                {kind: settings.out_rules[kind] for kind in KERNEL_TYPES},
                line.on_better,
            )
            parts = [Part(graph, map_kernels(search, settings.engine))]
        problems = [problem]
    return parts, [problem.bound / problem.graph.time_scale for problem in problems]


def main(config: DictConfig) -> None:
    """Entry point: config -> mapping -> files and screen."""
    settings = to_dataclass(KernelsConfig, config)
    require_folder(settings.output.parent)
    parts, bounds = run(settings)
    described = {**asdict(settings), "kgraph": str(settings.kgraph), "output": str(settings.output)}
    paths = write(parts, settings.output, described)
    console = make_console()
    show(parts, bounds, console)
    console.print("written: " + ", ".join(map(str, paths)))


if __name__ == "__main__":
    run_command(main, "kernels")
