"""Files of programs: JSON in two forms, and small PyTorch functions by way of `torch.export`.

Programs, as the tools of the Streaming Engine write them; indices are local to a flow:

    {"Dispatch": {"DispatchVar": [name, ...]},
     "TileMemories": {name: {"data": [...], ...}, ...},
     "Program": [{"SyncFlow": [{"SEInst": {"SEInstUse": [name, ...], "SEInstDefine": [name, ...],
        "ops": [...], "Predecessors": [0, ...], "Successors": [2, ...]}}, ...]}, ...]}

Plain graphs; `tile_memory` maps a variable to the nodes that read it:

    {"num_nodes": 3, "edges": [[0, 1], [1, 2]], "tile_memory": {"a": [0, 2]}}
"""

from __future__ import annotations

import json
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from placer.base import InputError, parse_object, read_text
from placer.streaming.model.program import Instruction, Number, Program, ProgramBuilder, readers_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_MOST_NODES = 2_000  # bounds are tables of all pairs
_MOST_NUMBER = 1e300
# What an operator of PyTorch computes, in ops of the module `values`.
_OPS: dict[str, tuple[str, ...]] = {
    "add": ("add",), "sub": ("sub",), "mul": ("mul",), "div": ("div",), "rsub": ("neg", "add"),
    "minimum": ("min",), "maximum": ("max",), "neg": ("neg",), "abs": ("abs",),
    "sqrt": ("sqrt",), "exp": ("exp",), "reciprocal": ("recip",), "relu": ("relu",),
}  # fmt: skip


def load_program(path: Path, *, is_trusted: bool = False) -> Program:
    """Return the program in a JSON file, or in one of `torch.export.save` (.pt2).

    PyTorch unpickles parts of the second kind, and so runs code that is in it: such a file is read
    only when it is trusted. InputError names the file and says what is wrong with it.
    """
    is_exported = path.suffix == ".pt2"
    if is_exported and not is_trusted:
        raise InputError(
            f"graph file {path}: reading a .pt2 file can run code that is in it; if you trust "
            "where it comes from, add trust_graph=true"
        )
    text = "" if is_exported else read_text(path)
    try:
        if is_exported:
            return _load_exported(path)
        return from_json(text, path.stem.removesuffix("_ir"))
    except InputError as error:
        raise InputError(f"graph file {path}: {error}") from error


def from_json(text: str, name: str) -> Program:
    """Read either form. Raises InputError."""
    document = parse_object(text)
    if "Program" in document:
        return _read_program(document, name)
    if "num_nodes" in document:
        return _read_plain(document, name)
    raise InputError("has neither 'Program' nor 'num_nodes'; docs/streaming.md shows both forms")


def to_json(program: Program) -> str:
    """Return the program in the first form; `from_json` reads it."""
    names = {name for item in program.instructions for name in item.defines}
    reads = {name for item in program.instructions for name in item.uses}
    flows = []
    first = 0
    for flow in range(1 + max(item.flow for item in program.instructions)):
        nodes = [n for n, item in enumerate(program.instructions) if item.flow == flow]
        flows.append({"SyncFlow": [{"SEInst": _describe(program, n, first)} for n in nodes]})
        first += len(nodes)
    document = {
        "Dispatch": {"DispatchVar": sorted(reads - names - program.memories.keys())},
        "TileMemories": {
            name: {
                "access_type": "read", "tile_memory": 0, "replicate": False,
                "size": len(program.contents[name]), "data": list(program.contents[name]),
            }
            for name in program.memories
        },
        "Program": flows,
    }  # fmt: skip
    return json.dumps(document, indent=1) + "\n"


def _describe(program: Program, node: int, first: int) -> dict[str, Any]:
    item = program.instructions[node]
    return {
        "SEInstUse": list(item.uses),
        "SEInstDefine": list(item.defines),
        "ops": list(item.ops),
        "Predecessors": [p - first for p in program.predecessors[node]],
        "Successors": [s - first for s in program.successors[node]],
    }


def _read_program(document: dict[str, Any], name: str) -> Program:
    memories = _get(document, "TileMemories", dict, {})
    instructions: list[Instruction] = []
    edges: set[tuple[int, int]] = set()
    for flow, entry in enumerate(_get(document, "Program", list)):
        items = _get(entry, "SyncFlow", list, where=f"flow {flow}")
        first = len(instructions)
        _require_size(first + len(items))
        after: set[tuple[int, int]] = set()
        before: set[tuple[int, int]] = set()
        for index, item in enumerate(items):
            where = f"flow {flow}, instruction {index}"
            details = _get(item, "SEInst", dict, where=where)
            instructions.append(_instruction(details, flow, where))
            after |= {(index, s) for s in _indices(details, "Successors", len(items), where)}
            before |= {(p, index) for p in _indices(details, "Predecessors", len(items), where)}
        if after != before:
            start, end = min(after ^ before)
            has, lacks = ("Successors", "Predecessors")[:: 1 if (start, end) in after else -1]
            raise InputError(f"flow {flow}: {has} say that {start} leads to {end}, {lacks} do not; correct one")
        edges |= {(first + start, first + end) for start, end in after}
    readers = readers_of(memories, instructions)
    contents = {variable: _data(details, variable) for variable, details in memories.items()}
    return Program(name, tuple(instructions), tuple(sorted(edges)), readers, contents)


