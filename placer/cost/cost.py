"""Cost models: what a placer asks to compare decisions of one netlist.

`placer` knows only this protocol; the learned model (`costmodel`) implements it as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from placer.base import FloatArray, InputError
from placer.decision import Decisions
from placer.fabric import Fabric
from placer.netlist import Netlist
from placer.simulation import Limits, Outcome, Status, label_limits, simulate_stack


class CostModel(Protocol):
    """Scores decisions of one netlist."""

    def score(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        """Return the predicted normalised throughput [num_decisions] in (0, 1], higher is better."""
        ...


@runtime_checkable
class MonotoneCost(CostModel, Protocol):
    """A cost model whose scores rise with those of another one."""

    @property
    def ranks_like(self) -> CostModel: ...


class Forecast(Protocol):
    """What a cost model that knows its own error says of some decisions."""

    @property
    def throughput(self) -> FloatArray: ...  # [num_decisions]

    @property
    def log_sigma(self) -> FloatArray | None: ...  # [num_decisions] log of the deviation of log throughput


@runtime_checkable
class UncertainCost(CostModel, Protocol):
    """A cost model that knows how far off it may be, and what it has never seen."""

    def predict_with_uncertainty(self, netlist: Netlist, decisions: Decisions) -> Forecast:
        """Return the scores, and how far they may be off."""
        ...

    def remarks(self, netlist: Netlist) -> list[str]:
        """Return what of a netlist or its fabric is far from all that it has learned from."""
        ...


def sigma_of(cost: CostModel, netlist: Netlist, decision: Decisions) -> float | None:
    """Return the deviation of the logarithm of the score of a stack of one; None: the cost model does not tell."""
    if not isinstance(cost, UncertainCost):
        return None
    log_sigma = cost.predict_with_uncertainty(netlist, decision).log_sigma
    return None if log_sigma is None else float(np.exp(log_sigma[0]))


@runtime_checkable
class PotentialCost(CostModel, Protocol):
    """A cost model that also knows netlists which have not been placed."""

    def potential(self, netlists: Sequence[Netlist]) -> FloatArray:
        """Return the normalised throughput [num_netlists] that a good placement of each will reach."""
        ...


def ranking_model(cost: CostModel) -> CostModel:
    """Return the cost model that a search asks which decision is better: it may be faster."""
    return cost.ranks_like if isinstance(cost, MonotoneCost) else cost


class SimulatorCost:
    """The simulator in the loop: the truth, milliseconds per decision, simulated as labels are."""

    def __init__(self, fabric: Fabric, limits: Limits | None = None) -> None:
        self.fabric = fabric
        self._limits = limits  # None: those of labels

    def score(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        """Return the simulated throughput; a deadlock scores next to nothing."""
        return simulated_throughput(netlist, self.simulate(netlist, decisions))

    def simulate(self, netlist: Netlist, decisions: Decisions) -> Outcome:
        """Return all that the simulator tells. Raises InputError when the cycles allowed are too few."""
        limits = self._limits or label_limits(netlist.bound_cycles)
        outcome = simulate_stack(self.fabric, netlist, decisions, limits)
        is_unmeasured = np.isnan(outcome.cycles_per_sample)
        if (is_unmeasured & (outcome.status == Status.CAP)).any():
            raise InputError(
                f"netlist {netlist.name!r}: a simulation ended at max_cycles="
                f"{limits.max_cycles} before any sample was complete; allow more cycles"
            )
        return outcome


def simulated_throughput(netlist: Netlist, outcome: Outcome) -> FloatArray:
    """Return the normalised throughput [num_decisions], next to nothing for a deadlock."""
    period = np.nan_to_num(outcome.cycles_per_sample, nan=np.inf)
    return np.maximum(netlist.bound_cycles / period, np.finfo(np.float64).tiny)


class RandomCost:
    """Scores that say nothing: the floor for comparisons, and a stub for tests."""

    def __init__(self, seed: int = 0) -> None:
        self._key = seed.to_bytes(8, "little", signed=True)

    def score(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        """Return a hash of sites and channels: equal decisions have equal scores."""
        scores = np.empty(len(decisions))
        for k, (sites, channels) in enumerate(zip(decisions.sites, decisions.channels, strict=True)):
            digest = hashlib.blake2b(sites.tobytes() + channels.tobytes(), key=self._key)
            scores[k] = 1.0 - int.from_bytes(digest.digest()[:6], "little") / 2.0**48
        return scores
