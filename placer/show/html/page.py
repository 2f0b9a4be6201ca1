"""What a page is made of; the templates beside this module say how it is written.

A page has a title, the command and the configuration that made it, and chapters of blocks: texts,
tables, pictures, folded blocks. Jinja escapes everything where it enters the page, as names of
units and kernels come from files of others. A policy in the page forbids it to fetch anything, and
to run any script but the one that is shipped with it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from jinja2 import Environment, FunctionLoader
from matplotlib.figure import Figure

from placer.base import plain
from placer.show import picture_bytes

SCRIPTS = ("look.js", "zoom.js", "save.js", "fabric.js", "explore.js", "boxes.js")


class Block(Protocol):
    """A part of a chapter."""

    def to_html(self) -> str: ...


class Written:
    """A block that the macro of its name in `blocks.html` writes."""

    __slots__ = ()

    def to_html(self) -> str:
        macro = getattr(environment().get_template("blocks.html").module, type(self).__name__)
        return str(macro(self))


@dataclass(frozen=True, slots=True)
class Text(Written):
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Listing(Written):
    """Short texts, one below the other."""

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Preformatted(Written):
    """Lines as they are, such as a command."""

    text: str


@dataclass(frozen=True, slots=True)
class Shares:
    """A cell with a bar of shares 0..1, beside cells that tell them as numbers."""

    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A cell that leads to a page beside this one."""

    text: str
    file: str  # its path from this page


Cell = str | float | Shares | Link  # int included


@dataclass(frozen=True, slots=True)
class PageTable(Written):
    """A table; the first column names the row. Long tables scroll."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def _is_numeric(cell: Cell) -> bool:
    """Return whether a cell is a number, which may have a spread behind it: 0.067 ± 0.001."""
    parts = [part.strip("+-%,. ").replace(",", "").replace(".", "") for part in str(cell).split("±")]
    return isinstance(cell, int | float) or all(part.isdecimal() for part in parts)


@dataclass(frozen=True, slots=True)
class Image(Written):
    """A picture that is part of the page; `alternative` says in words what it shows."""

    data: bytes
    media_type: str  # "image/png" or "image/svg+xml"
    alternative: str

    def to_url(self) -> str:
        """Return the picture itself as an address."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"


def picture_of(figure: Figure, alternative: str) -> Image:
    """Return a matplotlib figure as a drawing; the same figure gives the same bytes."""
    return Image(picture_bytes(figure, "svg", "page"), "image/svg+xml", alternative)


@dataclass(frozen=True, slots=True)
class Folded(Written):
    """Blocks that are shown on request."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Chapter:
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
    sections: Sequence[Chapter]

    def to_html(self, *, is_interrupted: bool = False) -> str:
        """Return the text of the file; it says so when the search was cut off."""
        script = "".join(map(asset, SCRIPTS))
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        return render(
            "page.html",
            page=self,
            sections=[*self.sections, self._origin()],
            is_interrupted=is_interrupted,
            style=asset("page.css"),
            script=script,
            policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        )

    def _origin(self) -> Chapter:
        text = json.dumps(self.config, indent=1, default=plain)
        config = Folded("Configuration", [Preformatted(text)])
        return Chapter("How it was made", [Preformatted(self.command), config])


def render(template: str, **values: Any) -> str:
    """Return a template with its values in it."""
    return environment().get_template(template).render(**values)


@cache
def environment() -> Environment:
    """Return the templates; data of a script cannot end its element (`tojson`)."""
    made = Environment(loader=FunctionLoader(asset), autoescape=True, trim_blocks=True, keep_trailing_newline=True)
    made.tests["numeric"] = _is_numeric
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


@cache
def asset(name: str) -> str:
    """Return the text of a file that is shipped with this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
