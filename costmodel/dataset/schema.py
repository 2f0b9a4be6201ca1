"""What the files of a dataset hold: the columns of its two tables, and the metadata of both.

Row group i of either table belongs to netlist i: one row in `netlists.parquet`, one row per
decision in `decisions.parquet`. So the samples of a netlist are read without those of others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from placer.errors import InputError

KIND = "dataflow-costmodel dataset"
SCHEMA_VERSION = 1
NETLISTS_FILE = "netlists.parquet"
DECISIONS_FILE = "decisions.parquet"
KERNEL_GRAPHS_FILE = "kernel_graphs.parquet"
MAPPINGS_FILE = "mappings.parquet"


class TablePair(NamedTuple):
    """File names of what is placed and of how it is placed.

    Both tables of either pair have the columns that splits and learners read: netlist_id, family,
    fingerprint, num_decisions; netlist_id, phase, throughput, heuristic.
    """

    netlists: str
    decisions: str


FABRIC_TABLES = TablePair(NETLISTS_FILE, DECISIONS_FILE)
WAFER_TABLES = TablePair(KERNEL_GRAPHS_FILE, MAPPINGS_FILE)  # of mappings of kernels to a wafer


def _columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


def _list(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind, nullable=False))


NETLISTS = _columns(
    netlist_id=pa.int32(),  # position in the dataset
    name=pa.string(),
    family=pa.string(),
    fabric=pa.string(),
    fingerprint=pa.string(),
    bound_cycles=pa.int64(),
    num_units=pa.int32(),
    num_flows=pa.int32(),
    num_stages=pa.int32(),
    num_compute=pa.int32(),
    num_memory=pa.int32(),
    num_ports=pa.int32(),
    num_decisions=pa.int32(),
    seed=_list(pa.uint64()),
    spec=pa.string(),  # JSON
    netlist=pa.string(),  # JSON of Netlist.to_dict
    failures=_list(pa.string()),
)

DECISIONS = _columns(
    netlist_id=pa.int32(),
    decision=pa.int32(),  # position in the netlist
    phase=pa.string(),
    search=pa.string(),  # JSON
    sites=_list(pa.int32()),
    channels=_list(pa.int32()),
    route_start=_list(pa.int64()),  # into links and parents of this decision
    links=_list(pa.int32()),
    parents=_list(pa.int32()),
    cycles_per_sample=pa.float64(),
    first_sample_cycles=pa.int64(),
    cycles_simulated=pa.int64(),
    vector_hops=pa.int64(),
    throughput=pa.float64(),
    heuristic=pa.float64(),
    busiest_link=pa.float32(),
    unit_busy=_list(pa.float32()),
    unit_starved=_list(pa.float32()),
    unit_blocked=_list(pa.float32()),
    unit_port_wait=_list(pa.float32()),
)

KERNEL_GRAPHS = _columns(
    netlist_id=pa.int32(),  # position in the dataset
    family=pa.string(),
    fingerprint=pa.string(),
    num_decisions=pa.int32(),
    seed=_list(pa.int64()),  # of the random generator
    spec=pa.string(),  # JSON: how the graph was drawn
    kgraph=pa.string(),  # the graph in the contest's format
    failures=_list(pa.string()),
)

MAPPINGS = _columns(
    netlist_id=pa.int32(),
    decision=pa.int32(),
    phase=pa.string(),  # the engine
    search=pa.string(),  # JSON: its parameters
    mapping=_list(pa.int32()),  # placer/kernels/mapping_table.py, row by row
    cycles_per_sample=pa.float64(),
    throughput=pa.float64(),
    heuristic=pa.float64(),  # bound / deltaT of the contest
    wire_length=pa.float64(),  # tiles
    adapters=pa.int32(),
    slowest_kernel=pa.float64(),  # bound / cycles of the slowest kernel alone, by its formula
    kernel_busy=_list(pa.float32()),  # share of the time, per kernel
)

_SCHEMAS = {
    NETLISTS_FILE: NETLISTS,
    DECISIONS_FILE: DECISIONS,
    KERNEL_GRAPHS_FILE: KERNEL_GRAPHS,
    MAPPINGS_FILE: MAPPINGS,
}
# Measured on attention blocks: 2.0 kB per decision on an 8x8 fabric.
_DICTIONARY = ["phase", "search", "channels.list.element", "parents.list.element"]
_SPLIT_BYTES = ["sites", "route_start", "links"]
_ZSTD_LEVEL = 5  # 9 takes half as long again and saves 2%


class DamagedFileError(InputError):
    """A file that is not there, ends too early or holds other bytes than were written."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where a dataset comes from. Equal metadata means equal samples."""

    config: dict[str, Any]  # all settings, as JSON holds them
    seed: int  # all others come from it
    code_version: str

    def encode(self, table: str) -> dict[str, str]:
        """Key-value metadata of the file `table`."""
        return {
            "kind": KIND,
            "schema_version": str(SCHEMA_VERSION),
            "table": table,
            "config": to_json(self.config),
            "seed": str(self.seed),
            "code_version": self.code_version,
        }


def to_json(value: Any) -> str:
    """JSON with one spelling per value, so that equal values are equal bytes."""
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"cannot be stored as JSON: {error}") from error


