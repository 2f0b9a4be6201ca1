"""What the files of a dataset hold: the columns of its two tables, and the metadata of both.

Row group i of either table belongs to netlist i: one row in `netlists.parquet`, one row per
decision in `decisions.parquet`. So the samples of a netlist are read without those of others.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from placer.base import InputError, parse_object

KIND = "dataflow-costmodel dataset"
SCHEMA_VERSION = 2


class TableSchema(NamedTuple):
    """One of the two tables of a dataset."""

    file: str
    columns: pa.Schema
    dictionary: tuple[str, ...] = ()  # columns whose values repeat
    split_bytes: tuple[str, ...] = ()  # columns of lists that shrink when bytes are put in order


class TablePair(NamedTuple):
    """What is placed, and how it is placed.

    Both tables of any pair have the columns that splits and learners read: netlist_id, family,
    fingerprint, num_decisions; netlist_id, phase, throughput, heuristic.
    """

    netlists: TableSchema
    decisions: TableSchema


def columns(**types: pa.DataType) -> pa.Schema:
    """Return the columns of a table, in this order; none has missing values."""
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


def list_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column whose values are lists."""
    return pa.list_(pa.field("element", kind, nullable=False))


NETLISTS = columns(
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
    seed=list_of(pa.uint64()),
    segment=pa.int32(),  # equal for plans of one part of a network; -1: alone
    samples=pa.int64(),  # per input of the network
    potential=pa.float64(),  # throughput of the best of a pool of short anneals; 0: no pool
    hardware=pa.string(),  # JSON of the fabric
    spec=pa.string(),  # JSON
    netlist=pa.string(),  # JSON of Netlist.to_dict
    failures=list_of(pa.string()),
)

DECISIONS = columns(
    netlist_id=pa.int32(),
    decision=pa.int32(),  # position in the netlist
    phase=pa.string(),
    search=pa.string(),  # JSON
    sites=list_of(pa.int32()),
    channels=list_of(pa.int32()),
    route_start=list_of(pa.int64()),  # into links and parents of this decision
    links=list_of(pa.int32()),
    parents=list_of(pa.int32()),
    cycles_per_sample=pa.float64(),
    first_sample_cycles=pa.int64(),
    cycles_simulated=pa.int64(),
    vector_hops=pa.int64(),
    throughput=pa.float64(),
    heuristic=pa.float64(),
    busiest_link=pa.float32(),
    unit_busy=list_of(pa.float32()),
    unit_starved=list_of(pa.float32()),
    unit_blocked=list_of(pa.float32()),
    unit_port_wait=list_of(pa.float32()),
    fidelity=pa.float32(),  # 1: a full label; of a short one its samples over those of a full one
)

# Measured on attention blocks: 2.0 kB per decision on an 8x8 fabric.
FABRIC_TABLES = TablePair(
    TableSchema("netlists.parquet", NETLISTS),
    TableSchema(
        "decisions.parquet",
        DECISIONS,
        dictionary=("phase", "search", "channels.list.element", "parents.list.element"),
        split_bytes=("sites", "route_start", "links"),
    ),
)
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
        """Return the key-value metadata of the file `table`."""
        return {
            "kind": KIND,
            "schema_version": str(SCHEMA_VERSION),
            "table": table,
            "config": to_json(self.config),
            "seed": str(self.seed),
            "code_version": self.code_version,
        }


def require_families(families: tuple[str, ...], known: Collection[str], seed: int) -> None:
    """Raise InputError when a dataset cannot be made of these families with this seed."""
    for family in families:
        if family not in known:
            raise InputError(f"unknown family {family!r}; allowed: {', '.join(known)}")
    if not families or len(set(families)) != len(families):
        raise InputError(f"families={list(families)}; allowed: one or more, each once")
    if seed < 0:
        raise InputError(f"seed={seed}; allowed 0 or more")


def plain(value: Any) -> Any:
    """Return enumerations and tuples as JSON holds them."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return getattr(value, "value", value)


def to_json(value: Any) -> str:
    """Return JSON with one spelling per value, so that equal values are equal bytes."""
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"cannot be stored as JSON: {error}") from error


def parse_cell(text: str, column: str) -> dict[str, Any]:
    """Return the JSON object in a cell. Raises InputError that names the column."""
    try:
        return parse_object(text)
    except InputError as error:
        raise InputError(f"{column} {error}") from error


def open_writer(sink: BinaryIO, table: TableSchema, metadata: Metadata) -> pq.ParquetWriter:
    """Return a writer for a table. Same rows, same bytes."""
    split = {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in table.split_bytes}
    return pq.ParquetWriter(
        sink,
        table.columns.with_metadata(metadata.encode(table.file)),
        compression="zstd",
        compression_level=_ZSTD_LEVEL,
        use_dictionary=list(table.dictionary) or False,
        column_encoding=split or None,
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
    def open(source: Path | pa.Buffer, table: TableSchema, label: str) -> TableFile:
        """Open a table and read its footer only.

        Raises DamagedFileError, or InputError for a file that is no such table.
        """
        with _reading(label), pq.ParquetFile(source) as file:
            footer, schema = file.metadata, file.schema_arrow
        metadata = _decode(schema.metadata or {}, table.file, label)
        if not schema.equals(table.columns, check_metadata=False):
            raise InputError(f"{label}: its columns are not those of {table.file}; {_MAKE_AGAIN}")
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
        """Return all columns of one row group."""
        with _reading(self.label), self._file() as file:
            return file.read_row_group(row_group, use_threads=False)

    def read_columns(self, names: list[str]) -> pa.Table:
        """Return some columns of all rows: for small columns only."""
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
        raise InputError(f"{label}: kind {values.get('kind')!r}, needed {KIND!r}; it is not from make dataset")
    version = values.get("schema_version", "")
    if version != str(SCHEMA_VERSION):
        is_newer = version.isdecimal() and int(version) > SCHEMA_VERSION
        advice = "update this program" if is_newer else _MAKE_AGAIN
        raise InputError(f"{label}: schema version {version!r}, this program reads {SCHEMA_VERSION}; {advice}")
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


def require_same_origin(found: Metadata, wanted: Metadata, label: str) -> None:
    """Raise InputError when a file was made with other settings, seed or code."""
    old, new = (json.loads(to_json(asdict(metadata))) for metadata in (found, wanted))
    if old != new:
        name = next(name for name in old if old[name] != new[name])
        difference = f"{name} {str(old[name])!r}, now {str(new[name])!r}"
        if name == "config":
            difference = _first_difference(old[name], new[name], name)
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
