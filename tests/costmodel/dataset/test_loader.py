"""The loader: lazy, and sure of what it hands on."""

from __future__ import annotations

import hashlib
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costmodel.dataset import Dataset, NetlistSamples, schema
from costmodel.dataset.schema import FABRIC_TABLES, TableFile, open_writer
from placer.base import InputError
from tests.costmodel.dataset.samples import METADATA, assert_equal, random_samples, small_fabric, write_dataset

pytestmark = pytest.mark.slow

NETLISTS_FILE, DECISIONS_FILE = (table.file for table in FABRIC_TABLES)


def five_netlists() -> list[NetlistSamples]:
    return [random_samples(i, 1 + i % 3, seed=i, family="ab"[i % 2]) for i in range(5)]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return write_dataset(tmp_path / "dataset", five_netlists())


def test_what_is_known_without_reading_samples(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(TableFile, "read_group")
    opened, samples = Dataset.open(dataset.folder), five_netlists()
    assert (opened.num_netlists, len(opened)) == (5, 9)
    assert opened.families == ("a", "b", "a", "b", "a")
    assert opened.fingerprints == tuple(item.netlist.fingerprint for item in samples)
    assert opened.first_decision.tolist() == [0, 1, 3, 6, 7, 9]
    assert opened.metadata == METADATA
    index = opened.index
    assert index.netlist_id.tolist() == [0, 1, 1, 2, 2, 2, 3, 4, 4]
    assert index.phase.tolist() == [phase.value for item in samples for phase in item.phase]
    np.testing.assert_array_equal(index.throughput, np.concatenate([item.throughput for item in samples]))
    np.testing.assert_array_equal(index.heuristic, np.concatenate([item.heuristic for item in samples]))


def test_samples_of_a_netlist_read_its_row_groups_only(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []

    def read_group(table: TableFile, row_group: int) -> pa.Table:
        groups.append(row_group)
        return original(table, row_group)

    original = TableFile.read_group
    monkeypatch.setattr(TableFile, "read_group", read_group)
    monkeypatch.delattr(TableFile, "read_columns")
    assert_equal(dataset.samples(3), five_netlists()[3])
    assert groups == [3, 3]
    with pytest.raises(IndexError, match="netlist 5 of 5"):
        dataset.samples(5)


def test_iteration_holds_one_netlist_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def largest_while_reading(num_netlists: int) -> int:
        samples = [random_samples(i, 40, seed=4) for i in range(num_netlists)]
        dataset = write_dataset(tmp_path / str(num_netlists), samples)
        held.clear()
        assert sum(len(item.decisions) for item in dataset.each_netlist()) == 40 * num_netlists
        return max(held)

    def read_group(table: TableFile, row_group: int) -> pa.Table:
        content = original(table, row_group)
        held.append(pa.total_allocated_bytes())
        return content

    held: list[int] = []
    original = TableFile.read_group
    monkeypatch.setattr(TableFile, "read_group", read_group)
    assert largest_while_reading(16) < 1.5 * largest_while_reading(2)


def test_arrays_belong_to_the_reader(dataset: Dataset) -> None:
    samples = dataset.samples(2)
    for array in (samples.decisions.sites, samples.decisions.links, samples.labels.unit_busy):
        assert array.flags.writeable and array.flags.c_contiguous


def test_a_dataset_can_be_sent_to_another_process(dataset: Dataset) -> None:
    copy = pickle.loads(pickle.dumps(dataset))
    assert_equal(copy.samples(1), dataset.samples(1))


def test_content_hash_is_that_of_the_files(dataset: Dataset) -> None:
    content = b"".join((dataset.folder / name).read_bytes() for name in (NETLISTS_FILE, DECISIONS_FILE))
    assert dataset.content_hash == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", [NETLISTS_FILE, DECISIONS_FILE])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_truncated_file_is_refused(dataset: Dataset, name: str, share: float) -> None:
    path = dataset.folder / name
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(InputError, match=f"{name}: is no complete Parquet file"):
        Dataset.open(dataset.folder)


@pytest.mark.parametrize("name", [NETLISTS_FILE, DECISIONS_FILE])
def test_a_missing_file_is_told(dataset: Dataset, name: str) -> None:
    (dataset.folder / name).unlink()
    with pytest.raises(InputError, match=f"{name}: there is no such file; run make dataset"):
        Dataset.open(dataset.folder)


def test_a_wrong_byte_in_the_data_is_found(dataset: Dataset) -> None:
    path = dataset.folder / DECISIONS_FILE
    column = dataset.decisions_file.footer.row_group(2).column(7)  # links
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 3] ^= 1
    path.write_bytes(content)
    assert_equal(dataset.samples(1), five_netlists()[1])
    with pytest.raises(InputError, match="no complete Parquet file"):
        dataset.samples(2)


@pytest.mark.parametrize(("version", "advice"), [("1", "make dataset"), ("3", "update this pro")])
def test_older_and_newer_schemas_are_refused(dataset: Dataset, version: str, advice: str) -> None:
    rewrite(dataset, NETLISTS_FILE, metadata={"schema_version": version})
    with pytest.raises(InputError, match=f"version '{version}', this program reads 2; .*{advice}"):
        Dataset.open(dataset.folder)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"kind": "something else"}, "kind 'something else', needed 'dataflow-costmodel dataset'"),
        ({"table": DECISIONS_FILE}, "holds 'decisions.parquet', needed 'netlists.parquet'"),
        ({"config": "{"}, "incomplete metadata"),
        ({"config": "[]"}, "no object"),
        ({"seed": "9"}, "do not mix"),
    ],
)
def test_wrong_metadata_is_refused(dataset: Dataset, metadata: dict[str, str], message: str) -> None:
    rewrite(dataset, NETLISTS_FILE, metadata=metadata)
    with pytest.raises(InputError, match=message):
        Dataset.open(dataset.folder)


