"""Command: mappers x graphs in checker cycles and seconds, and the speed of the game."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from placer.command import make_console
from placer.files import make_folder, write_atomic
from placer.streaming.device import Device
from placer.streaming.generate import growing_network
from placer.streaming.mappers import map_program
from placer.streaming.options import MapOptions, MapperName
from placer.streaming.problem import make_problem
from placer.streaming.program_file import load_program
from placer.streaming.rl.environment import BatchEnv
from placer.warm_up import warm_up

INPUTS = Path(__file__).resolve().parents[2] / "data/inputs/streaming"
SEEDS = (0, 1, 2)
# Seconds that each mapper gets; rl takes one batch of 64 samples and no more.
MAPPERS: dict[MapperName, float] = {
    "random": 2.0, "list": 2.0, "slots": 2.0, "evolution": 2.0, "sa": 2.0, "rl": 0.0,
    "exact": 60.0, "hybrid": 60.0,
}  # fmt: skip
_FEW_TILES, _MANY_TILES = 16, 64  # up to 24 instructions, and above: wide fan-outs need many


@dataclass(frozen=True, slots=True)
class Row:
    """One graph and mapper, over the seeds."""

    graph: str
    nodes: int
    mapper: str
    cycles: tuple[int, ...]  # by the checker, one per seed
    bound: int  # the best that any seed proved
    seconds: float  # mean


def measure(path: Path, mapper: MapperName, seeds: Sequence[int]) -> Row:
    program = load_program(path)
    device = Device(tiles=_FEW_TILES if program.num_nodes <= 24 else _MANY_TILES)
    results = [
        map_program(program, device, MapOptions(mapper, time_limit=MAPPERS[mapper], seed=seed))
        for seed in seeds
    ]
    return Row(
        path.stem,
        program.num_nodes,
        mapper,
        tuple(result.cycles for result in results),
        max(result.bound for result in results),
        float(np.mean([result.seconds for result in results])),
    )


def show(console: Console, rows: Sequence[Row]) -> None:
    """One line per graph: best to worst cycles over seeds, and seconds."""
    table = Table("graph", "nodes", "bound", *MAPPERS, title="cycles (seconds)")
    for graph in dict.fromkeys(row.graph for row in rows):
        found = {row.mapper: row for row in rows if row.graph == graph}
        first = next(iter(found.values()))
        bound = max(row.bound for row in found.values())
        cells = [_cell(found[mapper]) if mapper in found else "" for mapper in MAPPERS]
        table.add_row(graph, str(first.nodes), str(bound), *cells)
    console.print(table)


def _cell(row: Row) -> str:
    low, high = min(row.cycles), max(row.cycles)
    cycles = f"{low}" if low == high else f"{low}-{high}"
    return f"{cycles} ({row.seconds:.1f})"


def steps_per_second(games: int = 512) -> float:
    """Steps of the batched game without a network; random legal tiles, graphs of 20 nodes."""
    rng = np.random.default_rng(0)
    problems = [make_problem(growing_network(20, rng), Device(tiles=32)) for _ in range(8)]
    env = BatchEnv(problems, np.arange(games) % 8)
    seen = env.reset()
    spent, steps = 0.0, 0
    while env.is_alive.any():
        actions = (rng.random(seen.mask.shape) * seen.mask).argmax(axis=1)
        steps += int(env.is_alive.sum())
        began = time.perf_counter()
        seen = env.step(actions)
        spent += time.perf_counter() - began
    return steps / spent


def as_csv(rows: Sequence[Row]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(Row.__slots__)
    for row in rows:
        cycles = " ".join(map(str, row.cycles))
        writer.writerow([row.graph, row.nodes, row.mapper, cycles, row.bound, f"{row.seconds:.2f}"])
    return buffer.getvalue()


def main(folders: Sequence[Path], output: Path) -> None:
    """Entry point: all graphs in `folders`, smallest first."""
    warm_up()
    console = make_console()
    console.print(f"{steps_per_second():,.0f} steps per second of the game, without a network")
    paths = sorted(
        (path for folder in folders for path in folder.glob("*.json")),
        key=lambda path: (load_program(path).num_nodes, path.stem),
    )
    rows: list[Row] = []
    make_folder(output.parent)
    for path in paths:
        found = [
            measure(path, mapper, SEEDS if mapper not in ("exact", "hybrid") else SEEDS[:1])
            for mapper in MAPPERS
        ]
        rows += found
        write_atomic(output, as_csv(rows))
        show(console, found)
    show(console, rows)
    console.print(f"written to {output}")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or [INPUTS], Path("data/streaming/bench.csv"))
