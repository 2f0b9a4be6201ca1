"""Programs and their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placer.errors import InputError
from placer.streaming.generate import growing_network, layered
from placer.streaming.program import Program
from placer.streaming.program_file import from_json, load_program, to_json
from placer.streaming.programs import PROGRAMS
from tests.placer.streaming.cases import graph

ROOT = Path(__file__).resolve().parents[3]
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
    return json.dumps(
        {"TileMemories": {m: {} for m in memories}, "Program": [{"SyncFlow": f} for f in flows]}
    )


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
        ('{"num_nodes": 0, "edges": []}', "num_nodes is 0"),
        ('{"num_nodes": 2, "edges": [[0]]}', "edge [0]"),
        ('{"num_nodes": 2, "edges": [], "tile_memory": {"a": [5]}}', "names node 5"),
        ('{"nodes": 2}', "neither"),
        ("[1", "no complete JSON"),
        (_program([_instruction([], [1]), _instruction([], [])]), "0 leads to 1"),
        (_program([_instruction([], []), _instruction([0], [])]), "Predecessors say"),
        (_program([_instruction([], [4])]), "Successors has 4"),
        (_program(), "no node"),
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


@pytest.mark.skipif(not SHARED.exists(), reason="needs the published random graphs")
def test_published_random_graphs_load() -> None:
    sizes = [load_program(path).num_nodes for path in sorted(SHARED.glob("*.json"))]
    assert sorted(sizes) == [10, 10, 15, 15, 20, 20, 30, 30, 40, 40]
