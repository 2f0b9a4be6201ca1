"""Samples as rows of the two tables, and back. What comes from a file is checked, not trusted."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from costmodel.dataset.records import Labels, NetlistSamples, Phase
from costmodel.dataset.schema import DECISIONS, NETLISTS, parse_object, to_json
from placer.decision import Decisions
from placer.errors import InputError
from placer.fabric import SiteKind
from placer.netlist import Netlist

_UNIT_LABELS = ("unit_busy", "unit_starved", "unit_blocked", "unit_port_wait")


def netlist_row(samples: NetlistSamples) -> pa.Table:
    """The row of the netlists table. Raises InputError for values that it cannot hold."""
    netlist = samples.netlist
    row = {
        "netlist_id": samples.netlist_id,
        **_facts(netlist),
        "num_decisions": len(samples.decisions),
        "seed": list(samples.seed),
        "spec": to_json(samples.spec),
        "netlist": to_json(netlist.to_dict()),
        "failures": list(samples.failures),
    }
    try:
        return pa.Table.from_pylist([row], schema=NETLISTS)
    except (pa.ArrowException, OverflowError) as error:
        raise InputError(f"netlist {samples.netlist_id} cannot be stored: {error}") from error


def decision_rows(samples: NetlistSamples) -> pa.Table:
    """The rows of the decisions table. Raises InputError for samples that are not consistent."""
    require_consistent(samples)
    labels, num_decisions = samples.labels, len(samples.decisions)
    decisions = _packed(samples.decisions)
    sizes = decisions.route_start[:, -1] - decisions.route_start[:, 0]
    columns: dict[str, Any] = {
        "netlist_id": np.full(num_decisions, samples.netlist_id, np.int32),
        "decision": np.arange(num_decisions, dtype=np.int32),
        "phase": [phase.value for phase in samples.phase],
        "search": [to_json(search) for search in samples.search],
        "sites": decisions.sites,
        "channels": decisions.channels,
        "route_start": decisions.route_start - decisions.route_start[:, :1],
        "links": _lists("links", decisions.links, sizes),
        "parents": _lists("parents", decisions.parents, sizes),
        "cycles_per_sample": labels.cycles_per_sample,
        "first_sample_cycles": labels.first_sample_cycles,
        "cycles_simulated": labels.cycles_simulated,
        "vector_hops": labels.vector_hops,
        "throughput": samples.throughput,
        "heuristic": samples.heuristic,
        "busiest_link": labels.busiest_link,
        **{name: getattr(labels, name) for name in _UNIT_LABELS},
    }
    arrays = [_column(field.name, columns[field.name]) for field in DECISIONS]
    return pa.Table.from_arrays(arrays, schema=DECISIONS)


def samples_from(netlist_table: pa.Table, decision_table: pa.Table) -> NetlistSamples:
    """The samples of one netlist from its rows. Raises InputError when a value is not legal."""
    row = netlist_table.to_pylist()[0]
    netlist = Netlist.from_dict(parse_object(row["netlist"], "netlist"))
    _require_facts(row, netlist)
    num_decisions = decision_table.num_rows
    ids = _numbers(decision_table, "netlist_id")
    order = _numbers(decision_table, "decision")
    if (ids != row["netlist_id"]).any() or (order != np.arange(num_decisions)).any():
        raise InputError("the decisions belong to another netlist or are not in order")
    samples = NetlistSamples(
        netlist_id=row["netlist_id"],
        seed=tuple(row["seed"]),
        spec=parse_object(row["spec"], "spec"),
        netlist=netlist,
        decisions=_read_decisions(decision_table, netlist),
        labels=_read_labels(decision_table, netlist),
        phase=tuple(_phase(name) for name in decision_table["phase"].to_pylist()),
        search=tuple(parse_object(text, "search") for text in decision_table["search"].to_pylist()),
        heuristic=_numbers(decision_table, "heuristic"),
        failures=tuple(row["failures"]),
    )
    require_consistent(samples)
    if (_numbers(decision_table, "throughput") != samples.throughput).any():
        raise InputError("throughput is not bound_cycles / cycles_per_sample")
    return samples


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
    for name in (*_UNIT_LABELS, "busiest_link"):
        if not (np.isfinite(getattr(labels, name)) & (getattr(labels, name) >= 0)).all():
            raise InputError(f"netlist {samples.netlist_id}: {name} must be finite and 0 or more")
    if not np.isfinite(samples.heuristic).all():
        raise InputError(f"netlist {samples.netlist_id}: the heuristic score must be finite")


def _require_shapes(samples: NetlistSamples) -> None:
    decisions, labels, netlist = samples.decisions, samples.labels, samples.netlist
    num = len(decisions)
    needed: dict[str, tuple[NDArray[Any], tuple[int, ...]]] = {
        "sites": (decisions.sites, (num, netlist.num_units)),
        "channels": (decisions.channels, (num, netlist.num_flows)),
        "route_start": (decisions.route_start, (num, netlist.num_flows + 1)),
        "parents": (decisions.parents, decisions.links.shape),
        "heuristic": (samples.heuristic, (num,)),
    }
    for field in fields(Labels):
        per_unit = (netlist.num_units,) if field.name in _UNIT_LABELS else ()
        needed[field.name] = (getattr(labels, field.name), (num, *per_unit))
    for name, (array, shape) in needed.items():
        if array.shape != shape:
            raise InputError(
                f"netlist {samples.netlist_id}: {name} has shape {array.shape}, needed {shape}"
            )
    if len(samples.phase) != num or len(samples.search) != num:
        raise InputError(
            f"netlist {samples.netlist_id}: {len(samples.phase)} phases and {len(samples.search)} "
            f"searches for {num} decisions"
        )


def _require_trees(decisions: Decisions) -> None:
    """Sites, links, channels are not negative, and parents come before their children."""
    starts, num_nodes = decisions.route_start, len(decisions.links)
    sizes = np.diff(starts, axis=1)
    if starts.size and (starts.min() < 0 or starts.max() > num_nodes or (sizes < 0).any()):
        raise InputError(f"route_start must rise, from 0 to {num_nodes} at most")
    for name in ("sites", "channels", "links"):
        if getattr(decisions, name).min(initial=0) < 0:
            raise InputError(f"{name} must be 0 or more")
    packed = _packed(decisions)
    position = np.arange(len(packed.parents)) - np.repeat(packed.route_start[:, :-1], sizes.ravel())
    if ((packed.parents < -1) | (packed.parents >= position)).any() or (
        (packed.parents == -1) != (position == 0)
    ).any():
        raise InputError("parents must stand before their children, -1 for the root only")


def _packed(decisions: Decisions) -> Decisions:
    """The same decisions, with their routes one after the other and nothing between them."""
    if not len(decisions):
        return decisions
    return Decisions.concatenate(decisions[index] for index in range(len(decisions)))


def _facts(netlist: Netlist) -> dict[str, Any]:
    """Columns that say in short what the netlist is."""
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


def _require_facts(row: dict[str, Any], netlist: Netlist) -> None:
    for name, value in _facts(netlist).items():
        if row[name] != value:
            raise InputError(f"column {name} is {row[name]!r}, but the netlist has {value!r}")


def _column(name: str, values: Any) -> pa.Array:
    """A column from what it holds: numbers, texts, or the rows of a matrix."""
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return _lists(name, values.ravel(), np.full(len(values), values.shape[1], np.int64))
    return pa.array(values, DECISIONS.field(name).type)


def _lists(name: str, values: NDArray[Any], sizes: NDArray[np.int64]) -> pa.ListArray:
    """A column of lists that lie one after the other in `values`."""
    kind = DECISIONS.field(name).type
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values, kind.value_type), type=kind)


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    """A column of numbers as an array of its own."""
    return np.array(table[name].to_numpy())


def _flat(table: pa.Table, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The values of a column of lists, and the length of each list."""
    lists = table[name].combine_chunks()
    sizes = np.array(lists.value_lengths().to_numpy(), np.int64)
    return np.array(lists.flatten().to_numpy()), sizes


