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

from costmodel.dataset.loader import Tables
from costmodel.dataset.schema import FABRIC_TABLES, TablePair
from placer.base import InputError, LongArray, parse_object, read_text, require_kind, write_atomic

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

    train: LongArray
    test: LongArray


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """All splits of one dataset."""

    dataset: str  # content hash
    seed: int
    num_folds: int  # of the kinds RANDOM and GRAPH
    families: tuple[str, ...]  # [folds of the kind FAMILY] the one that is tested
    random: LongArray  # [num_decisions] fold in which it is tested
    graph: LongArray  # [num_netlists]
    family: LongArray  # [num_netlists]
    netlist_of: LongArray  # [num_decisions]

    def folds(self, kind: SplitKind) -> int:
        """Return how many folds there are; none by family when there is only one family."""
        if kind == SplitKind.FAMILY:
            return len(self.families) if len(self.families) > 1 else 0
        return self.num_folds

    def fold(self, kind: SplitKind, number: int) -> Fold:
        """Return what to train and to test with. Raises InputError when there is no such fold."""
        if not 0 <= number < self.folds(kind):
            raise InputError(f"{kind.value} split: no fold {number}; there are {self.folds(kind)}, from 0 on")
        per_netlist = self.graph if kind == SplitKind.GRAPH else self.family
        tested_in = self.random if kind == SplitKind.RANDOM else per_netlist[self.netlist_of]
        is_test = tested_in == number
        return Fold(train=np.flatnonzero(~is_test), test=np.flatnonzero(is_test))


def make_splits(dataset: Tables, num_folds: int = DEFAULT_FOLDS) -> Splits:
    """Make splits that depend on the dataset and its seed only.

    Raises InputError when there are fewer different netlists than folds.
    """
    num_different = len(set(dataset.groups.tolist()))
    if num_folds < 2 or num_different < num_folds or len(dataset) < num_folds:
        raise InputError(
            f"num_folds={num_folds} with {num_different} different netlists and {len(dataset)} "
            "decisions; needed 2 or more folds and as many netlists and decisions"
        )
    seeds = np.random.SeedSequence((dataset.metadata.seed, _SEED_TAG))
    random_seed, graph_seed = seeds.spawn(2)
    random = np.random.default_rng(random_seed).permutation(len(dataset)) % num_folds
    generator = np.random.default_rng(graph_seed)
    graph = _graph_folds(dataset.families, dataset.groups.tolist(), num_folds, generator)
    return _splits_of(dataset, num_folds, random=random, graph=graph)


def split_dataset(dataset: Tables) -> Splits:
    """Make and store splits of as many folds as usual, or as there are different netlists."""
    splits = make_splits(dataset, min(DEFAULT_FOLDS, len(set(dataset.groups.tolist()))))
    write_splits(dataset.folder, splits)
    return splits


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
    """Return the splits of the dataset in `folder`.

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
        random = _read_folds(document, "random", len(dataset), num_folds)
        graph = _read_folds(document, "graph", dataset.num_netlists, num_folds)
        groups = dataset.groups.tolist()
        if len(set(zip(groups, graph.tolist(), strict=True))) != len(set(groups)):
            raise InputError("graph has equal netlists, or plans of one segment, in different folds")
        splits = _splits_of(dataset, num_folds, random=random, graph=graph)
        if document["family"] != list(splits.families):
            raise InputError(f"family lists {document['family']!r:.60}, not {splits.families}")
    except InputError as error:
        raise InputError(f"splits {path}: {error}; {_MAKE_AGAIN}") from error
    return splits


def _splits_of(dataset: Tables, num_folds: int, *, random: LongArray, graph: LongArray) -> Splits:
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
    families: Sequence[str], group_of: Sequence[int], num_folds: int, generator: np.random.Generator
) -> LongArray:
    """Return the fold of each netlist: those of a group together, families spread evenly.

    Each group of equal netlists and of plans of one segment, in random order and large ones first,
    goes to the fold that has fewest netlists of its family, and among these to the one with fewest
    in all. Done here since scikit-learn's StratifiedGroupKFold refuses families with fewer netlists
    than folds.
    """
    folds, in_all = np.zeros(len(families), np.int64), np.zeros(num_folds, np.int64)
    for family in sorted(set(families)):
        groups: dict[int, list[int]] = {}
        for netlist_id, number in enumerate(group_of):
            if families[netlist_id] == family:
                groups.setdefault(number, []).append(netlist_id)
        members = list(groups.values())
        shuffled = [members[i] for i in generator.permutation(len(members))]
        in_family = np.zeros(num_folds, np.int64)
        for group in sorted(shuffled, key=len, reverse=True):
            fold = np.lexsort((in_all, in_family))[0]
            folds[group] = fold
            in_family[fold] += len(group)
            in_all[fold] += len(group)
    return folds


def _require_origin(document: dict[str, Any], dataset: Tables) -> None:
    require_kind(document, KIND, SCHEMA_VERSION)
    for name in ("dataset", "seed", "num_folds", "random", "graph", "family"):
        if name not in document:
            raise InputError(f"has no {name!r}")
    if document["dataset"] != dataset.content_hash:
        raise InputError(
            f"made for the dataset with hash {document['dataset']!r:.20}, this one has {dataset.content_hash[:16]!r}"
        )


def _read_folds(document: dict[str, Any], name: str, num_entries: int, num_folds: int) -> LongArray:
    values = document[name]
    if not isinstance(values, list) or len(values) != num_entries:
        raise InputError(f"{name} must be a list of {num_entries} folds")
    wrong = [value for value in values if type(value) is not int or not 0 <= value < num_folds]
    if wrong:
        raise InputError(f"{name} has fold {wrong[0]!r:.40}; allowed 0 to {num_folds - 1}")
    return np.array(values, np.int64)
