"""Decision files: what is saved comes back, and nothing illegal gets in."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.base import InputError, write_atomic
from placer.decision import Decisions, check, random_sites
from placer.decision.routing import RoutingMethod, load_decision, route, save_decision
from placer.fabric import Fabric
from placer.fabric.fabric import LinkSpec
from placer.netlist import Netlist
from tests.placer.decision.test_routing import COMPUTE, MEMORY, netlist_of, problems_to_route, same, unit

FABRIC = Fabric("tiny", 4, 4, link=LinkSpec(channels=4))
NETLIST = netlist_of([unit("a", COMPUTE), unit("b", COMPUTE), unit("m", MEMORY)], [(0, (1, 2), 10), (2, (0,), 20)])
SITES = np.array([[0, 10, 3]], np.int32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("decisions")


def document(folder: Path) -> dict[str, Any]:
    """The content of a legal file."""
    save_decision(folder / "legal.json", FABRIC, NETLIST, route(FABRIC, NETLIST, SITES))
    content = json.loads((folder / "legal.json").read_text())
    assert isinstance(content, dict)
    return content


def load_text(folder: Path, text: str) -> Decisions:
    (folder / "other.json").write_text(text, encoding="utf-8", errors="surrogatepass")
    return load_decision(folder / "other.json", FABRIC, NETLIST)


@given(problems_to_route(), st.sampled_from(RoutingMethod))
@settings(max_examples=30, deadline=None)
def test_what_is_saved_comes_back(folder: Path, problem: tuple[Fabric, Netlist, int], method: RoutingMethod) -> None:
    fabric, netlist, seed = problem
    decisions = route(fabric, netlist, random_sites(fabric, netlist, 2, seed), method=method)
    save_decision(folder / "round trip.json", fabric, netlist, decisions, index=1)
    loaded = load_decision(folder / "round trip.json", fabric, netlist)
    assert same(loaded, decisions[1])


def test_routes_may_be_left_out(folder: Path) -> None:
    content = document(folder)
    del content["routes"]
    assert same(load_text(folder, json.dumps(content)), route(FABRIC, NETLIST, SITES))


def test_the_file_is_readable(folder: Path) -> None:
    content = document(folder)
    assert content["sites"] == {"a": 0, "b": 10, "m": 3}
    assert content["netlist"] == {"name": "by hand", "fingerprint": NETLIST.fingerprint}
    lines = (folder / "legal.json").read_text().splitlines()
    assert '  "b": 10,' in lines  # one unit per line


def test_same_names_cannot_be_saved(folder: Path) -> None:
    netlist = replace(NETLIST, units=(unit("a", COMPUTE), unit("a", COMPUTE), unit("m", MEMORY)))
    with pytest.raises(InputError, match="unit name 'a' is not unique"):
        save_decision(folder / "never.json", FABRIC, netlist, route(FABRIC, netlist, SITES))
    assert not (folder / "never.json").exists()


def changed(content: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """A copy of the content with one entry set to a value."""
    content = json.loads(json.dumps(content))
    entry: Any = content
    for key in path[:-1]:
        entry = entry[key]
    entry[path[-1]] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("schema",), 2, "schema 2 is not known; this version reads 1"),
        (("schema",), True, "schema True"),
        (("fabric",), "large", "made for fabric 'large', not for 'tiny'"),
        (("fabric",), None, "made for fabric None"),
        (("netlist",), "by hand", "'netlist' is 'by hand', needed an object"),
        (("netlist", "fingerprint"), "0" * 16, "with fingerprint '0000000000000000'; netlist"),
        (("sites",), [0, 10, 3], "'sites' is .* needed an object"),
        (("sites", "a"), 10, r"site 10 \(row 2, column 2\) holds a, b: 2 units, allowed 1"),
        (("sites", "a"), 1, "needs a compute site, but site 1"),
        (("sites", "a"), 24, "site of unit 'a': 24; allowed are integers from 0 to 23"),
        (("sites", "a"), 10**400, "site of unit 'a': 1000"),
        (("sites", "a"), 0.0, "site of unit 'a': 0.0"),
        (("sites", "a"), False, "site of unit 'a': False"),
        (("sites", "a"), "0", "site of unit 'a': '0'"),
        (("sites", "z"), 5, "'sites': 1 entries unknown, the first is 'z'"),
        (("hurry",), 5, "the file: 1 entries unknown, the first is 'hurry'"),
        (("routes",), None, "'routes' is None"),
        (("routes", "z"), {}, "'routes': 1 entries unknown"),
        (("routes", "f1"), [], r"route of flow 'f1' is \[\], needed an object"),
        (("routes", "f1", "channel"), 4, "channel 4; allowed 0 to 3"),
        (("routes", "f1", "links"), [1], "1 links but 5 parents"),
        (("routes", "f1", "links", 1), 2**31, "links of the route of flow 'f1': 2147483648"),
        (("routes", "f1", "links", 1), 2**31 - 1, "allowed 0 to 95"),
        (("routes", "f1", "parents", 0), 0, "node 0 has parent 0"),
        (("routes", "f1", "parents"), {}, "needed a list of integers"),
    ],
)
def test_wrong_values(folder: Path, path: tuple[str | int, ...], value: Any, message: str) -> None:
    content = changed(document(folder), path, value)
    with pytest.raises(InputError, match=message) as caught:
        load_text(folder, json.dumps(content))
    assert "other.json" in str(caught.value)


@pytest.mark.parametrize("path", [("schema",), ("sites",), ("sites", "m"), ("routes", "f0"), ("netlist", "name")])
def test_missing_entries(folder: Path, path: tuple[str, ...]) -> None:
    content = document(folder)
    entry = content
    for key in path[:-1]:
        entry = entry[key]
    del entry[path[-1]]
    with pytest.raises(InputError, match=f"1 entries missing, the first is '{path[-1]}'"):
        load_text(folder, json.dumps(content))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no complete JSON"),
        ("[]", "needed an object"),
        ('{"schema": 1, "schema": 1}', "'schema' stands twice"),
        ('{"schema": NaN}', "NaN is no number"),
        ('{"schema": ' + "9" * 5000 + "}", "no complete JSON"),
        ("[" * 100_000, "no complete JSON"),
    ],
)
def test_broken_text(folder: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_text(folder, text)


def test_unreadable_files(folder: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.json: cannot be read: No such file"):
        load_decision(folder / "absent.json", FABRIC, NETLIST)
    with pytest.raises(InputError, match="cannot be read"):
        load_decision(folder, FABRIC, NETLIST)
    (folder / "binary.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(InputError, match="no text in UTF-8"):
        load_decision(folder / "binary.json", FABRIC, NETLIST)


def test_every_truncation_is_refused(folder: Path) -> None:
    document(folder)
    text = (folder / "legal.json").read_text().rstrip()
    for length in range(len(text)):
        with pytest.raises(InputError):
            load_text(folder, text[:length])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.data(), JSON_VALUES)
@settings(max_examples=80, deadline=None)
def test_any_value_anywhere_is_refused_or_legal(folder: Path, data: st.DataObject, value: Any) -> None:
    content = document(folder)
    path: list[Any] = []
    entry: Any = content
    while isinstance(entry, dict | list) and (not path or data.draw(st.booleans())):
        keys = list(entry) if isinstance(entry, dict) else list(range(len(entry)))
        path.append(data.draw(st.sampled_from(keys)))
        entry = entry[path[-1]]
    assert _is_refused_or_legal(folder, json.dumps(changed(content, tuple(path), value)))


@pytest.mark.slow
@given(st.data())
@settings(max_examples=80, deadline=None)
def test_any_spoilt_text_is_refused_or_legal(folder: Path, data: st.DataObject) -> None:
    document(folder)
    text = (folder / "legal.json").read_text()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 4, len(text))))
    assert _is_refused_or_legal(folder, text[:start] + data.draw(st.text(max_size=4)) + text[end:])


def _is_refused_or_legal(folder: Path, text: str) -> bool:
    """Refused in words that can be read, or one decision that passes the checker."""
    try:
        loaded = load_text(folder, text)
    except InputError as error:
        return len(str(error)) < 2000
    check(FABRIC, NETLIST, loaded)
    return len(loaded) == 1


class TestWriteAtomic:
    def test_text_and_bytes(self, tmp_path: Path) -> None:
        write_atomic(tmp_path / "text", "é\n")
        write_atomic(str(tmp_path / "bytes"), b"\x00\xff")
        assert (tmp_path / "text").read_bytes() == "é\n".encode()
        assert (tmp_path / "bytes").read_bytes() == b"\x00\xff"
        assert sorted(os.listdir(tmp_path)) == ["bytes", "text"]

    def test_replaces_an_old_file(self, tmp_path: Path) -> None:
        write_atomic(tmp_path / "file", "old and long")
        write_atomic(tmp_path / "file", "new")
        assert (tmp_path / "file").read_text() == "new"

    @pytest.mark.parametrize("step", ["fsync", "replace"])
    def test_a_full_disk_leaves_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
        def no_space(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        write_atomic(tmp_path / "file", "old")
        monkeypatch.setattr(os, step, no_space)
        with pytest.raises(OSError, match=r"cannot write .*file: No space left") as caught:
            write_atomic(tmp_path / "file", "new")
        assert caught.value.errno == errno.ENOSPC
        assert (tmp_path / "file").read_text() == "old"
        assert os.listdir(tmp_path) == ["file"]

    def test_missing_folder_and_folder_as_target(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match=r"cannot write .*No such file.* check that the folder"):
            write_atomic(tmp_path / "absent" / "file", "text")
        (tmp_path / "folder").mkdir()
        with pytest.raises(OSError, match=r"cannot write .*folder: Is a directory"):
            write_atomic(tmp_path / "folder", "text")
        assert os.listdir(tmp_path) == ["folder"]
