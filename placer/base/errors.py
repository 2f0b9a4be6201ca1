"""Errors that a user can act on. A command prints the message and exits with code 2."""

from __future__ import annotations

import traceback


class InputError(ValueError):
    """Something the user gave is wrong: says what, the value seen, what is allowed, what to do."""


class DoesNotFitError(InputError):
    """The workload needs more of a resource than the fabric has."""

    def __init__(self, resource: str, demand: int, limit: int, advice: str) -> None:
        self.resource = resource
        self.demand = demand
        self.limit = limit
        self.advice = advice
        super().__init__(
            f"does not fit: {resource} needed {demand}, the fabric has {limit} (short by {demand - limit}); {advice}"
        )

    def __reduce__(self) -> tuple[type[DoesNotFitError], tuple[str, int, int, str]]:
        """Return how to make it anew: workers send it to the process that asked them."""
        return type(self), (self.resource, self.demand, self.limit, self.advice)


# Packages that come with an extra of this project only, and which extra that is.
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
