"""Packages that come with an extra of this project only, and which extra that is."""

from __future__ import annotations

import traceback

EXTRAS = {
    "dgl": "learn",
    "gymnasium": "rl",
    "lightning": "learn",
    "mlflow": "track",
    "onnx": "import",
    "optuna": "track",
    "ortools": "exact",
    "pandas": "learn",
    "ray": "ray",
    "sklearn": "learn",
    "torch": "learn",
}


def explain_missing(error: ModuleNotFoundError) -> str | None:
    """Return what to install so that an import works; None when no extra brings the module."""
    name = (error.name or "").partition(".")[0]
    if name not in EXTRAS:
        return None
    extra = EXTRAS[name]
    if name == "torch":  # several bring it: the one for the room that asks
        files = " ".join(frame.filename for frame in traceback.extract_tb(error.__traceback__))
        extra = "rl" if "/streaming/" in files else "import" if "/importing/" in files else extra
    return f"this needs the package {name!r}, which is not installed: pip install 'dataflow-costmodel[{extra}]'"
