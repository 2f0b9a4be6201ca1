"""Fabrics from their files in `conf/fabric`, and from descriptions in other files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omegaconf import OmegaConf

from placer.base import InputError, allowed_text
from placer.base.config import CONF_DIR, choices, compose_config, to_dataclass
from placer.fabric.fabric import Fabric


def load_fabric(name: str, overrides: Sequence[str] = ()) -> Fabric:
    """Load `conf/fabric/<name>.yaml`, changed by overrides such as "link.hop_cycles=3".

    Raises InputError for an unknown name, key or value.
    """
    names = choices("fabric")
    if name not in names:
        raise InputError(f"unknown fabric {name!r}; {allowed_text(name, names)}")
    return to_dataclass(Fabric, compose_config(name, overrides, CONF_DIR / "fabric"))


def fabric_of(description: dict[str, Any]) -> Fabric:
    """Make the fabric that `dataclasses.asdict` described, also after JSON.

    Raises InputError for an unknown key or value.
    """
    return to_dataclass(Fabric, OmegaConf.create(description))
