"""Command: map a graph of kernels to a wafer, or to a chain of wafers.

Ctrl-C ends the search: the best mapping so far is written, and the exit code is 130.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig

from placer.annealing.interrupt import Interrupt
from placer.command import command_line, make_console
from placer.config import build_target, run_command, to_dataclass
from placer.errors import InputError
from placer.files import require_folder
from placer.kernels.chain import ChainOptions, Part, map_chain
from placer.kernels.check import OutRule, OutRules
from placer.kernels.engines import EngineName, map_kernels
from placer.kernels.generate import generate
from placer.kernels.graph import KERNEL_TYPES, MAX_SIDE, KernelGraph
from placer.kernels.kgraph_file import load_kgraph
from placer.kernels.mapping_cost import MappingCost, MappingCostChoice, SimulatorCost
from placer.kernels.problem import Problem
from placer.kernels.report import show, write
from placer.kernels.search import Search
from placer.kernels.stretches import Size
from placer.progress import StatusLine


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
    cost: Literal["contest", "learned", "simulator"]
    model: Path
    learned: str
    out_rules: dict[str, OutRule]

    def __post_init__(self) -> None:
        if self.wafers < 1:
            raise InputError(f"wafers={self.wafers} is out of range; allowed: 1 or more")
        if not self.time_limit > 0:
            raise InputError(f"time_limit={self.time_limit} must be more than 0 seconds")
        if self.seed < 0:
            raise InputError(f"seed={self.seed} is out of range; allowed: 0 or more")
        if self.output.suffix in ("", ".html", ".json", ".png"):
            raise InputError(f"output={self.output}: name a file such as layout.txt")
        if self.kgraph is not None and self.kgraph.resolve() == self.output.resolve():
            raise InputError(
                f"output={self.output} would take the place of the graph; name another"
            )
        if set(self.out_rules) != set(KERNEL_TYPES):
            raise InputError(f"out_rules must hold exactly {', '.join(KERNEL_TYPES)}")
        sizes = self.wafer_sizes
        if sizes is None:
            return
        for size in sizes:
            if len(size) != 2 or not 1 <= min(size) <= max(size) <= MAX_SIDE:
                raise InputError(f"wafer_sizes: {size} is no [width, height] of 1 to {MAX_SIDE}")
        if not sizes or self.wafers not in (1, len(sizes)):
            raise InputError(
                f"wafers={self.wafers}, but wafer_sizes has {len(sizes)} entries; name one size "
                "per wafer, or leave one of the two options out"
            )

    def to_graph(self) -> KernelGraph:
        """The graph of the file, or of the preset."""
        return generate(self.preset) if self.kgraph is None else load_kgraph(self.kgraph)

    def to_sizes(self, graph: KernelGraph) -> list[Size]:
        """Width and height of every wafer."""
        if self.wafer_sizes is not None:
            return [(width, height) for width, height in self.wafer_sizes]
        return [(graph.wafer.width, graph.wafer.height)] * self.wafers

    def to_cost(self) -> MappingCost | None:
        """None: the contest's score. Raises InputError when there is no such model."""
        if self.cost == "contest":
            return None
        if self.cost == "simulator":
            return SimulatorCost()
        given = {"target": self.learned, "model_file": str(self.model)}
        choice: MappingCostChoice = build_target(given, "learned")
        return choice.cost()


def run(settings: KernelsConfig, interrupt: Interrupt) -> list[Part]:
    """The mapping of every wafer; reading the graph counts for the time, loading a model not."""
    cost = settings.to_cost()
    end = time.perf_counter() + settings.time_limit
    graph = settings.to_graph()
    sizes = settings.to_sizes(graph)
    rules: OutRules = {kind: settings.out_rules[kind] for kind in KERNEL_TYPES}
    with StatusLine(graph.name, "no layout yet") as line:
        if len(sizes) > 1:
            seconds = max(0.0, end - time.perf_counter())
            options = ChainOptions(
                settings.engine, seconds, settings.seed, rules, line.note, cost,
                lambda: interrupt.is_asked,
            )  # fmt: skip
            return map_chain(graph, sizes, options)
        width, height = sizes[0]
        graph = replace(graph, wafer=replace(graph.wafer, width=width, height=height))
        problem = Problem(graph)
        search = Search(
            problem, end - time.perf_counter(), settings.seed, rules,
            lambda mapping: line.note(mapping.describe()), cost=cost,
            is_interrupted=lambda: interrupt.is_asked,
        )  # fmt: skip
        mapping = map_kernels(search, settings.engine)
    return [Part(0, graph, mapping, Fraction(problem.bound, graph.time_scale))]


def main(config: DictConfig) -> None:
    """Entry point: config -> mapping -> files and screen."""
    settings = to_dataclass(KernelsConfig, config)
    require_folder(settings.output.parent)
    with Interrupt() as interrupt:
        parts = run(settings, interrupt)
    is_interrupted = interrupt.is_asked
    described = {
        **asdict(settings),
        "kgraph": str(settings.kgraph),
        "output": str(settings.output),
        "model": str(settings.model),
    }
    command = command_line("placer.kernels")
    paths = write(parts, settings.output, described, command, is_interrupted=is_interrupted)
    console = make_console()
    show(parts, console)
    console.print("written: " + ", ".join(map(str, paths)))
    if is_interrupted:
        # The mapping is safe; the exit code tells that it is not final.
        raise KeyboardInterrupt


if __name__ == "__main__":
    run_command(main, "kernels")
