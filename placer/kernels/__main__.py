"""Command: map a graph of kernels to a wafer, or to a chain of wafers.

Ctrl-C ends the search: the best mapping so far is written, and the exit code is 130.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig

from placer.base import (
    InputError,
    Interrupt,
    StatusLine,
    command_line,
    make_console,
    notice_file_name,
    output_file,
    require_folder,
)
from placer.base.config import build_target, run_command, to_dataclass
from placer.kernels.engines import ChainOptions, EngineName, map_wafers
from placer.kernels.model import KERNEL_TYPES, MAX_SIDE, OutRule, OutRules, Part, load_or_generate
from placer.kernels.report import show, write
from placer.kernels.truth import MappingCost, SimulatorCost


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
        for name, least in (("wafers", 1), ("seed", 0)):
            if getattr(self, name) < least:
                value = getattr(self, name)
                raise InputError(f"{name}={value} is out of range; allowed: {least} or more")
        if not self.time_limit > 0:
            raise InputError(f"time_limit={self.time_limit} must be more than 0 seconds")
        if self.layout_file.suffix in (".html", ".json", ".png"):
            raise InputError(f"output={self.output}: such a file goes beside the layout; name a folder")
        if self.kgraph is not None and self.kgraph.resolve() == self.layout_file.resolve():
            raise InputError(f"output={self.output} would take the place of the graph; name another")
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

    @property
    def layout_file(self) -> Path:
        """Return where the layout goes; what else is written has the same name."""
        return output_file(self.output, "layout.txt")

    def to_cost(self) -> MappingCost | None:
        """Return what chooses in place of the score, None: nothing. Raises InputError."""
        if self.cost == "contest":
            return None
        if self.cost == "simulator":
            return SimulatorCost()
        given = {"target": self.learned, "model_file": str(self.model)}
        cost: MappingCost = build_target(given, "learned").cost()
        return cost


def run(settings: KernelsConfig, interrupt: Interrupt) -> list[Part]:
    """Map every wafer; reading the graph counts for the time, loading a model does not."""
    cost = settings.to_cost()
    begin = time.perf_counter()
    graph = load_or_generate(settings.kgraph, settings.preset)
    seconds = max(0.0, settings.time_limit - (time.perf_counter() - begin))
    sizes = [(graph.wafer.width, graph.wafer.height)] * settings.wafers
    if settings.wafer_sizes is not None:
        sizes = [(width, height) for width, height in settings.wafer_sizes]
    rules: OutRules = {kind: settings.out_rules[kind] for kind in KERNEL_TYPES}
    with StatusLine(graph.name, "no layout yet") as line:
        options = ChainOptions(
            settings.engine, seconds, settings.seed, rules, line.note, cost,
            lambda: interrupt.is_asked,
        )  # fmt: skip
        return map_wafers(graph, sizes, options)


def main(config: DictConfig) -> None:
    """Read the config, map the graph, write files and print."""
    settings = to_dataclass(KernelsConfig, config)
    require_folder(settings.layout_file.parent)
    with Interrupt() as interrupt:
        parts = run(settings, interrupt)
    is_interrupted = interrupt.is_asked
    paths_of = {name: str(getattr(settings, name)) for name in ("kgraph", "output", "model")}
    described = {**asdict(settings), **paths_of}
    command = command_line("placer.kernels")
    paths = write(parts, settings.layout_file, described, command, is_interrupted=is_interrupted)
    console = make_console()
    show(parts, console)
    console.print("written: " + ", ".join(map(str, paths)))
    notice_file_name(settings.output)
    if is_interrupted:
        # The mapping is safe; the exit code tells that it is not final.
        raise KeyboardInterrupt


if __name__ == "__main__":
    run_command(main, "kernels")
