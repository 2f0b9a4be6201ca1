"""Datasets that are made of others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.dataset import ALONE, Dataset, join_datasets, read_splits
from costmodel.join import main
from placer.base import InputError
from placer.base.config import compose_config
from tests.costmodel.dataset.samples import random_samples, write_dataset


def dataset_of(folder: Path, seeds: list[int], segments: list[int]) -> Dataset:
    samples = []
    for number, (seed, segment) in enumerate(zip(seeds, segments, strict=True)):
        item = random_samples(number, seed=seed)
        samples.append(replace(item, origin=replace(item.origin, segment=segment)))
    write_dataset(folder, samples)
    return Dataset.open(folder)


def test_joined_datasets_keep_their_netlists_and_their_segments_apart(tmp_path: Path) -> None:
    one = dataset_of(tmp_path / "one", [1, 2, 3], [0, 0, ALONE])
    two = dataset_of(tmp_path / "two", [4, 5, 6], [0, 1, 1])
    main(compose_config("join", [f"data=[{one.folder},{two.folder}]", f"output={tmp_path / 'both'}"]))
    both = Dataset.open(tmp_path / "both")
    assert [item.origin.segment for item in both.each_netlist()] == [0, 0, ALONE, 1, 2, 2]
    np.testing.assert_array_equal(both.samples(4).throughput, two.samples(1).throughput)
    assert both.index.throughput.tolist() == [*one.index.throughput, *two.index.throughput]
    assert len(set(both.groups.tolist())) == 4 and read_splits(both.folder).dataset == both.content_hash
    assert [part["dataset"] for part in both.metadata.config["joins"]] == [one.content_hash, two.content_hash]


def test_a_dataset_is_joined_with_others_only(tmp_path: Path) -> None:
    one = dataset_of(tmp_path / "one", [1, 2], [0, 1])
    for parts in ([one], [one, one]):
        with pytest.raises(InputError, match="needed 2 or more"):
            join_datasets(parts, tmp_path / "both")
    with pytest.raises(InputError, match="is one of the datasets"):
        main(compose_config("join", [f"data=[{one.folder}]", f"output={one.folder}"]))
    assert Dataset.open(one.folder).num_netlists == 2
