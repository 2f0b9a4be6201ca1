"""Pictures of the time of a network: every section is there, and nothing odd breaks them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from matplotlib.text import Annotation

from placer.show import Bar, RoofPoint, roof_caption, roofline_figure, save_figure, time_figure

NAN = float("nan")


def test_bars_have_the_lengths_of_their_parts() -> None:
    figure = time_figure([Bar("a", (3.0, 1.0)), Bar("b", (4.0, -1.0)), Bar("c $x", (NAN, 2.0))], ["p", "q"], "t", "x")
    (axes,) = figure.axes
    widths = [[bar.get_width() for bar in container] for container in axes.containers]
    assert widths == [[3, 4, 0], [1, 0, 2]]
    assert [text.get_text() for text in axes.texts] == [" 40.0%", " 40.0%", " 20.0%"]


@pytest.mark.parametrize("bars", [[], [Bar("a", (NAN, NAN))]])
def test_bars_without_a_time_can_be_drawn(bars: list[Bar], tmp_path: Path) -> None:
    save_figure(time_figure(bars, ["p", "q"], "t", "x"), tmp_path / "time.svg", "time")
    assert (tmp_path / "time.svg").is_file()


def test_every_point_of_a_roofline_has_its_own_label(tmp_path: Path) -> None:
    points = [RoofPoint(str(k), 10.0, 900.0 + k % 3, 800.0, "compute units") for k in range(20)]
    figure = roofline_figure(points, 1000.0, 50.0, "t")
    (axes,) = figure.axes
    labels = {text.get_text(): text.get_position() for text in axes.texts if isinstance(text, Annotation)}
    assert labels.keys() == {str(k) for k in range(20)}
    assert len(set(labels.values())) == 20
    save_figure(figure, tmp_path / "roofline.png", "roofline")


@pytest.mark.parametrize("odd", [0.0, NAN, math.inf])
def test_a_section_without_a_rate_is_left_out_of_a_roofline(odd: float, tmp_path: Path) -> None:
    points = [
        RoofPoint("0", odd, 5.0, 5.0, "x"),
        RoofPoint("1", 5.0, odd, 5.0, "x"),
        RoofPoint("2", 5.0, 5.0, odd, "x"),
    ]
    figure = roofline_figure([*points, RoofPoint("3", 1.0, 5.0, 4.0, "links")], 1000.0, 50.0, "t")
    assert [text.get_text() for text in figure.axes[0].texts] == ["3"]
    save_figure(roofline_figure(points, 1000.0, 50.0, "t"), tmp_path / "roofline.svg", "roofline")
    assert "No section has a measured rate" in (tmp_path / "roofline.svg").read_text()


def test_the_caption_names_the_limit_of_each_section() -> None:
    limits = {"0": "links", "1": "weights", "2": "weights"}
    points = [RoofPoint(label, 1.0, 1.0, 1.0, limit) for label, limit in limits.items()]
    assert roof_caption(points) == "What limits each section: weights: 1, 2; links: 0."
