"""Programs and their files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placer.base import InputError
from placer.streaming.mappers import map_program, result_text
from placer.streaming.model import (
    PROGRAMS,
    Device,
    MapOptions,
    Program,
    from_json,
    growing_network,
    layered,
    load_program,
    to_json,
)
from tests import ROOT
from tests.placer.streaming.cases import graph

INPUTS = ROOT / "data/inputs/streaming"
SHARED = ROOT.parent / "shared/data/streaming_engine/random"


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_own_programs_are_the_files(build: Any) -> None:
    program = build()
    assert load_program(INPUTS / f"{program.name}.json") == program
    assert from_json(to_json(program), program.name) == program


def _instruction(before: list[int], after: list[int], **more: Any) -> dict[str, Any]:
    return {"SEInst": {"Predecessors": before, "Successors": after, **more}}


def _program(*flows: list[dict[str, Any]], memories: tuple[str, ...] = ()) -> str:
    return json.dumps({"TileMemories": {m: {} for m in memories}, "Program": [{"SyncFlow": f} for f in flows]})


def test_indices_are_local_to_a_flow() -> None:
    pair = [_instruction([], [1], SEInstUse=["a"]), _instruction([0], [], SEInstUse=["a", "b"])]
    program = from_json(_program(pair, pair, memories=("a",)), "two")
    assert program.edges == ((0, 1), (2, 3))
    assert program.memories == {"a": (0, 1, 2, 3)}
    assert [item.flow for item in program.instructions] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"num_nodes": 3, "edges": [[0, 1], [1, 2], [2, 1]]}', "cycle: 1 -> 2 -> 1"),
        ('{"num_nodes": 1, "edges": [[0, 0]]}', "cycle: 0 -> 0"),
        ('{"num_nodes": 2, "edges": [[0, 2]]}', "edge [0, 2]"),
        ('{"num_nodes": 0, "edges": []}', "no node"),
        ('{"num_nodes": 2, "edges": [[0]]}', "edge [0]"),
        ('{"num_nodes": 2, "edges": [], "tile_memory": {"a": [5]}}', "names node 5"),
        ('{"nodes": 2}', "neither"),
        ("[1", "no complete JSON"),
        (_program([_instruction([], [1]), _instruction([], [])]), "0 leads to 1"),
        (_program([_instruction([], []), _instruction([0], [])]), "Predecessors say"),
        (_program([_instruction([], [4])]), "Successors has 4"),
        (_program(), "no node"),
        ('{"num_nodes": 2001, "edges": []}', "allowed 1 to 2000"),
        ('{"num_nodes": -1, "edges": []}', "allowed 1 to 2000"),
        (_program([_instruction([], [], ops=["add", 10**400])]), "a number is too large"),
    ],
)
def test_wrong_files_are_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        from_json(text, "wrong")
    assert message in str(error.value)


def test_growing_network_has_one_source_that_reaches_all_others() -> None:
    for seed in range(5):
        program = growing_network(25, np.random.default_rng(seed))
        assert sum(not p for p in program.predecessors) == 1
        assert len(program.order) == 25
        assert sum(not s for s in program.successors) == 1


def test_layered_memories_bind_no_siblings() -> None:
    program = layered(30, np.random.default_rng(1), memories=4)
    for readers in program.memories.values():
        for children in program.successors:
            assert len(set(readers) & set(children)) <= 1


def test_fingerprint_ignores_numbers_only() -> None:
    program = growing_network(12, np.random.default_rng(3))
    new = np.random.default_rng(4).permutation(12)
    edges = tuple(sorted((int(new[a]), int(new[b])) for a, b in program.edges))
    assert Program("same", program.instructions, edges).fingerprint == program.fingerprint
    assert graph(3, (0, 1), (1, 2)).fingerprint != graph(3, (0, 1), (0, 2)).fingerprint
    assert graph(2, a=(0, 1)).fingerprint != graph(2).fingerprint


def test_only_the_names_of_tile_memories_must_be_there() -> None:
    """Data of any kind is allowed; what is no list of numbers counts as none."""
    document = json.loads(_program([_instruction([], [], SEInstUse=["a", "b"])]))
    document["TileMemories"] = {"a": None, "b": {"data": "x.bin"}, "c": {"data": 2}, "d": {}}
    program = from_json(json.dumps(document), "names")
    assert program.memories == {"a": (0,), "b": (0,), "c": (), "d": ()}
    assert program.contents == {"a": (), "b": (), "c": (2.0,), "d": ()}


_KEYS = st.sampled_from(
    ["Program", "SyncFlow", "SEInst", "SEInstUse", "SEInstDefine", "ops", "Predecessors",
     "Successors", "TileMemories", "data", "num_nodes", "edges", "tile_memory", "a"]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
_INDEX = st.integers(-1, 3) | _JSON
_INST = st.fixed_dictionaries(
    {"Predecessors": st.lists(_INDEX, max_size=2), "Successors": st.lists(_INDEX, max_size=2)},
    optional={
        "SEInstUse": st.lists(st.sampled_from("abc"), max_size=3) | _JSON,
        "SEInstDefine": st.lists(st.sampled_from("abc"), max_size=2) | _JSON,
        "ops": st.lists(st.sampled_from(["add", "mov", "sum", "send", 2, 0.5]), max_size=3) | _JSON,
    },
)
_FLOW = st.fixed_dictionaries({"SyncFlow": st.lists(st.builds(lambda i: {"SEInst": i}, _INST))})
_DOCUMENTS = (
    _JSON
    | st.fixed_dictionaries(
        {"num_nodes": st.integers(-1, 5) | _JSON, "edges": st.lists(st.lists(_INDEX, max_size=3))},
        optional={"tile_memory": st.dictionaries(st.text(max_size=2), st.lists(_INDEX)) | _JSON},
    )
    | st.fixed_dictionaries(
        {"Program": st.lists(_FLOW, max_size=3)},
        optional={
            "TileMemories": st.dictionaries(
                st.sampled_from("abc"), st.fixed_dictionaries({"data": st.lists(_INDEX) | _JSON})
            )
            | _JSON
        },
    )
)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(_DOCUMENTS)
def test_any_json_is_mapped_or_refused_in_one_line(document: Any) -> None:
    try:
        program = from_json(json.dumps(document), "fuzz")
        result = map_program(program, Device(), MapOptions("list", time_limit=0.0))
        assert json.loads(result_text(result, MapOptions("list"), [], is_interrupted=False))["cycles"] == result.cycles
    except InputError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 400


@pytest.mark.skipif(not SHARED.exists(), reason="needs the published random graphs")
def test_published_random_graphs_load() -> None:
    sizes = [load_program(path).num_nodes for path in sorted(SHARED.glob("*.json"))]
    assert sorted(sizes) == [10, 10, 15, 15, 20, 20, 30, 30, 40, 40]