def test_foreign_files_are_refused(dataset: Dataset) -> None:
    path = dataset.folder / NETLISTS_FILE
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(InputError, match="kind None"):
        Dataset.open(dataset.folder)
    foreign = pa.table({"x": [1]}).replace_schema_metadata(METADATA.encode(NETLISTS_FILE))
    pq.write_table(foreign, path)
    with pytest.raises(InputError, match=r"columns are not those of netlists.parquet"):
        Dataset.open(dataset.folder)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(InputError, match="no complete Parquet file"):
        Dataset.open(dataset.folder)


def test_tables_of_two_datasets_are_refused(dataset: Dataset, tmp_path: Path) -> None:
    other = write_dataset(tmp_path / "other", five_netlists()[:4])
    (dataset.folder / DECISIONS_FILE).write_bytes((other.folder / DECISIONS_FILE).read_bytes())
    with pytest.raises(InputError, match=r"5 netlists with 9 decisions, .* holds 4 with 7"):
        Dataset.open(dataset.folder)


def rewrite(
    dataset: Dataset,
    name: str,
    change: Callable[[list[dict[str, Any]]], None] = lambda rows: None,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write a table anew: `change` gets the rows of netlist 2, with two units at least."""
    table = dataset.netlists_file if name == NETLISTS_FILE else dataset.decisions_file
    columns = schema.NETLISTS if name == NETLISTS_FILE else schema.DECISIONS
    groups = [table.read_group(i).to_pylist() for i in range(table.num_row_groups)]
    change(groups[2])
    encoded = {**METADATA.encode(name), **(metadata or {})}
    with pq.ParquetWriter(dataset.folder / name, columns.with_metadata(encoded)) as writer:
        for rows in groups:
            writer.write_table(pa.Table.from_pylist(rows, schema=columns))


def set_first(column: str, value: int) -> Callable[[list[dict[str, Any]]], None]:
    """Set the first entry of a list in decision 1."""
    return lambda rows: rows[1][column].__setitem__(0, value)


def assign(column: str, value: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda rows: rows[-1].__setitem__(column, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_first("sites", 80), "has no site 80"),
        (set_first("sites", -1), "sites must be 0 or more"),
        (set_first("links", 10**6), "links .* to 1000000"),
        (set_first("links", -1), "links must be 0 or more"),
        (set_first("channels", 4), "channels must lie in 0 to 1"),
        (set_first("channels", -1), "channels must be 0 or more"),
        (set_first("parents", 0), "parents must stand before"),
        (set_first("parents", -2), "parents must stand before"),
        (set_first("route_start", 1), "do not fit together"),
        (lambda rows: rows[1]["route_start"].__setitem__(1, 10**12), "route_start must rise"),
        (lambda rows: rows[1]["sites"].append(0), "sites has .* entries, needed"),
        (lambda rows: rows[1]["parents"].append(0), "do not fit together"),
        (lambda rows: rows[1]["unit_busy"].pop(), "unit_busy has .* entries, needed"),
        (assign("phase", "lukewarm"), "unknown phase 'lukewarm'"),
        (assign("search", "[]"), "search holds no object"),
        (assign("netlist_id", 1), "belong to another netlist"),
        (assign("decision", 0), "not in order"),
        (assign("throughput", 0.123), "throughput is not bound_cycles / cycles_per_sample"),
        (assign("cycles_per_sample", 0.0), "not below the bound"),
        (assign("cycles_per_sample", float("nan")), "must be finite"),
        (assign("heuristic", float("inf")), "must be finite"),
        (assign("fidelity", 0.0), r"fidelity must lie in \(0, 1\]"),
        (assign("busiest_link", -1.0), "busiest_link must be finite and 0 or more"),
    ],
)
def test_illegal_values_do_not_leave_the_loader(
    dataset: Dataset, change: Callable[[list[dict[str, Any]]], None], message: str
) -> None:
    rewrite(dataset, DECISIONS_FILE, change)
    opened = Dataset.open(dataset.folder)
    with pytest.raises(InputError, match=f"netlist 2: .*{message}"):
        opened.samples(2)
    assert_equal(opened.samples(1), five_netlists()[1])


def in_json(column: str, change: Callable[[Any], None]) -> Callable[[list[dict[str, Any]]], None]:
    """Change what a column of the first row says as JSON."""

    def rewritten(rows: list[dict[str, Any]]) -> None:
        document = json.loads(rows[0][column])
        change(document)
        rows[0][column] = json.dumps(document)

    return rewritten


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (assign("netlist", "{"), "netlist is no complete JSON"),
        (assign("netlist", "[]"), "netlist holds no object"),
        (assign("bound_cycles", 1), "column bound_cycles is 1, but the netlist has"),
        (assign("fingerprint", "0"), "column fingerprint"),
        (in_json("netlist", lambda netlist: netlist.pop("units")), "netlist: has"),
        (in_json("netlist", lambda netlist: netlist.update(schema=9)), "schema 9"),
        (in_json("netlist", lambda netlist: netlist.update(units=3)), "units is 3, needed list"),
        (in_json("netlist", lambda netlist: netlist["units"][0].update(kind=7)), "unknown kind 7"),
        (in_json("netlist", lambda netlist: netlist["units"][0].update(stage=-1)), "stage=-1"),
        (in_json("netlist", lambda netlist: netlist["units"][0].update(stage="1")), "needed int"),
        (in_json("netlist", lambda netlist: netlist["units"][0].update(more=1)), "unit 0: has"),
        (in_json("netlist", lambda netlist: netlist["flows"][0].update(targets=["a"])), "needed int"),
        (in_json("netlist", lambda netlist: netlist["flows"][0].update(targets=[99])), "must lie in 0"),
        (in_json("netlist", lambda netlist: netlist["flows"][0].update(tokens=True)), "needed int"),
    ],
)
def test_illegal_netlists_do_not_leave_the_loader(
    dataset: Dataset, change: Callable[[list[dict[str, Any]]], None], message: str
) -> None:
    rewrite(dataset, NETLISTS_FILE, change)
    opened = Dataset.open(dataset.folder)
    with pytest.raises(InputError, match=f"netlist 2: .*{message}"):
        opened.samples(2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (assign("netlist_id", 1), "netlist_id is not in the order"),
        (assign("phase", "lukewarm"), "unknown phase 'lukewarm'"),
        (assign("throughput", 1.5), r"throughput must lie in \(0, 1\]"),
        (assign("heuristic", float("nan")), "heuristic must be finite"),
    ],
)
def test_the_index_is_checked(dataset: Dataset, change: Callable[[list[dict[str, Any]]], None], message: str) -> None:
    rewrite(dataset, DECISIONS_FILE, change)
    with pytest.raises(InputError, match=message):
        _ = Dataset.open(dataset.folder).index


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (assign("hardware", "[]"), "hardware holds no object"),
        (
            in_json("hardware", lambda fabric: fabric.update(name="other")),
            "lowered for fabric 'small', stored with 'other'",
        ),
        (in_json("hardware", lambda fabric: fabric["link"].update(channels=3)), "link.channels=3; allowed 2 or 4"),
        (in_json("hardware", lambda fabric: fabric.update(columns=2, rows=2)), "site"),
        (assign("potential", 1.5), "potential=1.5"),
        (assign("samples", 0), "samples=0"),
    ],
)
def test_illegal_hardware_does_not_leave_the_loader(
    dataset: Dataset, change: Callable[[list[dict[str, Any]]], None], message: str
) -> None:
    rewrite(dataset, NETLISTS_FILE, change)
    with pytest.raises(InputError, match=f"netlist 2: .*{message}"):
        Dataset.open(dataset.folder).samples(2)


def test_a_dataset_knows_its_fabrics(dataset: Dataset) -> None:
    assert dataset.fabrics == (small_fabric(),)


def test_a_dataset_without_netlists_is_legal(tmp_path: Path) -> None:
    with open(tmp_path / NETLISTS_FILE, "wb") as netlists, open(tmp_path / DECISIONS_FILE, "wb") as decisions:
        open_writer(netlists, FABRIC_TABLES.netlists, METADATA).close()
        open_writer(decisions, FABRIC_TABLES.decisions, METADATA).close()
    dataset = Dataset.open(tmp_path)
    assert (len(dataset), dataset.num_netlists) == (0, 0)
    assert len(dataset.index.phase) == 0
    assert list(dataset.each_netlist()) == []
