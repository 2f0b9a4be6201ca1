"""A dataset with more netlists behind those of another one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from costmodel.dataset.generate import code_version
from costmodel.dataset.loader import Dataset
from costmodel.dataset.records import NetlistSamples
from costmodel.dataset.schema import Metadata
from costmodel.dataset.splits import split_dataset
from costmodel.dataset.store import merge, put_shard, shard_bytes
from placer.base import make_folder

_PER_SHARD = 32  # netlists; the memory of so many samples is needed at once


def extend_dataset(base: Dataset, more: Sequence[NetlistSamples], folder: Path) -> None:
    """Write a dataset to `folder`; what was there is replaced.

    Netlists of `more` are numbered on from those of `base`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    about = {"dataset": base.content_hash, "labels": sum(len(item.decisions) for item in more)}
    metadata = Metadata({**base.metadata.config, "extends": about}, base.metadata.seed, code_version())
    total = base.num_netlists + len(more)
    numbers = range(0, total, _PER_SHARD)
    for shard, first in enumerate(numbers):
        last = min(first + _PER_SHARD, total)
        samples = [_sample(base, more, number) for number in range(first, last)]
        put_shard(folder, shard, shard_bytes(samples, metadata))
    merge(folder, len(numbers), metadata)
    split_dataset(Dataset.open(folder))


def _sample(base: Dataset, more: Sequence[NetlistSamples], number: int) -> NetlistSamples:
    if number < base.num_netlists:
        return base.samples(number)
    return replace(more[number - base.num_netlists], netlist_id=number)
