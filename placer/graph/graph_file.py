"""JSON files of dataflow graphs."""

from __future__ import annotations

import json
from collections.abc import Set
from dataclasses import fields
from pathlib import Path
from typing import Any

from placer.base import InputError, read_text
from placer.graph.graph import DataflowGraph
from placer.graph.ops import ATTRIBUTES, SOURCE_KINDS, Op, OpAttributes, OpKind, Shape

SCHEMA_VERSION = 1


def to_json(graph: DataflowGraph) -> str:
    """Write the graph as JSON text; `from_json` reads it."""
    head = {"schema": SCHEMA_VERSION, "name": graph.name, "family": graph.family}
    return json.dumps({**head, "ops": [_op_to_dict(graph, op) for op in graph.ops]}, indent=1)


def _op_to_dict(graph: DataflowGraph, op: Op) -> dict[str, Any]:
    given = [name for name in ATTRIBUTES.get(op.kind, ()) if name != "shape"]
    return {
        "name": op.name,
        "kind": str(op.kind),
        "inputs": list(op.inputs),
        "attributes": {name: getattr(op.attributes, name) for name in given},
        "shape": list(graph.tensors[op.name].shape),
    }


def load_graph(path: Path) -> DataflowGraph:
    """Read the graph in a JSON file; InputError names the file and says what is wrong with it."""
    text = read_text(path)
    try:
        return from_json(text)
    except InputError as error:
        raise InputError(f"graph file {path}: {error}") from error


def from_json(text: str) -> DataflowGraph:
    """Read a graph; InputError says what is wrong with a text that is not one.

    Shapes are needed for sources (loads, constants, embeddings) only; where given for other ops, they must agree.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON ({error}); is it complete?") from error
    document = _object("graph", data, {"schema", "name", "family", "ops"})
    schema = _value("graph", "schema", document["schema"], int)
    if schema != SCHEMA_VERSION:
        raise InputError(f"graph: schema {schema}; this version reads {SCHEMA_VERSION}")
    name = _value("graph", "name", document["name"], str)
    family = _value("graph", "family", document["family"], str)
    entries = _value("graph", "ops", document["ops"], list)
    ops = [_op_from_dict(f"op {i}", entry) for i, entry in enumerate(entries)]
    graph = DataflowGraph(name, family, tuple(op for op, _ in ops))
    for op, shape in ops:
        if shape and shape != graph.tensors[op.name].shape:
            seen, right = list(shape), list(graph.tensors[op.name].shape)
            raise InputError(f"op {op.name!r} has shape {seen}; should be {right}")
    return graph


_ATTRIBUTE_TYPES: dict[str, type] = {
    item.name: type(item.default) for item in fields(OpAttributes) if item.name != "shape"
}


def _op_from_dict(where: str, data: object) -> tuple[Op, Shape]:
    """Return the op and the shape that the file gives for its tensor, () if it gives none."""
    entry = _object(where, data, {"name", "kind"}, {"inputs", "attributes", "shape"})
    name = _value(where, "name", entry["name"], str)
    kind = _value(where, "kind", entry["kind"], str)
    if kind not in list(OpKind):
        raise InputError(f"{where}: unknown kind {kind!r}; known kinds: {', '.join(OpKind)}")
    inputs = _value(where, "inputs", entry.get("inputs", []), list)
    attributes = _object(where, entry.get("attributes", {}), set(), set(_ATTRIBUTE_TYPES))
    values = {key: _value(where, key, v, _ATTRIBUTE_TYPES[key]) for key, v in attributes.items()}
    sizes: Shape = _value(where, "shape", entry.get("shape", []), tuple)
    if kind in SOURCE_KINDS:
        values["shape"] = sizes
    tensors = tuple(_value(where, "inputs", tensor, str) for tensor in inputs)
    return Op(name, OpKind(kind), tensors, OpAttributes(**values)), sizes


def _object(where: str, data: object, needed: Set[str], optional: Set[str] = frozenset()) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InputError(f"{where}: expected an object, got {type(data).__name__}")
    missing, unknown = needed - data.keys(), data.keys() - needed - optional
    if missing or unknown:
        raise InputError(f"{where}: missing fields {sorted(missing)}, unknown fields {sorted(unknown)}")
    return data


def _value(where: str, name: str, value: object, kind: type) -> Any:
    """`value` if it has the type `kind`; integers pass as floats, truth values never as numbers.

    A tuple is a list of integers in the file.
    """
    if kind is tuple:
        return tuple(_value(where, name, item, int) for item in _value(where, name, value, list))
    if kind is float and type(value) is int and abs(value) < 2**53:
        return float(value)
    if type(value) is not kind:
        seen = type(value).__name__ if isinstance(value, list | dict) else f"{value!r:.80}"
        raise InputError(f"{where}: {name} must be {kind.__name__}, got {seen}")
    return value
