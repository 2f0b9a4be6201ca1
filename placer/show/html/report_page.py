"""The page of a report that a command has written in Markdown, with its pictures inside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from placer.base import read_text
from placer.show.html.page import Block, Cell, Chapter, Image, Link, Page, PageTable, Text

_PICTURE = re.compile(r"!\[(.*)\]\(([\w./-]+\.png)\)")
_LINK = re.compile(r"\[(.+)\]\(([\w./-]+\.html)\)")  # to a page beside this one


def report_page(file: Path, title: str, command: str, config: dict[str, Any]) -> Page:
    """Return the page of headings, paragraphs, lists, tables and PNG pictures beside `file`.

    Raises InputError when it cannot be read.
    """
    parts: list[tuple[str, list[str]]] = [("Summary", [])]
    for line in read_text(file).splitlines():
        if line.startswith("## "):
            parts.append((line.removeprefix("## "), []))
        elif not line.startswith("# "):
            parts[-1][1].append(line)
    sections = [Chapter(heading, list(_blocks(heading, lines, file.parent))) for heading, lines in parts if any(lines)]
    subtitle = "Tables and pictures; how they were made stands at the end"
    return Page(title, subtitle, command, config, sections)


def _blocks(heading: str, lines: list[str], folder: Path) -> Iterator[Block]:
    caption = heading
    for is_table, group in groupby(lines, lambda line: line.startswith("|")):
        if is_table:
            header, _, *rows = ([_plain(cell) for cell in line[1:-1].split("|")] for line in group)
            yield PageTable(caption, header, [[_cell(text) for text in row] for row in rows])
            continue
        for line in filter(None, group):
            picture = _PICTURE.fullmatch(line)
            if picture is not None:
                yield Image((folder / picture[2]).read_bytes(), "image/png", picture[1])
            else:
                caption = _plain(line).rstrip(":") if line.endswith(":") else heading
                yield Text(_plain(line))


def _cell(text: str) -> Cell:
    link = _LINK.fullmatch(text)
    return text if link is None else Link(link[1], link[2])


def _plain(text: str) -> str:
    return text.replace("**", "").replace("`", "").strip()
