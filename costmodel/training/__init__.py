"""Training of networks (docs/model.md)."""

from costmodel.training.calibration import calibrated
from costmodel.training.fit import TrainConfig, fit
from costmodel.training.losses import LossConfig, RankLoss
from costmodel.training.module import TrainerConfig
from costmodel.training.potential import PotentialConfig, add_potential, calibrate_potential, teach_potential
from costmodel.training.run import RunConfig, RunResult, run, select
from costmodel.training.search import Outcome, SearchConfig, Values, search
from costmodel.training.student import Neighbours, StudentConfig, ranks, teach
