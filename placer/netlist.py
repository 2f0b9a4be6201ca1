"""The netlist: what must be placed, and the flows of vectors between the units.

A unit is a shard of an operation (compute), a buffer or weights (memory), or a DRAM stream (port).
A flow carries `tokens` vectors per sample from one unit to one or more others (multicast).
`docs/simulator.md` gives the exact meaning of every field.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from placer.errors import InputError
from placer.fabric import SiteKind

SCHEMA_VERSION = 1
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

    @property
    def num_stages(self) -> int:
        return 1 + max((unit.stage for unit in self.units), default=0)

    @property
    def bound_cycles(self) -> int:
        """Least cycles per sample: the work of the slowest compute unit, nothing else."""
        return max((u.cycles for u in self.units if u.kind == SiteKind.COMPUTE), default=1)

    def count(self, kind: SiteKind) -> int:
        return sum(unit.kind == kind for unit in self.units)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that matters to a placement; decisions carry it."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        return {"schema": SCHEMA_VERSION, **asdict(self)}


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
