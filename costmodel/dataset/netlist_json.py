"""Netlists from the JSON that `Netlist.to_dict` gives."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from placer.errors import InputError
from placer.fabric import SiteKind
from placer.netlist import SCHEMA_VERSION, Flow, Netlist, Unit

_MAX_INTEGER = 1 << 53  # of a field of a netlist; far above any, and safe in 64 bits
_FIELD_TYPES: dict[str, type] = {"name": str, "op": str, "targets": list}  # others are integers


def netlist_from_json(text: str) -> Netlist:
    """The netlist that `Netlist.to_dict` wrote. Raises InputError when it is none."""
    data = parse_object(text, "netlist")
    _require_keys(data, {"schema", "name", "family", "fabric", "units", "flows"}, "netlist")
    if data["schema"] != SCHEMA_VERSION:
        raise InputError(f"netlist: schema {data['schema']!r}, needed {SCHEMA_VERSION}")
    for name, kind in (("name", str), ("family", str), ("fabric", str), ("units", list)):
        _require_type(data[name], kind, f"netlist: {name}")
    _require_type(data["flows"], list, "netlist: flows")
    units = tuple(_unit(entry, f"unit {i}") for i, entry in enumerate(data["units"]))
    flows = tuple(_flow(entry, f"flow {i}") for i, entry in enumerate(data["flows"]))
    return Netlist(data["name"], data["family"], data["fabric"], units, flows)


def parse_object(text: str, what: str) -> dict[str, Any]:
    """A JSON object. Raises InputError for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is no JSON: {error}") from error
    _require_type(value, dict, what)
    return dict(value)


def _unit(entry: Any, where: str) -> Unit:
    _require_fields(entry, Unit, where)
    if entry["kind"] not in list(SiteKind):
        raise InputError(f"{where}: unknown kind {entry['kind']!r}")
    return Unit(**{**entry, "kind": SiteKind(entry["kind"])})


def _flow(entry: Any, where: str) -> Flow:
    _require_fields(entry, Flow, where)
    for target in entry["targets"]:
        _require_type(target, int, f"{where}: target")
    return Flow(**{**entry, "targets": tuple(entry["targets"])})


def _require_fields(entry: Any, kind: type[Unit] | type[Flow], where: str) -> None:
    _require_type(entry, dict, where)
    _require_keys(entry, {field.name for field in fields(kind)}, where)
    for name, value in entry.items():
        _require_type(value, _FIELD_TYPES.get(name, int), f"{where}: {name}")
        if isinstance(value, int) and not 0 <= value <= _MAX_INTEGER:
            raise InputError(f"{where}: {name}={value}, allowed 0 to {_MAX_INTEGER}")


def _require_keys(entry: dict[str, Any], needed: set[str], where: str) -> None:
    if entry.keys() != needed:
        raise InputError(f"{where}: has {sorted(entry)}, needed {sorted(needed)}")


def _require_type(value: Any, kind: type, where: str) -> None:
    if type(value) is not kind:
        raise InputError(f"{where} is {value!r:.40}, needed {kind.__name__}")
