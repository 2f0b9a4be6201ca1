"""Encoded decisions of any number of netlists in flat arrays, in memory or in files.

Facts about units and flows are stored once for all decisions that share them (`facts_of`): on a
fabric, those of a netlist. The rows of facts or decision i of a table start at `start[i]`. Batches
are cut out by offset arithmetic (batch.py). Files are memory-mapped, so a dataset of any size needs
little memory.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset import Dataset
from costmodel.encoding.bare import encode_bare
from costmodel.encoding.encode import Encoded, encode
from costmodel.encoding.features import FEATURE_VERSION, NetlistFeatures, netlist_features
from placer.base import IntArray, LongArray, SingleArray, make_folder, source_key

NUM_STALLS = 3  # of a unit: starved, blocked, waiting for a port
_META_FILE = "meta.json"
_CODE = tuple(Path(__file__).with_name(name) for name in ("encode.py", "bare.py", "features.py"))


@dataclass(frozen=True, slots=True)
class GraphSet:
    """All columns, flat; `NetlistFeatures` and `Encoded` say what they mean."""

    netlist_of: LongArray  # [num_decisions]
    facts_of: LongArray  # [num_decisions] whose rows of units, flows and ends count
    log_throughput: SingleArray  # [num_decisions] NaN where there is no label
    log_rules: SingleArray  # [num_decisions]
    unit_start: LongArray  # [num_facts + 1]
    unit: SingleArray
    unit_op: IntArray
    unit_stage: IntArray
    flow_start: LongArray  # [num_facts + 1]
    flow: SingleArray
    flow_source: IntArray
    end_start: LongArray  # [num_facts + 1]
    end_flow: IntArray
    end_unit: IntArray
    hardware: SingleArray  # [num_facts, columns]
    hops_start: LongArray  # [num_decisions + 1] of end_hops
    end_hops: IntArray
    placed_start: LongArray  # [num_decisions + 1] of unit_switch and unit_stalls
    unit_switch: IntArray
    unit_stalls: SingleArray  # [.., NUM_STALLS] share of the time; NaN where there is no label
    num_switches: IntArray  # [num_decisions]
    visit_start: LongArray  # [num_decisions + 1]
    visit_flow: IntArray
    visit_lane: IntArray
    visit_before: IntArray
    lane_start: LongArray  # [num_decisions + 1]
    lane_kind: IntArray
    lane_link: IntArray
    link_start: LongArray  # [num_decisions + 1]
    link_from: IntArray
    link_to: IntArray
    link_flows: IntArray
    link_hops: IntArray

    def __len__(self) -> int:
        return len(self.netlist_of)


@dataclass(frozen=True, slots=True)
class StoredGraphSet(GraphSet):
    """Columns in files: other processes are told where, and share the memory."""

    folder: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return _open, (self.folder,)


def graph_set(parts: Iterable[tuple[NetlistFeatures, Encoded]]) -> GraphSet:
    """Return decisions without labels, in memory: one part per netlist."""
    return _join([_columns(features, encoded) for features, encoded in parts])


def encode_dataset(dataset: Dataset, folder: Path) -> GraphSet:
    """Encode all decisions of a dataset with labels into files in `folder`; used again if there."""
    parts = _labelled_parts(dataset)
    return stored_graph_set(parts, FEATURE_VERSION, dataset.content_hash, source_key(*_CODE), folder)


def encode_potentials(dataset: Dataset, folder: Path) -> GraphSet:
    """Encode the netlists of a dataset as bare decisions, each with its potential as the label; NaN: it has none."""
    version, code = f"{FEATURE_VERSION} bare", source_key(*_CODE)
    return stored_graph_set(_bare_parts(dataset), version, dataset.content_hash, code, folder)


def stored_graph_set(
    parts: Iterator[dict[str, NDArray[Any]]], version: int | str, content_hash: str, code: str, folder: Path
) -> GraphSet:
    """Write parts of netlists (as of `_columns`) to files in `folder`.

    Used again if all of it is there, made from this dataset by this `code` (a key of sources), and no
    byte has changed since.
    """
    meta = {"features": version, "dataset": content_hash, "code": code}
    folder = folder / f"encoded-{str(version).replace(' ', '-')}-{content_hash[:16]}"
    if not _is_complete(folder, meta):
        make_folder(folder.parent)
        temporary = Path(tempfile.mkdtemp(prefix=".encoded-", dir=folder.parent))
        try:
            _write(parts, temporary, meta)
            if not _is_complete(folder, meta):  # no other process was faster
                shutil.rmtree(folder, ignore_errors=True)
                temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return _open(folder)


def _labelled_parts(dataset: Dataset) -> Iterator[dict[str, NDArray[Any]]]:
    for samples in dataset.each_netlist():
        fabric, netlist = samples.fabric, samples.netlist
        columns = _columns(netlist_features(fabric, netlist), encode(fabric, netlist, samples.decisions))
        labels = samples.labels
        stalls = np.stack((labels.unit_starved, labels.unit_blocked, labels.unit_port_wait), axis=2)
        columns["log_throughput"] = np.log(samples.throughput).astype(np.float32)
        columns["unit_stalls"] = stalls.reshape(-1, NUM_STALLS).astype(np.float32)
        yield columns


def _bare_parts(dataset: Dataset) -> Iterator[dict[str, NDArray[Any]]]:
    for samples in dataset.each_netlist():
        fabric, netlist = samples.fabric, samples.netlist
        columns = _columns(netlist_features(fabric, netlist), encode_bare(fabric, netlist))
        columns["log_throughput"] = np.log([samples.potential or np.nan]).astype(np.float32)
        yield columns


def _columns(features: NetlistFeatures, encoded: Encoded) -> dict[str, NDArray[Any]]:
    """Return the part of one netlist. `*_start` hold sizes here; numbers count from 0."""
    num, num_units = encoded.unit_switch.shape
    columns: dict[str, NDArray[Any]] = {
        name: getattr(source, name)
        for source in (features, encoded)
        for name in type(source).__slots__
        if not name.endswith("_start")
    }
    columns |= {name: np.diff(getattr(encoded, name)) for name in _VISIT_STARTS}
    return columns | {
        "netlist_of": np.zeros(num, np.int64),
        "facts_of": np.zeros(num, np.int64),
        "log_throughput": np.full(num, np.nan, np.float32),
        "unit_start": np.array([num_units]),
        "flow_start": np.array([len(features.flow)]),
        "end_start": np.array([len(features.end_unit)]),
        "hops_start": np.full(num, len(features.end_unit)),
        "placed_start": np.full(num, num_units),
        "end_hops": encoded.end_hops.ravel(),
        "unit_switch": encoded.unit_switch.ravel(),
        "unit_stalls": np.full((num * num_units, NUM_STALLS), np.nan, np.float32),
    }


_VISIT_STARTS = ("visit_start", "lane_start", "link_start")
_NAMES = tuple(field.name for field in fields(GraphSet))
_STARTS = tuple(name for name in _NAMES if name.endswith("_start"))
_SMALL = (*_STARTS, "netlist_of", "facts_of")


def _join(parts: list[dict[str, NDArray[Any]]]) -> GraphSet:
    """Join the parts of netlists; sizes become starts."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in _NAMES}
    sizes = [len(part["netlist_of"]) for part in parts]
    columns["netlist_of"] = np.repeat(np.arange(len(parts)), sizes)
    num_facts = np.array([len(part["unit_start"]) for part in parts])
    columns["facts_of"] += np.repeat(np.cumsum(num_facts) - num_facts, sizes)
    for name in _STARTS:
        columns[name] = np.cumsum([0, *columns[name]], dtype=np.int64)
    return GraphSet(**columns)