def parse_object(text: str, what: str) -> dict[str, Any]:
    """A JSON object. Raises InputError for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{what} is {value!r:.40}, needed dict")
    return value


def open_writer(sink: BinaryIO, table: str, metadata: Metadata) -> pq.ParquetWriter:
    """A writer for the file `table`. Same tables, same bytes."""
    schema = _SCHEMAS[table].with_metadata(metadata.encode(table))
    is_decisions = table == DECISIONS_FILE
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=_ZSTD_LEVEL,
        use_dictionary=_DICTIONARY if is_decisions else False,
        column_encoding=(
            {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in _SPLIT_BYTES}
            if is_decisions
            else None
        ),
        write_statistics=False,
        write_page_checksum=True,
    )


@dataclass(frozen=True, slots=True)
class TableFile:
    """One of the two Parquet files. Nothing stays open between reads."""

    source: Path | pa.Buffer
    label: str  # how messages call it
    footer: pq.FileMetaData
    metadata: Metadata

    @staticmethod
    def open(source: Path | pa.Buffer, table: str, label: str) -> TableFile:
        """Read the footer only.

        Raises DamagedFileError, or InputError for a file that is no such table.
        """
        with _reading(label), pq.ParquetFile(source) as file:
            footer, schema = file.metadata, file.schema_arrow
        metadata = _decode(schema.metadata or {}, table, label)
        if not schema.equals(_SCHEMAS[table], check_metadata=False):
            raise InputError(f"{label}: its columns are not those of {table}; {_MAKE_AGAIN}")
        return TableFile(source, label, footer, metadata)

    @property
    def num_row_groups(self) -> int:
        return int(self.footer.num_row_groups)

    @property
    def num_rows(self) -> int:
        return int(self.footer.num_rows)

    def rows_per_group(self) -> list[int]:
        return [self.footer.row_group(i).num_rows for i in range(self.num_row_groups)]

    def read_group(self, row_group: int) -> pa.Table:
        """All columns of one row group."""
        with _reading(self.label), self._file() as file:
            return file.read_row_group(row_group, use_threads=False)

    def read_columns(self, names: list[str]) -> pa.Table:
        """Some columns of all rows: for small columns only."""
        with _reading(self.label), self._file() as file:
            return file.read(columns=names, use_threads=False)

    def _file(self) -> pq.ParquetFile:
        return pq.ParquetFile(
            self.source,
            metadata=self.footer,
            pre_buffer=False,  # it would fetch the columns between those asked for
            page_checksum_verification=True,
        )


_MAKE_AGAIN = "make the dataset again with this version (make dataset), in another folder"


@contextmanager
def _reading(label: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedFileError(f"{label}: there is no such file; run make dataset") from error
    except PermissionError as error:
        raise InputError(f"{label}: cannot be read: {error.strerror or error}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedFileError(
            f"{label}: is no complete Parquet file ({error}); fetch it again or run make dataset"
        ) from error


def _decode(stored: dict[bytes, bytes], table: str, label: str) -> Metadata:
    try:
        values = {key.decode(): value.decode() for key, value in stored.items()}
    except UnicodeDecodeError as error:
        raise InputError(f"{label}: its metadata is no UTF-8 text; {_MAKE_AGAIN}") from error
    if values.get("kind") != KIND:
        raise InputError(
            f"{label}: kind {values.get('kind')!r}, needed {KIND!r}; it is not from make dataset"
        )
    _require_version(values.get("schema_version", ""), label)
    if values.get("table") != table:
        raise InputError(f"{label}: holds {values.get('table')!r}, needed {table!r}")
    try:
        config, seed = json.loads(values["config"]), int(values["seed"])
        code_version = values["code_version"]
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"{label}: incomplete metadata ({error!r}); {_MAKE_AGAIN}") from error
    if not isinstance(config, dict):
        raise InputError(f"{label}: the config in its metadata is no object; {_MAKE_AGAIN}")
    return Metadata(config, seed, code_version)


def _require_version(text: str, label: str) -> None:
    if text == str(SCHEMA_VERSION):
        return
    is_newer = text.isdecimal() and int(text) > SCHEMA_VERSION
    advice = "update this program" if is_newer else _MAKE_AGAIN
    raise InputError(
        f"{label}: schema version {text!r}, this program reads {SCHEMA_VERSION}; {advice}"
    )


def require_same_origin(found: Metadata, wanted: Metadata, label: str) -> None:
    """Raise InputError when a file was made with other settings, seed or code."""
    old, new = found.encode(""), wanted.encode("")
    if old == new:
        return
    name = next(key for key in ("config", "seed", "code_version") if old[key] != new[key])
    if name == "config":
        difference = _first_difference(json.loads(old[name]), json.loads(new[name]), "config")
    else:
        difference = f"{name} {old[name]!r}, now {new[name]!r}"
    raise InputError(
        f"{label} was made with {difference}; samples of different origin do not mix: "
        "write to another folder, or remove this one to start anew"
    )


def _first_difference(old: Any, new: Any, where: str) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in old or key not in new:
                return f"{'no ' if key not in old else ''}{where}.{key}"
            if old[key] != new[key]:
                return _first_difference(old[key], new[key], f"{where}.{key}")
    return f"{where}={old!r:.60}, now {new!r:.60}"
