"""Write a dataset: shards while it grows, two tables when it is complete.

1. `remove_leftovers` cleans what a killed run left, before any worker starts.
2. `finished_shards` says what need not be made again.
3. Workers send `shard_bytes` to the process that calls `put_shard`.
4. `merge` turns all shards into the two tables and removes them; `is_merged` is then true.

A shard is one ZIP file with both tables of a few netlists, and is there completely or not at all.
Nothing depends on the time, the machine or the order of writing: same samples, same bytes.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from costmodel.dataset.loader import Tables
from costmodel.dataset.records import NetlistSamples
from costmodel.dataset.schema import (
    FABRIC_TABLES,
    DamagedFileError,
    Metadata,
    TableFile,
    TablePair,
    open_writer,
    require_same_origin,
)
from costmodel.dataset.tables import decision_rows, netlist_row
from placer.errors import InputError
from placer.files import make_folder, new_file, write_atomic

SHARDS_FOLDER = "shards"
_SHARD_NAME = re.compile(r"shard-(\d{5,})\.zip")
_TEMPORARY = ".tmp-*"  # as `new_file` calls its files
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def shard_bytes(samples: Sequence[NetlistSamples], metadata: Metadata) -> bytes:
    """A shard as `put_shard` takes it: workers need not share a disk.

    Raises InputError for samples that are not consistent.
    """
    rows = ((netlist_row(item), decision_rows(item)) for item in samples)
    return pack_shard(rows, metadata, FABRIC_TABLES)


def pack_shard(
    rows: Iterable[tuple[pa.Table, pa.Table]], metadata: Metadata, pair: TablePair
) -> bytes:
    """A shard of rows for both tables, netlist by netlist."""
    netlists, decisions = io.BytesIO(), io.BytesIO()
    with (
        open_writer(netlists, pair.netlists, metadata) as netlist_writer,
        open_writer(decisions, pair.decisions, metadata) as decision_writer,
    ):
        for netlist, of_netlist in rows:
            netlist_writer.write_table(netlist)
            decision_writer.write_table(of_netlist)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for name, table in zip(pair, (netlists, decisions), strict=True):
            entry = zipfile.ZipInfo(name, _ZIP_EPOCH)
            entry.create_system = 3  # else it depends on the machine
            file.writestr(entry, table.getvalue())
    return archive.getvalue()


def put_shard(folder: Path, number: int, content: bytes) -> None:
    """Store what `shard_bytes` gave. Raises OSError; other shards stay as they were."""
    make_folder(folder / SHARDS_FOLDER)
    write_atomic(_shard_path(folder, number), content)


def finished_shards(folder: Path, metadata: Metadata, pair: TablePair = FABRIC_TABLES) -> set[int]:
    """Numbers of the shards that are complete; a damaged one is as good as none.

    Raises InputError when one was made with other settings, seed, code or schema.
    """
    numbers = _shard_numbers(folder)
    return {number for number in numbers if _is_complete(folder, number, metadata, pair)}


def is_merged(folder: Path, metadata: Metadata, pair: TablePair = FABRIC_TABLES) -> bool:
    """Whether the two tables are there, complete.

    Raises InputError when they were made with other settings, seed, code or schema.
    """
    try:
        dataset = Tables.read(folder, pair)
    except DamagedFileError:
        return False
    require_same_origin(dataset.metadata, metadata, f"dataset {folder}")
    return True


def merge(
    folder: Path, num_shards: int, metadata: Metadata, pair: TablePair = FABRIC_TABLES
) -> None:
    """Make the two tables from shards 0 to num_shards - 1, then remove the shards.

    The shards go only after both tables are safely on the disk. After a crash it can be called
    again. Raises InputError when shards are missing or of other origin, OSError when the tables
    cannot be written.
    """
    if not is_merged(folder, metadata, pair):
        _require_shards(folder, num_shards, metadata, pair)
        try:
            _write_tables(folder, num_shards, metadata, pair)
            _sync_folder(folder)
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot write the tables of dataset {folder}: {error.strerror or error}; "
                "all shards are kept, make room and run make dataset again",
            ) from error
    _remove_shards(folder)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of a run that was killed. Not while another one writes there."""
    for place in (folder, folder / SHARDS_FOLDER):
        for path in place.glob(_TEMPORARY):
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Shard:
    """The two tables of a shard; row groups as in the merged tables."""

    netlists: TableFile
    decisions: TableFile


