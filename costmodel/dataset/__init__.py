"""Labelled PnR decisions: generation, storage, splits; the report is a room of its own."""

from costmodel.dataset.extend import extend_dataset, join_datasets
from costmodel.dataset.generate import SampleOptions, label, make_samples
from costmodel.dataset.loader import Dataset, Index, Tables
from costmodel.dataset.records import ALL, ALONE, NetlistSamples, Origin, Phase
from costmodel.dataset.schema import (
    FABRIC_TABLES,
    Metadata,
    TablePair,
    TableSchema,
    columns,
    list_of,
    parse_cell,
    plain,
    require_families,
    to_json,
)
from costmodel.dataset.search import Found
from costmodel.dataset.splits import SplitKind, Splits, make_splits, read_splits, split_dataset, write_splits
from costmodel.dataset.store import OnProgress, is_merged, make_tables, merge, pack_shard
