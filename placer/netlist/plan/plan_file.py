"""Read a plan from a file: versioned JSON, of which nothing is trusted."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from placer.base import InputError, parse_object, read_text
from placer.netlist.plan.plan import (
    SCHEMA_VERSION,
    BufferPlan,
    Cut,
    GroupPlan,
    Plan,
    SectionPlan,
    TileAxis,
    Tiling,
    WeightsPlan,
)

MAX_COUNT = 1 << 31  # of any number in a plan

P = TypeVar("P", GroupPlan, BufferPlan, WeightsPlan)


def load_plan(path: Path) -> Plan:
    """Read a plan that `Plan.to_json` wrote. Raises InputError when there is none."""
    try:
        return plan_from_dict(parse_object(read_text(path)))
    except InputError as error:
        raise InputError(f"plan file {path}: {error}") from error


def plan_from_dict(data: object) -> Plan:
    """Read what `to_dict` gave, also after JSON. Raises InputError when it is no plan."""
    entry = _entry(data, {"schema", *_names(Plan)}, "plan")
    if entry["schema"] != SCHEMA_VERSION:
        raise InputError(f"plan: schema {entry['schema']!r}, needed {SCHEMA_VERSION}")
    layouts = tuple(_section(one, f"layout {k}") for k, one in enumerate(_list(entry["layouts"], "layouts")))
    sections = []
    for k, one in enumerate(_list(entry["sections"], "sections")):
        where = f"section {k}"
        cut = _entry(one, _names(Cut), where)
        groups = tuple(_text(name, f"{where}: group") for name in _list(cut["groups"], f"{where}: groups"))
        layout = _number(cut["layout"], f"{where}: layout", least=0)
        if layout >= len(layouts):
            raise InputError(f"{where}: layout {layout}, but the plan has {len(layouts)}")
        sections.append(Cut(groups, layout))
    unused = set(range(len(layouts))) - {cut.layout for cut in sections}
    if unused:
        raise InputError(f"layout {min(unused)} is used by no section")
    slices = []
    for k, one in enumerate(_list(entry["slices"], "slices")):
        pair = _list(one, f"slice {k}")
        if len(pair) != 2:
            raise InputError(f"slice {k}: needed are a name and a number, got {len(pair)} entries")
        slices.append((_text(pair[0], f"slice {k}"), _number(pair[1], f"slice {k}")))
    if len(dict(slices)) < len(slices):
        raise InputError("slices: an op is named twice")
    graph, fabric = _text(entry["graph"], "graph"), _text(entry["fabric"], "fabric")
    return Plan(graph, fabric, tuple(slices), layouts, tuple(sections))


def _section(data: object, where: str) -> SectionPlan:
    entry = _entry(data, _names(SectionPlan), where)
    tiling = _entry(entry["tiling"], _names(Tiling), f"{where}: tiling")
    if tiling["axis"] not in list(TileAxis):
        raise InputError(f"{where}: axis {tiling['axis']!r} is unknown; known: {', '.join(TileAxis)}")
    least = 0 if tiling["axis"] == TileAxis.NONE else 1
    size = _number(tiling["size"], f"{where}: size", least)
    samples = _number(tiling["samples"], f"{where}: samples")

    def parts(kind: type[P], name: str) -> tuple[P, ...]:
        found = []
        for k, one in enumerate(_list(entry[name], f"{where}: {name}")):
            place = f"{where}: {name}: {k}"
            counts = _entry(one, _names(kind), place)
            found.append(kind(**{key: _number(value, f"{place}: {key}") for key, value in counts.items()}))
        return tuple(found)

    return SectionPlan(
        Tiling(TileAxis(tiling["axis"]), size, samples),
        parts(GroupPlan, "groups"),
        parts(BufferPlan, "buffers"),
        parts(WeightsPlan, "weights"),
        _number(entry["copies"], f"{where}: copies"),
    )


def _names(kind: type) -> set[str]:
    return {item.name for item in fields(kind)}


def _entry(data: object, names: set[str], where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InputError(f"{where} is {data!r:.40}, needed an object")
    if data.keys() != names:
        raise InputError(f"{where}: has {sorted(map(str, data))}, needed {sorted(names)}")
    return data


def _list(data: object, where: str) -> list[Any] | tuple[Any, ...]:
    if not isinstance(data, (list, tuple)):
        raise InputError(f"{where} is {data!r:.40}, needed a list")
    return data


def _text(data: object, where: str) -> str:
    if not isinstance(data, str):
        raise InputError(f"{where} is {data!r:.40}, needed text")
    return data


def _number(data: object, where: str, least: int = 1) -> int:
    if type(data) is not int or not least <= data <= MAX_COUNT:
        raise InputError(f"{where} is {data!r:.40}, needed a whole number from {least} to {MAX_COUNT}")
    return data
