"""One training run: from a dataset to a model file, metrics and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import lightning
import numpy as np
import pandas as pd
import yaml
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

from costmodel.base import Evaluation, score_predictions
from costmodel.dataset import SplitKind
from costmodel.encoding import FABRIC_FEATURES
from costmodel.model import (
    Labelled,
    Model,
    Prediction,
    Selection,
    log_model,
    open_labelled,
    open_model,
    split_validation,
)
from costmodel.networks import network_config
from costmodel.training.figures import loss_curves, predicted_and_measured
from costmodel.training.fit import BEST_CHECKPOINT, TrainConfig, claim, fit
from costmodel.training.losses import LossConfig
from costmodel.training.module import TrainerConfig
from costmodel.training.potential import PotentialConfig, add_potential
from costmodel.training.student import StudentConfig
from placer.base import (
    Count,
    InputError,
    Settings,
    Whole,
    finite,
    git_revision,
    plain,
    png,
    require_folder,
    source_key,
    write_atomic,
)
from placer.base.tracking import Tracker, TrackingConfig, open_tracker

CHECKPOINTS, POTENTIAL_CHECKPOINTS = "checkpoints", "checkpoints_potential"
CONFIG_FILE, EPOCHS_FILE, METRICS_FILE = "config.yaml", "epochs.csv", "metrics.json"
PREDICTIONS_FILE = "predictions.csv"


@dataclass(frozen=True, slots=True)
class RunConfig(Settings):
    """What `conf/train.yaml` holds."""

    model: dict[str, Any]  # its name, and what `network_config` reads
    loss: LossConfig
    trainer: TrainerConfig
    student: StudentConfig
    potential: PotentialConfig
    data: Path
    cache: Path
    split: Literal["all", "random", "graph", "family"]
    fold: int
    seed: Whole
    start: str | None
    output: Path
    processes: Count
    tracking: TrackingConfig

    @property
    def model_file(self) -> Path:
        return self.output / f"{self.model['name']}.pt"

    @property
    def run_name(self) -> str:
        """Return how the run is listed: what is trained, on what, and which part is left for the test."""
        part = "" if self.split == "all" else f", {self.split} fold {self.fold}"
        return f"{self.model['name']} on {self.data.name}{part}, seed {self.seed}"

    def learning(self) -> TrainConfig:
        """Return what decides what is learned.

        Raises InputError when the network is unknown or cannot be built like this.
        """
        network = {key: value for key, value in self.model.items() if key != "name"}
        return TrainConfig(network_config(network), self.loss, self.trainer)

    def describe(self) -> dict[str, Any]:
        """Return all settings as YAML holds them."""
        settings: dict[str, Any] = json.loads(json.dumps(asdict(self), default=plain))
        return settings


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came out."""

    model: Model
    epochs: list[dict[str, float]]  # metrics after each
    validation: Evaluation
    test: Evaluation | None  # None: trained with all netlists

    @property
    def validation_loss(self) -> float:
        """Return that of the epoch that was kept."""
        return min(row["val_loss"] for row in self.epochs)

    def to_dict(self) -> dict[str, Any]:
        """Return losses and metrics as JSON holds them."""
        return {
            "epochs": len(self.epochs),
            "validation_loss": self.validation_loss,
            "validation": _metrics(self.validation),
            "test": None if self.test is None else _metrics(self.test),
        }


class EpochLog(Callback):
    """One row per epoch, in `rows` and in a CSV file that is whole after every epoch.

    Rows are part of checkpoints: a run that goes on after a kill has those of all its epochs.
    """

    def __init__(self, path: Path, on_epoch: Callable[[str], None]) -> None:
        self.rows: list[dict[str, float]] = []
        self._path, self._on_epoch = path, on_epoch

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.rows.append({"epoch": trainer.current_epoch} | dict(sorted(metrics.items())))
        write_atomic(self._path, _csv(pd.DataFrame(self.rows)))
        self._on_epoch(f"epoch {len(self.rows)} of {trainer.max_epochs}, validation loss {metrics['val_loss']:.5f}")

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.rows = state_dict["rows"]


