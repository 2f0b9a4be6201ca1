"""The adaptive schedule of VPR (Betz, Rose 1997): cool fast where little is decided.

Energies are logarithms of predicted cycles per sample, so a temperature of 0.01 lets moves pass
that cost about 1%, for every netlist and cost model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from placer.base import InputError

_IDEAL_ACCEPTANCE = 0.44  # where annealing works best (Lam, Delosme 1988)
_FAST_COOLING = 0.8  # factor when few moves are accepted, as in polishing
_MEAN_COOLING = 0.93  # geometric mean over a whole search from hot to cold, as seen


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the temperature falls."""

    start: float = 1.0  # start temperature / standard deviation of the energy of random moves
    cooling: float = 1.0  # exponent on VPR's factors: 2 cools in half the rounds
    end: float = 2e-5  # temperature at which the search ends
    moves_per_round: float = 10.0  # at effort 1, times num_units^(4/3)

    def __post_init__(self) -> None:
        for name in ("start", "cooling", "end", "moves_per_round"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"schedule.{name}={getattr(self, name)}; allowed: more than 0")

    def round_moves(self, num_units: int, effort: float) -> int:
        """Return the number of moves at one temperature."""
        return max(1, int(effort * self.moves_per_round * num_units ** (4 / 3)))

    def rounds_left(self, temperature: float, is_polishing: bool) -> float:
        """Return the number of rounds until the end, at least 1; polishing accepts few moves and cools fast."""
        factor = _FAST_COOLING if is_polishing else _MEAN_COOLING
        return max(1.0, math.log(temperature / self.end) / -math.log(factor) / self.cooling)

    def next_temperature(self, temperature: float, acceptance: float, reach: float) -> float:
        """Return the temperature after a round in which the share `acceptance` of the moves was accepted."""
        if acceptance > 0.96:
            factor = 0.5
        elif acceptance > 0.8:
            factor = 0.9
        elif acceptance > 0.15 or reach > 1:
            factor = 0.95
        else:
            factor = _FAST_COOLING
        return float(temperature * factor**self.cooling)


def next_reach(reach: float, acceptance: float, farthest: int) -> float:
    """Return how far units go in the next round: less when few moves are accepted."""
    return min(max(reach * (1 - _IDEAL_ACCEPTANCE + acceptance), 1.0), float(farthest))
