"""Which decisions train a model and which test it, stored so that all models use the same.

`splits.json` lies beside the tables:

    {"kind": "dataflow-costmodel splits", "schema": 1, "dataset": "<content hash>", "seed": 0,
     "num_folds": 5,
     "random": [fold of each decision],
     "graph": [fold of each netlist],
     "family": ["gemm", ...]}    fold k tests the k-th family
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset.loader import Tables
from costmodel.dataset.schema import FABRIC_TABLES, TablePair
from placer.errors import InputError
from placer.files import parse_object, read_text, write_atomic

KIND = "dataflow-costmodel splits"
SCHEMA_VERSION = 1
SPLITS_FILE = "splits.json"
DEFAULT_FOLDS = 5
_SEED_TAG = 0x5B117  # keeps the seeds apart from those that made the samples
_MAKE_AGAIN = "make the splits again from this dataset (make_splits, write_splits)"


class SplitKind(Enum):
    """What the decisions of a test fold have in common."""

    RANDOM = "random"  # nothing: other decisions of their netlists are in training
    GRAPH = "graph"  # their netlists are unseen, their families are not
    FAMILY = "family"  # their families are unseen


@dataclass(frozen=True, slots=True)
class Fold:
    """Numbers of decisions, rising."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """All splits of one dataset."""

    dataset: str  # content hash
    seed: int
    num_folds: int  # of the kinds RANDOM and GRAPH
    families: tuple[str, ...]  # [folds of the kind FAMILY] the one that is tested
    random: NDArray[np.int64]  # [num_decisions] fold in which it is tested
    graph: NDArray[np.int64]  # [num_netlists]
    family: NDArray[np.int64]  # [num_netlists]
    netlist_of: NDArray[np.int64]  # [num_decisions]

    def folds(self, kind: SplitKind) -> int:
        """How many folds there are; none by family when there is only one family."""
        if kind == SplitKind.FAMILY:
            return len(self.families) if len(self.families) > 1 else 0
        return self.num_folds

    def fold(self, kind: SplitKind, number: int) -> Fold:
        """Decisions to train and to test with. Raises InputError when there is no such fold."""
        if not 0 <= number < self.folds(kind):
            raise InputError(
                f"{kind.value} split: no fold {number}; there are {self.folds(kind)}, from 0 on"
            )
        if kind == SplitKind.RANDOM:
            tested_in = self.random
        else:
            per_netlist = self.graph if kind == SplitKind.GRAPH else self.family
            tested_in = per_netlist[self.netlist_of]
        is_test = tested_in == number
        return Fold(train=np.flatnonzero(~is_test), test=np.flatnonzero(is_test))


def make_splits(dataset: Tables, num_folds: int = DEFAULT_FOLDS) -> Splits:
    """Splits that depend on the dataset and its seed only.

    Raises InputError when there are fewer different netlists than folds.
    """
    num_different = len(set(dataset.fingerprints))
    if num_folds < 2 or num_different < num_folds or len(dataset) < num_folds:
        raise InputError(
            f"num_folds={num_folds} with {num_different} different netlists and {len(dataset)} "
            "decisions; needed 2 or more folds and as many netlists and decisions"
        )
    seeds = np.random.SeedSequence((dataset.metadata.seed, _SEED_TAG))
    random_seed, graph_seed = seeds.spawn(2)
    shuffled = np.random.default_rng(random_seed).permutation(len(dataset))
    return _splits_of(
        dataset,
        num_folds,
        random=shuffled % num_folds,
        graph=_graph_folds(
            dataset.families, dataset.fingerprints, num_folds, np.random.default_rng(graph_seed)
        ),
    )


def write_splits(folder: str | Path, splits: Splits) -> None:
    """Store the splits beside the tables of their dataset."""
    document = {
        "kind": KIND,
        "schema": SCHEMA_VERSION,
        "dataset": splits.dataset,
        "seed": splits.seed,
        "num_folds": splits.num_folds,
        "random": splits.random.tolist(),
        "graph": splits.graph.tolist(),
        "family": list(splits.families),
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items()]
    write_atomic(Path(folder) / SPLITS_FILE, "{\n" + ",\n".join(lines) + "\n}\n")


def read_splits(folder: str | Path, pair: TablePair = FABRIC_TABLES) -> Splits:
    """The splits of the dataset in `folder`.

    Raises InputError when there are none, or they are of another version or dataset.
    """
    path = Path(folder) / SPLITS_FILE
    dataset = Tables.read(folder, pair)
    try:
        document = parse_object(read_text(path))
        _require_origin(document, dataset)
        num_folds = document["num_folds"]
        if type(num_folds) is not int or num_folds < 2:
            raise InputError(f"num_folds is {num_folds!r:.40}, needed an integer from 2 on")
        splits = _splits_of(
            dataset,
            num_folds,
            random=_read_folds(document, "random", len(dataset), num_folds),
            graph=_read_folds(document, "graph", dataset.num_netlists, num_folds),
        )
        _require_no_leak(splits, dataset)
        if document["family"] != list(splits.families):
            raise InputError(f"family lists {document['family']!r:.60}, not {splits.families}")
    except InputError as error:
        raise InputError(f"splits {path}: {error}; {_MAKE_AGAIN}") from error
    return splits


def _splits_of(
    dataset: Tables, num_folds: int, *, random: NDArray[np.int64], graph: NDArray[np.int64]
) -> Splits:
    families, family = np.unique(np.array(dataset.families, np.str_), return_inverse=True)
    sizes = np.diff(dataset.first_decision)
    return Splits(
        dataset=dataset.content_hash,
        seed=dataset.metadata.seed,
        num_folds=num_folds,
        families=tuple(families.tolist()),
        random=random,
        graph=graph,
        family=family.astype(np.int64),
        netlist_of=np.repeat(np.arange(dataset.num_netlists), sizes),
    )


def _graph_folds(
    families: Sequence[str],
    fingerprints: Sequence[str],
    num_folds: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Fold of each netlist [num_netlists]: equal netlists together, families spread evenly.

    Each group of equal netlists, in random order and large ones first, goes to the fold that has
    fewest netlists of its family, and among these to the one with fewest in all. Done here since
    scikit-learn's StratifiedGroupKFold refuses families with fewer netlists than folds.
    """
    folds = np.zeros(len(families), np.int64)
    in_all = np.zeros(num_folds, np.int64)
    for family in sorted(set(families)):
        in_family = np.zeros(num_folds, np.int64)
        for group in _groups(families, fingerprints, family, generator):
            fold = np.lexsort((in_all, in_family))[0]
            folds[group] = fold
            in_family[fold] += len(group)
            in_all[fold] += len(group)
    return folds


