"""Lessons for a student: neighbours of placements that searches with its teacher come by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from costmodel.dataset import Dataset, NetlistSamples
from costmodel.encoding import FABRIC_FEATURES, encode, graph_set, netlist_features
from costmodel.inference.full import predict_encoded
from costmodel.inference.search import LearnedSearch
from costmodel.model import Model, Selection
from costmodel.networks import FlowNetwork
from placer.annealing import Counts, MoveMix, start_of
from placer.base import LongArray
from placer.decision import Decisions, allowed_sites

if TYPE_CHECKING:  # it brings Lightning, and a search does without
    from costmodel.training import Neighbours, StudentConfig

TEMPERATURE, REACH = 0.003, 4  # of the walks, as searches with a learned model begin
VALIDATION_SHARE = 0.1  # of the netlists: the student is judged by them


def add_student(model: Model, train: Selection, config: StudentConfig, seed: int) -> Model:
    """Return a model with a student that has learned from searches with it.

    They go through netlists of `train`. The origin of the model tells how well the student ranks on
    those that it has not seen. A model that no compiled search can ask stays as it is.
    """
    from costmodel.training import ranks, teach

    data, network = train.data, model.network
    if config.steps == 0 or data.features is not FABRIC_FEATURES or not isinstance(network, FlowNetwork):
        return model
    chosen = np.random.default_rng(seed).permutation(np.unique(train.netlist))[: config.netlists]
    number = min(max(1, round(VALIDATION_SHARE * len(chosen))), len(chosen) - 1)
    neighbours = draw_neighbours(network, Dataset.open(data.folder), chosen, config, seed)
    student = teach(network, neighbours, chosen[number:], config, seed)
    rank = ranks(student, neighbours, chosen[:number])
    told = {
        "spearman": float(np.nanmean(rank)) if np.isfinite(rank).any() else None,
        "worst": float(np.nanmin(rank)) if np.isfinite(rank).any() else None,
        "judged_by": number,
        **asdict(config),
    }
    return replace(model, student=student, origin=model.origin | {"student": told})


def draw_neighbours(
    network: FlowNetwork, dataset: Dataset, netlists: LongArray, config: StudentConfig, seed: int
) -> Neighbours:
    """Return groups of neighbours of some netlists, in rising order, with what the network says."""
    from costmodel.training import Neighbours

    parts, said, sizes, owner = [], [], [], []
    for netlist in np.sort(netlists).tolist():
        samples = dataset.samples(netlist)
        groups = list(_groups(network, samples, config, np.random.default_rng([seed, netlist])))
        features = netlist_features(samples.fabric, samples.netlist)
        encoded = encode(samples.fabric, samples.netlist, Decisions.concatenate(groups))
        parts.append((features, encoded))
        said.append(predict_encoded([network], features, encoded)[:, 0, 0])
        sizes += [len(group) for group in groups]
        owner += [netlist] * len(groups)
    return Neighbours(
        graph_set(parts),
        np.concatenate(said).astype(np.float32),
        np.repeat(np.arange(len(sizes)), sizes),
        np.repeat(np.array(owner), sizes),
    )


def _groups(
    network: FlowNetwork, samples: NetlistSamples, config: StudentConfig, rng: np.random.Generator
) -> Iterator[Decisions]:
    """Yield a placement and moves from it, as stacks, at each stop of each walk."""
    fabric, netlist, mix = samples.fabric, samples.netlist, MoveMix().cumulated()
    is_allowed = allowed_sites(fabric, netlist, None)
    for number in rng.permutation(len(samples.decisions))[: config.walks]:
        start = start_of(fabric, samples.decisions[int(number)], is_allowed)
        walk = LearnedSearch([network], fabric, netlist, start, mix, int(rng.integers(2**62)))
        for _ in range(config.stops):
            yield walk.neighbours(config.neighbours, REACH)
            walk.run(config.moves, TEMPERATURE, REACH, Counts())
