"""Labelled decisions as learners use them: encoded, with families and the heuristic's scores."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset.loader import Dataset
from costmodel.dataset.schema import WAFER_TABLES
from costmodel.dataset.splits import Splits, read_splits
from costmodel.encoding.features import FABRIC_FEATURES, FeatureSchema
from costmodel.encoding.graph_set import GraphSet, encode_dataset
from costmodel.wafer.dataset import WaferDataset, WaferHardware, encode_mappings
from costmodel.wafer.features import WAFER_FEATURES
from placer.config import fabric_of
from placer.errors import InputError
from placer.fabric import Fabric

LongArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_SPLIT_TAG = 0x7A11  # keeps the seed of the validation part apart from other uses


@dataclass(frozen=True, eq=False)
class Labelled:
    """A dataset, all arrays [num_decisions]."""

    folder: Path
    content_hash: str
    hardware: Fabric | WaferHardware  # all decisions are made for it
    features: FeatureSchema
    graphs: GraphSet
    netlist: LongArray  # rising
    group: LongArray  # equal netlists have the same
    family: NDArray[np.str_]
    phase: NDArray[np.str_]
    throughput: FloatArray  # the label, in (0, 1]
    heuristic: FloatArray
    splits: Splits

    def __len__(self) -> int:
        return len(self.throughput)

    @property
    def fabric(self) -> Fabric:
        """Raises InputError when the decisions are not made for a fabric."""
        if isinstance(self.hardware, Fabric):
            return self.hardware
        raise InputError(f"dataset {self.folder} is of mappings to a wafer; needed one of a fabric")


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
    """Decisions to learn from and to validate with; equal netlists stay together.

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
    return (
        Selection(train.data, train.ids[~is_validation]),
        Selection(train.data, train.ids[is_validation]),
    )


def open_labelled(folder: str | Path, cache: str | Path) -> Labelled:
    """The dataset in `folder`, encoded into files in `cache` (or taken from there).

    Raises InputError when it is no complete dataset of this version.
    """
    folder = Path(folder)
    if (folder / WAFER_TABLES.netlists).exists():
        return _open_mappings(folder, Path(cache))
    fabric = _fabric_of(Dataset.open(folder))
    dataset = Dataset.open(folder, [fabric])
    index = dataset.index
    return Labelled(
        folder=folder,
        content_hash=dataset.content_hash,
        hardware=fabric,
        features=FABRIC_FEATURES,
        graphs=encode_dataset(dataset, fabric, Path(cache)),
        netlist=index.netlist_id.astype(np.int64),
        group=np.unique(dataset.fingerprints, return_inverse=True)[1][index.netlist_id],
        family=np.array(dataset.families)[index.netlist_id],
        phase=index.phase,
        throughput=index.throughput,
        heuristic=index.heuristic,
        splits=read_splits(folder),
    )


def _open_mappings(folder: Path, cache: Path) -> Labelled:
    """The same for mappings of kernels to a wafer; the heuristic is bound / deltaT."""
    dataset, hardware = WaferDataset.open(folder), WaferHardware()
    if dataset.metadata.config.get("hardware") != json.loads(json.dumps(asdict(hardware))):
        raise InputError(f"dataset {folder}: labelled by another truth model; make it again")
    netlist = np.repeat(np.arange(dataset.num_netlists), np.diff(dataset.first_decision))
    numbers = dataset.numbers
    return Labelled(
        folder=folder,
        content_hash=dataset.content_hash,
        hardware=hardware,
        features=WAFER_FEATURES,
        graphs=encode_mappings(dataset, cache),
        netlist=netlist,
        group=np.unique(dataset.fingerprints, return_inverse=True)[1][netlist],
        family=np.array(dataset.families)[netlist],
        phase=dataset.engines,
        throughput=numbers["throughput"],
        heuristic=numbers["heuristic"],
        splits=read_splits(folder, WAFER_TABLES),
    )


def _fabric_of(dataset: Dataset) -> Fabric:
    """The fabric that all netlists of a dataset were lowered for."""
    description = dataset.metadata.config.get("fabric")
    if not isinstance(description, dict):
        raise InputError(f"dataset {dataset.folder}: its settings name no fabric")
    return fabric_of(description)
