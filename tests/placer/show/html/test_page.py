"""Pages without a browser: well formed, escaped, complete, small."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.annealing import Round
from placer.annealing.replay import MAX_SNAPSHOTS, Replay
from placer.decision import Decisions
from placer.show.html import Arrow, Box, BoxView, Chapter, Folded, Image, Link, Page, PageTable, Text
from placer.show.html.page import Listing, Shares, environment
from placer.stencil.model import WeightedSum
from tests.placer.show.html.pages import (
    HOSTILE,
    hostile_page,
    kernels_page,
    large_page,
    small_page,
    stencil_page,
    streaming_page,
)

pytestmark = pytest.mark.slow

VOID = {"img", "input", "link", "meta"}
MAX_BYTES = 5_000_000


class Reader(HTMLParser):
    """Checks that elements are nested; collects them and the text of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.data = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.open[-1:] == ["script"] and self.tags[-1][1].get("type") == "application/json":
            self.data += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def page_of(*sections: Chapter, **changes: Any) -> Page:
    fields = {"title": "t", "subtitle": "s", "command": "c", "config": {}, "sections": sections}
    return Page(**{**fields, **changes})


def test_a_page_is_well_formed_and_complete() -> None:
    reader = Reader(small_page().to_html())
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    data = json.loads(reader.data)
    (frames,) = data["panels"]
    assert [frame["measured"] is None for frame in frames] == [True, True, False]
    assert len(data["units"]) == len(frames[0]["sites"]) == len(frames[-1]["measured"]["time"])
    assert {len(outline) for outline in data["thin"] + data["thick"]} == {14}
    assert len(data["view"]) == 4
    text = "".join(reader.texts)
    for unit in data["units"]:
        assert unit["name"] in text  # the tables tell the same
    assert "python -m x" in text


def test_nothing_leads_out_of_the_page() -> None:
    for tag, attributes in Reader(small_page().to_html()).tags:
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:")), tag


@pytest.mark.parametrize("page", [small_page, hostile_page])
def test_foreign_text_adds_no_elements(page: Any) -> None:
    reader = Reader(page().to_html())
    assert reader.count("script") == 2  # the data and the script
    assert reader.count("img") == 0
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)


def test_foreign_text_arrives_unchanged() -> None:
    reader = Reader(hostile_page().to_html())
    assert json.loads(reader.data)["units"][3]["name"] == f"{HOSTILE}3"
    assert f"{HOSTILE}3" in reader.texts


def test_the_page_of_a_volume_tells_what_was_asked_for(tmp_path: Path) -> None:
    summary = "mapper was asked for the largest weighted sum, 0.25 x accuracy + 0.75 x wires"
    assert summary in stencil_page(tmp_path, WeightedSum(0.25, 0.75)).to_html()
    assert "weighted sum" not in stencil_page(tmp_path).to_html()


@pytest.mark.parametrize("page", [kernels_page, streaming_page, stencil_page])
def test_pages_of_mappers_are_complete_and_foreign_text_stays_text(tmp_path: Path, page: Any) -> None:
    reader = Reader(page(tmp_path).to_html())
    assert reader.count("script") == 2
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    data = json.loads(reader.data)
    width, height = data["size"]
    assert max(width, height) == 1000
    for box in data["boxes"]:
        (x, y), (w, h) = box["at"], box["size"]
        assert min(x, y) >= 0
        assert (x + w <= width + 0.1) and (y + h <= height + 0.1)
        assert box["facts"]
    assert any(HOSTILE in text for text in reader.texts)
    assert sum(len(text) for text in reader.texts) < MAX_BYTES


@settings(max_examples=25)
@given(st.text(), st.text())
def test_boxes_escape(text: str, other: str) -> None:
    box = Box(0, 0, 1, 2, text, other, "#000000", {text: other}, tail=1)
    view = BoxView(text, other, 2, 4, [box, box], [Arrow(0, 1, (0, 0), (1, 1))])
    reader = Reader(view.to_html())
    plain = Reader(BoxView("", "", 2, 4, []).to_html())
    assert [tag for tag, _ in reader.tags] == [tag for tag, _ in plain.tags]
    data = json.loads(reader.data)
    assert data["boxes"][0]["facts"] == {text: other}
    assert data["boxes"][0]["at"] == [0, 500]  # y grows downwards in the drawing
    assert data["boxes"][0]["ink"] == "#FFFFFF"
    assert data["arrows"] == [[0, 1, 0, 1000, 250, 750]]


@given(st.text())
def test_every_block_escapes(text: str) -> None:
    text = text.replace("\r", "").replace("\0", "")  # which HTML knows no way to write
    blocks = [
        Text(text),
        Listing([text]),
        PageTable(text, [text], [[Link(text, text), text, Link(text, text), Shares((0.5,))]]),
    ]
    blocks += [Folded(text, [Image(b"x", "image/png", text)])]
    page = page_of(Chapter(text, blocks), title=text, command=text, config={text: text})
    plain = Reader(page_of(Chapter("", [b.__class__(*_emptied(b)) for b in blocks])).to_html())
    assert [tag for tag, _ in Reader(page.to_html()).tags] == [tag for tag, _ in plain.tags]


@pytest.mark.parametrize("file", ["javascript:alert(1)", "//example.org/x", "../up.html", "a b%.html"])
def test_a_link_leads_to_a_file(file: str) -> None:
    page = page_of(Chapter("", [PageTable("", [""], [[Link("text", file)]])]))
    addresses = [attributes["href"] or "" for tag, attributes in Reader(page.to_html()).tags if tag == "a"]
    (address,) = [address for address in addresses if not address.startswith("#")]
    assert unquote(address) == f"./{file}"
    target = urlsplit(urljoin("file:///folder/page.html", address))
    assert (target.scheme, target.netloc) == ("file", "")


def _emptied(block: Any) -> tuple[Any, ...]:
    if isinstance(block, Text):
        return ("",)
    if isinstance(block, Listing):
        return ([""],)
    if isinstance(block, PageTable):
        return ("", [""], [[Link("", ""), "", Link("", ""), Shares((0.5,))]])
    return ("", [Image(b"x", "image/png", "")])


@given(st.recursive(st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_data_survives_the_page(data: Any) -> None:
    script = '<script type="application/json">{{ data|tojson }}</script>'
    reader = Reader(environment().from_string(script).render(data=data))
    assert json.loads(reader.data) == data
    assert reader.count("script") == 1


def test_a_page_of_the_large_fabric_is_small() -> None:
    assert len(large_page().to_html().encode()) < MAX_BYTES


def test_pages_are_the_same_bytes_every_time() -> None:
    assert small_page().to_html() == small_page().to_html()


@given(st.lists(st.floats(-5, 5), max_size=300))
def test_a_replay_is_short_begins_with_the_first_and_falls(energies: list[float]) -> None:
    none = np.zeros((1, 0), np.int32)
    decision = Decisions(none, none, np.zeros((1, 1), np.int64), none[0], none[0])
    replay, best = Replay(), np.minimum.accumulate(np.array([*energies, 0.0]))
    for number, energy in enumerate(energies):
        replay.add(Round(number, 0.0, 1.0, 1, 0.5, energy, float(best[number])), decision)
    assert len(replay.snapshots) <= MAX_SNAPSHOTS
    kept = [snapshot.energy for snapshot in replay.snapshots]
    assert kept == sorted(set(kept), reverse=True)
    assert kept[:1] == energies[:1]
    if len(set(best[:-1].tolist())) <= MAX_SNAPSHOTS:
        assert kept == sorted(set(best[: len(energies)].tolist()), reverse=True)
