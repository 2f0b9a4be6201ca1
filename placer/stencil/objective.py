"""What a mapping is worth: a function of two terms, which can be exchanged.

The mapper knows an objective by its values alone. Whether shorter wires still help, and how many
tiles should be traded for them, it finds out by asking.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from placer.stencil.problem import Problem


class Objective(Protocol):
    """Of normalised accuracy and wires; both are better when larger. Must not fall with either."""

    def __call__(self, accuracy: float, wires: float) -> float: ...


class ObjectiveName(Enum):
    """The objectives that a command can be told."""

    CONTEST = "contest"  # the smaller of the two terms: the official score
    WEIGHTED = "weighted"  # their sum, weighted as the problem file says


@dataclass(frozen=True, slots=True)
class SmallerTerm:
    """min(accuracy, wires)."""

    def __call__(self, accuracy: float, wires: float) -> float:
        return min(accuracy, wires)


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """alpha * accuracy + beta * min(1, wires), as the call for participation weighted the terms."""

    alpha: float
    beta: float

    def __call__(self, accuracy: float, wires: float) -> float:
        return self.alpha * accuracy + self.beta * min(1.0, wires)


CONTEST_SCORE = SmallerTerm()


def make_objective(name: ObjectiveName, problem: Problem) -> Objective:
    """The objective with this name for a problem."""
    return CONTEST_SCORE if name is ObjectiveName.CONTEST else WeightedSum(*problem.weights)
