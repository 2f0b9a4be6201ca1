"""Layout files: the contest's text format, and JSON with named fields."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from placer.errors import InputError
from placer.files import parse_object
from placer.kernels.check import Score
from placer.kernels.graph import Kernel, KernelGraph
from placer.kernels.layout import Execution, Layout, Placed

MAX_DIGITS = 18  # of a number
SCHEMA_VERSION = 1
_CALL = re.compile(r"^(\S+)\s*=\s*(conv|dblock|cblock)\s*\(\s*([\d\s,]*)\)")
_PLACE = re.compile(r"^(\S+)\s*:\s*place\s*\(\s*(-?\d+)[\s,]+(-?\d+)[\s,]+(R0|R90)\s*\)")


def format_layout(graph: KernelGraph, layout: Layout) -> str:
    """Two lines per kernel: its arguments, and its place."""
    lines = []
    for kernel, placed in zip(graph.kernels, layout.kernels, strict=True):
        execution = placed.execution
        numbers = (
            *_formal(kernel),
            execution.image_height,
            execution.image_width,
            *execution.channels_in,
            *execution.channels_out,
        )
        lines.append(f"{kernel.name} = {kernel.type}( {' '.join(map(str, numbers))} )")
        turn = "R90" if placed.is_rotated else "R0"
        lines.append(f"{kernel.name} : place({placed.x} {placed.y} {turn})")
    return "\n".join(lines) + "\n"


def _formal(kernel: Kernel) -> tuple[int, ...]:
    conv = kernel.convs[0]
    if kernel.type != "conv":
        return conv.height, conv.width, kernel.features
    return (
        conv.height, conv.width, conv.channels_in, conv.channels_out, conv.window_height,
        conv.window_width, conv.stride, conv.stride,
    )  # fmt: skip


def parse_layout(graph: KernelGraph, text: str) -> Layout:
    """Read the contest's format; InputError says what is missing or does not belong."""
    calls: dict[str, list[int]] = {}
    places: dict[str, tuple[int, int, bool]] = {}
    for line in (line.strip() for line in text.splitlines()):
        if match := _CALL.match(line):
            calls[match[1]] = [_integer(word) for word in re.findall(r"\d+", match[3])]
        elif match := _PLACE.match(line):
            places[match[1]] = (_integer(match[2]), _integer(match[3]), match[4] == "R90")
    kernels = []
    for kernel in graph.kernels:
        if kernel.name not in calls or kernel.name not in places:
            raise InputError(f"layout: kernel {kernel.name} has no arguments or no place")
        x, y, is_rotated = places[kernel.name]
        kernels.append(Placed(_execution(kernel, calls[kernel.name]), x, y, is_rotated))
    return Layout(tuple(kernels))


def _execution(kernel: Kernel, numbers: list[int]) -> Execution:
    """Split arguments; formal ones of a conv come in either of two orders (C K R S or R S C K)."""
    num, formal = len(kernel.convs), _formal(kernel)
    orders = [formal]
    if kernel.type == "conv":
        orders.append((*formal[:2], *formal[4:6], *formal[2:4], *formal[6:]))
    given = tuple(numbers[: len(formal)])
    if len(numbers) != len(formal) + 2 + 2 * num or given not in orders:
        raise InputError(
            f"layout: {kernel.name} has arguments {numbers}; they must begin with "
            f"{list(formal)}, then h, w, {num} times c and {num} times k"
        )
    h, w, *channels = numbers[len(formal) :]
    return Execution(h, w, tuple(channels[:num]), tuple(channels[num:]))


class Throughput(NamedTuple):
    """Normalised, in (0, 1], of a layout that was chosen by it."""

    predicted: float  # by the cost that chose
    simulated: float
    cycles_per_sample: float  # simulated; a chain of wafers takes those of its slowest one


class WaferResult(NamedTuple):
    """What the JSON text tells of one wafer."""

    graph: KernelGraph
    layout: Layout
    score: Score
    throughput: Throughput | None = None  # None: the score chose


def layout_document(result: WaferResult) -> dict[str, Any]:
    """The layout, its score and its throughput as a JSON object."""
    graph, layout, score, throughput = result
    kernels = [
        {"name": kernel.name, "type": kernel.type, **asdict(placed)}
        for kernel, placed in zip(graph.kernels, layout.kernels, strict=True)
    ]
    numbers = {"slowest": float(score.slowest), "wire_length": float(score.wire_length)}
    return {
        "graph": graph.name,
        "wafer": asdict(graph.wafer),
        "score": {**asdict(score), **numbers},
        "throughput": None if throughput is None else throughput._asdict(),
        "kernels": kernels,
    }


def to_json(
    results: Sequence[WaferResult], settings: dict[str, Any], *, is_interrupted: bool = False
) -> str:
    """One document per wafer, with the settings of the run and whether the user cut it short."""
    document = {
        "schema": SCHEMA_VERSION,
        "settings": settings,
        "is_interrupted": is_interrupted,
        "wafers": [layout_document(result) for result in results],
    }
    return json.dumps(document, indent=1)


def _integer(word: str) -> int:
    if len(word) > MAX_DIGITS:
        raise InputError(f"layout: {word[:10]}... has {len(word)} digits; allowed: {MAX_DIGITS}")
    return int(word)


def from_json(graph: KernelGraph, text: str, wafer: int = 0) -> Layout:
    """The layout of one wafer in a JSON text. InputError says what is wrong with it."""
    document = parse_object(text)
    if document.get("schema") != SCHEMA_VERSION:
        raise InputError(f"layout: schema {document.get('schema')}; {SCHEMA_VERSION} is read here")
    try:
        entries = {entry["name"]: entry for entry in document["wafers"][wafer]["kernels"]}
        kernels = []
        for kernel in graph.kernels:
            entry = entries[kernel.name]
            given = entry["execution"]
            execution = Execution(
                given["image_height"],
                given["image_width"],
                tuple(given["channels_in"]),
                tuple(given["channels_out"]),
            )
            kernels.append(Placed(execution, entry["x"], entry["y"], entry["is_rotated"]))
    except (KeyError, IndexError, TypeError) as error:
        raise InputError(f"layout: {error} is missing or does not belong") from error
    return Layout(tuple(kernels))
