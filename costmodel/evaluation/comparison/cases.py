"""What is placed: random netlists that no model has seen, and the sections of real models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from costmodel.dataset import Dataset
from placer.base import InputError, OneOf, Settings, Whole
from placer.fabric import Fabric
from placer.graph.workloads import FAMILIES, MODELS, ModelSpec, build
from placer.netlist import Netlist
from placer.netlist.lowering import DEFAULT_FILL, draw_netlist, lower_sections

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
        """Return the cycles at the bound, of all samples."""
        return self.samples * self.netlist.bound_cycles


@dataclass(frozen=True, slots=True)
class Unseen(Settings):
    """Random netlists of each family."""

    families: tuple[Annotated[str, OneOf(FAMILIES)], ...]
    netlists: Whole  # per family
    sample_cycles: int  # work per sample for which sizes are drawn
    seed: Whole
    exclude: tuple[Path, ...] = ()  # folders of datasets: netlists that are in one are not unseen

    def cases(self, fabric: Fabric) -> Iterator[Case]:
        """Yield different ones. Raises InputError when too few are left that were not seen."""
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
class Models(Settings):
    """Distinct sections of real models."""

    names: tuple[Annotated[str, OneOf(MODELS)], ...]
    layers: int | None  # None: all
    training: tuple[bool, ...]
    sequence: int

    def cases(self, fabric: Fabric) -> Iterator[Case]:
        for name in self.names:
            for training in self.training:
                spec = ModelSpec(name, self.layers, self.sequence, training=training)
                group = f"{name} {'training' if training else 'forward'}"
                for section in lower_sections(fabric, build(spec), DEFAULT_FILL):
                    samples = section.repeats * section.samples
                    yield Case(group, fabric, section.netlist, samples)
