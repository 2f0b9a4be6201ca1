"""What all commands share: names of files, numbers for JSON, and the console."""

from __future__ import annotations

import math
import re
import shlex
import sys

from rich.console import Console

FILE_COLUMNS = 160  # width of what is printed into a file or a pipe


def file_name(text: str) -> str:
    """Graphs and fabrics may have any name; the files named after them stay in their folder."""
    return re.sub(r"[^\w.-]", "_", text)


def finite(value: float) -> float | None:
    """JSON knows no nan: a value that was never measured is null."""
    return value if math.isfinite(value) else None


def command_line(module: str) -> str:
    """What the user typed to run this command, to be kept with its results."""
    return shlex.join(["python", "-m", module, *sys.argv[1:]])


def make_console() -> Console:
    """Names of graphs and ops are no markup; only a terminal has a width to keep to."""
    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console.width = FILE_COLUMNS
    return console
