"""Models by where they are: in the box, a file, or an MLflow URI."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from costmodel.model.box import SHIPPED, shipped_file
from costmodel.model.model import Model
from placer.base import InputError
from placer.base.tracking import tracking_failures, use_settings

DEFAULT_TRACKING = "sqlite:///data/mlflow.db"
_SCHEMES = ("runs:/", "models:/")


def model_file(location: str | Path) -> Path | None:
    """Return the file of a model: that in the box, or the one named; None for a URI."""
    if str(location).startswith(_SCHEMES):
        return None
    return shipped_file() if str(location) == SHIPPED else Path(location)


def open_model(location: str | Path, tracking: str | None = None) -> Model:
    """Open a model: the one in the box (`shipped`), a file, or one in MLflow.

    In MLflow it is `runs:/<run>/<model>.pt` or `models:/<model>`.

    `tracking` is the URI of the database or server; None: MLFLOW_TRACKING_URI, or the default of
    training. Raises InputError when there is no such model, or none of this version.
    """
    if str(location).startswith(_SCHEMES):  # also as a path, as configurations hold it
        tracking = tracking or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING
        return _download(str(location), tracking)
    if str(location) == SHIPPED:
        return Model.load(shipped_file())
    if not Path(location).exists():
        raise InputError(
            f"there is no model {location}; make one with `make model`, or name {SHIPPED!r}, a file or a URI "
            f"({', '.join(scheme + '…' for scheme in _SCHEMES)})"
        )
    return Model.load(location)


def _download(uri: str, tracking: str) -> Model:
    database = Path(tracking.removeprefix("sqlite:///"))
    if tracking.startswith("sqlite:///") and not database.exists():
        raise InputError(f"model {uri}: there is no database {database} (tracking={tracking})")
    use_settings()
    import mlflow  # takes seconds, and reads the settings

    with tempfile.TemporaryDirectory() as folder:
        try:
            found = Path(mlflow.artifacts.download_artifacts(uri, dst_path=folder, tracking_uri=tracking))
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


def log_model(run_id: str, model_file: Path, example_from: Path) -> None:
    """Write a model into a run as MLflow serves it; two decisions of a dataset are its example."""
    import mlflow  # takes seconds

    from costmodel.model import logged_model

    model = Model.load(model_file)
    example = logged_model.example_table(example_from)
    with mlflow.start_run(run_id=run_id):
        mlflow.pyfunc.log_model(
            name="model",
            python_model=logged_model.__file__,
            artifacts={"model": str(model_file)},
            signature=mlflow.models.infer_signature(example, logged_model.predict_table(model, example)),
            input_example=example,
            pip_requirements=["dataflow-costmodel"],
        )
