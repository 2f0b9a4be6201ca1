"""A recording in the Chrome trace event format, which ui.perfetto.dev and chrome://tracing open.

The clock of the file is the cycle: what a viewer calls a microsecond is one cycle. Units, links and
complete samples are three processes; a unit or a link is a thread of its process.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from placer.base import write_atomic
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.netlist import Netlist
from placer.simulation import UnitTime, link_name
from placer.simulation.recording.recorder import Recording, Spans, record

UNITS, LINKS, SAMPLES = 1, 2, 3  # process ids


def write_timeline(path: Path, fabric: Fabric, netlist: Netlist, decision: Decisions, samples: int) -> Recording:
    """Record a window of a decision and write it, compressed; return the recording."""
    recording = record(fabric, netlist, decision, samples)
    document = {
        "displayTimeUnit": "ms",
        "otherData": {
            "netlist": netlist.name,
            "fabric": fabric.name,
            "clock": "one microsecond of this file is one cycle",
            "window": f"cycles {recording.begin} to {recording.end}",
            "note": _note(recording, samples),
        },
        "traceEvents": list(trace_events(fabric, netlist, recording)),
    }
    text = json.dumps(document, separators=(",", ":"))
    write_atomic(path, gzip.compress(text.encode(), mtime=0))  # the same timeline gives the same bytes
    return recording


def _note(recording: Recording, samples: int) -> str:
    if not recording.is_cut:
        return f"the whole window of {samples} samples"
    spans = len(recording.units) + len(recording.links)
    return f"cut after {spans:,} spans: less than the {samples} samples that were asked for"


def trace_events(fabric: Fabric, netlist: Netlist, recording: Recording) -> Iterator[dict[str, Any]]:
    """Yield all events: names first, then what units, links and samples did."""
    for process, name in ((UNITS, "units"), (LINKS, "links"), (SAMPLES, "samples")):
        yield _named("process", process, 0, name)
        yield {"ph": "M", "pid": process, "tid": 0, "name": "process_sort_index", "args": {"sort_index": process}}
    order = sorted(range(netlist.num_units), key=lambda number: (netlist.units[number].stage, number))
    for place, number in enumerate(order):
        unit = netlist.units[number]
        yield _named("thread", UNITS, number + 1, f"stage {unit.stage}: {unit.name} ({unit.op})")
        yield _sorted(UNITS, number + 1, place)
    used = sorted(set(recording.links.what.tolist()))
    for link in used:
        yield _named("thread", LINKS, link + 1, link_name(fabric, link))
        yield _sorted(LINKS, link + 1, link)
    states = [kind.name.lower().replace("_", " ") for kind in UnitTime]
    for unit_id, value, sample, begin, end in zip(*_lists(recording.units), strict=True):
        yield _span(UNITS, unit_id, states[value], begin, end, {"samples finished": sample})
    for link, value, _, begin, end in zip(*_lists(recording.links), strict=True):
        yield _span(LINKS, link, "1 vector" if value == 1 else f"{value} vectors", begin, end, {"vectors": value})
    for cycle, sample in recording.samples:
        yield {"ph": "i", "s": "g", "pid": SAMPLES, "tid": 1, "ts": cycle, "name": f"sample {sample} complete"}


def _lists(spans: Spans) -> tuple[list[int], ...]:
    return tuple(column.tolist() for column in (spans.what, spans.value, spans.sample, spans.begin, spans.end))


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": thread, "name": f"{kind}_name", "args": {"name": name}}


def _sorted(process: int, thread: int, place: int) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": thread, "name": "thread_sort_index", "args": {"sort_index": place}}


def _span(process: int, number: int, name: str, begin: int, end: int, args: dict[str, int]) -> dict[str, Any]:
    """Return an event with a length; thread 0 is the process itself, so threads count from 1."""
    return {
        "ph": "X", "pid": process, "tid": number + 1, "ts": begin, "dur": end - begin, "name": name, "args": args,
    }  # fmt: skip
