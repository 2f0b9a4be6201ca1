"""The jobs of an evaluation: each fits one method to one training set and predicts its test set."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.dataset import SplitKind
from costmodel.encoding import FEATURE_VERSION
from costmodel.evaluation.methods import Method, checked_prediction, fit
from costmodel.model import Labelled, Selection, open_labelled
from placer.base import Count, InputError, Settings, source_key
from placer.base.workers import Workers, digest_of, run_jobs

KIND = "dataflow-costmodel evaluation job"
SCHEMA_VERSION = 1
JOBS_FOLDER = "jobs"
MAIN_SPLIT = SplitKind.GRAPH.value  # the one to decide on
ORDER = ("graph", "family", "transfer", "ablation", "random")  # of `Seeds`, by importance


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
        """Return the dataset that methods learn from."""
        return _open(self.data, self.cache)

    def tested(self, split: str) -> Labelled:
        """Return the dataset that holds the test decisions of a split."""
        return _open(self.transfers.get(split, self.data), self.cache)

    def selections(self, split: str, fold: int) -> tuple[Selection, Selection]:
        """Return what is trained and tested with. Raises InputError when either is empty."""
        main, tested = self.main, self.tested(split)
        if split in self.transfers:
            train, test = np.arange(len(main)), np.arange(len(tested))
        else:
            parts = main.splits.fold(SplitKind(split), fold)
            train, test = parts.train, parts.test
        for name, ids in (("train", train), ("test", test)):
            if not len(ids):
                key = "transfer" if split in self.transfers else split
                raise InputError(
                    f"{split} split, fold {fold}: no decisions to {name} with; the dataset is too "
                    f"small for this split, leave it out with seeds.{key}=[]"
                )
        return Selection(main, train), Selection(tested, test)

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
    """Return the command that makes a dataset to transfer to."""
    return f'make it: make dataset ARGS="fabric={fabric} size=transfer seed=1 output={folder}"'


@dataclass(frozen=True, slots=True)
class Job:
    """One training and one test; `fold` is 0 for a transfer."""

    name: str  # of the method
    method: Method
    split: str  # value of SplitKind, or the fabric that is transferred to
    fold: int
    seed: int
    sources: Sources = field(compare=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.split} split, fold {self.fold}, seed {self.seed}"

    def origin(self) -> dict[str, Any]:
        """Return everything that the predictions depend on."""
        train, test = self.sources.selections(self.split, self.fold)
        return {
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "method": self.method.describe(),
            "seed": self.seed,
            "features": FEATURE_VERSION,
            "train_dataset": train.data.content_hash,
            "train_ids": hashlib.sha256(train.ids.tobytes()).hexdigest(),
            "test_dataset": test.data.content_hash,
            "test_ids": hashlib.sha256(test.ids.tobytes()).hexdigest(),
            "code": code_version(),
        }

    def checkpoints(self, folder: Path) -> Path:
        """Return where its training keeps checkpoints until it is finished."""
        return folder / f"{self.name}-{digest_of(self.origin())[:20]}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job found; log_sigma as `Prediction` has it."""

    throughput: list[float]  # [num_decisions]
    log_sigma: list[float] | None  # [num_decisions]
    fit_seconds: float  # rounded, so that a report after a pause says the same


Finished = tuple[Job, Outcome]


@dataclass(frozen=True, slots=True)
class Plan(Settings):
    """Everything that an evaluation computes."""

    sources: Sources
    methods: dict[str, Method]
    ablations: dict[str, Method]
    seeds: Seeds
    max_folds: Count | None = None  # of each split; for trials
    ablation_folds: Count | None = None  # of the split by graph

    def check(self) -> None:
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
        if not self.methods:
            raise InputError("methods=[]; name one or more")

    def jobs(self) -> list[Job]:
        """Return all jobs, the most important first. Raises InputError when there are none."""
        jobs = [job for kind in ORDER for job in self._jobs(kind)]
        if not jobs:
            raise InputError("no jobs: all of seeds.* are empty")
        return list(dict.fromkeys(jobs))

    def in_ablation_table(self, job: Job) -> bool:
        """Tell whether a job, of an ablation or of what it is compared with, counts there."""
        has_fold = self.ablation_folds is None or job.fold < self.ablation_folds
        return job.split == MAIN_SPLIT and job.seed in self.seeds.ablation and has_fold

    def stages(self) -> Iterator[Plan]:
        """Yield the plan from its most important split on, growing to all of it; at least one."""
        order = [kind for kind in ORDER if getattr(self.seeds, kind)]
        for k in range(1, max(len(order), 1)):
            yield replace(self, seeds=replace(self.seeds, **dict.fromkeys(order[k:], ())))
        yield self

    def _jobs(self, kind: str) -> Iterator[Job]:
        """Yield the jobs of one field of `Seeds`."""
        methods = self.ablations if kind == "ablation" else self.methods
        splits = {"transfer": [*self.sources.transfers], "ablation": [MAIN_SPLIT]}
        for split in splits.get(kind, [kind]):
            for seed in getattr(self.seeds, kind):
                for name, method in methods.items():
                    for fold in range(self._folds(split)):
                        job = Job(name, method, split, fold, seed, self.sources)
                        if kind != "ablation" or self.in_ablation_table(job):
                            yield job

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


def run_plan(
    plan: Plan, folder: Path, workers: Workers, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> list[Finished]:
    """Return all jobs of the plan with their outcomes; finished ones are kept in `folder`.

    Raises InputError for wrong input, also when a job cannot be done; what was finished is kept.
    """
    plan.sources.require_transfers()
    jobs, folder = plan.jobs(), folder / JOBS_FOLDER
    cores = len(os.sched_getaffinity(0))
    threads = max(1, cores // (workers.workers or cores))
    outcomes = run_jobs(
        jobs,
        partial(compute, folder=folder, num_threads=threads),
        folder,
        decode=lambda values: Outcome(**values),
        workers=workers,
        on_progress=on_progress,
        on_result=lambda job, _: shutil.rmtree(job.checkpoints(folder), ignore_errors=True),
    )
    return list(zip(jobs, outcomes, strict=True))


def compute(job: Job, folder: Path, num_threads: int) -> Outcome:
    """Fit the method and predict. Runs in a worker."""
    train, test = job.sources.selections(job.split, job.fold)
    start = time.perf_counter()
    predictor = fit(job.method.config, train, job.seed, checkpoints=job.checkpoints(folder), num_threads=num_threads)
    seconds = round(time.perf_counter() - start, 3)
    found = checked_prediction(predictor, test)
    log_sigma = None if found.log_sigma is None else found.log_sigma.tolist()
    return Outcome(found.throughput.tolist(), log_sigma, seconds)


@lru_cache
def code_version() -> str:
    """Return the hash of the code that predictions depend on; reports may change freely."""
    return source_key(Path(__file__).with_name("methods.py"))


@lru_cache(maxsize=4)
def _open(folder: Path, cache: Path) -> Labelled:
    """Open a dataset once per process: jobs of a worker share it."""
    return open_labelled(folder, cache)
