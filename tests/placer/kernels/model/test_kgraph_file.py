"""Reading and writing `.kgraph`: generators round trip, odd spellings, and clear errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from placer.base import InputError
from placer.kernels.model import (
    Conv,
    Wafer,
    breadth_first_order,
    depth_first_order,
    format_kgraph,
    generate,
    load_kgraph,
    parse_kgraph,
)
from placer.kernels.model.generate import PRESETS

HEADER = "(*\ntest=t\nwidth=50\nheight=60\nwlength=4\n*)\n"
NODES = "(* nodes *)\ninput[0] n=[8 8 4] name='k0'\ncblock[ 1] f=16 h=8 w=8\n"
CONV = "conv[2] W=4\tH=5 R=3 S=2 C=6 K=7 T=1 U=1 name='last'\n"
EDGES = "(* edges *)\ninput[0]:_ -> cblock[1]:x\ncblock[ 1]:y\t->\tconv[2]:x, shape:[4][4][16]\n"


@pytest.mark.parametrize("preset", PRESETS)
def test_generated_graphs_round_trip(preset: str) -> None:
    graph = generate(preset)
    assert parse_kgraph(format_kgraph(graph), "other") == graph


def test_padded_ids_tabs_order_of_fields_and_missing_names_are_read() -> None:
    text = "\ufeff" + (HEADER + NODES + CONV + EDGES).replace("\n", "\r\n")
    graph = parse_kgraph(text, "file")
    assert graph.name == "t"
    assert graph.wafer == Wafer(50, 60, wire_weight=4)
    assert [kernel.name for kernel in graph.kernels] == ["k1", "last"]
    assert graph.kernels[1].convs == (Conv(5, 4, 3, 2, 6, 7, 1),)
    assert graph.edges == ((0, 1),)
    assert graph.time_scale == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + NODES + "pool[3] h=2\n", r"node 3: unknown type 'pool'; allowed: conv, dblock"),
        (HEADER + NODES + "dblock[1] f=8 h=2 w=2\n", "duplicate node id 1"),
        (HEADER + NODES + CONV + EDGES + "conv[2]:y -> cblock[1]:x\n", "cycle: .*1.*2"),
        (HEADER + NODES + CONV + "conv[2]:y -> conv[9]:x\n", "no node 9"),
        (HEADER + NODES + "dblock[3] f=6 h=2 w=2\n", "multiple of 4"),
        (HEADER + "conv[2] W=4 H=4 R=1 S=1 C=0 K=1 T=1\n", r"C='0'; must be a whole number"),
        (HEADER + "conv[2] W=4 H=4 R=1 S=1 K=1 T=1\n", "C= is missing"),
        (HEADER + "conv[2] W=4 H=4 R=1 S=1 C=1 K=1 T=1 U=2\n", "must be equal"),
        ("(*\ntest=t\nwidth 50\n*)\n" + NODES, "header line 'width 50' is not key=value"),
        ("(*\nwidth=wide\n*)\n" + NODES, "width='wide' is not a whole number"),
        ("(*\nwlength=-1\n*)\n" + NODES, "out of range"),
        ("(* open\n" + NODES.replace("*)", ""), "not closed"),
        (HEADER, "no kernel"),
        (HEADER + NODES + "nonsense\n", "neither a node"),
        (HEADER + NODES + "a -> b\n", "is not 'type"),
        (HEADER + NODES.replace("8 8 4", "9" * 5000), r"input\[0\]: n='9+; must be a whole number"),
        (HEADER + NODES + CONV + EDGES[: EDGES.index("[4][16]")], "is the line complete"),
        (HEADER + NODES + CONV + EDGES[: EDGES.index("pe:[4]")], "is the line complete"),
        (HEADER + NODES + CONV + EDGES[: EDGES.rindex(":x")], "is the line complete"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_kgraph(text, "bad")


def test_kernels_that_no_edge_connects_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    parse_kgraph(HEADER + NODES + CONV + EDGES, "whole")
    parse_kgraph(HEADER + CONV, "single")
    assert not caplog.records
    parse_kgraph(HEADER + NODES + CONV, "cut")
    assert "2 kernels and no edge between them; is the file complete?" in caplog.text
    parse_kgraph(HEADER + NODES + CONV + EDGES + CONV.replace("[2]", "[3]").replace("last", "apart"), "parts")
    assert "2 parts with no edge between them; one has apart only" in caplog.text


def test_no_digit_of_a_header_is_lost() -> None:
    wafer = Wafer(633, 634, 123_456_789, 0.1, 1 / 3, 1234567.25)
    graph = replace(generate("tiny"), wafer=wafer)
    assert parse_kgraph(format_kgraph(graph), "other").wafer == wafer


def test_names_that_layouts_cannot_hold_are_refused() -> None:
    for name in ("a b", "a=b", ""):
        with pytest.raises(InputError, match="is empty or has blanks"):
            parse_kgraph(HEADER + CONV.replace("last", name), "bad")


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.kgraph"
    path.write_text(HEADER)
    with pytest.raises(InputError, match=r"broken\.kgraph: there is no kernel"):
        load_kgraph(path)


def test_orders_of_a_fork() -> None:
    # A B C E D F G H of CU.POKer's picture: a fork B -> (C E), D that joins in F.
    edges = ((0, 1), (1, 2), (1, 3), (2, 4), (3, 5), (4, 5), (5, 6), (6, 7))
    assert depth_first_order(8, edges) == [0, 1, 2, 4, 3, 5, 6, 7]
    assert breadth_first_order(8, edges) == [0, 1, 2, 3, 4, 5, 6, 7]
