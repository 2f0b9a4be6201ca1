"""Train a network on some decisions of a dataset."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import Logger
from torch.utils.data import DataLoader

from costmodel.model import BATCH_SIZE, Model, Selection, split_validation
from costmodel.networks import FlowConfig, FlowNetwork, NetworkConfig, build_network, describe_network, has_gpu
from costmodel.training.calibration import calibrated
from costmodel.training.losses import LossConfig
from costmodel.training.module import RegressionModule, TrainerConfig
from costmodel.training.processes import Place, partners
from costmodel.training.sampler import BatchData, GraphSampler, in_order
from placer.base import InputError, LongArray, make_folder, plain, read_archive, read_text, write_atomic

LAST_CHECKPOINT, BEST_CHECKPOINT = "last.ckpt", "best.ckpt"


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Everything that decides what is learned, but the data and the seed."""

    network: NetworkConfig = field(default_factory=FlowConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)

    def describe(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        options = {"loss": asdict(self.loss), "trainer": asdict(self.trainer)}
        plain_options = json.loads(json.dumps(options, default=plain))
        return {"network": describe_network(self.network), **plain_options}


def fit(
    train: Selection,
    config: TrainConfig,
    seed: int,
    folder: Path,
    *,
    start: Model | None = None,
    logger: Logger | None = None,
    callbacks: Sequence[Callback] = (),
    show_progress: bool = False,
    processes: int = 1,
) -> Model:
    """Return the model of the epoch with the lowest validation loss.

    A tenth of the netlists (`trainer.validation_share`) is kept for validation. Checkpoints go to
    `folder` after every epoch; a run that was cut off goes on from the last one when it is started
    again with the same data, settings and seed, with the same result. With `start` its weights and
    normaliser are tuned on; its network must be that of `config`, but for its `rules`. Several
    processes share every batch, with the same result but for rounding.
    Raises InputError when there is nothing to learn from, `start` has another network, or `folder`
    belongs to another run, and WorkerCrashError when one of several processes is lost.
    """
    origin = claim(train, config, seed, folder, start)
    job = (train, config, seed, folder, start)
    with partners(processes, _fit_here, *job) as place:
        module, trainer = _fit_here(place, *job, logger=logger, callbacks=callbacks, show_progress=show_progress)
    best = read_archive(folder / BEST_CHECKPOINT, f"remove {folder} to start anew")
    module.load_state_dict(cast(dict[str, Any], best)["state_dict"])
    origin["epochs"] = trainer.current_epoch
    validate = split_validation(train, config.trainer.validation_share, seed)[1]
    return calibrated(Model(config.network, module.network.cpu(), 1.0, origin), validate)


def _fit_here(
    place: Place,
    train: Selection,
    config: TrainConfig,
    seed: int,
    folder: Path,
    start: Model | None,
    *,
    logger: Logger | None = None,
    callbacks: Sequence[Callback] = (),
    show_progress: bool = False,
) -> tuple[RegressionModule, lightning.Trainer]:
    """Train as one of the processes."""
    learn, validate = split_validation(train, config.trainer.validation_share, seed)
    if config.trainer.threads is not None:
        torch.set_num_threads(config.trainer.threads)
    elif place.world > 1:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // place.world))
    network = build_network(config.network, seed, train.data.features)
    if start is None:
        _fit_normaliser(network, learn)
    else:
        network.load_state_dict(start.network.state_dict())
    options = config.trainer
    module = RegressionModule(network, config.loss, options)
    trainer = _trainer(options, place, [*callbacks, *_savers(folder)], logger, show_progress)
    batches = GraphSampler(learn.ids, learn.netlist, options.graphs_per_batch, options.decisions_per_graph, seed, place)
    last = folder / LAST_CHECKPOINT
    if last.exists():
        _respect_early_stop(trainer, read_archive(last, "remove it to start anew"))
    with _quiet(), _interruptible():
        trainer.fit(
            module, _loader(learn, batches), _loader(validate, in_order(validate.ids, BATCH_SIZE)),
            ckpt_path=last if last.exists() else None, weights_only=True,
        )  # fmt: skip
    return module, trainer


def claim(train: Selection, config: TrainConfig, seed: int, folder: Path, start: Model | None = None) -> dict[str, Any]:
    """Return what a run is made of, and note it: checkpoints of another must not be continued.

    Raises InputError as `fit` does.
    """
    if start is not None:
        start.require_features(train.data.features)
        _require_network(start, config.network)
    learn, validate = split_validation(train, config.trainer.validation_share, seed)
    origin = {
        "features": train.data.features.version,
        "dataset": train.data.content_hash,
        "fabric": asdict(train.data.hardware),
        "num_train": len(learn),
        "num_validation": len(validate),
        "decisions": hashlib.sha256(learn.ids.tobytes() + validate.ids.tobytes()).hexdigest(),
        "seed": seed,
        "start": None if start is None else start.digest(),
        **config.describe(),
    }
    make_folder(folder)
    path, text = folder / "run.json", json.dumps(origin, indent=1, sort_keys=True)
    if path.exists() and (folder / LAST_CHECKPOINT).exists() and read_text(path) != text:
        raise InputError(
            f"{folder} holds checkpoints of a run with other data, settings or seed; write to "
            "another folder, or remove this one to start anew"
        )
    write_atomic(path, text)
    return origin


def _require_network(start: Model, config: NetworkConfig) -> None:
    """Raise InputError when a network of this configuration cannot take the weights of a model."""
    known, asked = (describe_network(each) | {"rules": None} for each in (start.config, config))
    other = [name for name in known | asked if known.get(name) != asked.get(name)]
    if other:
        name = other[0]
        raise InputError(
            f"model.{name}={asked.get(name)}, but the model that training starts from has {known.get(name)}; "
            "they must be the same"
        )


def _fit_normaliser(network: torch.nn.Module, learn: Selection) -> None:
    if not isinstance(network, FlowNetwork):
        return
    graphs = learn.data.graphs
    facts = np.unique(graphs.facts_of[learn.ids])
    rows = [
        np.concatenate([table[start[n] : start[n + 1]] for n in facts])
        for table, start in ((graphs.unit, graphs.unit_start), (graphs.flow, graphs.flow_start))
    ]
    network.fit_normaliser(*(torch.from_numpy(row) for row in rows))


def _loader(selection: Selection, batches: Iterable[LongArray]) -> DataLoader[Any]:
    return DataLoader(BatchData(selection.data.graphs), batch_size=None, sampler=batches)


def _trainer(
    options: TrainerConfig, place: Place, callbacks: list[Callback], logger: Logger | None, show_progress: bool
) -> lightning.Trainer:
    stopping = EarlyStopping("val_loss", patience=options.patience)
    with _quiet():
        return lightning.Trainer(
            max_epochs=options.max_epochs,
            accelerator="gpu" if options.accelerator != "cpu" and has_gpu() else "cpu",
            devices=place.world,
            strategy=place.strategy(),
            gradient_clip_val=options.gradient_clip,
            callbacks=[stopping, *callbacks],
            logger=logger if logger is not None else False,
            enable_progress_bar=show_progress,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            log_every_n_steps=1,
        )


def _savers(folder: Path) -> list[Callback]:
    """Keep the best epoch and the last one. The last is saved last: it says which was best."""
    return [
        ModelCheckpoint(folder, Path(name).stem, monitor=monitor, enable_version_counter=False)
        for name, monitor in ((BEST_CHECKPOINT, "val_loss"), (LAST_CHECKPOINT, None))
    ]


def _respect_early_stop(trainer: lightning.Trainer, checkpoint: Any) -> None:
    """Let a run that had ended early stay ended; Lightning would train on."""
    for name, state in checkpoint["callbacks"].items():
        if name.startswith(EarlyStopping.__name__) and state["wait_count"] >= state["patience"]:
            trainer.fit_loop.max_epochs = checkpoint["epoch"] + 1


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Lightning's advice (more loader workers, ...): it is not for users of a command."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Keep Ctrl-C a KeyboardInterrupt: Lightning would exit, and ignore the next one."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from error
