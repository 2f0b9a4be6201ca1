"""Read a dataset: netlist by netlist, without holding more than one of them in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from costmodel.dataset.records import ALONE, NetlistSamples, Phase
from costmodel.dataset.schema import FABRIC_TABLES, Metadata, TableFile, TablePair, require_same_origin
from costmodel.dataset.tables import hardware_of, samples_from
from placer.base import FloatArray, InputError, LongArray
from placer.decision.routing import require_routes, require_sites
from placer.fabric import Fabric

_HASH_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Index:
    """What is needed to choose decisions, for all of them."""

    netlist_id: LongArray  # [num_decisions] rising
    phase: NDArray[np.str_]  # [num_decisions] where a decision comes from
    throughput: FloatArray  # [num_decisions] the label
    heuristic: FloatArray  # [num_decisions]


@dataclass(frozen=True, eq=False)
class Tables:
    """Both tables of a dataset in a folder, of whichever pair; `len` is its number of decisions.

    Decisions are numbered netlist by netlist: those of netlist i are `first_decision[i]` up to
    `first_decision[i + 1]`. It can be sent to other processes; no file stays open.
    """

    folder: Path
    pair: TablePair
    metadata: Metadata
    families: tuple[str, ...]  # [num_netlists]
    fingerprints: tuple[str, ...]  # [num_netlists]
    groups: LongArray  # [num_netlists] equal for equal netlists and for plans of one segment
    first_decision: LongArray  # [num_netlists + 1]
    netlists_file: TableFile
    decisions_file: TableFile

    @classmethod
    def read(cls, folder: str | Path, pair: TablePair) -> Self:
        """Read the footers and the list of netlists.

        Raises InputError when the folder holds no complete dataset of this version.
        """
        folder = Path(folder)
        netlists, decisions = (
            TableFile.open(folder / table.file, table, f"dataset {folder / table.file}") for table in pair
        )
        require_same_origin(decisions.metadata, netlists.metadata, decisions.label)
        names = ["netlist_id", "family", "fingerprint", "num_decisions"]
        has_segments = "segment" in pair.netlists.columns.names
        columns = netlists.read_columns(names + ["segment"] * has_segments).to_pydict()
        _require_pair(netlists, decisions, columns["netlist_id"], columns["num_decisions"])
        return cls(
            folder=folder,
            pair=pair,
            metadata=netlists.metadata,
            families=tuple(columns["family"]),
            fingerprints=tuple(columns["fingerprint"]),
            groups=_groups(columns["fingerprint"], columns.get("segment", [ALONE] * len(columns["fingerprint"]))),
            first_decision=np.cumsum([0, *columns["num_decisions"]], dtype=np.int64),
            netlists_file=netlists,
            decisions_file=decisions,
        )

    def __len__(self) -> int:
        return int(self.first_decision[-1])

    @property
    def num_netlists(self) -> int:
        return len(self.families)

    @cached_property
    def content_hash(self) -> str:
        """Return the SHA-256 of the table of netlists followed by that of decisions."""
        digest = hashlib.sha256()
        for table in self.pair:
            with open(self.folder / table.file, "rb") as file:
                while chunk := file.read(_HASH_CHUNK_BYTES):
                    digest.update(chunk)
        return digest.hexdigest()

    @cached_property
    def index(self) -> Index:
        """Return small columns of all decisions. Raises InputError for illegal values."""
        table = self.decisions_file.read_columns(["netlist_id", "phase", "throughput", "heuristic"])
        netlist_id, throughput, heuristic = (
            np.array(table[name].to_numpy()) for name in ("netlist_id", "throughput", "heuristic")
        )
        label = self.decisions_file.label
        expected = np.repeat(np.arange(self.num_netlists), np.diff(self.first_decision))
        if not np.array_equal(netlist_id, expected):
            raise InputError(f"{label}: netlist_id is not in the order of {self.pair.netlists.file}")
        if not ((throughput > 0) & (throughput <= 1)).all():
            raise InputError(f"{label}: throughput must lie in (0, 1]")
        if not np.isfinite(heuristic).all():
            raise InputError(f"{label}: heuristic must be finite")
        phase = np.array(table["phase"].to_pylist(), np.str_)
        return Index(expected, phase, throughput, heuristic)


@dataclass(frozen=True, eq=False)
class Dataset(Tables):
    """Decisions on fabrics; the phases of its index are values of `Phase`.

    dataset = Dataset.open("data/dataset")
    for samples in dataset.each_netlist(): ...
    """

    @staticmethod
    def open(folder: str | Path) -> Dataset:
        """Read the footers and the list of netlists.

        Raises InputError when the folder holds no complete dataset of this version.
        """
        return Dataset.read(folder, FABRIC_TABLES)

    @cached_property
    def fabrics(self) -> tuple[Fabric, ...]:
        """Return the fabrics that netlists were lowered for, each once. Raises InputError for illegal ones."""
        texts = self.netlists_file.read_columns(["hardware"])["hardware"].to_pylist()
        try:
            return tuple(hardware_of(text) for text in dict.fromkeys(texts))
        except InputError as error:
            raise InputError(f"{self.netlists_file.label}: {error}") from error

    @cached_property
    def index(self) -> Index:
        """Return small columns of all decisions. Raises InputError for illegal values."""
        index = super().index
        unknown = set(np.unique(index.phase).tolist()) - {phase.value for phase in Phase}
        if unknown:
            raise InputError(f"{self.decisions_file.label}: unknown phase {min(unknown)!r}")
        return index

    def samples(self, netlist_id: int) -> NetlistSamples:
        """Return all samples of one netlist. Raises InputError for illegal values in the files."""
        if not 0 <= netlist_id < self.num_netlists:
            raise IndexError(f"netlist {netlist_id} of {self.num_netlists}")
        netlist_table = self.netlists_file.read_group(netlist_id)
        decision_table = self.decisions_file.read_group(netlist_id)
        try:
            samples = samples_from(netlist_table, decision_table)
            require_sites(samples.fabric, samples.netlist, samples.decisions.sites)
            require_routes(samples.fabric, samples.netlist, samples.decisions)
        except InputError as error:
            raise InputError(f"dataset {self.folder}: netlist {netlist_id}: {error}") from error
        return samples

    def each_netlist(self) -> Iterator[NetlistSamples]:
        """Yield the samples of one netlist after the other."""
        return (self.samples(netlist_id) for netlist_id in range(self.num_netlists))


def _groups(fingerprints: list[str], segments: list[int]) -> LongArray:
    """Return groups of netlists that must not be told apart by a split, numbered from 0."""
    num = len(fingerprints)
    keys = [*fingerprints, *(f"alone {k}" if s == ALONE else f"segment {s}" for k, s in enumerate(segments))]
    ids = np.unique(keys, return_inverse=True)[1]
    edges = coo_array((np.ones(num), (ids[:num], ids[num:])), shape=(2 * num, 2 * num))
    labels = connected_components(edges, directed=False)[1]
    return np.unique(labels[ids[:num]], return_inverse=True)[1].astype(np.int64)


def _require_pair(netlists: TableFile, decisions: TableFile, ids: list[int], num_decisions: list[int]) -> None:
    """Raise InputError when row group i of both tables is not netlist i."""
    if ids != list(range(netlists.num_row_groups)) or decisions.rows_per_group() != num_decisions:
        raise InputError(
            f"{netlists.label} tells of {len(ids)} netlists with {sum(num_decisions)} decisions, "
            f"{decisions.label} holds {decisions.num_row_groups} with {decisions.num_rows}: they "
            "do not belong together; fetch both again or run make dataset"
        )
