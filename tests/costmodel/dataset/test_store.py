"""Shards and their merge: same bytes in any order, whole files or none, no mixing of origins."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.dataset import Dataset, Metadata, NetlistSamples, is_merged, merge, schema, store
from costmodel.dataset.schema import FABRIC_TABLES, TableFile
from costmodel.dataset.store import finished_shards, put_shard, remove_leftovers, shard_bytes
from placer.base import InputError
from tests.costmodel.dataset.samples import METADATA, assert_equal, random_samples, write_dataset

NETLISTS_FILE, DECISIONS_FILE = (table.file for table in FABRIC_TABLES)


def three_shards() -> list[list[NetlistSamples]]:
    return [
        [random_samples(0, 2, seed=0), random_samples(1, 3, seed=1)],
        [random_samples(2, 0, seed=2)],
        [random_samples(3, 1, seed=3), random_samples(4, 2, seed=0)],
    ]


def write_shards(folder: Path, order: tuple[int, ...] = (0, 1, 2)) -> None:
    for number in order:
        put_shard(folder, number, shard_bytes(three_shards()[number], METADATA))


def table_bytes(folder: Path) -> tuple[bytes, bytes]:
    return (folder / NETLISTS_FILE).read_bytes(), (folder / DECISIONS_FILE).read_bytes()


def shard_path(folder: Path, number: int) -> Path:
    return folder / "shards" / f"shard-{number:05d}.zip"


def file_names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


@pytest.mark.slow
@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 4)), max_size=5), st.integers(1, 3))
def test_what_is_written_comes_back(cases: list[tuple[int, int]], shard_size: int) -> None:
    samples = [random_samples(i, num, seed=seed) for i, (seed, num) in enumerate(cases)]
    with tempfile.TemporaryDirectory() as folder:
        dataset = write_dataset(Path(folder), samples, shard_size=shard_size)
        assert dataset.num_netlists == len(samples)
        assert len(dataset) == sum(len(item.decisions) for item in samples)
        for written, read in zip(samples, dataset.each_netlist(), strict=True):
            assert_equal(written, read)
            assert read.netlist.fingerprint == written.netlist.fingerprint
            np.testing.assert_array_equal(read.throughput, written.throughput)


@pytest.mark.slow
@settings(max_examples=6)
@given(st.permutations(range(3)))
def test_order_of_writing_does_not_change_a_byte(order: list[int]) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        write_shards(Path(one))
        write_shards(Path(other), tuple(order))
        for folder in (one, other):
            merge(Path(folder), 3, METADATA)
        assert table_bytes(Path(one)) == table_bytes(Path(other))


def test_shard_size_does_not_change_a_byte(tmp_path: Path) -> None:
    samples = [random_samples(i, 2, seed=i) for i in range(4)]
    for size in (1, 4):
        write_dataset(tmp_path / str(size), samples, shard_size=size)
    assert table_bytes(tmp_path / "1") == table_bytes(tmp_path / "4")


def test_bytes_of_a_remote_worker_are_those_of_a_local_one(tmp_path: Path) -> None:
    [samples, *_] = three_shards()
    put_shard(tmp_path / "local", 0, shard_bytes(samples, METADATA))
    put_shard(tmp_path / "remote", 0, shard_bytes(samples, METADATA))
    local, remote = shard_path(tmp_path / "local", 0), shard_path(tmp_path / "remote", 0)
    assert local.read_bytes() == remote.read_bytes()


def test_routes_may_have_gaps_between_them(tmp_path: Path) -> None:
    samples = random_samples(0, 3, seed=4)
    decisions = samples.decisions
    shifted = replace(
        decisions,
        route_start=decisions.route_start + 5,
        links=np.concatenate((np.full(5, 9, np.int32), decisions.links)),
        parents=np.concatenate((np.full(5, 9, np.int32), decisions.parents)),
    )
    dataset = write_dataset(tmp_path, [replace(samples, decisions=shifted)])
    assert_equal(dataset.samples(0).decisions, decisions)


def test_merge_leaves_the_two_tables_only(tmp_path: Path) -> None:
    write_shards(tmp_path)
    assert finished_shards(tmp_path, METADATA) == {0, 1, 2}
    assert not is_merged(tmp_path, METADATA)
    merge(tmp_path, 3, METADATA)
    assert file_names(tmp_path) == {NETLISTS_FILE, DECISIONS_FILE}
    assert is_merged(tmp_path, METADATA)
    merge(tmp_path, 3, METADATA)  # nothing left to do
    assert finished_shards(tmp_path, METADATA) == set()


def test_an_empty_folder_has_no_shards(tmp_path: Path) -> None:
    assert finished_shards(tmp_path / "none", METADATA) == set()
    assert not is_merged(tmp_path / "none", METADATA)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_shard_counts_as_missing(tmp_path: Path, share: float) -> None:
    write_shards(tmp_path)
    content = shard_path(tmp_path, 1).read_bytes()
    shard_path(tmp_path, 1).write_bytes(content[: int(share * len(content))])
    assert finished_shards(tmp_path, METADATA) == {0, 2}
    with pytest.raises(InputError, match="1 of 3 shards missing or damaged, the first is 1"):
        merge(tmp_path, 3, METADATA)
    put_shard(tmp_path, 1, shard_bytes(three_shards()[1], METADATA))
    merge(tmp_path, 3, METADATA)


@settings(max_examples=30)
@given(st.data())
def test_a_shard_with_a_wrong_byte_is_missing_or_the_same(data: st.DataObject) -> None:
    content = bytearray(shard_bytes(three_shards()[0], METADATA))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        put_shard(folder, 0, bytes(content))
        if finished_shards(folder, METADATA):  # a byte of the archive that has no meaning
            merge(folder, 1, METADATA)
            for written, read in zip(three_shards()[0], Dataset.open(folder).each_netlist(), strict=True):
                assert_equal(written, read)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (replace(METADATA, seed=8), "seed '7', now '8'"),
        (replace(METADATA, code_version="2"), "code_version '1', now '2'"),
        (
            replace(METADATA, config={"fabric": {"name": "large"}, "netlists": 3}),
            "config.fabric.name='small', now 'large'",
        ),
        (replace(METADATA, config={"fabric": {"name": "small"}}), "config.netlists"),
    ],
)
def test_shards_and_tables_of_other_origin_are_refused(tmp_path: Path, other: Metadata, message: str) -> None:
    write_shards(tmp_path)
    with pytest.raises(InputError, match=message):
        finished_shards(tmp_path, other)
    with pytest.raises(InputError, match=message):
        merge(tmp_path, 3, other)
    merge(tmp_path, 3, METADATA)
    with pytest.raises(InputError, match=message):
        is_merged(tmp_path, other)
    with pytest.raises(InputError, match="to another folder"):
        merge(tmp_path, 3, other)


def test_shards_of_another_schema_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shards(tmp_path)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 3)
    with pytest.raises(InputError, match="schema version '2', this program reads 3"):
        finished_shards(tmp_path, METADATA)


def test_settings_that_json_spells_alike_are_the_same(tmp_path: Path) -> None:
    metadata = replace(METADATA, config={"sizes": (1, 2), "a": 1})
    put_shard(tmp_path, 0, shard_bytes([], metadata))
    assert finished_shards(tmp_path, replace(METADATA, config={"a": 1, "sizes": [1, 2]})) == {0}


def test_extra_shards_and_gaps_in_the_numbers_are_refused(tmp_path: Path) -> None:
    write_shards(tmp_path)
    with pytest.raises(InputError, match="extra, the first is 2"):
        merge(tmp_path, 2, METADATA)
    put_shard(tmp_path, 1, shard_bytes([random_samples(5)], METADATA))
    with pytest.raises(InputError, match="shard 1: netlist 5 stands where 2 is due"):
        merge(tmp_path, 3, METADATA)
    assert finished_shards(tmp_path, METADATA) == {0, 1, 2}
    assert file_names(tmp_path) == {"shards"} | {shard_path(tmp_path, i).name for i in range(3)}


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    write_shards(tmp_path)
    for path in (tmp_path / ".tmp-1", tmp_path / "shards" / ".tmp-2"):
        path.write_bytes(b"half")
    remove_leftovers(tmp_path)
    assert not any(name.startswith(".tmp") for name in file_names(tmp_path))
    assert finished_shards(tmp_path, METADATA) == {0, 1, 2}


def full_disk(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_keeps_the_older_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shards(tmp_path)
    before = shard_path(tmp_path, 1).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match=r"shard-00001.zip: No space left"):
            put_shard(tmp_path, 1, shard_bytes(three_shards()[0], METADATA))
        with pytest.raises(OSError, match="all shards are kept") as caught:
            merge(tmp_path, 3, METADATA)
    assert caught.value.errno == errno.ENOSPC
    assert shard_path(tmp_path, 1).read_bytes() == before
    assert file_names(tmp_path) == {"shards"} | {shard_path(tmp_path, i).name for i in range(3)}
    merge(tmp_path, 3, METADATA)


class FullDisk(io.BytesIO):
    """Takes the first bytes only."""

    def write(self, content: Any, /) -> int:
        if self.tell() > 100:
            full_disk()
        return super().write(content)


def test_a_disk_that_fills_up_while_a_table_is_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shards(tmp_path)
    original = schema.open_writer
    with monkeypatch.context() as patch:
        patch.setattr(store, "open_writer", lambda _, *rest: original(FullDisk(), *rest))
        with pytest.raises(OSError, match="No space left on device; all shards are kept"):
            merge(tmp_path, 3, METADATA)
    assert finished_shards(tmp_path, METADATA) == {0, 1, 2}


@pytest.mark.parametrize("fails_at", [0, 1])
def test_a_crash_while_the_tables_take_their_names_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    write_shards(tmp_path)
    replaced: list[Path] = []

    def crash(source: Path, target: Path) -> None:
        if len(replaced) == fails_at:
            raise KeyboardInterrupt
        replaced.append(target)
        original(source, target)

    original = os.replace
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            merge(tmp_path, 3, METADATA)
    assert not is_merged(tmp_path, METADATA)
    assert finished_shards(tmp_path, METADATA) == {0, 1, 2}
    merge(tmp_path, 3, METADATA)
    assert is_merged(tmp_path, METADATA)


def test_shards_left_after_the_tables_are_complete_are_removed(tmp_path: Path) -> None:
    write_dataset(tmp_path, [item for shard in three_shards() for item in shard])
    before = table_bytes(tmp_path)
    write_shards(tmp_path, (2,))  # as when the run was killed while it removed shards
    merge(tmp_path, 3, METADATA)
    assert table_bytes(tmp_path) == before
    assert file_names(tmp_path) == {NETLISTS_FILE, DECISIONS_FILE}


@pytest.mark.slow
def test_merge_holds_one_netlist_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def largest_while_merging(num_netlists: int) -> int:
        folder = tmp_path / str(num_netlists)
        for number in range(num_netlists):
            put_shard(folder, number, shard_bytes([random_samples(number, 40, seed=4)], METADATA))
        held.clear()
        merge(folder, num_netlists, METADATA)
        assert len(held) == 2 * num_netlists
        return max(held)

    def read_group(table: TableFile, row_group: int) -> pa.Table:
        content = original(table, row_group)
        held.append(pa.total_allocated_bytes())
        return content

    held: list[int] = []
    original = TableFile.read_group
    monkeypatch.setattr(TableFile, "read_group", read_group)
    assert largest_while_merging(24) < 1.5 * largest_while_merging(3)


def test_inconsistent_samples_are_not_written(tmp_path: Path) -> None:
    good = random_samples(0, 3, seed=4)
    labels, decisions = good.labels, good.decisions
    broken = {
        "heuristic has shape": replace(good, heuristic=good.heuristic[:2]),
        "must be finite": replace(good, heuristic=np.full(3, np.nan)),
        "unit_busy has shape": replace(good, labels=replace(labels, unit_busy=labels.unit_busy[:, 1:])),
        "not below the bound": replace(good, labels=replace(labels, cycles_per_sample=labels.cycles_per_sample / 100)),
        "2 phases": replace(good, phase=good.phase[:2]),
        "0 or more": replace(good, decisions=replace(decisions, sites=-1 - decisions.sites)),
        "before their children": replace(good, decisions=replace(decisions, parents=decisions.parents + 1)),
        "cannot be stored as JSON": replace(good, origin=replace(good.origin, spec={"size": np.int64(3)})),
        "cannot be stored": replace(good, origin=replace(good.origin, seed=(-1,))),
    }
    for message, samples in broken.items():
        with pytest.raises(InputError, match=message):
            put_shard(tmp_path, 0, shard_bytes([samples], METADATA))
    assert not (tmp_path / "shards").exists()
