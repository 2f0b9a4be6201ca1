"""Colours of pages against their grounds: WCAG 2.1, 4.5 for text and 3 for marks."""

from __future__ import annotations

import math
import re
from itertools import combinations

import pytest
from matplotlib.colors import to_rgb

from placer.graph import SOURCE_KINDS, VIEW_KINDS, OpKind
from placer.show.draw_style import _STYLES, is_gradient, op_style
from placer.show.html.page import asset

HEX = "#[0-9a-f]{6}"
PAIRS = re.findall(rf"--(\w+): light-dark\(({HEX}), ({HEX})\)", asset("page.css"))
COLOURS = {"light": {name: light for name, light, _ in PAIRS}, "dark": {name: dark for name, _, dark in PAIRS}}


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, 0 to 1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """1 (the same) to 21 (black on white)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_black_on_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01), "the known borderline"


@pytest.mark.parametrize("theme", COLOURS)
@pytest.mark.parametrize("ground", ["ground", "tint"])
def test_text_can_be_read(theme: str, ground: str) -> None:
    for name in ("ink", "soft", "link"):
        assert contrast(COLOURS[theme][name], COLOURS[theme][ground]) >= 4.5


@pytest.mark.parametrize("theme", COLOURS)
@pytest.mark.parametrize("mark", ["focus", "on", "critical", "edge", "switch", "arrow"])
def test_marks_stand_out(theme: str, mark: str) -> None:
    assert contrast(COLOURS[theme][mark], COLOURS[theme]["ground"]) >= 3


@pytest.mark.parametrize("op", _STYLES)
def test_codes_on_units_can_be_read(op: str) -> None:
    assert contrast("#000000", _STYLES[op].colour) >= 4.5


def test_every_op_that_computes_looks_different() -> None:
    views = VIEW_KINDS | SOURCE_KINDS | {OpKind.STORE}
    looks = [(op_style(kind), is_gradient(kind)) for kind in OpKind if kind not in views]
    others = [(op_style(op), False) for op in ("buffer", "gradient", "weights", "load", "store")]
    codes = [style.code for style, _ in looks + others]
    assert len(set(codes)) == len(codes)
    assert len({(style.colour, hatched) for style, hatched in looks + others}) == len(codes)
    assert op_style("unheard_of") not in [style for style, _ in looks]


def test_colours_can_be_told_apart() -> None:
    for (one, first), (other, second) in combinations(_STYLES.items(), 2):
        distance = math.dist(to_rgb(first.colour), to_rgb(second.colour))
        assert distance >= 0.1, f"{one} and {other}"
