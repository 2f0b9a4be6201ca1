"""What `cost=` on a command line chooses: a dataclass of options that makes a cost model.

`conf/cost/<name>.yaml` names the dataclass as `target`, so `placer` need not know all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from placer.cost.cost import CostModel, RandomCost, SimulatorCost
from placer.cost.rules import HeuristicCost
from placer.decision.routing import Rules
from placer.fabric import Fabric


class CostChoice(Protocol):
    """A dataclass with the options of a kind of cost model."""

    @property
    def name(self) -> str: ...

    def model(self, fabric: Fabric, rules: Rules, seed: int) -> CostModel:
        """Return the cost model; raise InputError when the options or their files are wrong."""
        ...


@dataclass(frozen=True, slots=True)
class HeuristicChoice:
    """The expert's rules."""

    name: str

    def model(self, fabric: Fabric, rules: Rules, seed: int) -> CostModel:
        return HeuristicCost(fabric, rules)


@dataclass(frozen=True, slots=True)
class SimulatorChoice:
    """The truth, slow."""

    name: str

    def model(self, fabric: Fabric, rules: Rules, seed: int) -> CostModel:
        return SimulatorCost(fabric)


@dataclass(frozen=True, slots=True)
class RandomChoice:
    """Says nothing."""

    name: str

    def model(self, fabric: Fabric, rules: Rules, seed: int) -> CostModel:
        return RandomCost(seed)
