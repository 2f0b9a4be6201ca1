"""A second network of a model: what will a good placement of a netlist reach?

It learns from the netlists that the model learned from, as bare decisions (`encode_bare`), with their
potential as the label: what the best of a pool of short anneals reached. Like a model with `rules`
it predicts what is lost of an upper bound, here of the full bound.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from costmodel.encoding import FABRIC_FEATURES
from costmodel.model import Model, PotentialNetwork, Selection, open_potentials
from costmodel.networks import FlowConfig, FlowNetwork
from costmodel.training.fit import TrainConfig, fit
from costmodel.training.losses import LossConfig, RankLoss
from costmodel.training.module import TrainerConfig
from placer.base import Count, Fill, Settings, Whole, Within


@dataclass(frozen=True, slots=True)
class PotentialConfig(Settings):
    """What `conf/potential/*.yaml` hold."""

    width: Annotated[int, Within(4, 512)] = 32
    lane_width: Annotated[int, Within(4, 512)] = 16
    rounds: Annotated[int, Within(0, 16)] = 2
    max_epochs: Whole = 60  # 0: the model is not asked about netlists alone
    learning_rate: Fill = 3e-3
    netlists_per_batch: Count = 32

    def learning(self) -> TrainConfig:
        """Return what decides what is learned. Netlists are not ranked: each has one label."""
        network = FlowConfig(self.width, self.lane_width, self.rounds, stalls=False, rules=True)
        trainer = TrainerConfig(
            max_epochs=self.max_epochs, learning_rate=self.learning_rate, patience=self.max_epochs,
            graphs_per_batch=self.netlists_per_batch, decisions_per_graph=1,
        )  # fmt: skip
        return TrainConfig(network, LossConfig(rank=RankLoss.NONE), trainer)


def add_potential(
    model: Model, train: Selection, cache: Path, config: PotentialConfig, seed: int, folder: Path
) -> Model:
    """Return a model with a network for netlists alone, which has learned from those of `train`.

    Checkpoints go to `folder`, as those of `fit`. A dataset without potentials, or of another kind than
    decisions on a fabric, leaves the model as it is.
    """
    if config.max_epochs == 0 or train.data.features is not FABRIC_FEATURES:
        return model
    found = open_potentials(train.data.folder, cache)
    if found is None:
        return model
    some = Selection(found.data, found.ids[np.isin(found.ids, train.netlist)])
    learned = fit(some, config.learning(), seed, folder)
    assert isinstance(learned.network, FlowNetwork)
    told = {"num_netlists": len(some), **asdict(config)}
    potential = PotentialNetwork(learned.network, learned.sigma_scale)
    return replace(model, potential=potential, origin=model.origin | {"potential": told})
