"""Command: teach a trained model what good placements of netlists reach (conf/potentials.yaml)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from costmodel.encoding import FABRIC_FEATURES
from costmodel.model import open_model, open_potentials
from costmodel.training import PotentialConfig, teach_potential
from placer.base import InputError, Settings, Whole, make_console, make_folder, require_folder
from placer.base.config import run_command, to_dataclass

MODEL_NAME = "flow.pt"


@dataclass(frozen=True, slots=True)
class PotentialsConfig(Settings):
    """What `conf/potentials.yaml` holds."""

    model_file: str
    fresh: bool
    potential: PotentialConfig
    data: Path
    cache: Path
    seed: Whole
    output: Path


def main(config: DictConfig) -> None:
    """Teach a model, and write it with what it has learned."""
    settings, console = to_dataclass(PotentialsConfig, config), make_console()
    require_folder(settings.output)
    model, netlists = open_model(settings.model_file), open_potentials(settings.data, settings.cache)
    model.require_features(FABRIC_FEATURES)
    if netlists is None:
        raise InputError(f"dataset {settings.data} has no potentials; make one with a pool of anneals (size.pool)")
    make_folder(settings.output)
    checkpoints, known = settings.output / "checkpoints", None if settings.fresh else model.potential
    taught = teach_potential(model, netlists, settings.potential, settings.seed, checkpoints, known)
    taught.save(settings.output / MODEL_NAME)
    number = taught.origin["potential"]["num_netlists"]
    console.print(f"learned from {number} netlists; the model is {settings.output / MODEL_NAME}")


if __name__ == "__main__":
    run_command(main, "potentials")
