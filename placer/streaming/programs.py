"""Command: write the programs of this project, small kernels by instruction, to files anew."""

from __future__ import annotations

from pathlib import Path

from placer.base import write_atomic
from placer.streaming.model import PROGRAMS, to_json

INPUTS = Path(__file__).resolve().parents[2] / "data/inputs/streaming"

if __name__ == "__main__":
    for build in PROGRAMS:
        program = build()
        write_atomic(INPUTS / f"{program.name}.json", to_json(program))
