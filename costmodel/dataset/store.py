"""Write a dataset: shards while it grows, two tables when it is complete.

1. `make_tables` makes the shards that `finished_shards` does not find, by any number of workers,
   and stores each by `put_shard` as it comes in.
2. `merge` turns all shards into the two tables and removes them; `is_merged` is then true.

A shard is one ZIP file with both tables of a few netlists, and is there completely or not at all.
Nothing depends on the time, the machine or the order of writing: same samples, same bytes.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
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
from placer.base import InputError, make_folder, new_file, require_folder, write_atomic
from placer.base.workers import Workers

SHARDS_FOLDER = "shards"
_SHARD_NAME = re.compile(r"shard-(\d{5,})\.zip")
_TEMPORARY = ".tmp-*"  # as `new_file` calls its files
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_DAMAGE = (EOFError, zipfile.BadZipFile, OSError, KeyError, ValueError, NotImplementedError)

OnProgress = Callable[[int, int], None]  # (finished shards, all shards)


def make_tables(
    folder: Path,
    metadata: Metadata,
    pair: TablePair,
    num_shards: int,
    make_shard: Callable[[int], bytes],
    workers: Workers,
    on_progress: OnProgress = lambda done, total: None,
) -> None:
    """Make the two tables in `folder`, or what is missing of them; shard i by `make_shard(i)`.

    Same content, same bytes, for any number of workers and after any number of interruptions.
    Raises InputError when the folder holds a dataset of other origin.
    """
    require_folder(folder)
    make_folder(folder)
    if not is_merged(folder, metadata, pair):
        remove_leftovers(folder)
        finished = finished_shards(folder, metadata, pair)
        on_progress(len(finished), num_shards)
        missing = [number for number in range(num_shards) if number not in finished]
        results = workers.run(make_shard, missing)
        for done, (task, shard) in enumerate(results, len(finished) + 1):
            put_shard(folder, missing[task], shard)
            on_progress(done, num_shards)
    merge(folder, num_shards, metadata, pair)


def shard_bytes(samples: Sequence[NetlistSamples], metadata: Metadata) -> bytes:
    """Return a shard as `put_shard` takes it: workers need not share a disk.

    Raises InputError for samples that are not consistent.
    """
    rows = ((netlist_row(item), decision_rows(item)) for item in samples)
    return pack_shard(rows, metadata, FABRIC_TABLES)


def pack_shard(rows: Iterable[tuple[pa.Table, pa.Table]], metadata: Metadata, pair: TablePair) -> bytes:
    """Return a shard of rows for both tables, netlist by netlist."""
    sinks = [io.BytesIO() for _ in pair]
    with ExitStack() as stack:
        opened = (open_writer(*each, metadata) for each in zip(sinks, pair, strict=True))
        writers = [stack.enter_context(writer) for writer in opened]
        for of_netlist in rows:
            for writer, table in zip(writers, of_netlist, strict=True):
                writer.write_table(table)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for schema, sink in zip(pair, sinks, strict=True):
            entry = zipfile.ZipInfo(schema.file, _ZIP_EPOCH)
            entry.create_system = 3  # else it depends on the machine
            file.writestr(entry, sink.getvalue())
    return archive.getvalue()


def put_shard(folder: Path, number: int, content: bytes) -> None:
    """Store what `shard_bytes` gave. Raises OSError; other shards stay as they were."""
    make_folder(folder / SHARDS_FOLDER)
    write_atomic(_shard_path(folder, number), content)


def finished_shards(folder: Path, metadata: Metadata, pair: TablePair = FABRIC_TABLES) -> set[int]:
    """Return the numbers of the shards that are complete; a damaged one is as good as none.

    Raises InputError when one was made with other settings, seed, code or schema.
    """
    finished = set()
    for number in _shard_numbers(folder):
        try:
            _read_shard(folder, number, metadata, pair)
            finished.add(number)
        except DamagedFileError:
            continue
    return finished


def is_merged(folder: Path, metadata: Metadata, pair: TablePair = FABRIC_TABLES) -> bool:
    """Tell whether the two tables are there, complete.

    Raises InputError when they were made with other settings, seed, code or schema.
    """
    try:
        dataset = Tables.read(folder, pair)
    except DamagedFileError:
        return False
    require_same_origin(dataset.metadata, metadata, f"dataset {folder}")
    return True


def merge(folder: Path, num_shards: int, metadata: Metadata, pair: TablePair = FABRIC_TABLES) -> None:
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
    remove_leftovers(folder)
    shards = folder / SHARDS_FOLDER
    for number in _shard_numbers(folder):
        _shard_path(folder, number).unlink(missing_ok=True)
    if shards.is_dir() and not any(shards.iterdir()):
        shards.rmdir()


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of a run that was killed. Not while another one writes there."""
    for place in (folder, folder / SHARDS_FOLDER):
        for path in place.glob(_TEMPORARY):
            path.unlink(missing_ok=True)


def _read_shard(folder: Path, number: int, metadata: Metadata, pair: TablePair) -> tuple[TableFile, TableFile]:
    """Open both tables of a shard; the archive's checksums tell damage.

    Raises DamagedFileError, or InputError when it is of other origin.
    """
    path = _shard_path(folder, number)
    try:
        with zipfile.ZipFile(path) as archive:
            contents = [archive.read(table.file) for table in pair]
    except PermissionError as error:
        raise InputError(f"shard {path} cannot be read: {error.strerror}") from error
    except _DAMAGE as error:
        raise DamagedFileError(f"shard {path} is damaged: {error}") from error
    netlists, decisions = (
        TableFile.open(pa.py_buffer(content), table, f"{table.file} in {path}")
        for table, content in zip(pair, contents, strict=True)
    )
    for opened in (netlists, decisions):
        require_same_origin(opened.metadata, metadata, f"shard {path}")
    return netlists, decisions


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
        writers = []
        for table in pair:
            sink = stack.enter_context(new_file(folder / table.file))
            writers.append(stack.enter_context(open_writer(sink, table, metadata)))
        num_netlists = 0
        for number in range(num_shards):
            shard = _read_shard(folder, number, metadata, pair)
            for group in range(shard[0].num_row_groups):
                row = shard[0].read_group(group)
                if (netlist_id := row["netlist_id"][0].as_py()) != num_netlists:
                    raise InputError(
                        f"shard {number}: netlist {netlist_id} stands where {num_netlists} is due; "
                        "netlists must be numbered from 0 on, over all shards, without a gap"
                    )
                writers[0].write_table(row)
                writers[1].write_table(shard[1].read_group(group))
                num_netlists += 1


def _sync_folder(folder: Path) -> None:
    """Put the names of new files on the disk too, before what they replace is removed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _shard_numbers(folder: Path) -> list[int]:
    names = [path.name for path in (folder / SHARDS_FOLDER).glob("shard-*.zip")]
    return sorted(int(match[1]) for name in names if (match := _SHARD_NAME.fullmatch(name)))


def _shard_path(folder: Path, number: int) -> Path:
    return folder / SHARDS_FOLDER / f"shard-{number:05d}.zip"
