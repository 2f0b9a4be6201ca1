"""A picture of boxes to point at: kernels on a wafer, instructions in time, parts of a fabric.

`boxes.html` and `boxes.js` show it. A page may have several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.colors import to_rgb

from placer.show.html.page import Image, render

MAX_VIEW = 1000.0  # longer side of the drawing, in its own units


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle and what to say about it; y grows upwards."""

    x: float
    y: float
    width: float
    height: float
    label: str  # in the box, short
    name: str
    colour: str | None  # None: see-through, over a picture
    facts: Mapping[str, str]
    tail: float = 0.0  # length of a bar to the right, beginning at x


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another."""

    source: int
    target: int
    begin: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Scale:
    """What colours between two ends mean."""

    title: str
    low: str
    high: str
    colours: Sequence[str]  # from low to high


@dataclass(frozen=True, slots=True)
class BoxView:
    """Boxes within `width` x `height`, which has its origin at the left and below."""

    label: str
    explanation: str
    width: float
    height: float
    boxes: Sequence[Box]
    arrows: Sequence[Arrow] = ()
    legend: Mapping[str, str] | None = None  # meaning: colour
    scale: Scale | None = None
    background: Image | None = None
    x_ticks: Sequence[tuple[float, str]] = ()
    y_ticks: Sequence[tuple[float, str]] = ()

    def to_html(self) -> str:
        return render("boxes.html", view=self, data=self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return what the script needs, in units of the drawing, y downwards."""
        scale = MAX_VIEW / max(self.width, self.height)

        def at(x: float, y: float) -> list[float]:
            return [round(scale * x, 2), round(scale * (self.height - y), 2)]

        return {
            "size": [round(scale * self.width, 2), round(scale * self.height, 2)],
            "background": None if self.background is None else self.background.to_url(),
            "boxes": [
                {
                    "at": at(box.x, box.y + box.height),
                    "size": [round(scale * box.width, 2), round(scale * box.height, 2)],
                    "tail": round(scale * box.tail, 2),
                    "label": box.label,
                    "name": box.name,
                    "colour": box.colour,
                    "ink": _ink(box.colour),
                    "facts": dict(box.facts),
                }
                for box in self.boxes
            ],
            "arrows": [[a.source, a.target, *at(*a.begin), *at(*a.end)] for a in self.arrows],
            "xTicks": [[at(x, 0)[0], text] for x, text in self.x_ticks],
            "yTicks": [[at(0, y)[1], text] for y, text in self.y_ticks],
        }


def _ink(colour: str | None) -> str:
    """Return black or white, whichever has more contrast (relative luminance of WCAG 2.2)."""
    if colour is None:
        return "#000000"
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if luminance > 0.179 else "#FFFFFF"
