"""Finished jobs as files: a run that was cut off goes on where it stopped.

`<job>.npz` holds the predictions (same job, same bytes), `<job>.json` what they were made by and
how long it took. The second is written last and names the hash of the first: a job without a
fitting pair is not finished.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.labelled import Prediction
from placer.files import write_atomic


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job found."""

    prediction: Prediction
    fit_seconds: float  # rounded, so that a report after a pause says the same
    predict_seconds: float


def write_outcome(folder: Path, stem: str, made_by: dict[str, Any], outcome: Outcome) -> None:
    """Raises OSError when a file cannot be written."""
    content = _to_bytes(outcome.prediction)
    document = {
        "made_by": made_by,
        "fit_seconds": outcome.fit_seconds,
        "predict_seconds": outcome.predict_seconds,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    write_atomic(folder / f"{stem}.npz", content)
    write_atomic(folder / f"{stem}.json", json.dumps(document, indent=1) + "\n")


def read_outcome(folder: Path, stem: str, made_by: dict[str, Any]) -> Outcome | None:
    """The outcome of a finished job; None when it must be computed."""
    try:
        document = json.loads((folder / f"{stem}.json").read_text(encoding="utf-8"))
        content = (folder / f"{stem}.npz").read_bytes()
        if document["made_by"] != made_by:
            return None
        if document["sha256"] != hashlib.sha256(content).hexdigest():
            return None
        seconds = float(document["fit_seconds"]), float(document["predict_seconds"])
        return Outcome(_from_bytes(content), *seconds)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None


def _to_bytes(prediction: Prediction) -> bytes:
    columns = {"throughput": prediction.throughput}
    if prediction.log_sigma is not None:
        columns["log_sigma"] = prediction.log_sigma
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **columns)
    return buffer.getvalue()


def _from_bytes(content: bytes) -> Prediction:
    with np.load(io.BytesIO(content), allow_pickle=False) as columns:
        log_sigma = columns.get("log_sigma")
        return Prediction(columns["throughput"], log_sigma)
