"""Generate a dataset: shards by many workers, then tables, splits and a calibration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from costmodel.base import Calibration, save_calibration
from costmodel.dataset.generate import SampleOptions, code_version, make_samples
from costmodel.dataset.loader import Dataset
from costmodel.dataset.schema import FABRIC_TABLES, Metadata, plain, require_families
from costmodel.dataset.splits import SplitKind, Splits, split_dataset
from costmodel.dataset.store import OnProgress, make_tables, shard_bytes
from placer.base import InputError
from placer.base.workers import Workers
from placer.fabric import Fabric
from placer.graph.workloads import FAMILIES
from placer.netlist.lowering import SECTION
from placer.simulation import LONG_SAMPLE_LIMITS, PRECISE_LIMITS

CALIBRATION_FILE = "calibration.json"


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
        require_families(self.families, (*FAMILIES, SECTION), self.seed)
        for name in ("netlists_per_family", "netlists_per_shard"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}; allowed 1 or more")
        if self.num_netlists < 2:
            raise InputError("a dataset of one netlist cannot be split; allowed: 2 or more")

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


def build_dataset(
    content: Content, folder: Path, workers: Workers, on_progress: OnProgress = lambda done, total: None
) -> tuple[Dataset, Splits]:
    """Make the dataset in `folder` as `make_tables` does; then its splits and calibration."""
    metadata = content.metadata()
    make_shard = partial(_make_shard, content, metadata)
    make_tables(folder, metadata, FABRIC_TABLES, content.num_shards, make_shard, workers, on_progress)
    dataset = Dataset.open(folder, fabrics=[content.fabric])
    splits = split_dataset(dataset)
    # Of the heuristic; the netlists of the first test fold by graph stay unseen.
    train, index = splits.fold(SplitKind.GRAPH, 0).train, dataset.index
    calibration = Calibration.fit(index.heuristic[train], index.throughput[train])
    save_calibration(folder / CALIBRATION_FILE, calibration)
    return dataset, splits


def _make_shard(content: Content, metadata: Metadata, number: int) -> bytes:
    """Make a shard; this runs in a worker."""
    first = number * content.netlists_per_shard
    last = min(first + content.netlists_per_shard, content.num_netlists)
    samples = []
    for netlist_id in range(first, last):
        family = content.families[netlist_id % len(content.families)]
        options = content.samples
        samples.append(make_samples(content.fabric, family, options, content.seed, netlist_id))
    return shard_bytes(samples, metadata)
