"""Command: make a dataset of labelled mappings (conf/wafer_dataset.yaml)."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from costmodel.dataset.build import Workers, make_shards, plain
from costmodel.dataset.schema import WAFER_TABLES, Metadata
from costmodel.dataset.splits import DEFAULT_FOLDS, make_splits, write_splits
from costmodel.dataset.store import is_merged, merge, pack_shard, remove_leftovers
from costmodel.wafer import rows
from costmodel.wafer.dataset import WaferDataset, WaferHardware
from costmodel.wafer.graphs import FAMILIES
from costmodel.wafer.samples import make_samples
from placer.command import make_console
from placer.compile_cache import source_key
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.executor import ExecutorKind
from placer.files import make_folder, require_folder

NOTE_EVERY = 8  # graphs, where there is no terminal to show a bar


@dataclass(frozen=True, slots=True)
class WaferContent:
    """Everything that the samples depend on."""

    families: tuple[str, ...]
    graphs_per_family: int
    mappings: int
    seed: int

    def __post_init__(self) -> None:
        for family in self.families:
            if family not in FAMILIES:
                raise InputError(f"unknown family {family!r}; allowed: {', '.join(FAMILIES)}")
        if not self.families or len(set(self.families)) != len(self.families):
            raise InputError(f"families={list(self.families)}; allowed: one or more, each once")
        if self.graphs_per_family < 1 or self.graphs_per_family * len(self.families) < 2:
            raise InputError(
                f"graphs_per_family={self.graphs_per_family}; allowed 1 or more, of 2 graphs"
            )
        if self.mappings < 8:
            raise InputError(f"mappings={self.mappings}; allowed 8 or more")
        if self.seed < 0:
            raise InputError(f"seed={self.seed}; allowed 0 or more")

    @property
    def num_graphs(self) -> int:
        return self.graphs_per_family * len(self.families)

    def metadata(self) -> Metadata:
        config = {**asdict(self), "hardware": asdict(WaferHardware())}
        return Metadata(plain(config), self.seed, code_version())


@dataclass(frozen=True, slots=True)
class WaferDatasetConfig:
    """What `conf/wafer_dataset.yaml` holds."""

    families: tuple[str, ...]
    graphs_per_family: int
    mappings: int
    seed: int
    workers: int | None
    executor: ExecutorKind
    ray_address: str | None
    output: Path

    def content(self) -> WaferContent:
        return WaferContent(self.families, self.graphs_per_family, self.mappings, self.seed)


@dataclass(frozen=True, slots=True)
class _Task:
    content: WaferContent
    metadata: Metadata
    graph: int


def build_mappings(content: WaferContent, folder: Path, workers: Workers) -> WaferDataset:
    """Make the dataset in `folder`, or what is missing of it; one shard per graph.

    Same content, same bytes, for any number of workers and after any number of interruptions.
    Raises InputError when the folder holds a dataset with other settings.
    """
    require_folder(folder)
    make_folder(folder)
    metadata = content.metadata()
    if not is_merged(folder, metadata, WAFER_TABLES):
        remove_leftovers(folder)
        tasks = [_Task(content, metadata, number) for number in range(content.num_graphs)]
        make_shards(folder, metadata, WAFER_TABLES, tasks, _make_shard, workers)
    merge(folder, content.num_graphs, metadata, WAFER_TABLES)
    dataset = WaferDataset.open(folder)
    write_splits(folder, make_splits(dataset, min(DEFAULT_FOLDS, len(set(dataset.fingerprints)))))
    return dataset


def _make_shard(task: _Task) -> bytes:
    """Runs in a worker."""
    content = task.content
    family = content.families[task.graph % len(content.families)]
    samples = make_samples(family, content.mappings, content.seed, task.graph)
    return pack_shard([rows.rows_of(samples)], task.metadata, WAFER_TABLES)


def code_version() -> str:
    """Hash of the sources that samples depend on, and of no others."""
    return source_key(Path(rows.__file__))


def main(config: DictConfig) -> None:
    """Entry point."""
    settings, console = to_dataclass(WaferDatasetConfig, config), make_console()
    content = settings.content()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    number = len(os.sched_getaffinity(0)) if settings.workers is None else settings.workers
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("graphs", total=content.num_graphs)

        def report(done: int, total: int) -> None:
            progress.update(bar, completed=done)
            if not console.is_terminal and done % NOTE_EVERY == 0:
                console.print(f"{done} of {total} graphs")

        workers = Workers(settings.executor, number, settings.ray_address, report)
        dataset = build_mappings(content, settings.output, workers)
    engines, counts = sorted(set(dataset.engines.tolist())), dataset.engines.tolist().count
    parts = ", ".join(f"{engine} {counts(engine)}" for engine in engines)
    console.print(f"{len(dataset)} mappings of {dataset.num_netlists} graphs: {parts}")
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "wafer_dataset")
