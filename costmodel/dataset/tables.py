"""Samples as rows of the two tables, and back. What comes from a file is checked, not trusted."""

from __future__ import annotations

from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from costmodel.dataset.records import ALONE, Labels, NetlistSamples, Origin, Phase
from costmodel.dataset.schema import DECISIONS, NETLISTS, parse_cell, to_json
from placer.base import InputError, IntArray, LongArray
from placer.decision import Decisions
from placer.fabric import Fabric, SiteKind, fabric_of
from placer.netlist import Netlist

_UNIT_LABELS = ("unit_busy", "unit_starved", "unit_blocked", "unit_port_wait")


def netlist_row(samples: NetlistSamples) -> pa.Table:
    """Return the row of the netlists table. Raises InputError for values that it cannot hold."""
    netlist = samples.netlist
    row = {
        "netlist_id": samples.netlist_id,
        **_facts(netlist),
        "num_decisions": len(samples.decisions),
        "seed": list(samples.origin.seed),
        "segment": samples.origin.segment,
        "samples": samples.origin.samples,
        "potential": samples.potential,
        "hardware": hardware_text(samples.fabric),
        "spec": to_json(samples.origin.spec),
        "netlist": to_json(netlist.to_dict()),
        "failures": list(samples.failures),
    }
    try:
        return pa.Table.from_pylist([row], schema=NETLISTS)
    except (pa.ArrowException, OverflowError) as error:
        raise InputError(f"netlist {samples.netlist_id} cannot be stored: {error}") from error


def decision_rows(samples: NetlistSamples) -> pa.Table:
    """Return the rows of the decisions table. Raises InputError for inconsistent samples."""
    require_consistent(samples)
    decisions, num_decisions = samples.decisions, len(samples.decisions)
    starts = decisions.route_start
    columns: dict[str, Any] = {
        "netlist_id": np.full(num_decisions, samples.netlist_id),
        "decision": np.arange(num_decisions),
        "phase": [phase.value for phase in samples.phase],
        "search": [to_json(search) for search in samples.search],
        "sites": decisions.sites,
        "channels": decisions.channels,
        "route_start": starts - starts[:, :1],
        "links": _by_decision(decisions.links, starts),
        "parents": _by_decision(decisions.parents, starts),
        "throughput": samples.throughput,
        "heuristic": samples.heuristic,
        **{field.name: getattr(samples.labels, field.name) for field in fields(Labels)},
    }
    return pa.Table.from_pydict({name: list(column) for name, column in columns.items()}, schema=DECISIONS)


def samples_from(netlist_table: pa.Table, decision_table: pa.Table) -> NetlistSamples:
    """Return the samples in the rows of one netlist. Raises InputError for illegal values."""
    row = netlist_table.to_pylist()[0]
    netlist = Netlist.from_dict(parse_cell(row["netlist"], "netlist"))
    for name, value in _facts(netlist).items():
        if row[name] != value:
            raise InputError(f"column {name} is {row[name]!r}, but the netlist has {value!r}")
    table, widths = decision_table, _widths(netlist)
    others = {"phase", "search", "links", "parents"}
    columns = {
        name: _matrix(table, name, widths[name]) if name in widths else np.array(table[name])
        for name in DECISIONS.names
        if name not in others
    }
    order = np.arange(table.num_rows)
    if (columns["netlist_id"] != row["netlist_id"]).any() or (columns["decision"] != order).any():
        raise InputError("the decisions belong to another netlist or are not in order")
    spec = parse_cell(row["spec"], "spec")
    samples = NetlistSamples(
        netlist_id=row["netlist_id"],
        origin=Origin(tuple(row["seed"]), spec, row["segment"], row["samples"]),
        fabric=hardware_of(row["hardware"]),
        netlist=netlist,
        potential=row["potential"],
        decisions=_read_decisions(table, columns),
        labels=Labels(**{field.name: columns[field.name] for field in fields(Labels)}),
        phase=tuple(_phase(name) for name in table["phase"].to_pylist()),
        search=tuple(parse_cell(text, "search") for text in table["search"].to_pylist()),
        heuristic=columns["heuristic"],
        failures=tuple(row["failures"]),
    )
    require_consistent(samples)
    if (columns["throughput"] != samples.throughput).any():
        raise InputError("throughput is not bound_cycles / cycles_per_sample")
    return samples


def hardware_text(fabric: Fabric) -> str:
    """Return a fabric as the netlists table holds it."""
    return to_json(asdict(fabric))


@lru_cache(maxsize=64)
def hardware_of(text: str) -> Fabric:
    """Return the fabric in a cell. Raises InputError when it is none."""
    return fabric_of(parse_cell(text, "hardware"))


