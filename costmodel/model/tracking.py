"""Runs in MLflow: parameters, metrics, files, and the model in a form that MLflow can serve.

A server that does not answer stops a run before it begins. One that fails later is given up with a
single warning: training goes on, and all files are in the output folder anyway.

MLflow takes seconds to import, so that is done only when a run is tracked.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from lightning.pytorch.loggers import Logger, MLFlowLogger

from placer.base import InputError, make_folder, parse_object, read_text, write_atomic

_log = logging.getLogger(__name__)
_SETTINGS = {  # of MLflow, unless the user has set them
    "MLFLOW_DISABLE_TELEMETRY": "true",  # nothing leaves this machine but to the tracking server
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # a server that is down is told within seconds
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",  # works without git
}


@dataclass(frozen=True, slots=True)
class TrackingConfig:
    """Where runs are tracked."""

    uri: str | None  # of a database or a server; None: nowhere
    experiment: str
    artifacts: Path  # folder for files when `uri` is a database; a server has its own


class Tracker:
    """One run. Leaving `with tracker:` says how it ended.

    All methods do nothing when runs are not tracked, or the server has failed.
    """

    def __init__(self, logger: MLFlowLogger | None) -> None:
        self._logger = logger

    @property
    def logger(self) -> Logger | None:
        """Return what gives metrics of epochs to the run."""
        return None if self._logger is None else _EpochLogger(self)

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Give numbers of a step to the run."""
        self._attempt(lambda run: run.log_metrics(dict(metrics), step))

    def log_files(self, paths: Iterable[Path]) -> None:
        """Copy files into the run."""

        def log(run: MLFlowLogger) -> None:
            for path in paths:
                run.experiment.log_artifact(run.run_id, str(path))

        self._attempt(log)

    def log_model(self, log: Callable[[str], None]) -> None:
        """Have `log` write a model into the run, whose id it is given."""
        self._attempt(lambda run: log(str(run.run_id)))

    def __enter__(self) -> Tracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status = "FINISHED" if kind is None else "FAILED"
        if kind is KeyboardInterrupt:
            status = "KILLED"
        self._attempt(lambda run: run.experiment.set_terminated(run.run_id, status))

    def _attempt(self, action: Callable[[MLFlowLogger], object]) -> None:
        if self._logger is None:
            return
        try:
            action(self._logger)
        except tracking_failures() as error:
            self._logger = None
            _log.warning("tracking ends here, training goes on: %s", _first_line(error))


class _EpochLogger(Logger):
    """Lightning's way to a tracker."""

    name = version = None

    def __init__(self, tracker: Tracker) -> None:
        super().__init__()
        self._tracker = tracker

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        values = dict(metrics)
        self._tracker.log_metrics(values, int(values.pop("epoch", 0)))

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """The command has done it."""


def open_tracker(config: TrackingConfig, name: str, parameters: Mapping[str, Any], note: Path) -> Tracker:
    """Begin a run, or go on with the one that the file `note` tells of.

    Raises InputError when the database or server cannot be used.
    """
    if config.uri is None:
        return Tracker(None)
    use_settings()
    try:
        return Tracker(_open(config, config.uri, name, parameters, note))
    except tracking_failures() as error:
        raise InputError(
            f"cannot track the run at tracking.uri={config.uri}: {_first_line(error)}; start the "
            "server, name another one, or switch tracking off with tracking.uri=null"
        ) from error


def use_settings() -> None:
    """Set for MLflow what the user has not set otherwise."""
    for key, value in _SETTINGS.items():
        os.environ.setdefault(key, value)
    for noisy in ("alembic", "lightning.pytorch.loggers.mlflow"):
        logging.getLogger(noisy).setLevel(logging.ERROR)


def _open(config: TrackingConfig, uri: str, name: str, parameters: Mapping[str, Any], note: Path) -> MLFlowLogger:
    location = None
    if "://" in uri and not uri.startswith(("http:", "https:")):
        location = config.artifacts.resolve().as_uri()
    if uri.startswith("sqlite:///"):
        make_folder(Path(uri.removeprefix("sqlite:///")).parent)
    here = {"uri": uri, "experiment": config.experiment}
    noted = _read_note(note)
    goes_on = noted.items() >= here.items()
    logger = MLFlowLogger(
        config.experiment, name, uri,
        artifact_location=location, run_id=noted["run_id"] if goes_on else None,
    )  # fmt: skip
    if goes_on:
        logger.experiment.update_run(logger.run_id, "RUNNING")
    else:
        logger.log_hyperparams(_flat(parameters))
        write_atomic(note, json.dumps(here | {"run_id": logger.run_id}))
    return logger


def _read_note(path: Path) -> dict[str, Any]:
    """Return a note; empty when there is none, or it is damaged: then a new run begins."""
    try:
        noted = parse_object(read_text(path)) if path.exists() else {}
    except InputError:
        noted = {}
    return noted if isinstance(noted.get("run_id"), str) else {}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn {"a": {"b": 1}} into {"a.b": 1}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        inner = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return flat


def tracking_failures() -> tuple[type[Exception], ...]:
    """Return what MLflow raises when a database or server does not do as it should."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return MlflowException, SQLAlchemyError, OSError


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
