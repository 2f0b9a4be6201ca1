"""The plan of a network: everything that lowering may choose before anything is placed.

A *section plan* says how one section is laid out: the tile of the data that one sample is, the
parts into which every group of ops and every buffer is cut. A *plan* says where the network is cut
into sections, and which section plan each of them follows. Nothing else is chosen in lowering:
`lower` builds what a section plan says, and `rules` is one way to choose a plan.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from placer.base import InputError
from placer.fabric import NOT_SIMULATED, Fabric
from placer.graph import DataflowGraph, to_json

SCHEMA_VERSION = 1


class TileAxis(StrEnum):
    """What the samples of a section are tiles of."""

    NONE = "none"  # a sample is the whole input
    ROWS = "rows"
    HEADS = "heads"


@dataclass(frozen=True, slots=True)
class Tiling:
    """The samples of a section: tiles of `size` rows or heads; the last one may be partly empty."""

    axis: TileAxis = TileAxis.NONE
    size: int = 0  # rows or heads of one sample; 0 without an axis
    samples: int = 1  # per input of the network


def _require_counts(plan: GroupPlan | BufferPlan | WeightsPlan) -> None:
    """Raise InputError for a number below 1."""
    for item in fields(plan):
        if getattr(plan, item.name) < 1:
            raise InputError(
                f"{type(plan).__name__}: {item.name}={getattr(plan, item.name)} is out of range; allowed: 1 or more"
            )


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """How the output of a group is cut: each part gets a compute unit.

    With `inner` > 1 the sums of a product are cut too: that many units stand in a row, each adds
    its share to the partial sums of the unit before it, and the last one has the output.
    """

    heads: int = 1
    rows: int = 1
    columns: int = 1  # in whole vectors
    inner: int = 1  # in whole vectors

    def __post_init__(self) -> None:
        _require_counts(self)

    @property
    def units(self) -> int:
        return self.heads * self.rows * self.columns * self.inner


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """How a stored tensor is cut: each part gets a memory buffer, and each copy of a part too.

    All copies of a part are written; each of them serves its share of the readers.
    """

    heads: int = 1
    rows: int = 1
    columns: int = 1  # in whole vectors
    copies: int = 1
    slots: int = 2  # samples held at once

    def __post_init__(self) -> None:
        _require_counts(self)

    @property
    def parts(self) -> int:
        return self.heads * self.rows * self.columns


@dataclass(frozen=True, slots=True)
class WeightsPlan:
    """How the resident weights of a group are kept.

    The weights of every column part and inner part of the group are a *span*. A span is cut along
    the inner dimension into `pieces` buffers; or `shared` neighbouring spans share one buffer.
    """

    pieces: int = 1
    shared: int = 1

    def __post_init__(self) -> None:
        _require_counts(self)


@dataclass(frozen=True, slots=True)
class SectionPlan:
    """The layout of one section: of its groups, stored tensors and weights, each in their order.

    Groups are in the order of the graph. Stored tensors are what the section loads, in the order of
    the graph, and then what its groups make. Weights are those of the groups that hold a matrix.
    With `copies` > 1, that many pipelines stand side by side and a sample is as many tiles: all
    parts along the axis of the tiling are multiplied by it.
    """

    tiling: Tiling
    groups: tuple[GroupPlan, ...]
    buffers: tuple[BufferPlan, ...]
    weights: tuple[WeightsPlan, ...]
    copies: int = 1

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise InputError(f"a section plan has copies={self.copies}; allowed: 1 or more")

    @property
    def sample(self) -> Tiling:
        """Return the samples of all pipelines together: each is as many tiles as there are copies."""
        tiling = self.tiling
        return Tiling(tiling.axis, tiling.size * self.copies, -(-tiling.samples // self.copies))


@dataclass(frozen=True, slots=True)
class Cut:
    """One section of a network: the tensors that its groups make, and its layout."""

    groups: tuple[str, ...]  # names of the tensors
    layout: int  # into Plan.layouts; sections that are alike share one


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of a whole network. `slices` are products whose columns are made by several sections."""

    graph: str  # fingerprint of the network
    fabric: str  # name of the fabric, and a fingerprint of its hardware
    slices: tuple[tuple[str, int], ...]  # name of a linear op, number of slices
    layouts: tuple[SectionPlan, ...]
    sections: tuple[Cut, ...]  # in the order in which they run

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON can hold it."""
        return {"schema": SCHEMA_VERSION, **asdict(self)}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1) + "\n"


def graph_fingerprint(graph: DataflowGraph) -> str:
    """Return a hash of a network; a plan carries it."""
    return hashlib.sha256(to_json(graph).encode()).hexdigest()[:16]


def fabric_key(fabric: Fabric) -> str:
    """Return the name of a fabric with a hash of its hardware; a plan carries it."""
    values = asdict(fabric).items()
    hardware = {name: value for name, value in values if name not in NOT_SIMULATED and value is not None}
    text = json.dumps(hardware, sort_keys=True)
    return f"{fabric.name}:{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def require_match(plan: Plan, fabric: Fabric, graph: DataflowGraph) -> None:
    """Raise InputError if a plan was made for another network or fabric."""
    if plan.fabric != fabric_key(fabric):
        raise InputError(
            f"the plan is for fabric {plan.fabric!r}, not {fabric_key(fabric)!r}; use that fabric with the same "
            "settings, or make a plan for this one"
        )
    found = graph_fingerprint(graph)
    if plan.graph != found:
        raise InputError(
            f"the plan is for another network (fingerprint {plan.graph}) than {graph.name!r} ({found}); "
            "make a plan for this one"
        )
