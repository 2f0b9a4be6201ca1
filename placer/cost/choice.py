"""What `cost=` on a command line chooses: a dataclass of options that makes a cost model.

`conf/cost/<name>.yaml` names the dataclass as `target`, so `placer` need not know all of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from placer.base.workers import file_digest
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


@runtime_checkable
class MadeFromFiles(Protocol):
    """A choice whose model comes from files that its options do not name as they lie."""

    def files(self) -> dict[str, str]:
        """Return the hash of each file by its name; raise InputError when one cannot be read."""
        ...


def file_hashes(choice: CostChoice) -> dict[str, str]:
    """Return hashes of all files that a cost model is made from, for what is stored of its results.

    Raises InputError when one cannot be read.
    """
    if isinstance(choice, MadeFromFiles):
        return choice.files()
    options: dict[str, Any] = asdict(choice)  # type: ignore[call-overload]
    values = [item for value in options.values() for item in (value if isinstance(value, list | tuple) else [value])]
    return {str(path): file_digest(path) for path in values if isinstance(path, Path) and path.is_file()}


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
