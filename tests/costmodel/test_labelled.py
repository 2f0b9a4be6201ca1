"""Labelled decisions: what learners see of a dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.dataset.loader import Dataset
from costmodel.dataset.splits import SPLITS_FILE, SplitKind
from costmodel.labelled import Labelled, Selection, open_labelled
from placer.errors import InputError
from tests.costmodel.cases import labelled
from tests.costmodel.dataset.samples import METADATA, random_samples, small_fabric, write_dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    return labelled(tmp_path_factory.mktemp("data"), num_netlists=5, num_decisions=3)


def test_arrays_follow_the_decisions_of_the_dataset(data: Labelled) -> None:
    dataset = Dataset.open(data.folder)
    assert len(data) == len(data.graphs) == len(dataset) == 15
    assert data.fabric == small_fabric()
    assert data.content_hash == dataset.content_hash
    np.testing.assert_array_equal(data.netlist, np.repeat(np.arange(5), 3))
    np.testing.assert_array_equal(data.graphs.netlist_of, data.netlist)
    np.testing.assert_array_equal(data.throughput, dataset.index.throughput)
    np.testing.assert_array_equal(data.heuristic, dataset.index.heuristic)
    np.testing.assert_allclose(np.exp(data.graphs.log_throughput), data.throughput, rtol=1e-6)
    assert data.family.tolist() == [dataset.families[i] for i in data.netlist]
    assert data.splits.folds(SplitKind.GRAPH) == 2


def test_equal_netlists_are_one_group(data: Labelled) -> None:
    groups = [data.group[data.netlist == i] for i in range(5)]
    assert all(len(set(group.tolist())) == 1 for group in groups)
    first = [int(group[0]) for group in groups]
    assert first[3] == first[4]
    assert len(set(first)) == 4


def test_a_selection_picks_decisions(data: Labelled) -> None:
    some = Selection(data, np.array([1, 7, 14]))
    assert len(some) == 3
    assert some.netlist.tolist() == [0, 2, 4]
    assert some.throughput.tolist() == data.throughput[[1, 7, 14]].tolist()


def test_a_folder_without_a_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dataset"):
        open_labelled(tmp_path, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_dataset_that_names_no_fabric_is_refused(tmp_path: Path) -> None:
    metadata = replace(METADATA, config={"netlists": 1})
    write_dataset(tmp_path, [random_samples(0)], metadata)
    with pytest.raises(InputError, match="its settings name no fabric"):
        open_labelled(tmp_path, tmp_path / "cache")


def test_a_dataset_without_splits_is_refused(tmp_path: Path) -> None:
    data = labelled(tmp_path, num_netlists=3, num_decisions=1)
    (data.folder / SPLITS_FILE).unlink()
    with pytest.raises(InputError, match=SPLITS_FILE):
        open_labelled(data.folder, tmp_path / "cache")
