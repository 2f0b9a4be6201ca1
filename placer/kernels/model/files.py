"""Readers and writers: graphs as `.kgraph` and layouts as text, the contest's formats; JSON."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, astuple
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import networkx

from placer.base import InputError, parse_object, read_text
from placer.kernels.model.check import Part
from placer.kernels.model.graph import KERNEL_TYPES, PORT_TYPES, Conv, Kernel, KernelGraph, Port, Wafer, block_convs
from placer.kernels.model.layout import Execution, KernelLayout, Placed

log = logging.getLogger(__name__)

_COMMENT = re.compile(r"\(\*(.*?)\*\)", re.DOTALL)
_NODE = re.compile(r"^(\w+)\s*\[\s*(\d{1,9})\s*\]\s*(.*)$")
_END = r"\w+\s*\[\s*(\d{1,9})\s*\]\s*:\s*\w+"  # of an edge
_EDGE = re.compile(rf"{_END}\s*->\s*{_END}\s*(?:,\s*shape\s*:(?:\s*\[\s*\d+\s*\]){{3}})?")
_NAME = re.compile(r"[^\s=:()]+")  # what layout files can hold
_FIELD = re.compile(r"(\w+)\s*=\s*(\[[^\]]*\]|'[^']*'|[^\s,]+)")
_CONV_FIELDS = ("H", "W", "R", "S", "C", "K", "T")
_HEADER_FIELDS = {
    "width": "width",
    "height": "height",
    "memlimit": "memory_limit",
    "wdeltat": "time_weight",
    "wlength": "wire_weight",
    "wadapter": "adapter_weight",
}
_NAME_FIELD = "test"  # header line with the name of the graph


def load_kgraph(path: Path) -> KernelGraph:
    """Return the graph in a file; InputError names the file and says what is wrong with it."""
    text = read_text(path)
    try:
        return parse_kgraph(text, path.stem)
    except InputError as error:
        raise InputError(f"kernel graph {path}: {error}") from error


def parse_kgraph(text: str, name: str) -> KernelGraph:
    """Read a graph. Weights and sizes that its header leaves out have the contest's values."""
    text = text.removeprefix("\ufeff").replace("\r", "")
    if text.count("(*") != text.count("*)"):
        raise InputError("a comment (* ... *) is not closed; is the file complete?")
    comments = _COMMENT.findall(text)
    values = _header(comments[0]) if comments else {}
    lines = _COMMENT.sub("\n", text).splitlines()
    nodes: list[Kernel | Port] = []
    pairs: list[tuple[int, int, str]] = []
    for line in filter(None, (line.strip() for line in lines)):
        if "->" not in line:
            nodes.append(_node(line))
            continue
        match = _EDGE.fullmatch(line)
        if match is None:
            raise InputError(
                f"edge {line!r} is not 'type[id]:port -> type[id]:port', with or without "
                "', shape:[H][W][C]'; is the line complete?"
            )
        pairs.append((int(match[1]), int(match[2]), line))
    return _graph(values.get(_NAME_FIELD, name), nodes, pairs, _wafer(values))


def _header(comment: str) -> dict[str, str]:
    """Return the `key=value` lines of the first comment."""
    values = {}
    for line in filter(None, (line.strip() for line in comment.splitlines())):
        key, equals, value = (word.strip() for word in line.partition("="))
        if not equals and len(comment.strip().splitlines()) == 1:
            return {}  # no header, only a remark
        if not equals:
            raise InputError(f"header line {line!r} is not key=value")
        if key not in (_NAME_FIELD, *_HEADER_FIELDS):
            allowed = ", ".join((_NAME_FIELD, *_HEADER_FIELDS))
            raise InputError(f"header: unknown key {key!r}; allowed: {allowed}")
        if key in values:
            raise InputError(f"header: {key} is given twice")
        values[key] = value
    return values


def _wafer(values: dict[str, str]) -> Wafer:
    given = {}
    for key, name in _HEADER_FIELDS.items():
        if key not in values:
            continue
        is_weight = key.startswith("w") and key != "width"
        try:
            number = float(values[key]) if is_weight else int(values[key])
        except ValueError as error:
            kind = "a number" if is_weight else "a whole number"
            raise InputError(f"header: {key}={values[key]!r} is not {kind}") from error
        if not (0 <= number < 1e15 if is_weight else 0 < number < 1e9):
            allowed = "0 to 1e15" if is_weight else "1 to 1e9"
            raise InputError(f"header: {key}={values[key]} is out of range; allowed: {allowed}")
        given[name] = number
    return Wafer(**given)  # type: ignore[arg-type]


