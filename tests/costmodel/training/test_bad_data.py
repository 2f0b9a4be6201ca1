"""Datasets that cannot be trained with: one line that says why, and code 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costmodel.train import main
from placer.base.config import run_command
from tests.costmodel.training.tiny import overrides, write_tiny

Change = Callable[[Path], None]


def of_schema_9(folder: Path) -> None:
    _rewrite(folder, lambda table: table, {b"schema_version": b"9"})


def with_nan_label(folder: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        values = table["throughput"].to_numpy().copy()
        values[3] = np.nan
        column = table.schema.get_field_index("throughput")
        return table.set_column(column, table.schema.field(column), pa.array(values))

    _rewrite(folder, change, {})


def with_an_empty_fold(folder: Path) -> None:
    path = folder / "splits.json"
    splits = json.loads(path.read_text(encoding="utf-8"))
    splits["graph"] = [1] * len(splits["graph"])
    path.write_text(json.dumps(splits), encoding="utf-8")


def without_splits(folder: Path) -> None:
    (folder / "splits.json").unlink()


def _rewrite(folder: Path, change: Callable[[pa.Table], pa.Table], metadata: dict[bytes, bytes]) -> None:
    path = folder / "decisions.parquet"
    file = pq.ParquetFile(path)
    groups = [change(file.read_row_group(i)) for i in range(file.num_row_groups)]
    schema = groups[0].schema.with_metadata({**groups[0].schema.metadata, **metadata})
    with pq.ParquetWriter(path, schema) as writer:
        for group in groups:
            writer.write_table(group.cast(schema))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of_schema_9, "decisions.parquet: schema version '9', this program reads 2"),
        (with_nan_label, "throughput must lie in (0, 1]"),
        (with_an_empty_fold, "fold 0 of the graph split has no decision to test with"),
        (without_splits, "splits.json"),
    ],
)
def test_bad_datasets_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Change, message: str
) -> None:
    write_tiny(tmp_path / "data")
    change(tmp_path / "data")
    with pytest.raises(SystemExit) as stop:
        run_command(main, "train", overrides(tmp_path, "split=graph"))
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
