"""Replay traces and compare what every model predicts with what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from placer.base import InputError, LongArray
from placer.fabric import Fabric
from placer.silicon.fluid import fluid_cycles, rule_cycles, shared_of
from placer.silicon.trace import Trace
from placer.simulation import Status, Traffic, build_traffic, replay

ENGINE = "cycle-level engine"
MODELS = ("no contention", "rules", "fluid", ENGINE)


@dataclass(frozen=True, slots=True)
class Compared:
    """One trace: measured and predicted cycles."""

    trace: Trace
    traffic: Traffic
    predicted: dict[str, float]  # by model
    link_vectors: LongArray  # [num_links] as the engine has sent them

    @property
    def name(self) -> str:
        return self.trace.name

    def error(self, model: str = ENGINE) -> float:
        """Return (predicted - measured) / measured."""
        return self.predicted[model] / self.trace.measured - 1


@dataclass(frozen=True, slots=True)
class Score:
    """How well a model predicts some traces."""

    num: int
    mean_error: float  # of absolute relative errors
    bias: float  # mean of relative errors
    largest: float
    spearman: float  # nan below three traces


def compare(fabric: Fabric, trace: Trace) -> Compared:
    """Predict one trace with every model."""
    traffic = build_traffic(fabric, trace.scripts, trace.name)
    shared = shared_of(fabric, traffic)
    replayed = replay(fabric, traffic)
    if replayed.status != Status.STEADY:
        raise InputError(f"{trace.name}: the replay came to no end ({replayed.status.name.lower()})")
    predicted = {
        "no contention": fluid_cycles(traffic, shared, has_contention=False),
        "rules": rule_cycles(traffic, shared),
        "fluid": fluid_cycles(traffic, shared),
        ENGINE: float(replayed.step_at.max()),
    }
    return Compared(trace, traffic, predicted, replayed.link_vectors)


def score_of(compared: Iterable[Compared], model: str = ENGINE) -> Score:
    """Return the errors of a model over some traces."""
    chosen = list(compared)
    errors = np.array([one.error(model) for one in chosen])
    rank = float("nan")
    if len(chosen) > 2:
        rank = float(spearmanr([one.trace.measured for one in chosen], [one.predicted[model] for one in chosen])[0])
    return Score(len(chosen), float(np.abs(errors).mean()), float(errors.mean()), float(np.abs(errors).max()), rank)


def kinds_of(compared: Sequence[Compared]) -> dict[str, list[Compared]]:
    """Return traces by kind: between cores, from DRAM; those of a kind in the order of their names."""
    groups = {
        "re-shard": [one for one in compared if not one.trace.is_dram],
        "DRAM": [one for one in compared if one.trace.is_dram],
    }
    return {kind: group for kind, group in groups.items() if group}
