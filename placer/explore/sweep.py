"""Fabrics that differ in the settings of a sweep: every combination of the values that are listed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from placer.base import InputError
from placer.fabric import Fabric, fabric_of

MAX_POINTS = 1000
PREFIX = "fabric."
EXAMPLE = 'sweep="{fabric.columns: [16,20,24], fabric.link.vectors_per_cycle: [1,2]}"'


@dataclass(frozen=True, slots=True)
class Point:
    """One combination: the settings by dotted name, without `fabric.`, and the fabric that has them."""

    settings: dict[str, int | float]
    fabric: Fabric

    @property
    def name(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.settings.items())


def points_of(fabric: Fabric, sweep: Mapping[str, Any]) -> list[Point]:
    """Return all combinations. Raises InputError for a setting or value that the fabric cannot have."""
    if not sweep:
        raise InputError(f"sweep is empty: name settings of the fabric with their values, {EXAMPLE}")
    names, values = [], []
    for key, given in sweep.items():
        if not str(key).startswith(PREFIX):
            raise InputError(f"sweep: {key!r} is no setting of the fabric; write for example {EXAMPLE}")
        names.append(str(key).removeprefix(PREFIX))
        values.append(_values(str(key), given))
    number = math.prod(map(len, values))
    if number > MAX_POINTS:
        raise InputError(f"sweep: {number:,} combinations, allowed up to {MAX_POINTS:,}; list fewer values")
    settings = [dict(zip(names, chosen, strict=True)) for chosen in product(*values)]
    return [Point(chosen, _changed(fabric, chosen)) for chosen in settings]


def _values(key: str, given: Any) -> Sequence[int | float]:
    values = given if isinstance(given, list | tuple) else [given]
    if not values or not all(type(value) in (int, float) for value in values):
        raise InputError(f"sweep: {key}={given!r}; needed a list of numbers, such as [1,2]")
    return list(dict.fromkeys(values))


def _changed(fabric: Fabric, settings: Mapping[str, int | float]) -> Fabric:
    description = asdict(fabric)
    for name, value in settings.items():
        *groups, last = name.split(".")
        place: Any = description
        for group in groups:
            place = place.get(group) if isinstance(place, dict) else None
        if not isinstance(place, dict) or isinstance(place.get(last), dict):
            raise InputError(f"sweep: the fabric has no setting {PREFIX}{name}; see conf/fabric/parts/base.yaml")
        place[last] = value
    try:
        return fabric_of(description)
    except InputError as error:
        raise InputError(f"sweep: {error}") from error
