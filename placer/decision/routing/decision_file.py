"""One decision as a JSON file that people can read, write by hand and keep.

    {"schema": 1,
     "fabric": "small",
     "netlist": {"name": "mlp", "fingerprint": "0123456789abcdef"},
     "sites": {"unit name": 17, ...},
     "routes": {"flow name": {"channel": 0, "links": [300, 12, 420], "parents": [-1, 0, 1]}, ...}}

`routes` may be left out; they are then made by XY routing. `Decisions` explains links and parents.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from placer.base import InputError, IntArray, write_atomic
from placer.decision import Decisions, check
from placer.decision.routing.router import route
from placer.fabric import Fabric
from placer.netlist import Netlist

SCHEMA_VERSION = 1
_INT32 = np.iinfo(np.int32)


def save_decision(path: str | Path, fabric: Fabric, netlist: Netlist, decisions: Decisions, index: int = 0) -> None:
    """Write decision number `index` of the stack.

    Raises InputError when two units or flows share a name, OSError when the file cannot be written.
    """
    write_atomic(path, decision_text(fabric, netlist, decisions, index))


def decision_text(fabric: Fabric, netlist: Netlist, decisions: Decisions, index: int = 0) -> str:
    """Return decision number `index` of the stack, as a file holds it.

    Raises InputError when two units or flows share a name.
    """
    unit_names = _unique_names("unit", [unit.name for unit in netlist.units])
    flow_names = _unique_names("flow", [flow.name for flow in netlist.flows])
    decision = decisions[index]
    routes = {}
    for flow_id, name in enumerate(flow_names):
        links, parents = decision.route(flow_id)
        routes[name] = {
            "channel": int(decision.channels[0, flow_id]),
            "links": links.tolist(),
            "parents": parents.tolist(),
        }
    document = {
        "schema": SCHEMA_VERSION,
        "fabric": fabric.name,
        "netlist": {"name": netlist.name, "fingerprint": netlist.fingerprint},
        "sites": dict(zip(unit_names, decision.sites[0].tolist(), strict=True)),
        "routes": routes,
    }
    return _one_line_per_entry(document)


def load_decision(path: str | Path, fabric: Fabric, netlist: Netlist) -> Decisions:
    """Return the decision in a file as a stack of one, checked.

    Raises InputError when the file cannot be read, is no such file, belongs to another netlist or
    fabric, or holds an illegal decision.
    """
    try:
        return parse_decision(_read(Path(path)), fabric, netlist)
    except InputError as error:
        raise InputError(f"decision file {path}: {error}") from error


def parse_decision(text: str, fabric: Fabric, netlist: Netlist) -> Decisions:
    """Return the decision that `decision_text` gave, as a stack of one, checked.

    Raises InputError when it is none, belongs to another netlist or fabric, or is illegal.
    """
    document = _parse(text)
    _require_origin(document, fabric, netlist)
    sites = _read_sites(document, fabric, netlist)
    if "routes" in document:
        decisions = _read_routes(document["routes"], netlist, sites)
    else:
        decisions = route(fabric, netlist, sites)
    check(fabric, netlist, decisions)
    return decisions


def _one_line_per_entry(document: dict[str, Any]) -> str:
    """Return JSON with one unit or flow per line: short enough to scroll, easy to compare by line."""

    def block(entries: dict[str, Any]) -> str:
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in entries.items()]
        return "{\n" + ",\n".join(lines) + "\n }"

    lines = [
        f" {json.dumps(key)}: {block(value) if isinstance(value, dict) else json.dumps(value)}"
        for key, value in document.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _unique_names(what: str, names: list[str]) -> list[str]:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(f"{what} name {repeated[0]!r} is not unique in the netlist; decision files go by name")
    return names


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"is no text in UTF-8: {error}") from error


def _parse(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text, object_pairs_hook=_object_of, parse_constant=_refuse_constant)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no complete JSON: {error}") from error
    return _object(document, "the file")


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse a name that stands twice, where Python would keep the last."""
    repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if repeated:
        raise InputError(f"name {_shown(repeated[0])} stands twice in one object")
    return dict(pairs)


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"{name} is no number that a decision can hold; integers only")