class EpochMetrics(Logger):
    """Gives Lightning's metrics of epochs to a run in MLflow."""

    name = version = None

    def __init__(self, tracker: Tracker) -> None:
        super().__init__()
        self._tracker = tracker

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        values = dict(metrics)
        self._tracker.log_metrics(values, int(values.pop("epoch", 0)))

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the run has them since it began."""


def run(
    config: RunConfig,
    *,
    show_progress: bool = False,
    on_epoch: Callable[[str], None] = lambda text: None,
    finish: Callable[[Model, Selection], Model] | None = None,
) -> RunResult:
    """Train, test, and write everything to `config.output`.

    `on_epoch` is told what each epoch came to. `finish` is given the model and what it was trained with, and
    returns the model that is written.

    A run that was cut off goes on when it is called again with the same settings.
    Raises InputError when the input is wrong or the tracking server does not answer.
    """
    require_folder(config.output)
    learning = config.learning()
    data = open_labelled(config.data, config.cache)
    train, test = select(data, config.split, config.fold)
    folder = config.output / CHECKPOINTS
    start = None if config.start is None else open_model(config.start)
    claim(train, learning, config.seed, folder, start)
    tracker = open_tracker(config.tracking, config.run_name, _parameters(config, data), folder / "mlflow.json")
    log = EpochLog(config.output / EPOCHS_FILE, on_epoch)
    with tracker:
        model = fit(
            train, learning, config.seed, folder, start=start,
            logger=EpochMetrics(tracker) if tracker.is_open else None, callbacks=[log], show_progress=show_progress,
            processes=config.processes,
        )  # fmt: skip
        model = add_potential(
            model, train, config.cache, config.potential, config.seed, config.output / POTENTIAL_CHECKPOINTS,
            None if start is None else start.potential,
        )  # fmt: skip
        if finish is not None:
            model = finish(model, train)
        validation = split_validation(train, config.trainer.validation_share, config.seed)[1]
        result = RunResult(
            model, log.rows, _evaluate(model, validation), None if test is None else _evaluate(model, test)
        )
        _write(config, result, validation if test is None else test)
        _track(tracker, config, result, data)
    return result


def select(data: Labelled, split: str, fold: int) -> tuple[Selection, Selection | None]:
    """Return decisions to train and to test with. Raises InputError when one of them is empty."""
    if split == "all":
        return Selection(data, np.arange(len(data))), None
    parts = data.splits.fold(SplitKind(split), fold)
    for name, ids in (("train", parts.train), ("test", parts.test)):
        if not len(ids):
            raise InputError(f"dataset {data.folder}: fold {fold} of the {split} split has no decision to {name} with")
    return Selection(data, parts.train), Selection(data, parts.test)


def _evaluate(model: Model, selection: Selection) -> Evaluation:
    predicted = model.predict(selection).throughput
    return score_predictions(predicted, selection.throughput, selection.netlist)


def _metrics(evaluation: Evaluation) -> dict[str, float | None]:
    return {name: finite(value) for name, value in evaluation.to_dict().items()}


def _write(config: RunConfig, result: RunResult, shown: Selection) -> None:
    """Write all files, the model first: it is what took long."""
    output = config.output
    result.model.save(config.model_file)
    write_atomic(output / METRICS_FILE, json.dumps(result.to_dict(), indent=1) + "\n")
    write_atomic(output / CONFIG_FILE, yaml.safe_dump(config.describe(), sort_keys=False))
    write_atomic(output / "loss.png", png(loss_curves(result.epochs)))
    prediction = result.model.predict(shown)
    part = "validation part" if result.test is None else f"{config.split} split, fold {config.fold}"
    figure = predicted_and_measured(shown, prediction, f"{config.model['name']}, {part}")
    write_atomic(output / "predictions.png", png(figure))
    write_atomic(output / PREDICTIONS_FILE, _prediction_table(shown, prediction))


def _prediction_table(selection: Selection, prediction: Prediction) -> str:
    assert prediction.log_sigma is not None
    columns = {
        "decision": selection.ids,
        "netlist": selection.netlist,
        "family": selection.data.family[selection.ids],
        "measured": selection.throughput,
        "predicted": prediction.throughput,
        "sigma": np.exp(prediction.log_sigma),
    }
    return _csv(pd.DataFrame(columns))


def _csv(frame: pd.DataFrame) -> str:
    text: str = frame.to_csv(index=False, lineterminator="\n", na_rep="nan")
    return text


def _parameters(config: RunConfig, data: Labelled) -> dict[str, Any]:
    return config.describe() | {
        "dataset_hash": data.content_hash,
        "git_revision": git_revision(),
        "code_version": source_key(Path(__file__)),
    }


def _track(tracker: Tracker, config: RunConfig, result: RunResult, data: Labelled) -> None:
    metrics = {f"validation_{k}": v for k, v in result.validation.to_dict().items()}
    if result.test is not None:
        metrics |= {f"test_{k}": v for k, v in result.test.to_dict().items()}
    tracker.log_metrics(metrics)
    files = (*config.output.glob("*.*"), config.output / CHECKPOINTS / BEST_CHECKPOINT)
    tracker.log_files(sorted(files))
    if data.features is FABRIC_FEATURES:  # only those are served
        tracker.log_model(lambda run_id: log_model(run_id, config.model_file, data.folder))
