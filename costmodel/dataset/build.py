"""Generate a dataset: shards by many workers, then tables, splits, a calibration and a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from costmodel.calibration import Calibration, save_calibration
from costmodel.dataset.generate import SampleOptions, make_samples
from costmodel.dataset.loader import Dataset
from costmodel.dataset.report import ReportSummary, write_report
from costmodel.dataset.schema import FABRIC_TABLES, Metadata, TablePair
from costmodel.dataset.splits import DEFAULT_FOLDS, SplitKind, Splits, make_splits, write_splits
from costmodel.dataset.store import (
    finished_shards,
    is_merged,
    merge,
    put_shard,
    remove_leftovers,
    shard_bytes,
)
from costmodel.version import source_hash
from placer.errors import InputError
from placer.executor import ExecutorKind, run_tasks
from placer.fabric import Fabric
from placer.files import make_folder, require_folder
from placer.lowering import SECTION
from placer.simulation import LONG_SAMPLE_LIMITS, PRECISE_LIMITS
from placer.workloads import FAMILIES

REPORT_FOLDER = "report"
CALIBRATION_FILE = "calibration.json"

T = TypeVar("T")
OnProgress = Callable[[int, int], None]  # (finished shards, all shards)


@dataclass(frozen=True, slots=True)
class Content:
    """Everything that the samples depend on."""

    fabric: Fabric
    families: tuple[str, ...]
    netlists_per_family: int
    netlists_per_shard: int
    samples: SampleOptions
    seed: int

    def __post_init__(self) -> None:
        for family in self.families:
            if family not in (known := (*FAMILIES, SECTION)):
                raise InputError(f"unknown family {family!r}; allowed: {', '.join(known)}")
        if not self.families or len(set(self.families)) != len(self.families):
            raise InputError(f"families={list(self.families)}; allowed: one or more, each once")
        for name in ("netlists_per_family", "netlists_per_shard"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}; allowed 1 or more")
        if self.num_netlists < 2:
            raise InputError("a dataset of one netlist cannot be split; allowed: 2 or more")
        if self.seed < 0:
            raise InputError(f"seed={self.seed}; allowed 0 or more")

    @property
    def num_netlists(self) -> int:
        return self.netlists_per_family * len(self.families)

    @property
    def num_shards(self) -> int:
        return -(-self.num_netlists // self.netlists_per_shard)

    def metadata(self) -> Metadata:
        limits = {"short": PRECISE_LIMITS._asdict(), "long": LONG_SAMPLE_LIMITS._asdict()}
        config = {**asdict(self), "families": list(self.families), "label_limits": limits}
        return Metadata(plain(config), self.seed, code_version())


@dataclass(frozen=True, slots=True)
class _ShardTask:
    content: Content
    metadata: Metadata
    number: int


def build_dataset(
    content: Content,
    folder: Path,
    *,
    executor: ExecutorKind,
    workers: int,
    ray_address: str | None = None,
    on_progress: OnProgress | None = None,
) -> ReportSummary:
    """Make the dataset in `folder`, or what is missing of it; then what is made from it.

    Same content, same bytes, for any number of workers and after any number of interruptions.
    Raises InputError when the folder holds a dataset with other settings.
    """
    require_folder(folder)
    make_folder(folder)
    metadata = content.metadata()
    if not is_merged(folder, metadata):
        remove_leftovers(folder)
        tasks = [_ShardTask(content, metadata, number) for number in range(content.num_shards)]
        by = Workers(executor, workers, ray_address, on_progress)
        make_shards(folder, metadata, FABRIC_TABLES, tasks, _make_shard, by)
    merge(folder, content.num_shards, metadata)
    dataset = Dataset.open(folder, fabrics=[content.fabric])
    splits = make_splits(dataset, min(DEFAULT_FOLDS, len(set(dataset.fingerprints))))
    write_splits(folder, splits)
    _write_calibration(folder, dataset, splits)
    return write_report(dataset, splits, folder / REPORT_FOLDER)


def _write_calibration(folder: Path, dataset: Dataset, splits: Splits) -> None:
    """Of the heuristic; the netlists of the first test fold by graph stay unseen."""
    train, index = splits.fold(SplitKind.GRAPH, 0).train, dataset.index
    calibration = Calibration.fit(index.heuristic[train], index.throughput[train])
    save_calibration(folder / CALIBRATION_FILE, calibration)


@dataclass(frozen=True, slots=True)
class Workers:
    """Who makes the shards."""

    executor: ExecutorKind
    number: int
    ray_address: str | None = None
    on_progress: OnProgress | None = None


def make_shards(
    folder: Path,
    metadata: Metadata,
    pair: TablePair,
    tasks: Sequence[T],
    make_shard: Callable[[T], bytes],
    workers: Workers,
) -> None:
    """Make those shards that are missing; shard i by `make_shard(tasks[i])`, in any process."""
    finished = finished_shards(folder, metadata, pair)
    report = workers.on_progress or (lambda done, total: None)
    report(len(finished), len(tasks))
    missing = [number for number in range(len(tasks)) if number not in finished]
    results = run_tasks(
        make_shard, [tasks[number] for number in missing],
        kind=workers.executor, workers=workers.number, ray_address=workers.ray_address,
    )  # fmt: skip
    for done, (task, shard) in enumerate(results, len(finished) + 1):
        put_shard(folder, missing[task], shard)
        report(done, len(tasks))


def _make_shard(task: _ShardTask) -> bytes:
    """Runs in a worker."""
    content = task.content
    first = task.number * content.netlists_per_shard
    last = min(first + content.netlists_per_shard, content.num_netlists)
    samples = [
        make_samples(
            content.fabric,
            content.families[netlist_id % len(content.families)],
            content.samples,
            content.seed,
            netlist_id,
        )
        for netlist_id in range(first, last)
    ]
    return shard_bytes(samples, task.metadata)


def code_version() -> str:
    """Hash of all sources that samples depend on."""
    here = Path(__file__).parent
    return source_hash(here, here.parent.parent / "placer")


def plain(value: Any) -> Any:
    """Enums and tuples as JSON holds them."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return getattr(value, "value", value)
