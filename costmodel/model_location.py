"""Models by where they are: a file, or an MLflow URI."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from costmodel.model import Model
from costmodel.tracking import tracking_failures, use_settings
from placer.errors import InputError

DEFAULT_TRACKING = "sqlite:///data/mlflow.db"
_SCHEMES = ("runs:/", "models:/")


def open_model(location: str | Path, tracking: str | None = None) -> Model:
    """From a file, or from `runs:/<run>/<model>.pt` or `models:/<model>` in MLflow.

    `tracking` is the URI of the database or server; None: MLFLOW_TRACKING_URI, or the default of
    training. Raises InputError when there is no such model, or none of this version.
    """
    if str(location).startswith(_SCHEMES):  # also as a path, as configurations hold it
        tracking = tracking or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING
        return _download(str(location), tracking)
    if not Path(location).exists():
        raise InputError(
            f"there is no model {location}; make one with `make model`, or name a file or a URI "
            f"({', '.join(scheme + '…' for scheme in _SCHEMES)})"
        )
    return Model.load(location)


def _download(uri: str, tracking: str) -> Model:
    database = Path(tracking.removeprefix("sqlite:///"))
    if tracking.startswith("sqlite:///") and not database.exists():
        raise InputError(f"model {uri}: there is no database {database} (tracking={tracking})")
    use_settings()
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = _fetch(uri, tracking, folder)
        except tracking_failures() as error:
            reason = str(error).partition("\n")[0][:300]
            raise InputError(
                f"cannot get model {uri} from MLflow at {tracking}: {reason}; start the server, "
                "or name another one or a model that it has"
            ) from error
        files = [found] if found.is_file() else sorted(found.rglob("*.pt"))
        if len(files) != 1:
            raise InputError(f"model {uri}: holds {len(files)} files *.pt, needed 1")
        return Model.load(files[0])


def _fetch(uri: str, tracking: str, folder: str) -> Path:
    import mlflow  # takes seconds

    return Path(
        mlflow.artifacts.download_artifacts(
            artifact_uri=uri, dst_path=folder, tracking_uri=tracking
        )
    )
