"""The netlist: what must be placed, and the flows of vectors between the units.

A unit is a shard of an operation (compute), a buffer or weights (memory), or a DRAM stream (port).
A flow carries `tokens` vectors per sample from one unit to one or more others (multicast).
`docs/simulator.md` gives the exact meaning of every field.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from placer.base import InputError
from placer.fabric import SiteKind

SCHEMA_VERSION = 1
_FIELD_TYPES: dict[str, tuple[type, ...]] = {  # of dicts; fields not named are integers
    "name": (str,),
    "op": (str,),
    "kind": (int, SiteKind),
    "targets": (list, tuple),
    "waits_for_operands": (bool,),
}
_MAX_INTEGER = 1 << 53  # of a field of a dict; far above any, and safe in 64 bits
MAX_COUNT = 1 << 24  # of tokens, cycles, slots per sample; the simulator counts in 32 bits


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing that occupies (a part of) a site. Fields of other kinds stay 0."""

    name: str
    kind: SiteKind
    op: str  # "matmul", "softmax", ..., "buffer", "weights", "load", "store"
    stage: int  # pipeline stage, 0 is the first
    # compute
    firings: int = 0  # per sample
    cycles: int = 0  # work per sample, >= firings
    releases: int = 0  # how often per sample finished outputs are released; == firings: streaming
    depth_cycles: int = 0
    waits_for_operands: bool = False  # a sample starts when its inputs are there, or queues are full
    # memory
    bytes: int = 0  # of all slots together
    slots: int = 0  # samples held at once (N-buffering)


@dataclass(frozen=True, slots=True)
class Flow:
    """A stream of vectors from one unit to one or more others."""

    name: str
    source: int  # unit id
    targets: tuple[int, ...]  # unit ids
    tokens: int  # vectors per sample, the same to every target
    read_cycles: int = 1  # read-port cycles per vector when the source is a memory


@dataclass(frozen=True)
class Netlist:
    """Units and flows, lowered for one fabric. Raises InputError when it is not well formed."""

    name: str
    family: str
    fabric: str  # name of the fabric it was lowered for
    units: tuple[Unit, ...]
    flows: tuple[Flow, ...]

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def num_units(self) -> int:
        return len(self.units)

    @property
    def num_flows(self) -> int:
        return len(self.flows)

    @cached_property
    def num_stages(self) -> int:
        return 1 + max((unit.stage for unit in self.units), default=0)

    @cached_property
    def bound_cycles(self) -> int:
        """Return the least cycles per sample: the work of the slowest compute unit alone."""
        return max((u.cycles for u in self.units if u.kind == SiteKind.COMPUTE), default=1)

    def count(self, kind: SiteKind) -> int:
        return sum(unit.kind == kind for unit in self.units)

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash of everything that matters to a placement; decisions carry it."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        return {"schema": SCHEMA_VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, data: object) -> Netlist:
        """Read what `to_dict` gave, also after JSON. Raises InputError when it is no netlist."""
        entry = _entry(data, {"schema", "name", "family", "fabric", "units", "flows"}, "netlist")
        if entry["schema"] != SCHEMA_VERSION:
            raise InputError(f"netlist: schema {entry['schema']!r}, needed {SCHEMA_VERSION}")
        for name in ("name", "family", "fabric"):
            _require_type(entry[name], (str,), f"netlist: {name}")
        for name in ("units", "flows"):
            _require_type(entry[name], (list, tuple), f"netlist: {name}")
        units = tuple(_unit(unit, f"unit {i}") for i, unit in enumerate(entry["units"]))
        flows = tuple(_flow(flow, f"flow {i}") for i, flow in enumerate(entry["flows"]))
        return cls(entry["name"], entry["family"], entry["fabric"], units, flows)


def _unit(data: object, where: str) -> Unit:
    entry = _entry_of(Unit, data, where)
    if entry["kind"] not in list(SiteKind):
        raise InputError(f"{where}: unknown kind {entry['kind']!r}")
    return Unit(**{**entry, "kind": SiteKind(entry["kind"])})


def _flow(data: object, where: str) -> Flow:
    entry = _entry_of(Flow, data, where)
    for target in entry["targets"]:
        _require_type(target, (int,), f"{where}: target")
    return Flow(**{**entry, "targets": tuple(entry["targets"])})


def _entry_of(kind: type[Unit] | type[Flow], data: object, where: str) -> dict[str, Any]:
    entry = _entry(data, {field.name for field in fields(kind)}, where)
    for name, value in entry.items():
        _require_type(value, _FIELD_TYPES.get(name, (int,)), f"{where}: {name}")
        if isinstance(value, int) and not 0 <= value <= _MAX_INTEGER:
            raise InputError(f"{where}: {name}={value}, allowed 0 to {_MAX_INTEGER}")
    return entry


def _entry(data: object, names: set[str], where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InputError(f"{where} is {data!r:.40}, needed dict")
    if data.keys() != names:
        raise InputError(f"{where}: has {sorted(map(str, data))}, needed {sorted(names)}")
    return data


def _require_type(value: object, kinds: tuple[type, ...], where: str) -> None:
    if type(value) not in kinds:
        raise InputError(f"{where} is {value!r:.40}, needed {kinds[0].__name__}")


def _validate(netlist: Netlist) -> None:
    for unit_id, unit in enumerate(netlist.units):
        where = f"netlist {netlist.name!r}: unit {unit_id} ({unit.name})"
        if unit.kind == SiteKind.COMPUTE:
            if not 1 <= unit.releases <= unit.firings <= unit.cycles or unit.depth_cycles < 1:
                raise InputError(
                    f"{where}: need 1 <= releases <= firings <= cycles and depth_cycles >= 1, got "
                    f"{unit.releases}, {unit.firings}, {unit.cycles}, {unit.depth_cycles}"
                )
        elif unit.kind == SiteKind.MEMORY and (unit.slots < 1 or unit.bytes < 0):
            raise InputError(f"{where}: slots={unit.slots}, bytes={unit.bytes}; need slots >= 1")
        if max(unit.cycles, unit.depth_cycles, unit.slots) > MAX_COUNT:
            raise InputError(f"{where}: a count is above the largest allowed, {MAX_COUNT}")
    for flow_id, flow in enumerate(netlist.flows):
        where = f"netlist {netlist.name!r}: flow {flow_id} ({flow.name})"
        _validate_flow(netlist, flow, where)


def _validate_flow(netlist: Netlist, flow: Flow, where: str) -> None:
    ends = (flow.source, *flow.targets)
    if not flow.targets or len(set(ends)) != len(ends):
        raise InputError(f"{where}: needs one or more targets, all different, none its source")
    if not all(0 <= end < netlist.num_units for end in ends):
        raise InputError(f"{where}: unit ids {ends} must lie in 0..{netlist.num_units - 1}")
    for name, value in (("tokens", flow.tokens), ("read_cycles", flow.read_cycles)):
        if not 1 <= value <= MAX_COUNT:
            raise InputError(f"{where}: {name}={value} is out of range; allowed 1 to {MAX_COUNT}")
    for end in ends:
        unit = netlist.units[end]
        is_input = end != flow.source
        if unit.kind == SiteKind.COMPUTE and is_input and flow.tokens > unit.firings:
            raise InputError(
                f"{where}: {flow.tokens} tokens enter unit {unit.name} which fires only "
                f"{unit.firings} times; a firing takes at most one vector of a flow"
            )
