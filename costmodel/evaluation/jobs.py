"""The jobs of an evaluation: each fits one method to one training set and predicts its test set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.dataset.splits import SplitKind
from costmodel.encoding.features import FEATURE_VERSION
from costmodel.evaluation.methods import Method, describe
from costmodel.labelled import Labelled, Selection, open_labelled
from placer.errors import InputError

KIND = "dataflow-costmodel evaluation job"
SCHEMA_VERSION = 1
MAIN_SPLIT = SplitKind.GRAPH.value  # the one to decide on

# What predictions depend on besides data and settings; reports and commands may change freely.
_SOURCES = (
    "baselines", "encoding", "networks", "training", "calibration.py", "dgl_backend.py",
    "labelled.py", "model.py", "evaluation/methods.py",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seeds:
    """Seeds of each kind of split; none: the split is left out."""

    graph: tuple[int, ...]
    random: tuple[int, ...]
    family: tuple[int, ...]
    transfer: tuple[int, ...]
    ablation: tuple[int, ...]  # by graph

    def __post_init__(self) -> None:
        for name, seeds in asdict(self).items():
            if len(set(seeds)) != len(seeds) or min(seeds, default=0) < 0:
                raise InputError(f"seeds.{name}={list(seeds)}; allowed: different ones from 0 on")


@dataclass(frozen=True, slots=True)
class Sources:
    """Folders of the datasets."""

    data: Path
    cache: Path  # for encoded decisions
    transfers: dict[str, Path] = field(default_factory=dict)  # fabric -> dataset that is tested

    @property
    def main(self) -> Labelled:
        return _open(self.data, self.cache)

    def tested(self, split: str) -> Labelled:
        """The dataset that holds the test decisions of a split."""
        return _open(self.transfers.get(split, self.data), self.cache)

    def require_transfers(self) -> None:
        """Raise InputError when a dataset is not lowered for the fabric that it stands for."""
        for fabric, folder in self.transfers.items():
            found = self.tested(fabric).fabric.name
            if found != fabric or found == self.main.fabric.name:
                raise InputError(
                    f"transfers.{fabric}: the dataset {folder} was made for fabric {found!r}, the "
                    f"main one for {self.main.fabric.name!r}; needed one for {fabric!r} and "
                    f"another main one; {how_to_make(fabric, folder)}"
                )


def how_to_make(fabric: str, folder: Path) -> str:
    """The command that makes a dataset to transfer to."""
    return f'make it: make dataset ARGS="fabric={fabric} size=transfer seed=1 output={folder}"'


@dataclass(frozen=True, slots=True)
class Job:
    """One training and one test; `fold` is 0 for a transfer."""

    name: str  # of the method
    method: Method
    split: str  # value of SplitKind, or the fabric that is transferred to
    fold: int
    seed: int

    def __str__(self) -> str:
        return f"{self.name}: {self.split} split, fold {self.fold}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that an evaluation computes."""

    sources: Sources
    methods: dict[str, Method]
    ablations: dict[str, Method]
    seeds: Seeds
    max_folds: int | None = None  # of each split; for trials
    ablation_folds: int | None = None  # of the split by graph

    def __post_init__(self) -> None:
        for name, method in self.ablations.items():
            if method.base not in self.methods:
                raise InputError(
                    f"ablation {name!r} is compared with {method.base!r}, which is not among the "
                    f"methods: {', '.join(self.methods)}; name it there too, or set ablations=[]"
                )
        alone = sorted(set(self.seeds.ablation) - set(self.seeds.graph))
        if self.ablations and alone:
            raise InputError(
                f"seeds.ablation has {alone} that seeds.graph has not; ablations are compared by "
                "graph with whole methods of the same seed"
            )
        for name in ("max_folds", "ablation_folds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name}={value}; allowed: null, or 1 and more")
        if not self.methods:
            raise InputError("methods=[]; name one or more")

    def jobs(self) -> list[Job]:
        """In order of importance. Raises InputError when there are none."""
        seeds = self.seeds
        jobs = [
            *self._jobs(self.methods, SplitKind.GRAPH.value, seeds.graph),
            *self._jobs(self.methods, SplitKind.FAMILY.value, seeds.family),
            *(
                job
                for fabric in self.sources.transfers
                for job in self._jobs(self.methods, fabric, seeds.transfer)
            ),
            *filter(
                self.in_ablation_table,
                self._jobs(self.ablations, SplitKind.GRAPH.value, seeds.ablation),
            ),
            *self._jobs(self.methods, SplitKind.RANDOM.value, seeds.random),
        ]
        if not jobs:
            raise InputError("no jobs: all of seeds.* are empty")
        return list(dict.fromkeys(jobs))

    def in_ablation_table(self, job: Job) -> bool:
        """Whether a job, of an ablation or of what it is compared with, counts there."""
        has_fold = self.ablation_folds is None or job.fold < self.ablation_folds
        return job.split == MAIN_SPLIT and job.seed in self.seeds.ablation and has_fold

    def stages(self) -> Iterator[Plan]:
        """The plan from its most important split on, growing to all of it; at least one."""
        seeds = asdict(self.seeds)
        order = [n for n in ("graph", "family", "transfer", "ablation", "random") if seeds[n]]
        for k in range(1, max(len(order), 1)):
            yield replace(self, seeds=replace(self.seeds, **dict.fromkeys(order[k:], ())))
        yield self

    def _jobs(
        self, methods: dict[str, Method], split: str, seeds: tuple[int, ...]
    ) -> Iterator[Job]:
        for seed in seeds:
            for name, method in methods.items():
                for fold in range(self._folds(split)):
                    yield Job(name, method, split, fold, seed)

    def _folds(self, split: str) -> int:
        if split in self.sources.transfers:
            return 1
        num = self.sources.main.splits.folds(SplitKind(split))
        if not num:
            raise InputError(
                f"{split} split: the dataset {self.sources.data} has only one family; leave it "
                f"out with seeds.{split}=[]"
            )
        return num if self.max_folds is None else min(num, self.max_folds)


