"""Traces of data movement as the tools of the Wormhole chip write them: JSON, one object per event.

A processor (`proc`) of the core (`sx`, `sy`) issues reads of `num_bytes` from (`dx`, `dy`) over the
network `noc`, and waits for them at barriers. Zones only mark times. Files are not trusted: every
field that is used is checked, and an error names the file and the event.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placer.base import InputError, read_text
from placer.fabric import CoreSpec, Fabric, core_site
from placer.simulation import Read, Script, Step, Tile, What

MAX_EVENTS = 200_000
MAX_TIME = 1 << 62
MAX_CYCLES = 10_000_000  # of a trace
MAX_BYTES = 1 << 20  # of a read
LONG_WAITS = 10  # a wait for nothing that takes so many times its least time waited for something else


@dataclass(frozen=True, slots=True)
class Trace:
    """What the processors of a chip did, and how long it took."""

    name: str  # of its file, without the ending
    measured: int  # cycles from the first event to the last
    scripts: tuple[Script, ...]
    processors: tuple[str, ...]  # name of each script's processor

    @property
    def is_dram(self) -> bool:
        """Say whether data comes from DRAM, by the name of the trace."""
        return self.name.upper().startswith("DRAM")

    @property
    def num_bytes(self) -> int:
        return sum(s.what.num_bytes for script in self.scripts for s in script.steps if isinstance(s.what, Read))


def load_traces(folder: Path, fabric: Fabric) -> list[Trace]:
    """Read all `*.json` of a folder, by name. Raises InputError if there is none, or one is no trace."""
    if not folder.is_dir():
        raise InputError(f"traces={folder} is no folder")
    files = sorted(folder.glob("*.json"))
    if not files:
        raise InputError(f"traces={folder}: there is no *.json in it")
    return [read_trace(file, fabric) for file in files]


def read_trace(file: Path, fabric: Fabric) -> Trace:
    """Read one trace. Raises InputError that names the file when it is none, or not of this fabric."""
    text = read_text(file)
    try:
        return _trace(file.stem, _events(text), fabric)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def _events(text: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no complete JSON ({error})") from error
    if not isinstance(document, list) or not all(isinstance(event, dict) for event in document):
        raise InputError("holds no list of events")
    if not 1 <= len(document) <= MAX_EVENTS:
        raise InputError(f"holds {len(document)} events; allowed 1 to {MAX_EVENTS}")
    return document


def _trace(name: str, events: list[dict[str, Any]], fabric: Fabric) -> Trace:
    if fabric.cores is None:
        raise InputError(f"fabric {fabric.name!r} has no cores that read from each other; use fabric=wormhole")
    times = [_integer(event, "timestamp", number, 0, MAX_TIME) for number, event in enumerate(events)]
    first, measured = min(times), max(times) - min(times)
    if not 1 <= measured <= MAX_CYCLES:
        raise InputError(f"takes {measured} cycles; allowed 1 to {MAX_CYCLES}")
    by_processor: dict[tuple[Tile, str], list[tuple[int, int]]] = {}
    for number, event in enumerate(events):
        tile = _tile(event, "sx", "sy", number, fabric)
        processor = event.get("proc")
        if not isinstance(processor, str):
            raise InputError(f"event {number}: proc={processor!r:.40}; needed is a name")
        by_processor.setdefault((tile, processor), []).append((times[number] - first, number))
    scripts = []
    for (tile, processor), owned in by_processor.items():
        where = f"processor {processor!r} of core {tile}"
        steps = _steps([(time, number, events[number]) for time, number in sorted(owned)], fabric, fabric.cores, where)
        scripts.append(Script(tile, steps))
    trace = Trace(name, measured, tuple(scripts), tuple(processor for _, processor in by_processor))
    if trace.num_bytes == 0:
        raise InputError("has barriers or zones, but no reads; there is nothing to replay")
    return trace


def _steps(
    events: list[tuple[int, int, dict[str, Any]]], fabric: Fabric, cores: CoreSpec, where: str
) -> tuple[Step, ...]:
    """Return the script of one processor: a barrier from its start to its end is one wait."""
    steps: list[Step] = []
    before, num_open, wait_since = 0, 0, -1
    for time, number, event in events:
        kind = event.get("type", "ZONE" if "zone" in event else None)
        is_end = kind == "READ_BARRIER_END"
        if is_end != (wait_since >= 0):
            raise InputError(f"event {number}: {where} {'ends no barrier' if is_end else 'is still at a barrier'}")
        if is_end:
            if num_open == 0 and time - wait_since > LONG_WAITS * cores.wait_cycles:
                raise InputError(f"event {number}: {where} waits {time - wait_since} cycles at a barrier without reads")
            num_open, wait_since = 0, -1
        elif kind == "READ":
            steps.append(Step(time - before, _read(event, number, fabric, cores)))
            num_open += 1
        elif kind == "READ_BARRIER_START":
            steps.append(Step(time - before, What.WAIT))
            wait_since = time
        elif kind == "ZONE":
            steps.append(Step(time - before, What.MARK))
        else:
            raise InputError(f"event {number}: type {kind!r:.40} is not replayed; allowed: READ, READ_BARRIER_*, zones")
        before = time
    if wait_since >= 0:
        raise InputError(f"{where} is at a barrier when the trace ends; is it complete?")
    return tuple(steps)


def _read(event: dict[str, Any], number: int, fabric: Fabric, cores: CoreSpec) -> Read:
    name = event.get("noc")
    try:
        network = cores.network(str(name))
    except InputError as error:
        raise InputError(f"event {number}: {error}") from error
    source = _tile(event, "dx", "dy", number, fabric)
    return Read(network, source, _integer(event, "num_bytes", number, 1, MAX_BYTES))


def _tile(event: dict[str, Any], column: str, row: str, number: int, fabric: Fabric) -> Tile:
    tile = (_integer(event, column, number, -(1 << 31), 1 << 31), _integer(event, row, number, -(1 << 31), 1 << 31))
    try:
        core_site(fabric, 0, tile)
    except InputError as error:
        raise InputError(f"event {number}: {error}") from error
    return tile


def _integer(event: dict[str, Any], key: str, number: int, low: int, high: int) -> int:
    value = event.get(key)
    if type(value) is not int or not low <= value <= high:
        raise InputError(f"event {number}: {key}={value!r:.40}; needed is a whole number from {low} to {high}")
    return value
