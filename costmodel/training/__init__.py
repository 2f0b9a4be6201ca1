"""Training of networks (docs/model.md)."""

from costmodel.training.fit import TrainConfig, fit
from costmodel.training.losses import LossConfig, RankLoss
from costmodel.training.module import TrainerConfig

__all__ = ["LossConfig", "RankLoss", "TrainConfig", "TrainerConfig", "fit"]