def _read_shard(folder: Path, number: int, metadata: Metadata, pair: TablePair) -> _Shard:
    """Raises DamagedFileError, or InputError when it is of other origin."""
    path = _shard_path(folder, number)
    tables = []
    for name, content in zip(pair, _unpack(path, pair), strict=True):
        table = TableFile.open(pa.py_buffer(content), name, f"{name} in {path}")
        require_same_origin(table.metadata, metadata, f"shard {path}")
        tables.append(table)
    return _Shard(*tables)


def _unpack(path: Path, pair: TablePair) -> list[bytes]:
    """The files in a shard; the archive's checksums tell damage."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [archive.read(name) for name in pair]
    except PermissionError as error:
        raise InputError(f"shard {path} cannot be read: {error.strerror}") from error
    except (
        EOFError,
        zipfile.BadZipFile,
        OSError,
        KeyError,
        ValueError,
        NotImplementedError,
    ) as error:
        raise DamagedFileError(f"shard {path} is damaged: {error}") from error


def _is_complete(folder: Path, number: int, metadata: Metadata, pair: TablePair) -> bool:
    try:
        _read_shard(folder, number, metadata, pair)
    except DamagedFileError:
        return False
    return True


def _require_shards(folder: Path, num_shards: int, metadata: Metadata, pair: TablePair) -> None:
    finished, needed = finished_shards(folder, metadata, pair), set(range(num_shards))
    for what, numbers in (("missing or damaged", needed - finished), ("extra", finished - needed)):
        if numbers:
            raise InputError(
                f"dataset {folder}: {len(numbers)} of {num_shards} shards {what}, the first is "
                f"{min(numbers)}; run make dataset with the same settings to go on"
            )


def _write_tables(folder: Path, num_shards: int, metadata: Metadata, pair: TablePair) -> None:
    with ExitStack() as stack:
        # The last to be opened is the first to be finished: the table of netlists comes last and
        # so tells that that of decisions is complete.
        netlists = stack.enter_context(new_file(folder / pair.netlists))
        netlist_writer = stack.enter_context(open_writer(netlists, pair.netlists, metadata))
        decisions = stack.enter_context(new_file(folder / pair.decisions))
        decision_writer = stack.enter_context(open_writer(decisions, pair.decisions, metadata))
        num_netlists = 0
        for number in range(num_shards):
            shard = _read_shard(folder, number, metadata, pair)
            for group in range(shard.netlists.num_row_groups):
                row = shard.netlists.read_group(group)
                _require_position(row["netlist_id"][0].as_py(), num_netlists, number)
                netlist_writer.write_table(row)
                decision_writer.write_table(shard.decisions.read_group(group))
                num_netlists += 1


def _require_position(netlist_id: int, position: int, shard: int) -> None:
    if netlist_id != position:
        raise InputError(
            f"shard {shard}: netlist {netlist_id} stands where {position} is due; netlists must be "
            "numbered from 0 on, over all shards, without a gap"
        )


def _sync_folder(folder: Path) -> None:
    """Put the names of new files on the disk too, before what they replace is removed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_shards(folder: Path) -> None:
    remove_leftovers(folder)
    shards = folder / SHARDS_FOLDER
    for number in _shard_numbers(folder):
        _shard_path(folder, number).unlink(missing_ok=True)
    if shards.is_dir() and not any(shards.iterdir()):
        shards.rmdir()


def _shard_numbers(folder: Path) -> list[int]:
    names = [path.name for path in (folder / SHARDS_FOLDER).glob("shard-*.zip")]
    return sorted(int(match[1]) for name in names if (match := _SHARD_NAME.fullmatch(name)))


def _shard_path(folder: Path, number: int) -> Path:
    return folder / SHARDS_FOLDER / f"shard-{number:05d}.zip"
