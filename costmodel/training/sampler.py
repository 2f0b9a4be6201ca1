"""Batches of G graphs x C decisions: ranks within a graph can only be learned side by side."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch.utils.data import Dataset, Sampler

from costmodel.encoding import Batch, GraphSet, make_batch
from costmodel.training.processes import ALONE, Place
from placer.base import LongArray


class BatchData(Dataset[Batch]):
    """Ids of decisions -> their batch."""

    def __init__(self, graphs: GraphSet) -> None:
        self.graphs = graphs

    def __getitem__(self, ids: LongArray) -> Batch:
        return make_batch(self.graphs, ids)


class GraphSampler(Sampler[LongArray]):
    """Every decision once per epoch, in an order that depends on seed and epoch only.

    Processes that train together share each batch: decisions of one netlist, which are compared
    with each other, go to the same process.
    """

    def __init__(
        self, ids: LongArray, netlist: LongArray, graphs: int, decisions: int, seed: int, place: Place = ALONE
    ) -> None:
        """Take `netlist` [len(ids)]; a batch has `graphs` times up to `decisions` decisions."""
        self.epoch = 0
        self._graphs, self._decisions, self._seed, self._place = graphs, decisions, seed, place
        order = np.argsort(netlist, kind="stable")
        cuts = np.flatnonzero(np.diff(netlist[order])) + 1
        self._by_netlist = [ids[part] for part in np.split(order, cuts)]
        self._num_groups = sum(-(-len(part) // decisions) for part in self._by_netlist)

    def set_epoch(self, epoch: int) -> None:
        """Note the epoch; Lightning calls this before each."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self._num_groups // self._graphs)

    def __iter__(self) -> Iterator[LongArray]:
        rng = np.random.default_rng([self._seed, self.epoch])
        groups: list[LongArray] = []
        owner: list[int] = []  # netlist of each group
        for number, part in enumerate(self._by_netlist):
            shuffled = rng.permutation(part)
            groups += [shuffled[k : k + self._decisions] for k in range(0, len(part), self._decisions)]
            owner += [number] * (len(groups) - len(owner))
        order = rng.permutation(len(groups)).tolist()
        for k in range(0, len(order), self._graphs):
            batch = order[k : k + self._graphs]
            mine = _share([owner[g] for g in batch], self._place)
            yield np.concatenate([groups[g] for g, is_mine in zip(batch, mine, strict=True) if is_mine])


def _share(owners: list[int], place: Place) -> list[bool]:
    """Tell which groups of a batch a process takes, whole netlists in turn.

    When there are fewer netlists than processes, each takes the whole batch: the mean over
    processes is the same.
    """
    netlists = list(dict.fromkeys(owners))
    if len(netlists) < place.world:
        return [True] * len(owners)
    rank = {netlist: number % place.world for number, netlist in enumerate(netlists)}
    return [rank[owner] == place.rank for owner in owners]


def in_order(ids: LongArray, size: int) -> list[LongArray]:
    """Return all decisions in batches of up to `size`, for validation."""
    return [ids[k : k + size] for k in range(0, len(ids), size)]
