"""Graphs of many netlists: in memory and in files, and batches cut out of them."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.dataset import Dataset
from costmodel.encoding import FEATURE_VERSION, Batch, GraphSet, encode_dataset, make_batch
from tests.costmodel.cases import graphs_of, labelled, random_stack
from tests.costmodel.dataset.samples import small_fabric

# Column of a batch -> the column of sizes by which its numbers move on from decision to decision.
SHIFTS = {
    "unit_switch": "num_switches",
    "flow_source": "num_units",
    "end_flow": "num_flows",
    "end_unit": "num_units",
    "visit_flow": "num_flows",
    "visit_lane": "num_lanes",
    "visit_before": "num_lanes",
    "lane_link": "num_links",
    "link_from": "num_switches",
    "link_to": "num_switches",
}


def assert_same(one: GraphSet | Batch, two: GraphSet | Batch) -> None:
    for field in fields(GraphSet if isinstance(one, GraphSet) else Batch):
        ours, theirs = (np.asarray(getattr(each, field.name)) for each in (one, two))
        assert ours.dtype == theirs.dtype, field.name
        np.testing.assert_array_equal(ours, theirs, err_msg=field.name)


def union(batches: list[Batch]) -> Batch:
    """Side by side, numbers moved on."""
    columns = {}
    for field in fields(Batch):
        parts = [getattr(batch, field.name) for batch in batches]
        if field.name in SHIFTS:
            sizes = [int(getattr(batch, SHIFTS[field.name]).sum()) for batch in batches]
            first = np.cumsum([0, *sizes[:-1]]).tolist()
            parts = [torch.where(p < 0, p, p + k) for p, k in zip(parts, first, strict=True)]
        columns[field.name] = torch.cat(parts)
    return Batch(**columns)


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return graphs_of(random_stack(seed) for seed in range(4))


@settings(max_examples=30)
@given(st.lists(st.integers(0, 35), min_size=1, max_size=12))
def test_a_batch_is_the_union_of_its_decisions(graphs: GraphSet, ids: list[int]) -> None:
    assert len(graphs) == 36
    together = make_batch(graphs, np.array(ids))
    assert len(together) == len(ids)
    assert_same(together, union([make_batch(graphs, np.array([i])) for i in ids]))


def test_a_single_decision_is_what_was_encoded(graphs: GraphSet) -> None:
    cases = [random_stack(seed) for seed in range(4)]
    alone = graphs_of([cases[2]])
    per_case = len(cases[0][2])
    for k in range(per_case):
        inside = make_batch(graphs, np.array([2 * per_case + k]))
        outside = make_batch(alone, np.array([k]))
        assert (inside.graph.item(), outside.graph.item()) == (2, 0)
        inside.graph.zero_()
        assert_same(inside, outside)


def test_decisions_without_labels_have_none(graphs: GraphSet) -> None:
    assert np.isnan(graphs.log_throughput).all()
    assert np.isnan(graphs.unit_stalls).all()


def test_a_batch_does_not_share_memory_with_the_graphs(graphs: GraphSet) -> None:
    batch = make_batch(graphs, np.array([0]))
    before = graphs.unit.copy()
    batch.unit.fill_(7)
    np.testing.assert_array_equal(graphs.unit, before)


def test_a_batch_moves_to_a_device(graphs: GraphSet) -> None:
    batch = make_batch(graphs, np.array([3, 1]))
    assert_same(batch, batch.to(torch.device("cpu")))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    data = labelled(tmp_path_factory.mktemp("data"), num_netlists=4, num_decisions=2)
    return Dataset.open(data.folder)


def folder_of(cache: Path) -> Path:
    (folder,) = cache.iterdir()  # and nothing else is left behind
    return folder


def test_files_hold_what_memory_holds(dataset: Dataset, tmp_path: Path) -> None:
    stored = encode_dataset(dataset, tmp_path)
    samples = list(dataset.each_netlist())
    memory = graphs_of((small_fabric(), item.netlist, item.decisions) for item in samples)
    for field in fields(GraphSet):
        if field.name not in ("log_throughput", "unit_stalls"):
            ours, theirs = getattr(memory, field.name), getattr(stored, field.name)
            assert ours.dtype == theirs.dtype, field.name
            np.testing.assert_array_equal(ours, theirs, err_msg=field.name)
    throughput = np.concatenate([item.throughput for item in samples])
    np.testing.assert_allclose(np.exp(stored.log_throughput), throughput, rtol=1e-6)
    blocked = np.concatenate([item.labels.unit_blocked.ravel() for item in samples])
    np.testing.assert_array_equal(stored.unit_stalls[:, 1], blocked)


def test_files_are_mapped_and_used_again(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = encode_dataset(dataset, tmp_path)
    monkeypatch.delattr(Dataset, "each_netlist")
    again = encode_dataset(dataset, tmp_path)
    assert_same(first, again)
    assert all(isinstance(getattr(again, field.name), np.memmap) for field in fields(GraphSet))
    assert not again.unit.flags.writeable
    message = pickle.dumps(again)
    assert len(message) < 1000, "other processes are told where the files are"
    assert_same(first, pickle.loads(message))


def test_the_folder_names_features_and_dataset(dataset: Dataset, tmp_path: Path) -> None:
    encode_dataset(dataset, tmp_path)
    assert folder_of(tmp_path).name == f"encoded-{FEATURE_VERSION}-{dataset.content_hash[:16]}"


def _cut(folder: Path) -> None:
    path = folder / "visit_lane"
    path.write_bytes(path.read_bytes()[:-4])


def _lose(folder: Path) -> None:
    (folder / "link_flows").unlink()


def _without_meta(folder: Path) -> None:
    (folder / "meta.json").unlink()


def _half_meta(folder: Path) -> None:
    text = (folder / "meta.json").read_text()
    (folder / "meta.json").write_text(text[: len(text) // 2])


def _other_meta(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"dataset": "another"}))


def _no_layout(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"layout": {}}))


def _change(folder: Path) -> None:
    content = bytearray((folder / "visit_lane").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "visit_lane").write_bytes(content)


def _other_code(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"code": "another"}))


@pytest.mark.parametrize(
    "damage", [_change, _other_code, _cut, _lose, _without_meta, _half_meta, _other_meta, _no_layout]
)
def test_a_damaged_folder_is_made_again(dataset: Dataset, tmp_path: Path, damage: object) -> None:
    first = encode_dataset(dataset, tmp_path / "one")
    encode_dataset(dataset, tmp_path / "two")
    assert callable(damage)
    damage(folder_of(tmp_path / "two"))
    assert_same(first, encode_dataset(dataset, tmp_path / "two"))
    assert folder_of(tmp_path / "two").is_dir()


def test_nothing_is_left_of_an_encoding_that_failed(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(encode_dataset.__globals__, "netlist_features", cut_off)
    with pytest.raises(KeyboardInterrupt):
        encode_dataset(dataset, tmp_path)
    assert list(tmp_path.iterdir()) == []
