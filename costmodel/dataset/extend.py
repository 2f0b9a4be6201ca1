"""Datasets that are made of others: several joined, or one with more netlists behind it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from costmodel.dataset.generate import code_version
from costmodel.dataset.loader import Dataset
from costmodel.dataset.records import ALONE, NetlistSamples
from costmodel.dataset.schema import Metadata
from costmodel.dataset.splits import split_dataset
from costmodel.dataset.store import merge, put_shard, shard_bytes
from placer.base import InputError, make_folder

_PER_SHARD = 32  # netlists; the memory of so many samples is needed at once


def extend_dataset(base: Dataset, more: Sequence[NetlistSamples], folder: Path) -> None:
    """Write a dataset to `folder`; what was there is replaced.

    Netlists of `more` are numbered on from those of `base`.
    """
    about = {"dataset": base.content_hash, "labels": sum(len(item.decisions) for item in more)}
    added = (replace(item, netlist_id=number) for number, item in enumerate(more, base.num_netlists))
    config = {**base.metadata.config, "extends": about}
    _write(chain(base.each_netlist(), added), config, base.metadata.seed, folder)


def join_datasets(parts: Sequence[Dataset], folder: Path) -> Dataset:
    """Write all netlists of some datasets, one behind the other, to `folder`; what was there is replaced.

    Segments stay apart. Raises InputError for fewer than two datasets, or one that comes twice.
    """
    hashes = [part.content_hash for part in parts]
    if len(set(hashes)) < max(2, len(hashes)):
        raise InputError(f"{len(hashes)} datasets to join, {len(set(hashes))} of them different; needed 2 or more")
    config = {"joins": [part.metadata.config | {"dataset": part.content_hash} for part in parts]}
    _write(_numbered_on(parts), config, parts[0].metadata.seed, folder)
    return Dataset.open(folder)


def _numbered_on(parts: Sequence[Dataset]) -> Iterator[NetlistSamples]:
    """Yield the netlists of all parts with numbers and segments that none of the others has."""
    first_netlist = first_segment = 0
    for part in parts:
        last_segment = ALONE
        for item in part.each_netlist():
            origin = item.origin
            if origin.segment != ALONE:
                last_segment = max(last_segment, origin.segment)
                origin = replace(origin, segment=first_segment + origin.segment)
            yield replace(item, netlist_id=first_netlist + item.netlist_id, origin=origin)
        first_netlist, first_segment = first_netlist + part.num_netlists, first_segment + last_segment + 1


def _write(samples: Iterable[NetlistSamples], config: dict[str, Any], seed: int, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    metadata = Metadata(config, seed, code_version())
    num_shards, left = 0, iter(samples)
    while some := list(islice(left, _PER_SHARD)):
        put_shard(folder, num_shards, shard_bytes(some, metadata))
        num_shards += 1
    merge(folder, num_shards, metadata)
    split_dataset(Dataset.open(folder))
