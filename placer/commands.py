"""The commands of a package, told by the first line of their modules."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = '"""Command: '  # with which the module of a command begins


def list_commands(package: str) -> dict[str, str]:
    """What `python -m <name>` does, by name; nothing is imported."""
    commands = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        first_line = path.read_text(encoding="utf-8").partition("\n")[0]
        if first_line.startswith(MARK):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            line = first_line.removeprefix(MARK).removesuffix('"""')
            commands[name.removesuffix(".__main__")] = line
    return commands


def overview(package: str) -> str:
    """The page that `python -m <package>` prints."""
    commands = list_commands(package)
    width = max(map(len, commands))
    lines = [f"  python -m {name:<{width}}  {line}" for name, line in commands.items()]
    return "\n".join(
        [
            f"Commands of {package}; --help lists the settings of one, given as key=value:",
            *lines,
            "All settings: docs/config.md",
        ]
    )
