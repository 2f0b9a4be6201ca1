"""One run in MLflow, whatever it is a run of: its parameters, metrics and files.

A server that does not answer stops a run before it begins. One that fails later is given up with a
single warning: the work goes on, and all files are in the output folder anyway.

MLflow takes seconds to import, so that is done only when a run is tracked.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from placer.base import InputError, make_folder, parse_object, read_text, write_atomic

if TYPE_CHECKING:
    from mlflow import MlflowClient

_log = logging.getLogger(__name__)
MAX_PARAMETERS = 100  # that MLflow takes at once
MAX_VALUE = 250  # characters of a parameter
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


NOWHERE = TrackingConfig(None, "", Path())


class Tracker:
    """One run. Leaving `with tracker:` says how it ended.

    All methods do nothing when runs are not tracked, or the server has failed.
    """

    def __init__(self, client: MlflowClient | None = None, run_id: str = "") -> None:
        self._client, self._run_id = client, run_id

    @property
    def is_open(self) -> bool:
        """Return whether what it is told of goes anywhere."""
        return self._client is not None

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Give numbers of a step to the run; those that were never measured are left out."""

        def log(client: MlflowClient) -> None:
            from mlflow.entities import Metric
            from mlflow.utils.time import get_current_time_millis

            now = get_current_time_millis()  # type: ignore[no-untyped-call]
            found = {name: value for name, value in metrics.items() if math.isfinite(value)}
            client.log_batch(self._run_id, [Metric(name, value, now, step) for name, value in found.items()])

        self._attempt(log)

    def log_files(self, paths: Iterable[Path]) -> None:
        """Copy files into the run."""

        def log(client: MlflowClient) -> None:
            for path in paths:
                client.log_artifact(self._run_id, str(path))

        self._attempt(log)

    def log_model(self, log: Callable[[str], None]) -> None:
        """Have `log` write a model into the run, whose id it is given."""

        def log_there(client: MlflowClient) -> None:
            import mlflow

            mlflow.set_tracking_uri(client.tracking_uri)  # functions that log a model take it from there
            log(self._run_id)

        self._attempt(log_there)

    def __enter__(self) -> Tracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status = "FINISHED" if kind is None else "FAILED"
        if kind is KeyboardInterrupt:
            status = "KILLED"
        self._attempt(lambda client: client.set_terminated(self._run_id, status))

    def _attempt(self, action: Callable[[MlflowClient], object]) -> None:
        if self._client is None:
            return
        try:
            action(self._client)
        except tracking_failures() as error:
            self._client = None
            _log.warning("tracking ends here, the work goes on: %s", _first_line(error))


def open_tracker(config: TrackingConfig, name: str, parameters: Mapping[str, Any], note: Path | None = None) -> Tracker:
    """Begin a run, or go on with the one that the file `note` tells of.

    Raises InputError when the database or server cannot be used.
    """
    if config.uri is None:
        return Tracker()
    use_settings()
    try:
        return _open(config, config.uri, name, parameters, note)
    except tracking_failures() as error:
        raise InputError(
            f"cannot track the run at tracking.uri={config.uri}: {_first_line(error)}; start the "
            "server, name another one, or switch tracking off with tracking.uri=null"
        ) from error


def use_settings() -> None:
    """Set for MLflow what the user has not set otherwise."""
    for key, value in _SETTINGS.items():
        os.environ.setdefault(key, value)
    logging.getLogger("alembic").setLevel(logging.ERROR)


def _open(config: TrackingConfig, uri: str, name: str, parameters: Mapping[str, Any], note: Path | None) -> Tracker:
    from mlflow import MlflowClient

    if uri.startswith("sqlite:///"):
        make_folder(Path(uri.removeprefix("sqlite:///")).parent)
    client, here = MlflowClient(uri), {"uri": uri, "experiment": config.experiment}
    noted = {} if note is None else _read_note(note)
    if noted.items() >= here.items():
        client.update_run(noted["run_id"], "RUNNING")
        return Tracker(client, noted["run_id"])
    run_id = _new_run(client, config, uri, name)
    _log_parameters(client, run_id, parameters)
    if note is not None:
        write_atomic(note, json.dumps(here | {"run_id": run_id}))
    return Tracker(client, run_id)


def _new_run(client: MlflowClient, config: TrackingConfig, uri: str, name: str) -> str:
    """Return the id of a new run; its experiment is made when it is the first one."""
    from mlflow.tracking.context.registry import resolve_tags

    is_database = "://" in uri and not uri.startswith(("http:", "https:"))
    known = client.get_experiment_by_name(config.experiment)
    if known is None:
        location = config.artifacts.resolve().as_uri() if is_database else None
        experiment = client.create_experiment(config.experiment, location)
    else:
        experiment = known.experiment_id
    return str(client.create_run(experiment, tags=resolve_tags(), run_name=name).info.run_id)


def _log_parameters(client: MlflowClient, run_id: str, parameters: Mapping[str, Any]) -> None:
    from mlflow.entities import Param

    flat = [Param(key, str(value)[:MAX_VALUE]) for key, value in _flat(parameters).items()]
    for first in range(0, len(flat), MAX_PARAMETERS):
        client.log_batch(run_id, params=flat[first : first + MAX_PARAMETERS])


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
