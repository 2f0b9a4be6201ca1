"""Reader and writer of `.kgraph`, the text format of the contest."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from placer.errors import InputError
from placer.files import read_text
from placer.kernels.graph import (
    KERNEL_TYPES,
    PORT_TYPES,
    Conv,
    Kernel,
    KernelGraph,
    KernelType,
    Port,
    Wafer,
    block_convs,
    depth_first_order,
)

_COMMENT = re.compile(r"\(\*(.*?)\*\)", re.DOTALL)
_NODE = re.compile(r"^(\w+)\s*\[\s*(\d{1,9})\s*\]\s*(.*)$")
_EDGE = re.compile(r"^(\w+)\s*\[\s*(\d{1,9})\s*\]\s*(?::\w*)?\s*->\s*(\w+)\s*\[\s*(\d{1,9})\s*\]")
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
    """The graph in a file; InputError names the file and says what is wrong with it."""
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
    kernels: list[Kernel] = []
    ports: list[Port] = []
    pairs: list[tuple[int, int, str]] = []
    for line in filter(None, (line.strip() for line in lines)):
        if "->" in line:
            pairs.append(_edge(line))
        else:
            node = _node(line)
            if isinstance(node, Kernel):
                kernels.append(node)
            else:
                ports.append(node)
    wafer = _wafer(values)
    return _graph(values.get(_NAME_FIELD, name), kernels, ports, pairs, wafer)


def _header(comment: str) -> dict[str, str]:
    """`key=value` lines of the first comment."""
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


def _edge(line: str) -> tuple[int, int, str]:
    match = _EDGE.match(line)
    if match is None:
        raise InputError(f"edge {line!r} is not 'type[id]:port -> type[id]:port'")
    return int(match[2]), int(match[4]), line


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
        shape = tuple(int(size) for size in re.findall(r"\d+", fields.get("n", "")))
        return Port(node_id, name, kind, shape)
    if kind not in KERNEL_TYPES:
        allowed = ", ".join((*KERNEL_TYPES, *PORT_TYPES))
        raise InputError(f"node {node_id}: unknown type {kind!r}; allowed: {allowed}")
    where = f"{kind}[{node_id}]"
    if kind == "conv":
        return Kernel(node_id, name, kind, (_conv(where, fields),))
    sizes = [_size(where, fields, key) for key in ("h", "w", "f")]
    return _block(node_id, name, kind, *sizes)


def _block(
    node_id: int, name: str, kind: KernelType, height: int, width: int, features: int
) -> Kernel:
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
        raise InputError(f"{where}: {key}={text!r}; must be a whole number from 1 to 999999")
    return int(text)


def _graph(
    name: str,
    kernels: list[Kernel],
    ports: list[Port],
    pairs: list[tuple[int, int, str]],
    wafer: Wafer,
) -> KernelGraph:
    nodes: list[Kernel | Port] = [*kernels, *ports]
    ids = {node.node_id for node in nodes}
    _require_unique(kernels, nodes)
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
    try:
        depth_first_order(len(kernels), tuple(edges))
    except InputError:
        raise InputError(_cycle_message(kernels, edges)) from None
    return KernelGraph(name, tuple(kernels), tuple(edges), wafer, tuple(ports), tuple(port_edges))


def _require_unique(kernels: list[Kernel], nodes: list[Kernel | Port]) -> None:
    if not kernels:
        raise InputError("there is no kernel to place (conv, dblock or cblock)")
    node_id, times = Counter(node.node_id for node in nodes).most_common(1)[0]
    if times > 1:
        raise InputError(f"duplicate node id {node_id}; every node needs an id of its own")
    name, times = Counter(kernel.name for kernel in kernels).most_common(1)[0]
    if times > 1:
        raise InputError(f"two kernels are named {name!r}; layouts tell them apart by name")


def _cycle_message(kernels: list[Kernel], edges: list[tuple[int, int]]) -> str:
    """Walk backwards among the kernels that wait for each other until one comes again."""
    inside = set(range(len(kernels)))
    while True:
        targets = {target for source, target in edges if source in inside and target in inside}
        if targets == inside:
            break
        inside = targets
    path = [min(inside)]
    while len(set(path)) == len(path):
        path.append(next(s for s, t in edges if t == path[-1] and s in inside))
    loop = path[path.index(path[-1]) :]
    names = " -> ".join(str(kernels[i].node_id) for i in reversed(loop))
    return f"the graph has a cycle: {names}; kernels must form a directed acyclic graph"


def format_kgraph(graph: KernelGraph) -> str:
    """The graph as text that `parse_kgraph` reads."""
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