def require_consistent(samples: NetlistSamples) -> None:
    """Raise InputError when arrays do not fit together or labels are no possible results."""
    _require_shapes(samples)
    _require_trees(samples.decisions)
    labels = samples.labels
    cycles = labels.cycles_per_sample
    if not (np.isfinite(cycles) & (cycles >= samples.netlist.bound_cycles)).all():
        raise InputError(
            f"netlist {samples.netlist_id}: cycles_per_sample must be finite and not below the "
            f"bound {samples.netlist.bound_cycles}, got {cycles.min(initial=np.inf)} and more"
        )
    if not ((labels.fidelity > 0) & (labels.fidelity <= 1)).all():
        raise InputError(f"netlist {samples.netlist_id}: fidelity must lie in (0, 1]")
    if samples.fabric.name != samples.netlist.fabric:
        raise InputError(
            f"netlist {samples.netlist_id} was lowered for fabric {samples.netlist.fabric!r}, "
            f"stored with {samples.fabric.name!r}"
        )
    if not 0 <= samples.potential <= 1 or samples.origin.samples < 1 or samples.origin.segment < ALONE:
        raise InputError(
            f"netlist {samples.netlist_id}: potential={samples.potential}, samples={samples.origin.samples}, "
            f"segment={samples.origin.segment}; allowed: 0 to 1, 1 or more, {ALONE} or more"
        )
    for name in (*_UNIT_LABELS, "busiest_link"):
        if not (np.isfinite(getattr(labels, name)) & (getattr(labels, name) >= 0)).all():
            raise InputError(f"netlist {samples.netlist_id}: {name} must be finite and 0 or more")
    if not np.isfinite(samples.heuristic).all():
        raise InputError(f"netlist {samples.netlist_id}: the heuristic score must be finite")


def _require_shapes(samples: NetlistSamples) -> None:
    decisions, num, widths = samples.decisions, len(samples.decisions), _widths(samples.netlist)
    arrays = {name: getattr(decisions, name) for name in ("sites", "channels", "route_start")}
    arrays |= {field.name: getattr(samples.labels, field.name) for field in fields(Labels)}
    arrays |= {"heuristic": samples.heuristic, "parents": decisions.parents}
    for name, array in arrays.items():
        shape = (num, widths[name]) if name in widths else (num,)
        shape = decisions.links.shape if name == "parents" else shape
        if array.shape != shape:
            raise InputError(f"netlist {samples.netlist_id}: {name} has shape {array.shape}, needed {shape}")
    if len(samples.phase) != num or len(samples.search) != num:
        raise InputError(
            f"netlist {samples.netlist_id}: {len(samples.phase)} phases and {len(samples.search)} "
            f"searches for {num} decisions"
        )


def _require_trees(decisions: Decisions) -> None:
    """Raise InputError when a number is negative or a parent does not come before its children."""
    starts, num_nodes = decisions.route_start, len(decisions.links)
    sizes = np.diff(starts, axis=1)
    if starts.size and (starts.min() < 0 or starts.max() > num_nodes or (sizes < 0).any()):
        raise InputError(f"route_start must rise, from 0 to {num_nodes} at most")
    for name in ("sites", "channels", "links"):
        if getattr(decisions, name).min(initial=0) < 0:
            raise InputError(f"{name} must be 0 or more")
    flat = sizes.ravel()
    position = np.arange(flat.sum()) - np.repeat(np.cumsum(flat) - flat, flat)
    parents = np.concatenate([decisions.parents[:0], *_by_decision(decisions.parents, starts)])
    if ((parents < -1) | (parents >= position) | ((parents == -1) != (position == 0))).any():
        raise InputError("parents must stand before their children, -1 for the root only")


def _by_decision(nodes: IntArray, starts: LongArray) -> list[IntArray]:
    """Return the values of the route nodes of each decision, without what lies between them."""
    return [nodes[first:last] for first, last in starts[:, [0, -1]].tolist()]


def _facts(netlist: Netlist) -> dict[str, Any]:
    """Return the columns that say in short what the netlist is."""
    return {
        "name": netlist.name,
        "family": netlist.family,
        "fabric": netlist.fabric,
        "fingerprint": netlist.fingerprint,
        "bound_cycles": netlist.bound_cycles,
        "num_units": netlist.num_units,
        "num_flows": netlist.num_flows,
        "num_stages": netlist.num_stages,
        "num_compute": netlist.count(SiteKind.COMPUTE),
        "num_memory": netlist.count(SiteKind.MEMORY),
        "num_ports": netlist.count(SiteKind.PORT),
    }


def _widths(netlist: Netlist) -> dict[str, int]:
    """Return the columns whose lists all have one length, with that length."""
    units, flows = netlist.num_units, netlist.num_flows
    widths = {"sites": units, "channels": flows, "route_start": flows + 1}
    return widths | dict.fromkeys(_UNIT_LABELS, units)


def _flat(table: pa.Table, name: str) -> tuple[NDArray[Any], LongArray]:
    """Return the values of a column of lists, and the length of each list."""
    lists = table[name].combine_chunks()
    sizes = np.array(lists.value_lengths().to_numpy(), np.int64)
    return np.array(lists.flatten().to_numpy()), sizes


def _matrix(table: pa.Table, name: str, width: int) -> NDArray[Any]:
    values, sizes = _flat(table, name)
    if (sizes != width).any():
        raise InputError(f"{name} has {sizes[sizes != width][0]} entries, needed {width}")
    return values.reshape(len(sizes), width)


def _read_decisions(table: pa.Table, columns: dict[str, NDArray[Any]]) -> Decisions:
    (links, sizes), (parents, parent_sizes) = _flat(table, "links"), _flat(table, "parents")
    starts = columns["route_start"]
    if (sizes != parent_sizes).any() or (starts[:, 0] != 0).any() or (starts[:, -1] != sizes).any():
        raise InputError("links, parents and route_start of a decision do not fit together")
    starts = starts + (np.cumsum(sizes) - sizes)[:, None]
    return Decisions(columns["sites"], columns["channels"], starts, links, parents)


def _phase(name: str) -> Phase:
    try:
        return Phase(name)
    except ValueError as error:
        known = ", ".join(phase.value for phase in Phase)
        raise InputError(f"unknown phase {name!r}; known are {known}") from error
