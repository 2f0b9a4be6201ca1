"""Labelled decisions: what learners see of a dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.dataset import Dataset, SplitKind, make_splits, write_splits
from costmodel.dataset.splits import SPLITS_FILE
from costmodel.model import Labelled, ManyFabrics, Model, Selection, open_labelled
from costmodel.model import labelled as labelled_module
from costmodel.wafer import WAFER_TABLES
from placer.base import InputError
from tests.costmodel.cases import labelled, named
from tests.costmodel.dataset.samples import random_samples, small_fabric, write_dataset
from tests.costmodel.wafer.test_encode import model_of


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


def test_a_dataset_may_have_many_fabrics(tmp_path: Path) -> None:
    slow = replace(small_fabric(), name="slow", link=replace(small_fabric().link, hop_cycles=9))
    samples = []
    for k, fabric in enumerate((small_fabric(), slow)):
        one = random_samples(k, seed=k)
        samples.append(replace(one, fabric=fabric, netlist=replace(named(one.netlist), fabric=fabric.name)))
    dataset = write_dataset(tmp_path, samples)
    write_splits(tmp_path, make_splits(dataset, num_folds=2))
    data = open_labelled(tmp_path, tmp_path / "cache")
    assert isinstance(data.hardware, ManyFabrics) and data.hardware.ranges["link.hop_cycles"] == (4, 9)
    assert dataset.fabrics == (small_fabric(), slow)
    with pytest.raises(InputError, match="for 2 fabrics; needed one of a fabric"):
        _ = data.fabric


def test_data_of_a_kind_that_nobody_made_known_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_of().save(tmp_path / "wafer.pt")
    (tmp_path / WAFER_TABLES.netlists.file).touch()
    monkeypatch.setattr(labelled_module, "_KINDS", [])
    with pytest.raises(InputError, match=r"of an unknown kind \(kernel_graphs.* costmodel.wafer"):
        open_labelled(tmp_path, tmp_path / "cache")
    with pytest.raises(InputError, match=r"unknown kind of data \('wafer 1'\).* costmodel.wafer"):
        Model.load(tmp_path / "wafer.pt")


def test_a_dataset_without_splits_is_refused(tmp_path: Path) -> None:
    data = labelled(tmp_path, num_netlists=3, num_decisions=1)
    (data.folder / SPLITS_FILE).unlink()
    with pytest.raises(InputError, match=SPLITS_FILE):
        open_labelled(data.folder, tmp_path / "cache")
