"""A mapping as JSON: tile, spoke and start by node id, and the spoke RAM of every tile.

    {"schema": 1, "program": "fft", "device": {...}, "mapper": "exact", "seed": 0,
     "cycles": 22, "bound": 22, "gap": 0.0, "seconds": 0.4, "tries": 1, "is_interrupted": false,
     "warnings": [], "made_up": ["base", ...], "not_executed": [],
     "tile": [...], "spoke": [...], "start": [...],
     "spoke_ram": [{"tile": 3, "entries": [{"spoke": 0, "instruction": 5, "ops": ["add"],
                    "master_input": "up1", "outputs": ["feedback", "down2"]}, ...]}, ...]}

Links lead to the tiles one and two away: up is to higher numbers. A result for a tile farther away
leaves on the longer link and is passed on. The master input is where the last operand comes from;
`base` starts a thread. `made_up` are the names that random numbers stood for when values were
compared; null: they were not compared. `not_executed` lists messages of the asynchronous fabric, and
instructions whose numbers could not be computed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from placer.streaming.mappers.mappers import FrontPoint, Result
from placer.streaming.model import MapOptions, Mapping, Program

SCHEMA_VERSION = 1


def result_text(result: Result, options: MapOptions, front: Sequence[FrontPoint], *, is_interrupted: bool) -> str:
    """Return the file; `front` adds the cycles for other initiation intervals."""
    problem, mapping = result.problem, result.mapping
    document: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "program": problem.program.name,
        "device": asdict(problem.device),
        "mapper": options.mapper,
        "seed": options.seed,
        "cycles": result.cycles,
        "bound": result.bound,
        "gap": round(result.gap, 6),
        "seconds": round(result.seconds, 3),
        "tries": result.tries,
        "is_interrupted": is_interrupted,
        "warnings": list(problem.warnings),
        "made_up": None if result.made_up is None else list(result.made_up),
        "not_executed": list(result.not_executed),
        "tile": mapping.tile.tolist(),
        "spoke": mapping.spoke.tolist(),
        "start": mapping.start.tolist(),
        "spoke_ram": spoke_ram(problem.program, mapping),
    }
    if front:
        document["front"] = [asdict(point) for point in front]
    return json.dumps(document, indent=1) + "\n"


def spoke_ram(program: Program, mapping: Mapping) -> list[dict[str, Any]]:
    """Return the used entries of each used tile."""
    spoke = mapping.spoke
    tiles = []
    for tile in sorted(set(mapping.tile.tolist())):
        nodes = [n for n in range(program.num_nodes) if mapping.tile[n] == tile]
        entries = [_entry(program, mapping, n) for n in sorted(nodes, key=lambda n: spoke[n])]
        tiles.append({"tile": tile, "entries": entries})
    return tiles


def _entry(program: Program, mapping: Mapping, node: int) -> dict[str, Any]:
    tile, master = mapping.tile.tolist(), "base"
    if program.predecessors[node]:
        last = max(program.predecessors[node], key=lambda p: mapping.start[p] + abs(tile[p] - tile[node]))
        master = _link(tile[node], tile[last])
    return {
        "spoke": int(mapping.spoke[node]),
        "instruction": node,
        "ops": list(program.instructions[node].ops),
        "master_input": master,
        "outputs": sorted({_link(tile[node], tile[s]) for s in program.successors[node]}),
    }


def _link(here: int, there: int) -> str:
    if here == there:
        return "feedback"
    return f"{'up' if there > here else 'down'}{min(2, abs(there - here))}"
