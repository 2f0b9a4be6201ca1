"""Constraints of the user, from a YAML or JSON file: which unit may sit where.

    schema: 1
    fixed:                                  # unit -> its site
      mha.norm.0: {row: 3, column: 3}       # a tile; row 0 is the northern row
      x.l0: {port: left, row: 2}            # the DRAM port at the left end of row 2
      x.b0: 9                               # or the number of a site, as in decision files
    forbidden:                              # sites that stay empty
      - {row: 0, column: 0}
    regions:                                # units -> rectangle of tiles, first and last included
      - {units: "mha.softmax.*", rows: [0, 3], columns: [4, 7]}
      - {op: weights, stage: 1, columns: [0, 1]}

Every part may be left out. A region holds the units that match all of its `units` (a shell
pattern of names), `op` and `stage`; a DRAM port belongs to the tile beside it. Units of several
regions keep to all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from placer.base import BoolArray, InputError, read_text
from placer.decision.placement import seats_of
from placer.fabric import Fabric, SiteKind
from placer.netlist import Netlist, Unit

SCHEMA_VERSION = 1
_SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
class Region:
    """Units that keep to a rectangle of tiles."""

    units: str  # shell pattern of names
    op: str | None  # None: any
    stage: int | None  # None: any
    sites: frozenset[int]

    def holds(self, unit: Unit) -> bool:
        return fnmatchcase(unit.name, self.units) and self.op in (None, unit.op) and self.stage in (None, unit.stage)


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a file says, for one fabric."""

    fixed: dict[str, int]  # unit name -> site
    forbidden: frozenset[int]  # sites
    regions: tuple[Region, ...]


def load_constraints(path: Path, fabric: Fabric) -> Constraints:
    """Return the constraints in a file.

    Raises InputError when it cannot be read, is no such file or names a site that is not there.
    """
    try:
        document = _mapping(_parse(read_text(path)), "the file")
        _require_keys(document, {"schema", "fixed", "forbidden", "regions"}, "the file")
        if document.get("schema") != SCHEMA_VERSION:
            raise InputError(f"schema {document.get('schema')!r} is not known; this version reads {SCHEMA_VERSION}")
        fixed = _mapping(document.get("fixed") or {}, "'fixed'")
        return Constraints(
            fixed={str(u): _site(fabric, at, f"unit {u!r}") for u, at in fixed.items()},
            forbidden=frozenset(_site(fabric, site, "'forbidden'") for site in _list(document, "forbidden")),
            regions=tuple(_region(fabric, region) for region in _list(document, "regions")),
        )
    except InputError as error:
        raise InputError(f"constraints file {path}: {error}") from error


def require_known_units(constraints: Constraints, netlists: Sequence[Netlist]) -> None:
    """Raise InputError when a constraint is about no unit of any of the netlists."""
    units = [unit for netlist in netlists for unit in netlist.units]
    names = {unit.name for unit in units}
    where = ", ".join(netlist.name for netlist in netlists)
    for name in constraints.fixed:
        if name not in names:
            raise InputError(f"constraints: no unit {name!r} in {where}; names are for example {_some(sorted(names))}")
    for region in constraints.regions:
        if not any(region.holds(unit) for unit in units):
            raise InputError(
                f"constraints: the region of units={region.units!r}, op={region.op!r}, "
                f"stage={region.stage!r} holds no unit of {where}"
            )


def allowed_sites(fabric: Fabric, netlist: Netlist, constraints: Constraints | None) -> BoolArray:
    """Return where each unit may sit, [num_units, num_sites]: sites of its kind that no one forbids.

    Constraints about units of other netlists are passed over.
    Raises InputError when not all units can be seated.
    """
    kinds = np.array([unit.kind for unit in netlist.units], np.int32)
    is_allowed: BoolArray = kinds[:, None] == fabric.topology.site_kind[None, :]
    if constraints is None:
        return is_allowed
    for unit_id, unit in enumerate(netlist.units):
        for region in constraints.regions:
            if region.holds(unit):
                is_allowed[unit_id] &= _mask(fabric, region.sites)
        if unit.name in constraints.fixed:
            site = constraints.fixed[unit.name]
            _require_kind(fabric, unit, site)
            is_allowed[unit_id] &= _mask(fabric, [site])
    is_allowed &= ~_mask(fabric, constraints.forbidden)
    _require_seats(fabric, netlist, is_allowed)
    return is_allowed


def site_name(fabric: Fabric, site: int) -> str:
    """Return a site as a constraints file writes it."""
    parts = (f"{key}: {value}" for key, value in _address(fabric, site).items())
    return "{" + ", ".join(parts) + "}"


def _address(fabric: Fabric, site: int) -> dict[str, int | str]:
    topology = fabric.topology
    row, column = divmod(int(topology.site_switch[site]), topology.columns)
    if topology.site_kind[site] != SiteKind.PORT:
        return {"row": row, "column": column}
    return {"port": _SIDES[column > 0], "row": row}