def _node(line: str) -> Kernel | Port:
    match = _NODE.match(line)
    if match is None:
        raise InputError(f"line {line!r} is neither a node 'type[id] ...' nor an edge")
    kind, node_id = match[1], int(match[2])
    fields = dict(_FIELD.findall(match[3]))
    name = fields.get("name", f"k{node_id}").strip("'")
    if not _NAME.fullmatch(name):
        raise InputError(f"node {node_id}: name {name!r} is empty or has blanks, =, : or brackets")
    if kind in PORT_TYPES:
        sizes = re.findall(r"\d+", fields.get("n", ""))
        return Port(node_id, name, kind, tuple(_size(f"{kind}[{node_id}]", {"n": size}, "n") for size in sizes))
    if kind not in KERNEL_TYPES:
        allowed = ", ".join((*KERNEL_TYPES, *PORT_TYPES))
        raise InputError(f"node {node_id}: unknown type {kind!r}; allowed: {allowed}")
    where = f"{kind}[{node_id}]"
    if kind == "conv":
        return Kernel(node_id, name, kind, (_conv(where, fields),))
    height, width, features = (_size(where, fields, key) for key in ("h", "w", "f"))
    try:
        convs = block_convs(kind, height, width, features)
    except InputError as error:
        raise InputError(f"node {node_id}: {error}") from error
    return Kernel(node_id, name, kind, convs, features)


def _conv(where: str, fields: dict[str, str]) -> Conv:
    sizes = {key: _size(where, fields, key) for key in _CONV_FIELDS}
    stride_across = _size(where, fields, "U") if "U" in fields else sizes["T"]
    if stride_across != sizes["T"]:
        raise InputError(f"{where}: T={sizes['T']} and U={stride_across}; they must be equal")
    return Conv(*(sizes[key] for key in _CONV_FIELDS))


def _size(where: str, fields: dict[str, str], key: str) -> int:
    if key not in fields:
        raise InputError(f"{where}: {key}= is missing")
    text = fields[key]
    if not text.isdecimal() or len(text) > 6 or int(text) == 0:
        raise InputError(f"{where}: {key}={text!r:.40}; must be a whole number from 1 to 999999")
    return int(text)


def _graph(name: str, nodes: list[Kernel | Port], pairs: list[tuple[int, int, str]], wafer: Wafer) -> KernelGraph:
    kernels = [node for node in nodes if isinstance(node, Kernel)]
    ports = tuple(node for node in nodes if isinstance(node, Port))
    _require_unique(kernels, nodes)
    ids = {node.node_id for node in nodes}
    index = {kernel.node_id: i for i, kernel in enumerate(kernels)}
    edges, port_edges = [], []
    for source, target, line in pairs:
        for node_id in (source, target):
            if node_id not in ids:
                raise InputError(f"edge {line!r}: there is no node {node_id}")
        if source in index and target in index:
            edges.append((index[source], index[target]))
        else:
            port_edges.append((source, target))
    _require_no_cycle(kernels, edges)
    _warn_of_parts(name, kernels, edges)
    return KernelGraph(name, tuple(kernels), tuple(edges), wafer, ports, tuple(port_edges))


def _require_unique(kernels: list[Kernel], nodes: list[Kernel | Port]) -> None:
    if not kernels:
        raise InputError("there is no kernel to place (conv, dblock or cblock)")
    node_id, times = Counter(node.node_id for node in nodes).most_common(1)[0]
    if times > 1:
        raise InputError(f"duplicate node id {node_id}; every node needs an id of its own")
    name, times = Counter(kernel.name for kernel in kernels).most_common(1)[0]
    if times > 1:
        raise InputError(f"two kernels are named {name!r}; layouts tell them apart by name")


def _require_no_cycle(kernels: list[Kernel], edges: list[tuple[int, int]]) -> None:
    sorter = TopologicalSorter[int](dict.fromkeys(range(len(kernels)), ()))
    for source, target in edges:
        sorter.add(target, source)
    try:
        sorter.prepare()
    except CycleError as error:
        names = " -> ".join(str(kernels[i].node_id) for i in error.args[1])
        raise InputError(f"the graph has a cycle: {names}; kernels must form a directed acyclic graph") from None


def _warn_of_parts(name: str, kernels: list[Kernel], edges: list[tuple[int, int]]) -> None:
    """Tell of kernels that no edge connects: such a graph can be mapped, but is rarely meant."""
    graph: networkx.Graph[int] = networkx.Graph(edges)
    graph.add_nodes_from(range(len(kernels)))
    parts: list[set[int]] = [set(part) for part in networkx.connected_components(graph)]
    if len(parts) == 1:
        return
    if not edges:
        log.warning("%s: %d kernels and no edge between them; is the file complete?", name, len(kernels))
        return
    smallest = min(parts, key=len)
    least = [kernels[i].name for i in sorted(smallest)]
    log.warning(
        "%s: %d parts with no edge between them; one has %s%s only; is the file complete?",
        name, len(parts), ", ".join(least[:3]), ", ..." if len(least) > 3 else "",
    )  # fmt: skip


