"""What the studies of random netlists share: settings, fill, steady labels, and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from rich.console import Console

from placer.base import (
    Count,
    FloatArray,
    InputError,
    OneOf,
    Settings,
    Some,
    Table,
    counting_bar,
    make_folder,
    write_atomic,
)
from placer.decision import Decisions
from placer.fabric import Fabric, SiteKind
from placer.graph.workloads import FAMILIES
from placer.netlist import Netlist
from placer.simulation import Limits, Status, simulate_stack

Family = Annotated[str, OneOf(FAMILIES)]
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyConfig(Settings):
    """The settings of a study of random netlists."""

    fabric: Fabric
    families: Some[Family]
    netlists: Count  # per family
    sample_cycles: Count
    output: Path


class OfFamily(Protocol):
    """A result about one netlist."""

    @property
    def family(self) -> str: ...


F = TypeVar("F", bound=OfFamily)


def by_family(results: Iterable[F]) -> dict[str, list[F]]:
    """Return the results of each family, in the order in which families come first."""
    groups: dict[str, list[F]] = {}
    for result in results:
        groups.setdefault(result.family, []).append(result)
    return groups


def fill_of(fabric: Fabric, netlist: Netlist) -> float:
    """Return the share of the compute units that a netlist uses."""
    return netlist.count(SiteKind.COMPUTE) / fabric.num_sites(SiteKind.COMPUTE)


def steady_cycles(fabric: Fabric, netlist: Netlist, decisions: Decisions, limits: Limits) -> FloatArray:
    """Return the cycles per sample of each decision. Raises InputError if one is not steady."""
    outcome = simulate_stack(fabric, netlist, decisions, limits)
    if (outcome.status != Status.STEADY).any():
        raise InputError(f"netlist {netlist.name}: a placement is not steady within {limits.max_samples} samples")
    return outcome.cycles_per_sample


def each(measure: Callable[..., R], what: str, *ranges: Iterable[Any]) -> Iterator[R]:
    """Yield what is measured for every combination of arguments, behind a bar."""
    combinations = list(product(*ranges))
    with counting_bar(what) as on_progress:
        for number, arguments in enumerate(combinations):
            on_progress(number, len(combinations))
            yield measure(*arguments)


def write_study(output: Path, name: str, tables: Sequence[Table], values: Sequence[Table]) -> None:
    """Write tables to read as `<name>.md`, and all values as a CSV file each."""
    make_folder(output)
    write_atomic(output / f"{name}.md", "\n".join(table.markdown() for table in tables))
    for table in values:
        write_atomic(output / f"{table.name}.csv", table.csv())


def show_study(console: Console, output: Path, tables: Sequence[Table]) -> None:
    """Print the tables, and where they were written."""
    for table in tables:
        console.print(table.screen())
    console.print(f"written to {output}")
