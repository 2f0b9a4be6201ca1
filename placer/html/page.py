"""What a page is made of, and its text.

A page has a title, the command and the configuration that made it, and sections of blocks: texts,
tables, pictures, folded blocks. Everything is escaped where it enters the page, as names of units
and kernels come from files of others. A policy in the page forbids it to fetch anything, and to run
any script but the one that is shipped with it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from html import escape
from importlib.resources import files
from io import BytesIO
from typing import Any, Protocol

from matplotlib import rc_context
from matplotlib.figure import Figure


class Block(Protocol):
    """A part of a section."""

    def to_html(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str

    def to_html(self) -> str:
        return f"<p>{escape(self.text)}</p>\n"


@dataclass(frozen=True, slots=True)
class Preformatted:
    """Lines as they are, such as a command."""

    text: str

    def to_html(self) -> str:
        return f'<pre tabindex="0">{escape(self.text)}</pre>\n'


@dataclass(frozen=True, slots=True)
class Shares:
    """A cell with a bar of shares 0..1, beside cells that tell them as numbers."""

    shares: tuple[float, ...]

    def to_html(self) -> str:
        parts = (
            f'<i class="share{number}" style="width:{100 * share:.1f}%"></i>'
            for number, share in enumerate(self.shares)
        )
        return f'<td class="bar" aria-hidden="true"><span>{"".join(parts)}</span></td>'


Cell = str | float | Shares  # int included


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first column names the row. Long tables scroll."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def to_html(self) -> str:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.header)
        body = "".join(f"<tr>{''.join(_cells(row))}</tr>\n" for row in self.rows)
        label = escape(self.caption)
        return (
            f'<div class="table" tabindex="0" role="region" aria-label="{label}">'
            f"<table><caption>{label}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>\n"
        )


def _cells(row: Sequence[Cell]) -> Iterator[str]:
    for number, cell in enumerate(row):
        if isinstance(cell, Shares):
            yield cell.to_html()
        elif number == 0:
            yield f'<th scope="row">{escape(str(cell))}</th>'
        else:
            kind = "" if isinstance(cell, str) and not _is_number(cell) else ' class="number"'
            yield f"<td{kind}>{escape(str(cell))}</td>"


def _is_number(text: str) -> bool:
    return text.strip("+-%,. ").replace(",", "").replace(".", "").isdecimal()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that is part of the page; `alternative` says in words what it shows."""

    data: bytes
    media_type: str  # "image/png" or "image/svg+xml"
    alternative: str

    def to_url(self) -> str:
        """The picture itself as an address."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"

    def to_html(self) -> str:
        return f'<img src="{escape(self.to_url())}" alt="{escape(self.alternative)}">\n'


def picture_of(figure: Figure, alternative: str) -> Picture:
    """A matplotlib figure as a drawing; the same figure gives the same bytes."""
    buffer = BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "page"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return Picture(buffer.getvalue(), "image/svg+xml", alternative)


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that are shown on request."""

    summary: str
    blocks: Sequence[Block]

    def to_html(self) -> str:
        inner = "".join(block.to_html() for block in self.blocks)
        return f"<details><summary>{escape(self.summary)}</summary>\n{inner}</details>\n"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with a heading."""

    heading: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page."""

    title: str
    subtitle: str
    command: str
    config: dict[str, Any]
    sections: Sequence[Section]

    def to_html(self, *, is_interrupted: bool = False) -> str:
        """The text of the file; it says so when the search was cut off."""
        style = asset("page.css")
        script = asset("look.js") + asset("fabric.js") + asset("boxes.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{digest}'"
        )
        sections = [*self.sections, self._origin()]
        links = "".join(
            f'<li><a href="#section{number}">{escape(section.heading)}</a></li>'
            for number, section in enumerate(sections)
        )
        ending = "<p>Cut off by Ctrl-C: the best so far.</p>" if is_interrupted else ""
        body = "".join(_section(number, section) for number, section in enumerate(sections))
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<title>{escape(self.title)}</title>\n<link rel="icon" href="data:,">\n'
            f"<style>\n{style}</style>\n</head>\n<body>\n"
            f"<header><h1>{escape(self.title)}</h1><p>{escape(self.subtitle)}</p>{ending}"
            f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n'
            f"<main>\n{body}</main>\n<script>{script}</script>\n</body>\n</html>\n"
        )

    def _origin(self) -> Section:
        text = json.dumps(self.config, indent=1, default=_plain)
        config = Folded("Configuration", [Preformatted(text)])
        return Section("How it was made", [Preformatted(self.command), config])


def _section(number: int, section: Section) -> str:
    inner = "".join(block.to_html() for block in section.blocks)
    return (
        f'<section id="section{number}" aria-labelledby="heading{number}">'
        f'<h2 id="heading{number}">{escape(section.heading)}</h2>\n{inner}</section>\n'
    )


def json_text(data: Any) -> str:
    """Data within a script element; nothing in it can end the element or begin another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def json_script(name: str, data: Any) -> str:
    """Data for the script of the page."""
    return f'<script type="application/json" id="{name}">{json_text(data)}</script>\n'


@cache
def asset(name: str) -> str:
    """Text of a file that is shipped with this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _plain(value: Any) -> str:
    return str(value.value if isinstance(value, Enum) else value)
