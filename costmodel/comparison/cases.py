"""What is placed: random netlists that no model has seen, and the sections of real models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from costmodel.dataset.loader import Dataset
from placer.errors import InputError
from placer.fabric import Fabric
from placer.lowering import DEFAULT_FILL, draw_netlist, lower_sections
from placer.netlist import Netlist
from placer.workloads import FAMILIES, MODELS, ModelSpec, build

DRAWS = 10  # netlists that are drawn for one, at most


@dataclass(frozen=True, slots=True)
class Case:
    """One netlist to place."""

    group: str  # family, or model and pass
    fabric: Fabric
    netlist: Netlist
    samples: int = 1  # per input of the model, over all sections alike

    @property
    def name(self) -> str:
        return self.netlist.name

    @property
    def work(self) -> int:
        """Cycles at the bound, of all samples."""
        return self.samples * self.netlist.bound_cycles


@dataclass(frozen=True, slots=True)
class Unseen:
    """Random netlists of each family."""

    families: tuple[str, ...]
    netlists: int  # per family
    sample_cycles: int  # work per sample for which sizes are drawn
    seed: int
    exclude: tuple[Path, ...] = ()  # folders of datasets: netlists that are in one are not unseen

    def __post_init__(self) -> None:
        for family in self.families:
            if family not in FAMILIES:
                raise InputError(f"unknown family {family!r}; allowed: {', '.join(FAMILIES)}")
        if self.netlists < 0 or self.seed < 0:
            raise InputError(f"netlists={self.netlists}, seed={self.seed}; allowed 0 or more")

    def cases(self, fabric: Fabric) -> Iterator[Case]:
        """All different. Raises InputError when too few are left that were not seen."""
        seen = {name for folder in self.exclude for name in Dataset.open(folder).fingerprints}
        for family in self.families:
            unseen = list[Netlist]()
            for index in range(DRAWS * self.netlists):
                if len(unseen) == self.netlists:
                    break
                netlist = draw_netlist(fabric, family, self.sample_cycles, self.seed, index)
                if netlist.fingerprint not in seen:
                    seen.add(netlist.fingerprint)
                    unseen.append(netlist)
            if len(unseen) < self.netlists:
                raise InputError(
                    f"only {len(unseen)} of {DRAWS * self.netlists} random netlists of {family!r} "
                    "are new: different, and in none of the datasets of `exclude`; ask for fewer "
                    "netlists or change sample_cycles"
                )
            yield from (Case(family, fabric, netlist) for netlist in unseen)


@dataclass(frozen=True, slots=True)
class Models:
    """Distinct sections of real models."""

    names: tuple[str, ...]
    layers: int | None  # None: all
    training: tuple[bool, ...]
    sequence: int

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in MODELS:
                raise InputError(f"unknown model {name!r}; allowed: {', '.join(MODELS)}")

    def cases(self, fabric: Fabric) -> Iterator[Case]:
        for name in self.names:
            for training in self.training:
                spec = ModelSpec(name, self.layers, self.sequence, training=training)
                group = f"{name} {'training' if training else 'forward'}"
                for section in lower_sections(fabric, build(spec), DEFAULT_FILL):
                    samples = section.repeats * section.samples
                    yield Case(group, fabric, section.netlist, samples)