def format_kgraph(graph: KernelGraph) -> str:
    """Return the graph as text that `parse_kgraph` reads."""
    wafer = graph.wafer
    lines = ["(*", f"test={graph.name}"]
    for key, name in _HEADER_FIELDS.items():
        value = getattr(wafer, name)
        lines.append(f"{key}={int(value) if value == int(value) else value!r}")
    lines += ["*)", "", "(* Node Definitions *)"]
    nodes: list[Kernel | Port] = [*graph.kernels, *graph.ports]
    nodes.sort(key=lambda node: node.node_id)
    lines += [_format_node(node) for node in nodes]
    types = {node.node_id: node.type for node in nodes}
    ids = [kernel.node_id for kernel in graph.kernels]
    pairs = [(ids[source], ids[target]) for source, target in graph.edges]
    lines += ["", "(* Connectivity *)"]
    for source, target in (*graph.port_edges, *pairs):
        lines.append(f"{types[source]}[{source}]:y -> {types[target]}[{target}]:x")
    return "\n".join(lines) + "\n"


def _format_node(node: Kernel | Port) -> str:
    head = f"{node.type}[{node.node_id}]"
    if isinstance(node, Port):
        return f"{head} n=[{' '.join(map(str, node.shape))}] name='{node.name}'"
    conv = node.convs[0]
    if node.type != "conv":
        return f"{head} f={node.features} h={conv.height} w={conv.width} name='{node.name}'"
    return (
        f"{head} W={conv.width} H={conv.height} R={conv.window_height} S={conv.window_width} "
        f"C={conv.channels_in} K={conv.channels_out} T={conv.stride} U={conv.stride} "
        f"name='{node.name}'"
    )


MAX_DIGITS = 18  # of a number
SCHEMA_VERSION = 1
_CALL = re.compile(r"^(\S+)\s*=\s*(conv|dblock|cblock)\s*\(\s*([\d\s,]*)\)")
_PLACE = re.compile(r"^(\S+)\s*:\s*place\s*\(\s*(-?\d+)[\s,]+(-?\d+)[\s,]+(R0|R90)\s*\)")


def format_layout(graph: KernelGraph, layout: KernelLayout) -> str:
    """Return two lines per kernel: its arguments, and its place."""
    lines = []
    for kernel, placed in zip(graph.kernels, layout, strict=True):
        h, w, ins, outs = astuple(placed.execution)
        numbers = (*_formal(kernel), h, w, *ins, *outs)
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


def parse_layout(graph: KernelGraph, text: str) -> KernelLayout:
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
    return tuple(kernels)


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


def to_json(parts: Sequence[Part], settings: dict[str, Any], *, is_interrupted: bool = False) -> str:
    """Return one document per wafer, the settings of the run and whether the user cut it short."""
    document = {
        "schema": SCHEMA_VERSION,
        "settings": settings,
        "is_interrupted": is_interrupted,
        "wafers": [_wafer_document(part) for part in parts],
    }
    return json.dumps(document, indent=1)


def _wafer_document(part: Part) -> dict[str, Any]:
    """Return a layout, its score and its throughput; none, where the score chose it."""
    graph, mapping, score, throughput = part.graph, part.mapping, part.mapping.score, None
    if mapping.throughput is not None:
        throughput = {
            "predicted": mapping.predicted,
            "simulated": mapping.throughput,
            "cycles_per_sample": part.cycles_per_sample,
        }
    numbers = {"slowest": float(score.slowest), "wire_length": float(score.wire_length)}
    return {
        "graph": graph.name,
        "wafer": asdict(graph.wafer),
        "score": {**asdict(score), **numbers},
        "throughput": throughput,
        "kernels": [
            {"name": kernel.name, "type": kernel.type, **asdict(placed)}
            for kernel, placed in zip(graph.kernels, mapping.layout, strict=True)
        ],
    }


def _integer(word: str) -> int:
    if len(word) > MAX_DIGITS:
        raise InputError(f"layout: {word[:10]}... has {len(word)} digits; allowed: {MAX_DIGITS}")
    return int(word)


def from_json(graph: KernelGraph, text: str, wafer: int = 0) -> KernelLayout:
    """Return the layout of one wafer in a JSON text. InputError says what is wrong with it."""
    document = parse_object(text)
    if document.get("schema") != SCHEMA_VERSION:
        raise InputError(f"layout: schema {document.get('schema')}; {SCHEMA_VERSION} is read here")
    try:
        entries = {entry["name"]: entry for entry in document["wafers"][wafer]["kernels"]}
        return tuple(_placed(entries[kernel.name]) for kernel in graph.kernels)
    except (KeyError, IndexError, TypeError) as error:
        raise InputError(f"layout: {error} is missing or does not belong") from error


def _placed(entry: dict[str, Any]) -> Placed:
    given = entry["execution"]
    ins, outs = tuple(given["channels_in"]), tuple(given["channels_out"])
    execution = Execution(given["image_height"], given["image_width"], ins, outs)
    return Placed(execution, entry["x"], entry["y"], entry["is_rotated"])
