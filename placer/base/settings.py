"""Settings that refuse what is out of range, whoever makes them: YAML, a command line or Python.

    @dataclass(frozen=True, slots=True)
    class SpreadConfig(Settings):
        netlists: Count
        placements: Annotated[int, Within(4)]
        families: Some[Family]  # with Family = Annotated[str, OneOf(FAMILIES)]
        time_limit: Positive | None = None

        def check(self) -> None:  # what no single field can tell
            ...

What may stand in a field is part of its type; no class repeats the checks. A rule is anything that
can say by `fault` what is wrong with a value, "" if nothing is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from placer.base.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Within:
    """A finite number from `least` to `most`, and more than `above`."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf

    def fault(self, value: float) -> str:
        is_allowed = self.above < value < math.inf and self.least <= value <= self.most
        return "" if is_allowed else f"is out of range; allowed: {self}"

    def __str__(self) -> str:
        is_open = self.above > -math.inf
        if self.most == math.inf:
            return f"more than {self.above}" if is_open else f"{self.least} or more"
        return f"above {self.above} up to {self.most}" if is_open else f"{self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """A name out of some."""

    names: Collection[str]

    def fault(self, value: str) -> str:
        return "" if value in self.names else f"is no choice; {allowed_text(value, self.names)}"


class NotEmpty:
    """A list with something in it."""

    def fault(self, value: Collection[Any]) -> str:
        return "" if value else "is empty; allowed: one or more"


Whole = Annotated[int, Within(0)]
Count = Annotated[int, Within(1)]
Positive = Annotated[float, Within(above=0)]
Share = Annotated[float, Within(0, 1)]
Fill = Annotated[float, Within(above=0, most=1)]  # a share that is more than nothing
Some = Annotated[list[T], NotEmpty()]


class SettingError(InputError):
    """A setting is out of range; the message begins with its name."""


class Settings:
    """The base of settings: values are held against their types, then `check` is called."""

    __slots__ = ()

    def __post_init__(self) -> None:
        schema: Any = type(self)
        for name, hint in _ruled(schema).items():
            _require(hint, getattr(self, name), name)
        self.check()

    def check(self) -> None:
        """Raise InputError for settings that do not go together."""


@cache
def _ruled(schema: type) -> dict[str, Any]:
    """Return the types of those fields that have a rule in them."""
    hints = get_type_hints(schema, include_extras=True)
    return {name: hint for name, hint in hints.items() if "Annotated" in str(hint)}


def _require(hint: Any, value: Any, key: str) -> None:
    if get_origin(hint) in (Union, UnionType):
        hint = NoneType if value is None else without_none(hint)
    if get_origin(hint) is Annotated:
        hint, *rules = get_args(hint)
        for rule in rules:
            if fault := rule.fault(value):
                raise SettingError(f"{key}={value!r} {fault}")
    if get_origin(hint) in (list, tuple):
        for number, item in enumerate(value):
            _require(get_args(hint)[0], item, f"{key}[{number}]")
    elif get_origin(hint) is dict:
        for name, item in value.items():
            _require(get_args(hint)[1], item, f"{key}.{name}")


def without_none(union: Any) -> Any:
    """Return X of a type X | None, the only unions with rules in them."""
    (inner,) = (argument for argument in get_args(union) if argument is not NoneType)
    return inner


def allowed_text(seen: str, allowed: Iterable[str]) -> str:
    """Return what the user may write instead of `seen`, with a guess if one comes close."""
    names = sorted(allowed)
    matches = [name for name in names if name.startswith(seen)] or get_close_matches(seen, names)
    hint = f"did you mean {matches[0]!r}? " if matches else ""
    return f"{hint}allowed: {', '.join(names) or 'none'}"
