"""Generate a dataset: shards by many workers, then tables, splits and a calibration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from functools import cache, partial
from pathlib import Path

from costmodel.base import Calibration, save_calibration
from costmodel.dataset.generate import SampleOptions, code_version, make_samples
from costmodel.dataset.loader import Dataset
from costmodel.dataset.schema import FABRIC_TABLES, Metadata, plain, require_families
from costmodel.dataset.splits import SplitKind, Splits, split_dataset
from costmodel.dataset.store import OnProgress, make_tables, shard_bytes
from placer.base import InputError
from placer.base.workers import Workers
from placer.fabric import HELD_OUT, HELD_OUT_SEED, Fabric, draw_fabric, load_fabric
from placer.graph.workloads import FAMILIES, NETWORK_FAMILIES, NETWORKS
from placer.simulation import LONG_SAMPLE_LIMITS, PRECISE_LIMITS

CALIBRATION_FILE = "calibration.json"


_SMALL_EVERY, _LARGE_EVERY = 8, 16  # of so many segments on random fabrics, one is on `small`, one on `large`
_LARGE_TILES = 240  # at least, of the random fabrics beside `large`, which has 320


class Hardware(Enum):
    """What netlists are lowered for."""

    ONE = "one"  # all for the fabric that was named
    RANDOM = "random"  # each segment for another random fabric; some for `small` and `large`
    LARGE = "large"  # every second segment for `large`, the others each for another random fabric about as large
    HELD_OUT = "held_out"  # ten random fabrics that are never drawn for training, in turn


@dataclass(frozen=True, slots=True)
class Content:
    """Everything that the samples depend on."""

    fabric: Fabric | None  # with Hardware.ONE only
    families: tuple[str, ...]
    netlists_per_family: int
    netlists_per_shard: int
    samples: SampleOptions
    seed: int
    hardware: Hardware = Hardware.ONE

    def __post_init__(self) -> None:
        require_families(self.families, (*FAMILIES, *NETWORK_FAMILIES, *NETWORKS), self.seed)
        for name in ("netlists_per_family", "netlists_per_shard"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}; allowed 1 or more")
        if self.num_netlists < 2:
            raise InputError("a dataset of one netlist cannot be split; allowed: 2 or more")
        if self.netlists_per_family % self.samples.plans:
            raise InputError(
                f"netlists_per_family={self.netlists_per_family} is no multiple of plans={self.samples.plans}"
            )
        if self.hardware in (Hardware.RANDOM, Hardware.LARGE) and self.seed == HELD_OUT_SEED:
            raise InputError(f"seed={self.seed} draws the fabrics that are held out; choose another one")

    @property
    def num_netlists(self) -> int:
        return self.netlists_per_family * len(self.families)

    @property
    def num_shards(self) -> int:
        return -(-self.num_netlists // self.netlists_per_shard)

    def family_of(self, netlist_id: int) -> str:
        """Return the family of a netlist; segments take them in turn."""
        return self.families[netlist_id // self.samples.plans % len(self.families)]

    def fabric_of(self, netlist_id: int) -> Fabric:
        """Return the fabric that a netlist is lowered for."""
        segment = netlist_id // self.samples.plans
        if self.fabric is not None:
            return self.fabric
        if self.hardware is Hardware.HELD_OUT:
            return draw_fabric(HELD_OUT_SEED, segment % HELD_OUT)
        if self.hardware is Hardware.LARGE:
            return draw_fabric(self.seed, segment, _LARGE_TILES) if segment % 2 else _preset("large")
        if segment % _LARGE_EVERY == _LARGE_EVERY - 1:
            return _preset("large")
        return _preset("small") if segment % _SMALL_EVERY == 0 else draw_fabric(self.seed, segment)

    def metadata(self) -> Metadata:
        limits = {"short": PRECISE_LIMITS._asdict(), "long": LONG_SAMPLE_LIMITS._asdict()}
        config = {**asdict(self), "families": list(self.families), "label_limits": limits}
        return Metadata(plain(config), self.seed, code_version())


@cache
def _preset(name: str) -> Fabric:
    return load_fabric(name)


def build_dataset(
    content: Content, folder: Path, workers: Workers, on_progress: OnProgress = lambda done, total: None
) -> tuple[Dataset, Splits]:
    """Make the dataset in `folder` as `make_tables` does; then its splits and calibration."""
    metadata = content.metadata()
    make_shard = partial(_make_shard, content, metadata)
    make_tables(folder, metadata, FABRIC_TABLES, content.num_shards, make_shard, workers, on_progress)
    dataset = Dataset.open(folder)
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
    samples = [
        make_samples(content.fabric_of(k), content.family_of(k), content.samples, content.seed, k)
        for k in range(first, last)
    ]
    return shard_bytes(samples, metadata)
