"""Labelled decisions as learners use them: encoded, with families and the heuristic's scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset import FABRIC_TABLES, Dataset, Phase, Splits, Tables, read_splits
from costmodel.encoding import FABRIC_FEATURES, FeatureSchema, GraphSet, encode_dataset, encode_potentials
from placer.base import FloatArray, InputError, LongArray
from placer.fabric import Fabric

_SPLIT_TAG = 0x7A11  # keeps the seed of the validation part apart from other uses


@dataclass(frozen=True, eq=False)
class Labelled:
    """A dataset, all arrays [num_decisions]."""

    folder: Path
    content_hash: str
    hardware: Hardware  # all decisions are made for it
    features: FeatureSchema
    graphs: GraphSet
    netlist: LongArray
    group: LongArray  # equal netlists, and plans of one segment, have the same
    family: NDArray[np.str_]
    phase: NDArray[np.str_]
    throughput: FloatArray  # the label, in (0, 1]
    heuristic: FloatArray
    splits: Splits

    @staticmethod
    def of(tables: Tables, hardware: Hardware, features: FeatureSchema, encode: Callable[[], GraphSet]) -> Labelled:
        """Return the decisions of a folder; `encode` is called when all else is well."""
        index, splits = tables.index, read_splits(tables.folder, tables.pair)
        netlist = index.netlist_id
        group = tables.groups[netlist]
        family = np.array(tables.families)[netlist]
        return Labelled(
            tables.folder, tables.content_hash, hardware, features, encode(), netlist, group,
            family, index.phase, index.throughput, index.heuristic, splits,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.throughput)

    @property
    def fabric(self) -> Fabric:
        """Return the fabric. Raises InputError when the decisions are not made for one."""
        if isinstance(self.hardware, Fabric):
            return self.hardware
        raise InputError(
            f"dataset {self.folder} is of {self.features.subject}, for {self.hardware.name}; needed one of a fabric"
        )


class Hardware(Protocol):
    """What decisions are made for: a fabric, or what another kind of data has in its place."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ManyFabrics:
    """The hardware of a dataset with more than one fabric."""

    name: str
    count: int  # different fabrics
    ranges: dict[str, tuple[float, float]]  # least and most of every constant, by dotted name

    @staticmethod
    def of(fabrics: Sequence[Fabric]) -> ManyFabrics:
        """Return what some fabrics have in common. Raises InputError when there are none."""
        if not fabrics:
            raise InputError("a dataset without netlists; needed one or more")
        constants = [constants_of(asdict(fabric)) for fabric in fabrics]
        ranges = {
            name: (min(values), max(values))
            for name in constants[0]
            if (values := [each[name] for each in constants if name in each])
        }
        return ManyFabrics(f"{len(fabrics)} fabrics", len(fabrics), ranges)


def constants_of(description: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """Return the numbers of a fabric by dotted name, such as "link.hop_cycles"."""
    values: dict[str, float] = {}
    for key, value in description.items():
        if isinstance(value, dict):
            values |= constants_of(value, f"{prefix}{key}.")
        elif isinstance(value, int | float):
            values[prefix + key] = value
    return values


@dataclass(frozen=True, slots=True)
class DataKind:
    """Labelled data of another kind than decisions on a fabric."""

    features: FeatureSchema  # what models read of it
    file: str  # by which a folder of such data is recognised
    open: Callable[[Path, Path], Labelled]  # (folder, cache) -> the data, encoded


_KINDS: list[DataKind] = []


def register_kind(kind: DataKind) -> None:
    """Make a kind of data known; a room that has one calls this when it is imported."""
    _KINDS.append(kind)


def known_features() -> dict[int | str, FeatureSchema]:
    """Return all feature schemas that models can have, by version."""
    schemas = (FABRIC_FEATURES, *(kind.features for kind in _KINDS))
    return {schema.version: schema for schema in schemas}


@dataclass(frozen=True, slots=True)
class Selection:
    """Some decisions of a dataset: what a model is trained or tested with."""

    data: Labelled
    ids: LongArray  # rising

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def throughput(self) -> FloatArray:
        return self.data.throughput[self.ids]

    @property
    def netlist(self) -> LongArray:
        return self.data.netlist[self.ids]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says of some decisions, [num_decisions] each."""

    throughput: FloatArray  # > 0
    log_sigma: FloatArray | None  # of log(throughput): log of its standard deviation


def split_validation(train: Selection, share: float, seed: int) -> tuple[Selection, Selection]:
    """Return decisions to learn from and to validate with; equal netlists stay together.

    Raises InputError when one of the two would be empty.
    """
    group = train.data.group[train.ids]
    groups = np.unique(group)
    if len(groups) < 2:
        raise InputError(
            f"{len(train)} decisions of {len(groups)} different netlists to train with; needed 2 "
            "or more netlists, one of them for validation"
        )
    rng = np.random.default_rng([seed, _SPLIT_TAG])
    number = min(max(round(share * len(groups)), 1), len(groups) - 1)
    is_validation = np.isin(group, rng.permutation(groups)[:number])
    return (Selection(train.data, train.ids[~is_validation]), Selection(train.data, train.ids[is_validation]))


def open_labelled(folder: str | Path, cache: str | Path) -> Labelled:
    """Open the dataset in `folder`, encoded into files in `cache` (or taken from there).

    Raises InputError when it is no complete dataset of this version, or of an unknown kind.
    """
    folder = Path(folder)
    for kind in _KINDS:
        if (folder / kind.file).exists():
            return kind.open(folder, Path(cache))
    tables = sorted(path.name for path in folder.glob("*.parquet"))
    if tables and not {table.file for table in FABRIC_TABLES} & set(tables):
        raise InputError(
            f"{folder} is a dataset of an unknown kind ({', '.join(tables)}); a program that reads "
            "it must import the room that knows it, such as costmodel.wafer"
        )
    dataset = Dataset.open(folder)
    return Labelled.of(dataset, _hardware(dataset), FABRIC_FEATURES, lambda: encode_dataset(dataset, Path(cache)))


def open_potentials(folder: str | Path, cache: str | Path) -> Selection | None:
    """Return the netlists of a dataset as decisions, whose throughput is the potential; None: it has none.

    Decision i of the data is the bare decision of netlist i, its heuristic the full bound, and the
    selection has those whose potential is known. Plans of one segment count as decisions of one netlist, so
    that they are compared. Splits by graph and family are those of the dataset.
    """
    dataset, splits = Dataset.open(folder), read_splits(folder)
    potential = np.array(dataset.netlists_file.read_columns(["potential"])["potential"].to_numpy())
    if not (potential > 0).any():
        return None
    graphs, netlist = encode_potentials(dataset, Path(cache)), dataset.groups
    data = Labelled(
        dataset.folder, dataset.content_hash, _hardware(dataset), FABRIC_FEATURES,
        replace(graphs, netlist_of=netlist), netlist, dataset.groups,
        np.array(dataset.families), np.full(len(netlist), Phase.POOL.value), potential,
        np.exp(graphs.log_rules.astype(float)),
        replace(splits, random=splits.graph, netlist_of=np.arange(dataset.num_netlists)),
    )  # fmt: skip
    return Selection(data, np.flatnonzero(potential > 0))


def _hardware(dataset: Dataset) -> Hardware:
    fabrics = dataset.fabrics
    return fabrics[0] if len(fabrics) == 1 else ManyFabrics.of(fabrics)