def _groups(
    families: Sequence[str],
    fingerprints: Sequence[str],
    family: str,
    generator: np.random.Generator,
) -> list[list[int]]:
    """Netlists of a family with equal fingerprints, in random order, large groups first."""
    groups: dict[str, list[int]] = {}
    for netlist_id, fingerprint in enumerate(fingerprints):
        if families[netlist_id] == family:
            groups.setdefault(fingerprint, []).append(netlist_id)
    members = list(groups.values())
    shuffled = [members[i] for i in generator.permutation(len(members))]
    return sorted(shuffled, key=len, reverse=True)


def _require_origin(document: dict[str, Any], dataset: Tables) -> None:
    for name, wanted in (("kind", KIND), ("schema", SCHEMA_VERSION)):
        if document.get(name) != wanted:
            raise InputError(f"{name} is {document.get(name)!r:.60}, needed {wanted!r}")
    needed = {"dataset", "seed", "num_folds", "random", "graph", "family"}
    missing = sorted(needed - document.keys())
    if missing:
        raise InputError(f"has no {missing[0]!r}")
    if document["dataset"] != dataset.content_hash:
        raise InputError(
            f"made for the dataset with hash {document['dataset']!r:.20}, "
            f"this one has {dataset.content_hash[:16]!r}"
        )


def _read_folds(
    document: dict[str, Any], name: str, num_entries: int, num_folds: int
) -> NDArray[np.int64]:
    values = document[name]
    if not isinstance(values, list) or len(values) != num_entries:
        raise InputError(f"{name} must be a list of {num_entries} folds")
    wrong = [value for value in values if type(value) is not int or not 0 <= value < num_folds]
    if wrong:
        raise InputError(f"{name} has fold {wrong[0]!r:.40}; allowed 0 to {num_folds - 1}")
    return np.array(values, np.int64)


def _require_no_leak(splits: Splits, dataset: Tables) -> None:
    pairs = set(zip(dataset.fingerprints, splits.graph.tolist(), strict=True))
    if len(pairs) != len(set(dataset.fingerprints)):
        raise InputError("graph has equal netlists in different folds")
