"""Command: put a trained model into the box (conf/ship.yaml)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from omegaconf import DictConfig

from costmodel.encoding import FABRIC_FEATURES
from costmodel.model import Model, open_model, put_into_box
from placer.base import InputError, Settings, make_console
from placer.base.config import run_command, to_dataclass


@dataclass(frozen=True, slots=True)
class ShipConfig(Settings):
    """What `conf/ship.yaml` holds."""

    model_file: Path
    potential_of: str | None


def _with_potential(model: Model, other: Model) -> Model:
    """Return a model with the network for netlists alone of another one. Raises InputError when that has none."""
    if other.potential is None:
        raise InputError("potential_of: this model has no network for netlists alone; name another one")
    return replace(model, potential=other.potential, origin=model.origin | {"potential": other.origin["potential"]})


def main(config: DictConfig) -> None:
    """Check a model file and copy it into the package."""
    settings = to_dataclass(ShipConfig, config)
    if not settings.model_file.exists():
        raise InputError(f"there is no model {settings.model_file}; train one: make model")
    model = Model.load(settings.model_file)
    model.require_features(FABRIC_FEATURES)
    if "ranges" not in model.origin["fabric"]:
        raise InputError(f"{settings.model_file} was trained on one fabric; needed a model of many (size=foundation)")
    if settings.potential_of is not None:
        model = _with_potential(model, open_model(settings.potential_of))
    put_into_box(model.to_bytes())
    make_console().print(f"{settings.model_file} is in the box now; its weights have the hash {model.digest()[:16]}")


if __name__ == "__main__":
    run_command(main, "ship")
