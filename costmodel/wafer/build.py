"""Command: make a dataset of labelled mappings (conf/wafer_dataset.yaml)."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from costmodel.dataset import Metadata, OnProgress, make_tables, pack_shard, plain, require_families, split_dataset
from costmodel.wafer import rows
from costmodel.wafer.dataset import WaferDataset, WaferHardware
from costmodel.wafer.graphs import FAMILIES
from costmodel.wafer.samples import make_samples
from costmodel.wafer.schema import WAFER_TABLES
from placer.base import InputError, counting_bar, make_console, source_key
from placer.base.config import run_command, to_dataclass
from placer.base.workers import Workers


@dataclass(frozen=True, slots=True)
class WaferContent:
    """Everything that the samples depend on."""

    families: tuple[str, ...]
    graphs_per_family: int
    mappings: int
    seed: int

    def __post_init__(self) -> None:
        require_families(self.families, FAMILIES, self.seed)
        if self.graphs_per_family < 1 or self.graphs_per_family * len(self.families) < 2:
            raise InputError(f"graphs_per_family={self.graphs_per_family}; allowed 1 or more, of 2 graphs")
        if self.mappings < 8:
            raise InputError(f"mappings={self.mappings}; allowed 8 or more")

    @property
    def num_graphs(self) -> int:
        return self.graphs_per_family * len(self.families)

    def metadata(self) -> Metadata:
        config = {**asdict(self), "hardware": asdict(WaferHardware())}
        return Metadata(plain(config), self.seed, code_version())


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferDatasetConfig(Workers):
    """What `conf/wafer_dataset.yaml` holds."""

    families: tuple[str, ...]
    graphs_per_family: int
    mappings: int
    seed: int
    output: Path

    def content(self) -> WaferContent:
        """Return what the samples depend on. Raises InputError for what cannot be made."""
        return WaferContent(self.families, self.graphs_per_family, self.mappings, self.seed)


def build_mappings(
    content: WaferContent, folder: Path, workers: Workers, on_progress: OnProgress = lambda done, total: None
) -> WaferDataset:
    """Make the dataset in `folder` as `make_tables` does, one shard per graph, and its splits."""
    metadata = content.metadata()
    make_shard = partial(_make_shard, content, metadata)
    make_tables(folder, metadata, WAFER_TABLES, content.num_graphs, make_shard, workers, on_progress)
    dataset = WaferDataset.open(folder)
    split_dataset(dataset)
    return dataset


def _make_shard(content: WaferContent, metadata: Metadata, graph: int) -> bytes:
    """Make the shard of a graph; this runs in a worker."""
    family = content.families[graph % len(content.families)]
    samples = make_samples(family, content.mappings, content.seed, graph)
    return pack_shard([rows.rows_of(samples)], metadata, WAFER_TABLES)


def code_version() -> str:
    """Return the hash of the sources that samples depend on, and of no others."""
    return source_key(Path(rows.__file__))


def main(config: DictConfig) -> None:
    """Make a dataset of labelled mappings and print how many each engine found."""
    settings, console = to_dataclass(WaferDatasetConfig, config), make_console()
    content = settings.content()
    with counting_bar("graphs") as on_progress:
        dataset = build_mappings(content, settings.output, settings, on_progress)
    counts = sorted(Counter(dataset.index.phase.tolist()).items())
    parts = ", ".join(f"{engine} {number}" for engine, number in counts)
    console.print(f"{len(dataset)} mappings of {dataset.num_netlists} graphs: {parts}")
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "wafer_dataset")
