"""Files of policies and training runs: tensors and plain values, read without running code."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from placer.errors import InputError
from placer.files import write_atomic
from placer.streaming.rl.policy import Policy, PolicyConfig
from placer.tensor_file import read_archive

SCHEMA_VERSION = 2  # 1: tiles had no feature "illegal"
_NOT_AS_EXPECTED = (
    RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError,
)  # fmt: skip


def save_policy(path: Path, policy: Policy, settings: dict[str, Any]) -> None:
    """Weights, and the settings of the run that made them."""
    weights = {name: tensor.half() for name, tensor in policy.state_dict().items()}
    _write(path, {"schema": SCHEMA_VERSION, "settings": settings, "weights": weights})


def load_policy(path: Path) -> Policy:
    """Raises InputError when the file is no policy of this version."""
    document = _read(path)
    try:
        policy = Policy(PolicyConfig(**document["settings"]["policy"]))
        policy.load_state_dict({k: v.float() for k, v in document["weights"].items()})
    except _NOT_AS_EXPECTED as error:
        raise InputError(
            f"policy file {path} does not hold a policy of today ({type(error).__name__}); "
            "train one with python -m costmodel.train_mapper"
        ) from error
    return policy.eval()


def save_checkpoint(
    path: Path,
    settings: dict[str, Any],
    rows: list[dict[str, float]],
    policy: Policy,
    optimizer: torch.optim.Optimizer,
) -> None:
    """All that a run needs to go on; `rows` are the metrics of the updates so far."""
    _write(
        path,
        {
            "schema": SCHEMA_VERSION,
            "settings": settings,
            "rows": rows,
            "weights": policy.state_dict(),
            "optimizer": optimizer.state_dict(),
        },
    )


def read_checkpoint(
    path: Path, policy: Policy, optimizer: torch.optim.Optimizer
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """Fill policy and optimizer; returns the settings of the run and its metrics so far."""
    document = _read(path)
    try:
        policy.load_state_dict(document["weights"])
        optimizer.load_state_dict(document["optimizer"])
        return document["settings"], document["rows"]
    except _NOT_AS_EXPECTED as error:
        raise InputError(f"{path} is of another network; choose another output folder") from error


def _write(path: Path, document: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    torch.save(document, buffer)
    write_atomic(path, buffer.getvalue())


def _read(path: Path) -> dict[str, Any]:
    try:
        document = read_archive(path, "train it again")
    except InputError as error:
        raise InputError(f"policy file: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA_VERSION:
        raise InputError(f"policy file {path}: this version reads schema {SCHEMA_VERSION}")
    return document
