"""Tables of the studies: on the screen, as Markdown, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from rich.table import Table


def screen_table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> Table:
    """A table for a console."""
    table = Table(*header, title=title or None)
    for row in rows:
        table.add_row(*row)
    return table


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def csv_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Comma-separated values; numbers as the caller wants them rounded."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