def _read_plain(document: dict[str, Any], name: str) -> Program:
    num_nodes = _get(document, "num_nodes", int)
    _require_size(num_nodes)
    edges = set()
    for edge in _get(document, "edges", list):
        if not (isinstance(edge, list) and len(edge) == 2 and all(type(n) is int for n in edge)):
            raise InputError(f"edge {_short(edge)}; write [from, to]")
        edges.add((edge[0], edge[1]))
    memories = {}
    for variable, nodes in _get(document, "tile_memory", dict, {}).items():
        if not isinstance(nodes, list) or any(type(node) is not int for node in nodes):
            where = f"tile memory {_short(variable)}"
            raise InputError(f"{where} has {_short(nodes)}; expected a list of node ids")
        memories[variable] = tuple(sorted(set(nodes)))
    return Program(name, (Instruction(),) * num_nodes, tuple(sorted(edges)), memories)


def _require_size(num_nodes: int) -> None:
    if not 0 <= num_nodes <= _MOST_NODES:
        raise InputError(f"the graph has {num_nodes} nodes; allowed 1 to {_MOST_NODES}")


def _instruction(details: dict[str, Any], flow: int, where: str) -> Instruction:
    ops = _get(details, "ops", list, [], where)
    uses, defines = (_get(details, key, list, [], where) for key in ("SEInstUse", "SEInstDefine"))
    return Instruction(
        tuple(_number(op, where) if type(op) in (int, float) else str(op) for op in ops),
        tuple(map(str, uses)), tuple(map(str, defines)), flow,
    )  # fmt: skip


def _number(value: Number, where: str) -> Number:
    """Refuse large numbers: an int may have any digits, and Python's JSON knows Infinity."""
    if not -_MOST_NUMBER <= value <= _MOST_NUMBER:
        raise InputError(f"{where}: a number is too large; allowed up to {_MOST_NUMBER:.0e}")
    return value


def _indices(details: dict[str, Any], key: str, size: int, where: str) -> list[int]:
    indices: list[int] = _get(details, key, list, where=where)
    for index in indices:
        if type(index) is not int or not 0 <= index < size:
            raise InputError(f"{where}: {key} has {_short(index)}; allowed 0 to {size - 1}, in its flow")
    return indices


def _data(details: Any, variable: str) -> tuple[float, ...]:
    """Return what a tile memory holds; nothing when the file has no numbers, its name counts."""
    data = details.get("data") if isinstance(details, dict) else None
    values: list[Any] = data if isinstance(data, list) else [data]
    if any(type(value) not in (int, float) for value in values):
        return ()
    where = f"tile memory {_short(variable)}"
    return tuple(float(_number(value, where)) for value in values)


def _get(entry: Any, key: str, kind: type, default: Any = None, where: str = "the file") -> Any:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected an object with {key!r}, seen {_short(entry)}")
    value = entry.get(key, default)
    if type(value) is not kind:
        raise InputError(f"{where}: {key!r} must be a {kind.__name__}, seen {_short(value)}")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _load_exported(path: Path) -> Program:
    """Return the program in a file that `torch.export.save` wrote. Raises InputError."""
    import torch

    try:
        exported = torch.export.load(path)
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror or error}") from error
    except (
        RuntimeError, ValueError, KeyError, AttributeError, AssertionError, UnpicklingError,
        BadZipFile,
    ) as error:  # fmt: skip
        raise InputError("it is damaged or was not written by torch.export.save") from error
    return program_of(exported, path.stem)


def program_of(exported: ExportedProgram, name: str) -> Program:
    """Return a program with one instruction per operator; parameters and constants count as inputs.

    Raises InputError for an operator that no tile can do.
    """
    builder = ProgramBuilder()
    for node in exported.graph.nodes:
        if node.op == "call_function":
            builder.append(_torch_instruction(node))
    return builder.build(name)


def _torch_instruction(node: Any) -> Instruction:
    kind = str(node.target).removeprefix("aten.").partition(".")[0]
    names = [argument.name for argument in node.args if hasattr(argument, "name")]
    constants: list[Number] = [a for a in node.args if type(a) in (int, float)]
    if kind == "pow" and names and constants == [2]:
        return Instruction(("mul",), (names[0], names[0]), (node.name,))
    is_plain = len(names) + len(constants) == len(node.args) and not node.kwargs
    if kind not in _OPS or not is_plain or not hasattr(node.args[0], "name"):
        raise InputError(f"{node.format_node()}: no tile can do this; known: {', '.join(sorted(_OPS))}, pow 2")
    return Instruction((*_OPS[kind], *constants), tuple(names), (node.name,))
