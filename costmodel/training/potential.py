"""A second network of a model: what will a good placement of a netlist reach?

It learns from the netlists that the model learned from, as bare decisions (`encode_bare`), with their
potential as the label: what the best of a pool of short anneals reached. Plans of one segment are
compared with each other: a search over plans asks which of them is best, not how good they are. Like
a model with `rules` and `trust` it learns how far to trust an upper bound, here the full bound, and what is lost of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from costmodel.encoding import FABRIC_FEATURES
from costmodel.model import Model, PotentialNetwork, Selection, open_potentials
from costmodel.networks import FlowConfig, FlowNetwork
from costmodel.training.calibration import calibrated
from costmodel.training.fit import TrainConfig, fit
from costmodel.training.losses import LossConfig, RankLoss, Weight
from costmodel.training.module import TrainerConfig
from placer.base import Count, Fill, Settings, Whole, Within

MAX_PLANS = 8  # of a segment that are compared at once


@dataclass(frozen=True, slots=True)
class PotentialConfig(Settings):
    """What `conf/potential/*.yaml` hold."""

    width: Annotated[int, Within(4, 512)] = 32
    lane_width: Annotated[int, Within(4, 512)] = 16
    rounds: Annotated[int, Within(0, 16)] = 2
    max_epochs: Whole = 60  # 0: the model is not asked about netlists alone
    learning_rate: Fill = 3e-3
    segments_per_batch: Count = 8
    differences: Weight = 10.0  # of the error of differences between plans of a segment, relative to the error itself

    def learning(self) -> TrainConfig:
        """Return what decides what is learned; plans of one segment are compared."""
        network = FlowConfig(self.width, self.lane_width, self.rounds, stalls=False, rules=True, trust=True)
        trainer = TrainerConfig(
            max_epochs=self.max_epochs, learning_rate=self.learning_rate, patience=self.max_epochs,
            graphs_per_batch=self.segments_per_batch, decisions_per_graph=MAX_PLANS,
        )  # fmt: skip
        loss = LossConfig(rank=RankLoss.DIFFERENCES, rank_weight=self.differences)
        return TrainConfig(network, loss, trainer)


def add_potential(
    model: Model,
    train: Selection,
    cache: Path,
    config: PotentialConfig,
    seed: int,
    folder: Path,
    start: PotentialNetwork | None = None,
) -> Model:
    """Return a model with a network for netlists alone, which has learned from those of `train`.

    Checkpoints go to `folder`, as those of `fit`; with `start` its weights are tuned on. A dataset without
    potentials, or of another kind than decisions on a fabric, leaves the model as it is.
    """
    if config.max_epochs == 0 or train.data.features is not FABRIC_FEATURES:
        return model
    found = open_potentials(train.data.folder, cache)
    if found is None:
        return model
    some = Selection(found.data, found.ids[np.isin(found.ids, train.netlist)])
    return teach_potential(model, some, config, seed, folder, start)


def teach_potential(
    model: Model,
    netlists: Selection,
    config: PotentialConfig,
    seed: int,
    folder: Path,
    start: PotentialNetwork | None = None,
) -> Model:
    """Return a model with a network for netlists alone, which has learned from these (as of `open_potentials`)."""
    known = None if start is None else _alone(model, start)
    learned = fit(netlists, config.learning(), seed, folder, start=known)
    assert isinstance(learned.network, FlowNetwork)
    told = {"num_netlists": len(netlists), "dataset": netlists.data.content_hash, "seed": seed, **asdict(config)}
    told["start"] = None if known is None else known.digest()
    potential = PotentialNetwork(learned.network, learned.sigma_scale)
    return replace(model, potential=potential, origin=model.origin | {"potential": told})


def calibrate_potential(model: Model, netlists: Selection) -> Model:
    """Return a model whose intervals of potentials hold on these netlists, which it has not learned from."""
    assert model.potential is not None
    fitted = calibrated(_alone(model, model.potential), netlists)
    assert isinstance(fitted.network, FlowNetwork)
    told = model.origin.get("potential", {}) | {"calibrated_on": netlists.data.content_hash}
    return replace(
        model, potential=PotentialNetwork(fitted.network, fitted.sigma_scale), origin=model.origin | {"potential": told}
    )


def _alone(model: Model, potential: PotentialNetwork) -> Model:
    """Return a network for netlists alone as a model of its own."""
    return Model(potential.network.config, potential.network, potential.sigma_scale, model.origin)
