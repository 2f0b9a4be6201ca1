"""Command: write docs/config.md, the page of every setting with its meaning, from conf/*.yaml."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from placer.base import write_atomic
from placer.base.config import CONF_DIR, choices

PAGE = CONF_DIR.parent / "docs/config.md"

INTRODUCTION = """\
# Every setting

Made from the comments in `conf/` by `python -m placer.config_reference`; do not edit it.
A setting is given behind a command as `key=value`, one of a group as `group.key=value`; a group is
chosen as `group=choice`. What stands as `???` must be set. `python -m placer` and
`python -m costmodel` list the commands.
"""


def reference() -> str:
    """Return the page: commands first, then groups of choices."""
    commands = sorted(CONF_DIR.glob("*.yaml"))
    others = sorted(set(CONF_DIR.rglob("*.yaml")) - set(commands))
    parts = [INTRODUCTION, *(_section(path) for path in (*commands, *others))]
    return "\n".join(parts)


def _section(path: Path) -> str:
    """Return what a file says of itself, and a row per key."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode), f"{path} must hold a mapping"
    rows = [_row(key, value, meaning) for key, value, meaning in _entries(root, lines)]
    name = path.relative_to(CONF_DIR).with_suffix("").as_posix()
    table = ["| key | value | meaning |", "|---|---|---|", *rows]
    return "\n".join([f"## {name}", "", _introduction(lines), "", *table, ""])


def _introduction(lines: list[str]) -> str:
    """Return the comments before the first key."""
    count = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    told = (line.removeprefix("#").strip() for line in lines[:count])
    return "\n".join(line for line in told if line and not line.startswith("@package"))


def _entries(node: yaml.MappingNode, lines: list[str], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield key, value and comment of everything below a mapping."""
    for key, value in node.value:
        name, comment = f"{prefix}{key.value}", _comment(key, value, lines)
        if name == "defaults":
            yield from _choices(value, lines)
        elif isinstance(value, yaml.MappingNode) and not value.flow_style:
            if comment:
                yield name, "", comment
            yield from _entries(value, lines, f"{name}.")
        else:
            yield name, _text(value), comment


def _choices(defaults: yaml.SequenceNode, lines: list[str]) -> Iterator[tuple[str, str, str]]:
    for item in defaults.value:
        if isinstance(item, yaml.MappingNode):
            ((group, chosen),) = item.value
            allowed = ", ".join(choices(group.value.partition("@")[0]))
            comment = _comment(group, chosen, lines)
            yield group.value, chosen.value, "; ".join(filter(None, (f"one of {allowed}", comment)))


def _text(value: yaml.Node) -> str:
    """Return a value as it stands in the file, on one line."""
    if isinstance(value, yaml.SequenceNode):
        return f"[{', '.join(map(_text, value.value))}]"
    if isinstance(value, yaml.MappingNode):
        return f"{{{', '.join(f'{k.value}: {_text(v)}' for k, v in value.value)}}}"
    return str(value.value)


def _comment(key: yaml.Node, value: yaml.Node, lines: list[str]) -> str:
    """Return what stands behind a value, or behind the key of a group."""
    is_same_line = value.end_mark.line == key.start_mark.line
    column = value.end_mark.column if is_same_line else key.end_mark.column
    return lines[key.start_mark.line][column:].partition("#")[2].strip()


def _row(key: str, value: str, meaning: str) -> str:
    shown = f"`{value}`" if value else ""
    return f"| `{key}` | {shown} | {meaning} |"


def main() -> None:
    """Write the page of every setting and print where it is."""
    write_atomic(PAGE, reference())
    sys.stdout.write(f"written to {PAGE.relative_to(CONF_DIR.parent)}\n")


if __name__ == "__main__":
    main()