def _write(parts: Iterator[dict[str, NDArray[Any]]], folder: Path, meta: dict[str, Any]) -> None:
    """Join small columns in memory, and append large ones to their files part by part."""
    small: list[dict[str, NDArray[Any]]] = []
    layout: dict[str, tuple[str, list[int], str]] = {}  # kind, shape of a row, hash of the file
    digests = {name: hashlib.sha256() for name in _NAMES}
    with ExitStack() as stack:
        files = {name: stack.enter_context(open(folder / name, "wb")) for name in _NAMES}
        for part in parts:
            empty = {name: column[:0] for name, column in part.items()}
            small.append(empty | {name: part[name] for name in _SMALL})
            for name in set(_NAMES) - set(_SMALL):
                _append(files[name], digests[name], part[name])
        joined = _join(small)
        for name in _NAMES:
            column = getattr(joined, name)
            _append(files[name], digests[name], column)
            layout[name] = (column.dtype.str, list(column.shape[1:]), digests[name].hexdigest())
    (folder / _META_FILE).write_text(json.dumps(meta | {"layout": layout}))


def _append(file: BinaryIO, digest: hashlib._Hash, column: NDArray[Any]) -> None:
    content = np.ascontiguousarray(column).tobytes()
    file.write(content)
    digest.update(content)


def _is_complete(folder: Path, meta: dict[str, Any]) -> bool:
    """Tell whether `_write` came to its end, for this dataset and code, and no byte has changed since."""
    try:
        stored = json.loads((folder / _META_FILE).read_text())
        layout = stored.pop("layout")
        return bool(stored == meta and all(_hash_of(folder / name) == layout[name][2] for name in _NAMES))
    except (OSError, ValueError, AttributeError, KeyError, TypeError, IndexError):
        return False


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open(folder: Path) -> StoredGraphSet:
    layout = json.loads((folder / _META_FILE).read_text())["layout"]
    columns = {}
    for name in _NAMES:
        kind, shape, _ = layout[name]
        flat = np.memmap(folder / name, np.dtype(kind), mode="r")
        columns[name] = flat.reshape(-1, *shape) if shape else flat
    return StoredGraphSet(**columns, folder=folder)
