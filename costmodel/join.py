"""Command: join datasets into one (conf/join.yaml)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from costmodel.dataset import Dataset, join_datasets
from placer.base import InputError, Settings, Some, make_console, require_folder
from placer.base.config import run_command, to_dataclass


@dataclass(frozen=True, slots=True)
class JoinConfig(Settings):
    """What `conf/join.yaml` holds."""

    data: Some[Path]
    output: Path


def main(config: DictConfig) -> None:
    """Write the netlists of some datasets as one dataset."""
    settings = to_dataclass(JoinConfig, config)
    if settings.output.resolve() in [folder.resolve() for folder in settings.data]:
        raise InputError(f"output={settings.output} is one of the datasets that are joined; name another folder")
    require_folder(settings.output)
    joined = join_datasets([Dataset.open(folder) for folder in settings.data], settings.output)
    make_console().print(
        f"{len(joined)} decisions of {joined.num_netlists} netlists on {len(joined.fabrics)} fabrics, "
        f"written to {settings.output}"
    )


if __name__ == "__main__":
    run_command(main, "join")
