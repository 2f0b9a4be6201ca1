"""Search for better settings: every trial is a training run, judged by its validation part.

What a trial tries depends on the seed and the trials finished before it alone. So a search that was
cut off goes on as if it had not been, and the trial that was cut off from its last checkpoint.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from costmodel.training.run import RunResult
from placer.base import InputError, make_folder

if TYPE_CHECKING:
    import optuna

Values = dict[str, int | float]


@dataclass(frozen=True, slots=True)
class Range:
    """What a setting may be."""

    name: str
    kind: Literal["int", "float"]
    low: float
    high: float
    log: bool

    def __post_init__(self) -> None:
        if not self.low <= self.high or (self.log and self.low <= 0):
            raise InputError(
                f"search.space {self.name}: low={self.low}, high={self.high}, log={self.log}; low "
                "must not be above high, and above 0 with log=true"
            )

    @property
    def least(self) -> int | float:
        return int(self.low) if self.kind == "int" else self.low

    def suggest(self, trial: optuna.Trial) -> int | float:
        if self.kind == "int":
            return trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, log=self.log)


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """What `search` in `conf/tune.yaml` holds."""

    trials: int
    objective: Literal["val_loss", "val_spearman"]
    space: tuple[Range, ...]

    def __post_init__(self) -> None:
        if self.trials < 1 or not self.space:
            raise InputError(
                f"search.trials={self.trials}, {len(self.space)} settings in search.space; needed 1 or more of both"
            )

    def score(self, result: RunResult) -> float:
        """Return what is minimised. Raises InputError when the validation part is too small."""
        score = result.validation_loss
        if self.objective == "val_spearman":
            score = -result.validation.overall.spearman
        if not math.isfinite(score):
            raise InputError(f"{self.objective} is {score}: the validation part has too few different decisions")
        return score


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished trial."""

    number: int
    values: Values
    score: float


def search(
    config: SearchConfig,
    seed: int,
    folder: Path,
    origin: str,
    train: Callable[[int, Values], RunResult],
    on_trial: Callable[[Outcome], None],
) -> list[Outcome]:
    """Return all trials, the best first; `train` runs one with the values it is given.

    `origin` tells what else decides the results. Raises InputError when `folder` holds trials of
    another search, or a setting is not known.
    """
    from optuna.samplers import TPESampler  # of the extra `track`; training does without

    study = _open_study(config, folder, origin)
    while (number := len(_finished(study))) < config.trials:
        study.sampler = TPESampler(seed=1000 * seed + number)
        trial = study.ask()
        values = {setting.name: setting.suggest(trial) for setting in config.space}
        study.tell(trial, config.score(train(number, values)))
        on_trial(_finished(study)[-1])
    return sorted(_finished(study), key=lambda outcome: outcome.score)


def _open_study(config: SearchConfig, folder: Path, origin: str) -> optuna.Study:
    import optuna

    make_folder(folder)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=f"sqlite:///{folder / 'study.db'}", study_name="tune", load_if_exists=True)
    space = [asdict(setting) for setting in config.space]
    wanted = json.dumps({"objective": config.objective, "space": space, "runs": origin})
    if study.user_attrs.get("origin", wanted) != wanted:
        raise InputError(
            f"{folder} holds trials of a search with other settings; write to another folder, or "
            "remove this one to start anew"
        )
    study.set_user_attr("origin", wanted)
    return study


def _finished(study: optuna.Study) -> list[Outcome]:
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.value is not None]
    return [Outcome(number, dict(trial.params), float(trial.value or 0.0)) for number, trial in enumerate(trials)]
