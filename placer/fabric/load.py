"""Fabrics from their files in `conf/fabric`, and from descriptions in other files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from placer.base import InputError, allowed_text
from placer.base.config import CONF_DIR, choices, compose_config, to_dataclass
from placer.fabric.fabric import Fabric


def load_fabric(name: str | Path, overrides: Sequence[str] = ()) -> Fabric:
    """Load `conf/fabric/<name>.yaml` or a YAML file, changed by overrides such as "link.hop_cycles=3".

    The defaults list of a file may name fabrics of `conf/fabric`: `defaults: [small, _self_]`.
    Raises InputError for an unknown name, key or value.
    """
    folder, names = CONF_DIR / "fabric", choices("fabric")
    if str(name) in names:
        return to_dataclass(Fabric, compose_config(str(name), overrides, folder))
    file = Path(name)
    if file.suffix not in (".yaml", ".yml"):
        raise InputError(f"unknown fabric {str(name)!r}; {allowed_text(str(name), names)}, or a file *.yaml")
    if not file.is_file():
        raise InputError(f"fabric {name}: there is no such file")
    return to_dataclass(Fabric, compose_config(file.stem, overrides, file.parent.resolve(), also=folder))


def fabric_of(description: dict[str, Any]) -> Fabric:
    """Make the fabric that `dataclasses.asdict` described, also after JSON.

    Raises InputError for an unknown key or value.
    """
    return to_dataclass(Fabric, OmegaConf.create(description))
