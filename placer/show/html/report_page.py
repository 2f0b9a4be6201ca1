"""The page of a report that a command has written in Markdown, with its pictures inside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from placer.base import read_text
from placer.show.html.page import Block, Cell, Chapter, Image, Link, Listing, Page, PageTable, Text

_PICTURE = re.compile(r"!\[(.*)\]\(([\w./-]+\.png)\)")
_LINK = re.compile(r"\[(.+)\]\(([\w./-]+\.html)\)")  # to a page beside this one
_ITEM = re.compile(r"(?:[-*]|\d+\.)\s+(.*)")
_ANY_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]+\)")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=\S)(.+?)(?<=\S)\1(?![\w*])")
_BAR = re.compile(r"(?<!\\)\|")  # between cells; an escaped one stands in a cell


def report_page(file: Path, title: str, command: str, config: dict[str, Any]) -> Page:
    """Return the page of headings, paragraphs, lists, tables and PNG pictures beside `file`.

    Raises InputError when it cannot be read.
    """
    parts: list[tuple[str, list[str]]] = [("Summary", [])]
    for line in read_text(file).splitlines():
        if line.startswith("## "):
            parts.append((_plain(line.removeprefix("## ")), []))
        elif not line.startswith("# "):
            parts[-1][1].append(line.strip())
    sections = [Chapter(heading, list(_blocks(heading, lines, file.parent))) for heading, lines in parts if any(lines)]
    subtitle = "Tables and pictures; how they were made stands at the end"
    return Page(title, subtitle, command, config, sections)


def _kind(line: str) -> str:
    """Return what a line belongs to; lines of one kind that follow each other are one block."""
    if not line:
        return "gap"
    if _PICTURE.fullmatch(line):
        return "picture"
    if line.startswith("#"):
        return "heading"
    return "table" if line.startswith("|") else "list" if _ITEM.fullmatch(line) else "text"


def _blocks(heading: str, lines: list[str], folder: Path) -> Iterator[Block]:
    """Yield the blocks of a chapter; a line that ends with a colon is the caption of the table behind it."""
    caption, waiting = heading, ""
    for kind, group in groupby(lines, _kind):
        own = list(group)
        if kind == "gap":
            continue
        if waiting and kind != "table":
            yield Text(waiting)
        waiting = ""
        if kind == "table":
            header, _, *rows = (_BAR.split(line)[1:-1] for line in own)
            yield PageTable(caption, list(map(_plain, header)), [list(map(_cell, row)) for row in rows])
            caption = heading
        elif kind == "list":
            yield Listing([_plain(item[1]) for item in map(_ITEM.fullmatch, own) if item is not None])
        elif kind == "picture":
            for picture in filter(None, map(_PICTURE.fullmatch, own)):
                yield Image((folder / picture[2]).read_bytes(), "image/png", _plain(picture[1]))
        else:
            text = _plain(" ".join(own).lstrip("#"))
            is_caption = text.endswith(":")
            caption = text.rstrip(":") if is_caption or kind == "heading" else heading
            if is_caption:
                waiting = text
            else:
                yield Text(text)
    if waiting:
        yield Text(waiting)


def _cell(text: str) -> Cell:
    link = _LINK.fullmatch(text.strip())
    return _plain(text) if link is None else Link(_plain(link[1]), link[2])


def _plain(text: str) -> str:
    """Return the text without marks of Markdown; what is marked as code stays as it is."""
    parts = text.replace("\\|", "|").split("`")
    parts[::2] = [_EMPHASIS.sub(r"\2", _ANY_LINK.sub(r"\1", part)) for part in parts[::2]]
    return "".join(parts).strip()
