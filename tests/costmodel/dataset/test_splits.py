"""Splits: every decision is tested once, equal netlists stay together, families are spread."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.dataset import Dataset, NetlistSamples, SplitKind, Splits, make_splits, read_splits, write_splits
from costmodel.dataset.splits import SPLITS_FILE
from placer.base import InputError
from tests.costmodel.dataset.samples import METADATA, random_samples, write_dataset


def netlists_with_repeats() -> list[NetlistSamples]:
    """16 netlists of three families; netlist seeds 0 and 1 of "a" stand there several times."""
    cases = [("a", seed) for seed in (0, 0, 0, 1, 1, 2, 3, 4)]
    cases += [("b", seed) for seed in range(6)] + [("c", 0), ("c", 1)]
    return [random_samples(i, 1 + i % 3, seed=seed, family=family) for i, (family, seed) in enumerate(cases)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_dataset(tmp_path_factory.mktemp("dataset"), netlists_with_repeats())


@pytest.mark.parametrize("kind", SplitKind)
def test_every_decision_is_tested_once_and_never_trained_with(dataset: Dataset, kind: SplitKind) -> None:
    splits = make_splits(dataset)
    folds = [splits.fold(kind, number) for number in range(splits.folds(kind))]
    assert len(folds) == (3 if kind == SplitKind.FAMILY else 5)
    everything = np.arange(len(dataset))
    for fold in folds:
        assert len(fold.train) and len(fold.test)
        np.testing.assert_array_equal(np.sort(np.append(fold.train, fold.test)), everything)
    np.testing.assert_array_equal(np.sort(np.concatenate([f.test for f in folds])), everything)


def test_random_folds_are_of_equal_size(dataset: Dataset) -> None:
    splits = make_splits(dataset)
    sizes = [len(splits.fold(SplitKind.RANDOM, number).test) for number in range(5)]
    assert max(sizes) - min(sizes) <= 1


def test_equal_netlists_are_never_on_both_sides(dataset: Dataset) -> None:
    splits, index = make_splits(dataset), dataset.index
    fingerprints = np.array(dataset.fingerprints)[index.netlist_id]
    assert len(set(dataset.fingerprints)) < dataset.num_netlists
    for number in range(5):
        fold = splits.fold(SplitKind.GRAPH, number)
        assert not set(fingerprints[fold.train]) & set(fingerprints[fold.test])


def test_a_family_fold_tests_one_family(dataset: Dataset) -> None:
    splits = make_splits(dataset)
    families = np.array(dataset.families)[dataset.index.netlist_id]
    assert splits.families == ("a", "b", "c")
    for number, family in enumerate(splits.families):
        fold = splits.fold(SplitKind.FAMILY, number)
        assert set(families[fold.test]) == {family}
        assert family not in families[fold.train]


def stand_in(dataset: Dataset, families: list[str], fingerprints: list[str], seed: int) -> Dataset:
    """A dataset of other netlists, one decision each; nothing of it is on the disk."""
    return replace(
        dataset,
        families=tuple(families),
        fingerprints=tuple(fingerprints),
        groups=np.unique(fingerprints, return_inverse=True)[1],
        first_decision=np.arange(len(families) + 1),
        metadata=replace(METADATA, seed=seed),
    )


@given(
    netlists=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), min_size=12), seed=st.integers(0, 2**70)
)
def test_graph_folds_are_full_stratified_and_without_leaks(
    dataset: Dataset, netlists: list[tuple[str, int]], seed: int
) -> None:
    families = [family for family, _ in netlists]
    fingerprints = [f"{family}{number}" for family, number in netlists]
    other = stand_in(dataset, families, fingerprints, seed)
    if len(set(fingerprints)) < 5:
        with pytest.raises(InputError, match="different netlists"):
            make_splits(other)
        return
    graph = make_splits(other).graph.tolist()
    assert set(graph) == set(range(5))
    assert len(set(zip(fingerprints, graph, strict=True))) == len(set(fingerprints))
    largest_group = max(Counter(fingerprints).values())
    for family in set(families):
        counts = Counter(f for f, name in zip(graph, families, strict=True) if name == family)
        sizes = [counts[fold] for fold in range(5)]
        assert max(sizes) - min(sizes) <= largest_group


def test_splits_depend_on_the_seed_only(dataset: Dataset) -> None:
    one, again = make_splits(dataset), make_splits(dataset)
    other = make_splits(replace(dataset, metadata=replace(METADATA, seed=8)))
    for name in ("random", "graph"):
        np.testing.assert_array_equal(getattr(one, name), getattr(again, name))
        assert (getattr(one, name) != getattr(other, name)).any()


def test_one_family_has_no_folds_by_family(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, [random_samples(i, 2, seed=i) for i in range(5)])
    splits = make_splits(dataset)
    assert splits.folds(SplitKind.FAMILY) == 0
    with pytest.raises(InputError, match="family split: no fold 0; there are 0"):
        splits.fold(SplitKind.FAMILY, 0)


def test_folds_that_do_not_exist_are_refused(dataset: Dataset) -> None:
    for number in (-1, 5):
        with pytest.raises(InputError, match=f"graph split: no fold {number}; there are 5"):
            make_splits(dataset).fold(SplitKind.GRAPH, number)
    for num_folds in (1, 17):
        with pytest.raises(InputError, match=f"num_folds={num_folds} with 13 different"):
            make_splits(dataset, num_folds)


def test_what_is_written_comes_back(dataset: Dataset) -> None:
    splits = make_splits(dataset, 4)
    write_splits(dataset.folder, splits)
    before = (dataset.folder / SPLITS_FILE).read_bytes()
    read = read_splits(dataset.folder)
    for name in Splits.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(read, name), getattr(splits, name))
    write_splits(dataset.folder, read)
    assert (dataset.folder / SPLITS_FILE).read_bytes() == before


def test_splits_of_another_dataset_are_refused(dataset: Dataset, tmp_path: Path) -> None:
    write_dataset(tmp_path, netlists_with_repeats()[:-1])
    write_splits(tmp_path, make_splits(dataset))
    with pytest.raises(InputError, match=r"made for the dataset with hash .* make the splits"):
        read_splits(tmp_path)


def test_missing_splits_are_told(tmp_path: Path) -> None:
    write_dataset(tmp_path, [random_samples(0)])
    with pytest.raises(InputError, match=r"cannot read .*splits.json"):
        read_splits(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 2}, "schema is 2, needed 1"),
        ({"kind": "other"}, "kind is 'other'"),
        ({"num_folds": "5"}, "num_folds is '5'"),
        ({"random": [0]}, "random must be a list of"),
        ({"graph": [5] * 16}, "graph has fold 5; allowed 0 to 4"),
        ({"graph": [True] * 16}, "graph has fold True"),
        ({"graph": [i % 5 for i in range(16)]}, "equal netlists, or plans of one segment, in different folds"),
        ({"family": ["a"]}, "family lists"),
    ],
)
def test_illegal_splits_are_refused(dataset: Dataset, changes: dict[str, Any], message: str) -> None:
    write_splits(dataset.folder, make_splits(dataset))
    path = dataset.folder / SPLITS_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(InputError, match=message):
        read_splits(dataset.folder)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"kind": "dataflow-costmodel splits"}'])
def test_files_that_are_no_splits_are_refused(dataset: Dataset, text: str) -> None:
    (dataset.folder / SPLITS_FILE).write_text(text)
    with pytest.raises(InputError, match=r"splits .*splits.json"):
        read_splits(dataset.folder)
