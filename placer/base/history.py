"""Figures that were published, so that a later version of the code can be held against them.

`docs/results/history.json`:

    {"schema": 1, "figures": [
      {"name": "judge test_small model spearman", "value": 0.9, "tolerance": 0.01, "better": "higher",
       "command": "python -m costmodel.judge ...", "commit": "a1b2c3d", "date": "2026-11-18"}]}

Commands write what they have measured in the same form. A figure has fallen when it is worse than the
recorded one by more than its tolerance.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from placer.base.errors import InputError
from placer.base.files import parse_object, read_text, write_atomic

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Published:
    """A figure, and what it was made with."""

    name: str
    value: float
    tolerance: float  # by which a later one may be worse
    better: Literal["higher", "lower"]
    command: str
    commit: str
    date: str  # YYYY-MM-DD

    def __post_init__(self) -> None:
        texts = (self.name, self.command, self.commit, self.date)
        if not all(isinstance(text, str) for text in texts):
            raise InputError(f"figure {self.name!r:.60}: name, command, commit and date must be text")
        for key, value in (("value", self.value), ("tolerance", self.tolerance)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InputError(f"figure {self.name!r:.60}: {key} is {value!r:.40}, needed a number")
        if self.tolerance < 0 or self.better not in ("higher", "lower"):
            raise InputError(
                f"figure {self.name!r:.60}: tolerance={self.tolerance}, better={self.better!r:.20}; "
                "allowed: 0 or more, and higher or lower"
            )

    def loss(self, now: Published) -> float:
        """Return by how much a figure of today is worse than this one; below 0: better."""
        change = now.value - self.value
        return -change if self.better == "higher" else change

    def has_fallen(self, now: Published) -> bool:
        """Tell whether a figure of today is worse by more than the tolerance."""
        return self.loss(now) > self.tolerance


def read_figures(path: Path) -> list[Published]:
    """Read figures. Raises InputError when the file holds none, or one twice."""
    try:
        document = parse_object(read_text(path))
        if document.get("schema") != SCHEMA_VERSION:
            raise InputError(f"schema is {document.get('schema')!r:.60}, needed {SCHEMA_VERSION}")
        figures = [Published(**figure) for figure in document["figures"]]
    except (InputError, KeyError, TypeError) as error:
        raise InputError(f"figures {path}: {error}; write the file again by the command that made it") from error
    names = [figure.name for figure in figures]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"figures {path}: {twice!r} stands there twice; remove one of them")
    return figures


def write_figures(path: Path, figures: Sequence[Published]) -> None:
    """Write figures, one per line, in the order of their names."""
    lines = [f"  {json.dumps(asdict(figure))}" for figure in sorted(figures, key=lambda figure: figure.name)]
    write_atomic(path, f'{{\n "schema": {SCHEMA_VERSION},\n "figures": [\n' + ",\n".join(lines) + "\n ]\n}\n")


def replaced(history: Sequence[Published], measured: Sequence[Published]) -> list[Published]:
    """Return the history with what was measured in the place of figures of the same name; new ones are added."""
    return list({figure.name: figure for figure in (*history, *measured)}.values())