def _matrix(table: pa.Table, name: str, width: int) -> NDArray[Any]:
    values, sizes = _flat(table, name)
    if (sizes != width).any():
        raise InputError(f"{name} has {sizes[sizes != width][0]} entries, needed {width}")
    return values.reshape(len(sizes), width)


def _read_decisions(table: pa.Table, netlist: Netlist) -> Decisions:
    links, sizes = _flat(table, "links")
    parents, parent_sizes = _flat(table, "parents")
    starts = _matrix(table, "route_start", netlist.num_flows + 1)
    if (sizes != parent_sizes).any() or (starts[:, 0] != 0).any() or (starts[:, -1] != sizes).any():
        raise InputError("links, parents and route_start of a decision do not fit together")
    first = np.cumsum(sizes) - sizes
    return Decisions(
        sites=_matrix(table, "sites", netlist.num_units),
        channels=_matrix(table, "channels", netlist.num_flows),
        route_start=starts + first[:, None],
        links=links,
        parents=parents,
    )


def _read_labels(table: pa.Table, netlist: Netlist) -> Labels:
    return Labels(
        **{
            field.name: _matrix(table, field.name, netlist.num_units)
            if field.name in _UNIT_LABELS
            else _numbers(table, field.name)
            for field in fields(Labels)
        }
    )


def _phase(name: str) -> Phase:
    try:
        return Phase(name)
    except ValueError as error:
        known = ", ".join(phase.value for phase in Phase)
        raise InputError(f"unknown phase {name!r}; known are {known}") from error
