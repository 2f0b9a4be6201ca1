"""What commands share: their list, names of files, numbers for JSON, and the console."""

from __future__ import annotations

import math
import re
import shlex
import sys
from pathlib import Path

from rich.console import Console

from placer.base.files import is_file_name
from placer.base.sources import ROOT

MARK = '"""Command: '  # with which the module of a command begins
FILE_COLUMNS = 160  # width of what is printed into a file or a pipe


def list_commands(package: str) -> dict[str, str]:
    """Return what `python -m <name>` does, by name; nothing is imported."""
    commands = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        first_line = path.read_text(encoding="utf-8").partition("\n")[0]
        if first_line.startswith(MARK):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            line = first_line.removeprefix(MARK).removesuffix('"""')
            commands[name.removesuffix(".__main__")] = line
    return commands


def overview(package: str) -> str:
    """Return the page that `python -m <package>` prints."""
    commands = list_commands(package)
    width = max(map(len, commands))
    return "\n".join(
        [
            f"Commands of {package}; --help lists the settings of one, given as key=value:",
            *(f"  python -m {name:<{width}}  {line}" for name, line in commands.items()),
            "All settings: docs/config.md",
        ]
    )


def file_name(text: str) -> str:
    """Return a name of a file within its folder, whatever the graph or fabric is called."""
    return re.sub(r"[^\w.-]", "_", text)


def finite(value: float) -> float | None:
    """Return a value for JSON, which knows no nan: one that was never measured is null."""
    return value if math.isfinite(value) else None


def plain(value: object) -> str:
    """Return an enumeration's value, or a path, as JSON wants to have it (`default=plain`)."""
    return str(getattr(value, "value", value))


def command_line(module: str) -> str:
    """Return what the user typed to run this command, to be kept with its results."""
    return shlex.join(["python", "-m", module, *sys.argv[1:]])


def notice_file_name(output: Path) -> None:
    """Tell a user whose `output` names a file that it is a folder in all commands."""
    if is_file_name(output):
        sys.stderr.write(f"notice: output={output} names a file; it is taken, but output is a folder in all commands\n")


def make_console() -> Console:
    """Return a console without markup, as names are none; only a terminal has a width to keep."""
    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console.width = FILE_COLUMNS
    return console