def _require_kind(fabric: Fabric, unit: Unit, site: int) -> None:
    kind = SiteKind(int(fabric.topology.site_kind[site]))
    if kind != unit.kind:
        raise InputError(
            f"constraints: unit {unit.name!r} is fixed to {site_name(fabric, site)}, a "
            f"{kind.name.lower()} site; it needs a {unit.kind.name.lower()} site"
        )


def _require_seats(fabric: Fabric, netlist: Netlist, is_allowed: BoolArray) -> None:
    """Raise InputError that names units with fewer seats than they are (Hall's theorem)."""
    # Only constraints need them, and both take a while to import.
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    seat_site = np.repeat(np.arange(fabric.topology.num_sites), seats_of(fabric))
    seat = maximum_bipartite_matching(csr_matrix(is_allowed[:, seat_site]), perm_type="column")
    if (seat >= 0).all():
        return
    crowd = np.arange(netlist.num_units) == int(np.argmin(seat))
    size = 0
    while size < crowd.sum():  # also those who hold the seats that the crowd could take
        size = int(crowd.sum())
        sites = is_allowed[crowd].any(axis=0)
        crowd |= (seat >= 0) & sites[seat_site[seat]]
    names = _some([netlist.units[unit].name for unit in np.flatnonzero(crowd)])
    if not sites.any():
        raise InputError(
            f"constraints cannot be met: no site is left for unit {names}; all of its kind are "
            "forbidden or outside its region"
        )
    places = _some([site_name(fabric, int(site)) for site in np.flatnonzero(sites)])
    raise InputError(
        f"constraints cannot be met: {size} units ({names}) must share "
        f"{seats_of(fabric)[sites].sum()} places ({places}); give them more room"
    )


def _mask(fabric: Fabric, sites: Iterable[int]) -> BoolArray:
    mask = np.zeros(fabric.topology.num_sites, bool)
    mask[list(sites)] = True
    return mask


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, where YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise InputError(f"key {key!r} stands twice after line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


def _parse(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"is no valid YAML or JSON: {reason}") from error


def _region(fabric: Fabric, value: Any) -> Region:
    region = _mapping(value, "a region")
    _require_keys(region, {"units", "op", "stage", "rows", "columns"}, f"region {value}")
    if not {"units", "op", "stage"} & region.keys() or not {"rows", "columns"} & region.keys():
        raise InputError(f"region {value}: needs units, op or stage, and rows or columns")
    pattern, op, stage = region.get("units", "*"), region.get("op"), region.get("stage")
    if not isinstance(pattern, str) or not isinstance(op, str | None):
        raise InputError(f"region {value}: units and op must be text")
    if stage is not None and type(stage) is not int:
        raise InputError(f"region {value}: stage must be an integer")
    topology = fabric.topology
    first_row, last_row = _span(region, "rows", topology.rows)
    first_column, last_column = _span(region, "columns", topology.columns)
    row, column = np.divmod(topology.site_switch, topology.columns)
    is_inside = (first_row <= row) & (row <= last_row)
    is_inside &= (first_column <= column) & (column <= last_column)
    return Region(pattern, op, stage, frozenset(np.flatnonzero(is_inside).tolist()))


def _span(region: dict[str, Any], name: str, size: int) -> tuple[int, int]:
    span = region.get(name, [0, size - 1])
    if (
        not isinstance(span, list)
        or len(span) != 2
        or not all(type(end) is int for end in span)
        or not 0 <= span[0] <= span[1] < size
    ):
        raise InputError(f"region {region}: {name} must be [first, last] with 0 <= first <= last <= {size - 1}")
    return span[0], span[1]


def _site(fabric: Fabric, value: Any, where: str) -> int:
    topology = fabric.topology
    if type(value) is int:
        if not 0 <= value < topology.num_sites:
            raise InputError(f"{where}: site {value}; the fabric has sites 0 to {topology.num_sites - 1}")
        return value
    for site in range(topology.num_sites):
        if value == _address(fabric, site):
            return site
    raise InputError(
        f"{where}: {value!r} is no site of fabric {fabric.name!r}; allowed are {{row: 0 to "
        f"{topology.rows - 1}, column: 0 to {topology.columns - 1}}}, {{port: left or right, "
        f"row: one with a port}} and a number from 0 to {topology.num_sites - 1}"
    )


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where} is {value!r}, needed key: value pairs")
    return value


def _list(document: dict[str, Any], key: str) -> list[Any]:
    value = document.get(key) or []
    if not isinstance(value, list):
        raise InputError(f"{key!r} is {value!r}, needed a list")
    return value


def _require_keys(value: dict[str, Any], allowed: set[str], where: str) -> None:
    unknown = sorted(str(key) for key in value.keys() - allowed)
    if unknown:
        raise InputError(f"{where}: unknown key {unknown[0]!r}; allowed: {', '.join(sorted(allowed))}")
