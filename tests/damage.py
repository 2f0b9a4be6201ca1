"""Damage to files: bytes that change, vanish, are doubled or cut off, and numbers that grow huge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Kind = Literal["change", "cut", "remove", "double", "number", "foreign"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NUMBERS = (b"-1", b"0", b"1", b"7", b"65537", b"1000000000", b"99999999999", b"1e999", b"nan", b"9" * 5000)


@dataclass(frozen=True, slots=True)
class Damage:
    """What happens to a file; places are shares of its length."""

    kind: Kind
    places: Sequence[float]  # two or more, in [0, 1)
    values: bytes  # one or more
    number: bytes

    def of(self, content: bytes) -> bytes:
        """Return the damaged content."""
        spots = sorted(int(share * len(content)) for share in self.places)
        low, high = spots[0], min(spots[-1], spots[0] + 64)
        match self.kind:
            case "change":
                return self._changed(content, spots)
            case "number":
                return self._with_number(content)
            case "cut":
                return content[:low]
            case "remove":
                return content[:low] + content[high:]
            case "double":
                return content[:high] + content[low:]
            case "foreign":
                return self.values

    def _changed(self, content: bytes, spots: Sequence[int]) -> bytes:
        changed = bytearray(content)
        for number, spot in enumerate(spots):
            changed[spot] = self.values[number % len(self.values)]
        return bytes(changed)

    def _with_number(self, content: bytes) -> bytes:
        found = list(re.finditer(rb"\d+", content))
        if not found:
            return self.number + content
        spot = found[int(self.places[0] * len(found))]
        return content[: spot.start()] + self.number + content[spot.end() :]


def random_damage(rng: np.random.Generator) -> Damage:
    """Draw what happens to a file; half of it happens to numbers."""
    kind: Kind = "number" if rng.random() < 0.5 else KINDS[rng.integers(len(KINDS))]
    places = rng.random(int(rng.integers(2, 6))).tolist()
    return Damage(kind, places, rng.bytes(int(rng.integers(1, 9))), NUMBERS[rng.integers(len(NUMBERS))])