def selections(sources: Sources, split: str, fold: int) -> tuple[Selection, Selection]:
    """What a job trains and tests with. Raises InputError when either is empty."""
    main, tested = sources.main, sources.tested(split)
    if split in sources.transfers:
        train, test = np.arange(len(main)), np.arange(len(tested))
    else:
        parts = main.splits.fold(SplitKind(split), fold)
        train, test = parts.train, parts.test
    for name, ids in (("train", train), ("test", test)):
        if not len(ids):
            key = "transfer" if split in sources.transfers else split
            raise InputError(
                f"{split} split, fold {fold}: no decisions to {name} with; the dataset is too "
                f"small for this split, leave it out with seeds.{key}=[]"
            )
    return Selection(main, train), Selection(tested, test)


def origin(sources: Sources, job: Job) -> dict[str, Any]:
    """Everything that the predictions of a job depend on, as JSON holds it."""
    train, test = selections(sources, job.split, job.fold)
    return {
        "kind": KIND,
        "schema": SCHEMA_VERSION,
        "method": describe(job.method.config),
        "seed": job.seed,
        "features": FEATURE_VERSION,
        "train_dataset": train.data.content_hash,
        "train_ids": _digest(train.ids.tobytes()),
        "test_dataset": test.data.content_hash,
        "test_ids": _digest(test.ids.tobytes()),
        "code": code_version(),
    }


def file_stem(job: Job, made_by: dict[str, Any]) -> str:
    """Name of the files of a job, without their endings; another origin, another name."""
    digest = _digest(json.dumps(made_by, sort_keys=True).encode())
    return f"{job.split}-{job.name}-fold{job.fold}-seed{job.seed}-{digest}"


@lru_cache
def code_version() -> str:
    """Hash of the sources of all models."""
    package = Path(__file__).parent.parent
    roots = [package / name for name in _SOURCES]
    digest = hashlib.sha256()
    for path in sorted(path for root in roots for path in (root, *root.rglob("*.py"))):
        if path.is_dir():
            continue
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=4)
def _open(folder: Path, cache: Path) -> Labelled:
    """Once per process: jobs of a worker share the dataset."""
    return open_labelled(folder, cache)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
