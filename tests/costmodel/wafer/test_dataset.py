"""Datasets of mappings: same bytes for any number of workers, going on, and training on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from costmodel.dataset import merge, pack_shard, store
from costmodel.dataset.store import put_shard
from costmodel.model import Model, open_labelled
from costmodel.wafer import WAFER_TABLES, LearnedMappingCost, WaferDataset, WaferHardware, build, dataset, rows
from costmodel.wafer.build import WaferContent, build_mappings
from costmodel.wafer.evaluate import WaferEvaluateConfig, run_folds
from costmodel.wafer.graphs import FAMILIES, draw_fitting
from costmodel.wafer.rows import rows_of
from costmodel.wafer.samples import Found, GraphSamples
from placer.base import InputError, sources_of
from placer.base.workers import Workers
from placer.kernels.engines import Search, map_kernels
from placer.kernels.model import find_faults, generate, layout_of
from placer.kernels.sizing import Problem
from placer.kernels.truth import simulate_mapping
from tests import ROOT

CONTENT = WaferContent(("plain", "fully_connected"), 2, 12, 0)


def workers(number: int) -> Workers:
    return Workers(workers=number)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mappings")
    build_mappings(CONTENT, folder, workers(1))
    return folder


@pytest.mark.slow
def test_same_bytes_after_an_interruption_and_with_more_workers(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(store, "merge", fail)
        with pytest.raises(OSError, match="disk full"):
            build_mappings(CONTENT, tmp_path, workers(2))
    (tmp_path / "shards" / "shard-00002.zip").unlink()
    build_mappings(CONTENT, tmp_path, workers(2))
    for table in WAFER_TABLES:
        assert (tmp_path / table.file).read_bytes() == (folder / table.file).read_bytes()


@pytest.mark.slow
def test_labels_are_those_of_the_truth_model(folder: Path) -> None:
    data = WaferDataset.open(folder)
    assert data.families == ("plain", "fully_connected") * 2
    assert set(data.index.phase.tolist()) >= {"strips", "rows", "walk"}
    mappings = data.mappings(0)
    problem = Problem(mappings.graph)
    for k in (0, len(mappings.tables) - 1):
        layout = layout_of(mappings.tables[k])
        assert find_faults(mappings.graph, layout) == []
        measured = simulate_mapping(problem, layout)
        assert measured.throughput == pytest.approx(mappings.throughput[k])
        busy = measured.kernel_cycles / measured.cycles_per_sample
        np.testing.assert_allclose(mappings.busy[k], busy, rtol=1e-5)
    with pytest.raises(InputError, match=r"graphs_per_family=2, now 3|was made with"):
        build_mappings(WaferContent(("plain", "fully_connected"), 3, 12, 0), folder, workers(1))


@pytest.mark.slow
def test_other_code_or_another_truth_model_makes_the_dataset_stale(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(build, "code_version", lambda: "other")
        with pytest.raises(InputError, match=r"was made with .*code"):
            build_mappings(CONTENT, folder, workers(1))
    build_mappings(CONTENT, folder, workers(1))
    monkeypatch.setattr(dataset, "WaferHardware", lambda: WaferHardware(version=0))
    with pytest.raises(InputError, match="labelled by another truth model; make it again"):
        open_labelled(folder, tmp_path)


def test_the_code_that_samples_depend_on_is_hashed() -> None:
    hashed = {path.relative_to(ROOT).as_posix() for path in sources_of(Path(rows.__file__))}
    kernels = ("truth/engine", "truth/grid", "engines/walks", "truth/simulation", "model/check")
    assert hashed >= {f"placer/kernels/{name}.py" for name in kernels}
    assert hashed >= {"placer/base/random.py", "costmodel/wafer/graphs.py"}
    others = ("costmodel/wafer/compare.py", "costmodel/wafer/encode.py", "placer/kernels/report.py")
    assert hashed.isdisjoint(others)


def tiny_rows() -> tuple[pa.Table, pa.Table]:
    graph = generate("tiny")
    layout = map_kernels(Search(Problem(graph), 0.0), "strips").layout
    measured = simulate_mapping(Problem(graph), layout)
    found = (Found("strips", {}, layout),) * 2
    return rows_of(GraphSamples(0, (0,), {"family": "plain"}, graph, found, (measured,) * 2, ()))


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("kgraph", lambda value: value[:-20]),
        ("kgraph", lambda value: value.replace("block", "pool")),
        ("mapping", lambda value: value[:-1]),
        ("mapping", lambda value: []),
        ("mapping", lambda value: [-number for number in value]),
        ("mapping", lambda value: [number << 20 for number in value]),
        ("kernel_busy", lambda value: value[1:]),
        ("kernel_busy", lambda value: [float("nan"), *value[1:]]),
        ("throughput", lambda value: 2.0),
        ("throughput", lambda value: float("nan")),
        ("slowest_kernel", lambda value: float("nan")),
        ("heuristic", lambda value: 0.0),
        ("wire_length", lambda value: float("inf")),
        ("adapters", lambda value: -1),
    ],
)
def test_rows_that_make_no_sense_are_refused(column: str, change: Callable[[Any], Any], tmp_path: Path) -> None:
    def read(*rows: pa.Table) -> None:
        metadata = CONTENT.metadata()
        put_shard(tmp_path, 0, pack_shard([(rows[0], rows[1])], metadata, WAFER_TABLES))
        merge(tmp_path, 1, metadata, WAFER_TABLES)
        data = WaferDataset.open(tmp_path)
        assert len(data.numbers["throughput"]) == len(data.mappings(0).tables) == 2

    whole = tiny_rows()
    read(*whole)
    for table in WAFER_TABLES:
        (tmp_path / table.file).unlink()
    number = 0 if column in whole[0].column_names else 1
    changed, values = list(whole), whole[number][column].to_pylist()
    place, field = whole[number].column_names.index(column), whole[number].schema.field(column)
    values[-1] = change(values[-1])
    changed[number] = whole[number].set_column(place, field, pa.array(values, field.type))
    with pytest.raises(InputError):
        read(*changed)


@pytest.mark.slow
def test_a_model_is_trained_tested_and_used(folder: Path, tmp_path: Path) -> None:
    config = WaferEvaluateConfig(folder, tmp_path / "encoded", [], ["plain"], 2, 1, tmp_path / "evaluate")
    notes = list[str]()
    rows = run_folds(config, notes.append)
    assert len(notes) == 2
    assert [row.method for row in rows] == ["deltaT", "deltaT + wires", "slowest kernel", "flow"]
    by_method = {row.method: row.evaluation.overall for row in rows}
    assert by_method["slowest kernel"].relative_error < 0.3
    data = open_labelled(folder, tmp_path / "encoded")
    assert (data.graphs.netlist_of == data.netlist).all()
    with pytest.raises(InputError, match="needed one of a fabric"):
        _ = data.fabric
    model = Model.load(tmp_path / "evaluate" / "family_plain" / "flow.pt")
    mappings = WaferDataset.open(folder).mappings(0)
    scores = LearnedMappingCost(model).score(Problem(mappings.graph), mappings.tables)
    expected = model.predict_graphs(data.graphs, np.arange(len(mappings.tables))).throughput
    np.testing.assert_allclose(scores.throughput, expected, rtol=1e-4)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_graphs_are_drawn_by_the_seed(family: str) -> None:
    one, two = (draw_fitting(family, np.random.default_rng(5), [])[0].graph for _ in range(2))
    assert one == two
    assert 5 <= len(one.kernels) <= 64