def _require_origin(document: dict[str, Any], fabric: Fabric, netlist: Netlist) -> None:
    _require_keys(document, {"schema", "fabric", "netlist", "sites"}, {"routes"}, "the file")
    schema = document["schema"]
    if type(schema) is not int or schema != SCHEMA_VERSION:
        raise InputError(f"schema {_shown(schema)} is not known; this version reads {SCHEMA_VERSION}")
    if document["fabric"] != fabric.name:
        raise InputError(f"made for fabric {_shown(document['fabric'])}, not for {fabric.name!r}")
    origin = _object(document["netlist"], "'netlist'")
    _require_keys(origin, {"name", "fingerprint"}, set(), "'netlist'")
    if origin["fingerprint"] != netlist.fingerprint:
        raise InputError(
            f"made for netlist {_shown(origin['name'])} with fingerprint "
            f"{_shown(origin['fingerprint'])}; "
            f"netlist {netlist.name!r} has {netlist.fingerprint!r}"
        )


def _read_sites(document: dict[str, Any], fabric: Fabric, netlist: Netlist) -> IntArray:
    names = _unique_names("unit", [unit.name for unit in netlist.units])
    entries = _object(document["sites"], "'sites'")
    _require_keys(entries, set(names), set(), "'sites'")
    last = fabric.topology.num_sites - 1
    sites = [_integer(entries[name], f"site of unit {name!r}", 0, last) for name in names]
    return np.array([sites], np.int32).reshape(1, len(names))


def _read_routes(value: Any, netlist: Netlist, sites: IntArray) -> Decisions:
    names = _unique_names("flow", [flow.name for flow in netlist.flows])
    entries = _object(value, "'routes'")
    _require_keys(entries, set(names), set(), "'routes'")
    channels, sizes, links, parents = [], [0], [], []
    for name in names:
        where = f"route of flow {name!r}"
        entry = _object(entries[name], where)
        _require_keys(entry, {"channel", "links", "parents"}, set(), where)
        flow_links = _integers(entry["links"], f"links of the {where}")
        flow_parents = _integers(entry["parents"], f"parents of the {where}")
        if len(flow_links) != len(flow_parents):
            raise InputError(f"{where}: {len(flow_links)} links but {len(flow_parents)} parents")
        channels.append(_integer(entry["channel"], f"channel of the {where}"))
        sizes.append(len(flow_links))
        links += flow_links
        parents += flow_parents
    return Decisions(
        sites=sites,
        channels=np.array([channels], np.int32).reshape(1, len(names)),
        route_start=np.cumsum(sizes, dtype=np.int64)[None],
        links=np.array(links, np.int32),
        parents=np.array(parents, np.int32),
    )


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where} is {_shown(value)}, needed an object {{...}}")
    return value


def _integers(value: Any, where: str) -> list[int]:
    if not isinstance(value, list):
        raise InputError(f"{where} are {_shown(value)}, needed a list of integers")
    return [_integer(item, where) for item in value]


def _integer(value: Any, where: str, low: int = _INT32.min, high: int = _INT32.max) -> int:
    if type(value) is not int or not low <= value <= high:
        raise InputError(f"{where}: {_shown(value)}; allowed are integers from {low} to {high}")
    return value


def _require_keys(entries: dict[str, Any], needed: set[str], optional: set[str], where: str) -> None:
    missing = sorted(needed - entries.keys())
    unknown = sorted(entries.keys() - needed - optional)
    if missing:
        raise InputError(f"{where}: {len(missing)} entries missing, the first is {missing[0]!r}")
    if unknown:
        raise InputError(f"{where}: {len(unknown)} entries unknown, the first is {_shown(unknown[0])}")


def _shown(value: Any) -> str:
    """Return a value as text, cut to a length that fits a message."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
