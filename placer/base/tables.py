"""Tables and reports: one `Table` for the screen, Markdown and CSV, one writer of reports."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table as ScreenTable

from placer.base.files import make_folder, write_atomic

if TYPE_CHECKING:  # it takes long to import, and not every command draws
    from matplotlib.figure import Figure

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is printed, written as Markdown, and kept as comma-separated values."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    name: str = ""  # of its CSV file in a report; no file without it

    def screen(self) -> ScreenTable:
        """Return the table for a console."""
        table = ScreenTable(*self.header, title=self.title or None)
        for row in self.rows:
            table.add_row(*map(str, row))
        return table

    def markdown(self) -> str:
        """Return the table as Markdown; a bar within a cell does not end it."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        escaped = ((str(cell).replace("|", "\\|") for cell in line) for line in lines)
        return "".join(f"| {' | '.join(line)} |\n" for line in escaped)

    def csv(self) -> str:
        """Return comma-separated values: floats with six digits, nothing where there is none."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows([_csv_cell(cell) for cell in row] for row in self.rows)
        return text.getvalue()


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure of a report, kept as `<name>.png`."""

    name: str
    caption: str
    figure: Figure


Part = str | Table | Picture  # a string is a paragraph of Markdown


def write_report(
    folder: Path,
    file: str,
    title: str,
    command: str,
    parts: Sequence[Part],
    publish: Path | None = None,
    numbers: Sequence[Table] = (),
) -> list[str]:
    """Write `folder/file` (Markdown) and the CSV files and pictures of its parts.

    A table with a title gets a heading of its own; `numbers` are tables for CSV files only.
    Everything is written to `publish` too, if it is given. Return the names of the files.
    """
    text = [f"# {title}\n\nCommand: `{command}`\n"]
    contents: dict[str, str | bytes] = {f"{table.name}.csv": table.csv() for table in numbers}
    for part in parts:
        if isinstance(part, str):
            text.append(part.rstrip("\n") + "\n")
        elif isinstance(part, Table):
            text.append((f"## {part.title}\n\n" if part.title else "") + part.markdown())
            if part.name:
                contents[f"{part.name}.csv"] = part.csv()
        else:
            text.append(f"![{part.caption}]({part.name}.png)\n")
            contents[f"{part.name}.png"] = png(part.figure)
    contents[file] = "\n".join(text)
    for target in (folder, publish):
        if target is not None:
            make_folder(target)
            for name, content in contents.items():
                write_atomic(target / name, content)
    return list(contents)


def png(figure: Figure, dots_per_inch: int = 110) -> bytes:
    """Return a figure as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dots_per_inch)
    return buffer.getvalue()


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun, which takes an s unless there is one of it."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def number(value: float, digits: int = 3) -> str:
    """Return a number for a reader, "-" where there is none."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def percent(value: float, digits: int = 0) -> str:
    """Return a share in per cent for a reader, "-" where there is none."""
    return "-" if math.isnan(value) else f"{value:.{digits}%}"


def _csv_cell(cell: Cell) -> Cell:
    if isinstance(cell, float):
        return "" if math.isnan(cell) else f"{cell:.6g}"
    return cell
